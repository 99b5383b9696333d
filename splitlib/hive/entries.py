"""Table and partition entries in a Hive metastore or Glue, and the formats of their data files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from splitlib.errors import (
    CorruptMetadata,
    SourceUnavailable,
    SplitlibError,
    UnsupportedTable,
)
from splitlib.hive.partition_values import field_of, from_spark_json
from splitlib.model import ReadFormat, TableMetadata
from splitlib.storage import SELECTING_OPTIONS, STREAM_LOG, Storage

# Spark's built-in data sources that can read a list of files.
_SOURCES = ("parquet", "orc", "json", "csv", "text")
OPEN_CSV = "org.apache.hadoop.hive.serde2.OpenCSVSerde"
_SERDES = {
    "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe": "parquet",
    "parquet.hive.serde.ParquetHiveSerDe": "parquet",
    "org.apache.hadoop.hive.ql.io.orc.OrcSerde": "orc",
    "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe": "hive-text",
    OPEN_CSV: "hive-csv",
}
# Properties that the text SerDes use. Other properties, such as statistics, are dropped, because
# they would give every partition a different read format.
_TEXT_PROPERTIES = (
    "colelction.delim",  # Hive misspells this property
    "collection.delim", "escape.delim", "escapeChar", "field.delim",
    "hive.serialization.extend.additional.nesting.levels",
    "hive.serialization.extend.nesting.levels", "mapkey.delim", "quoteChar", "separatorChar",
    "serialization.encoding", "serialization.format", "serialization.last.column.takes.rest",
    "serialization.null.format", "textinputformat.record.delimiter", "timestamp.formats",
)  # fmt: skip
# Properties in the options of a table that Spark's readers do not use, in lower case.
_NOT_OPTIONS = ("path", "serialization.format")
_IS_TIME = re.compile("date|timestamp", re.IGNORECASE)
_RECURSIVE = "recursivefilelookup"  # in lower case
_TEXT_INPUT = "org.apache.hadoop.mapred.TextInputFormat"
_KNOWN = "Spark's parquet, orc, json, csv and text can be read, and Hive's parquet, orc and text."


def refuse_unreadable(
    kind: str, provider: str, input_format: str, parameters: Mapping[str, str]
) -> None:
    """Reject views, transactional tables, and tables of other systems such as Iceberg.

    Args:
        kind: Kind of table, such as ``EXTERNAL_TABLE`` or ``VIRTUAL_VIEW``.
        provider: Spark's name for the data source, such as ``parquet``; empty if Spark did not
            create the table.
        input_format: Class name of Hive's input format.
        parameters: Table parameters.

    Raises:
        UnsupportedTable: for such a table. The hint says how to read it, if this is possible.
    """
    by = parameters.get("table_type", "").upper()
    provider, input_format = provider.lower(), input_format.lower()
    if kind.endswith("VIEW"):
        raise UnsupportedTable(
            "The table is a view.",
            hint="query it with splitlib.sql in Spark, or read the tables that it uses.",
        )
    if parameters.get("transactional", "").lower() == "true":
        raise UnsupportedTable(
            "The table is transactional (ACID): its files contain changes to rows.",
            hint="read it with Hive, or copy it into a table that is not transactional.",
        )
    if by == "ICEBERG" or provider == "iceberg":
        raise UnsupportedTable("The table is an Iceberg table.", hint="use connector='iceberg'.")
    if by == "DELTA" or provider == "delta":
        raise UnsupportedTable(
            "The table is a Delta table.",
            hint="use connector='delta' with the table's directory, or Spark's delta source.",
        )
    if "hudi" in (provider, by.lower()) or "hudi" in input_format or "hoodie" in input_format:
        raise UnsupportedTable(
            "The table is a Hudi table.", hint="read it with Spark's hudi source."
        )
    if parameters.get("storage_handler"):
        raise UnsupportedTable(
            "The table's rows are in another system, which Hive reads with a storage handler.",
            hint="read the table with Hive.",
        )
    if "symlinktextinputformat" in input_format:
        raise UnsupportedTable(
            "The table consists of symlinks: its files name the data files of other tables.",
            hint="read the tables that it links to.",
        )


def source_format(provider: str, options: Mapping[str, str], *, is_partitioned: bool) -> ReadFormat:
    """Return the read format of a table that one of Spark's own data sources reads.

    Args:
        provider: Spark's name for the data source, such as ``parquet``.
        options: The table's options in the catalog. Hive's own options are ignored.
        is_partitioned: Whether the catalog stores the table's partitions. In this case, Spark
            ignores options that select files.

    Raises:
        UnsupportedTable: for other data sources, for options that select files, and for partitions
            that are read recursively.
    """
    name = provider.lower()
    if name not in _SOURCES:
        raise UnsupportedTable(f"The data source {name!r} is not supported.", hint=_KNOWN)
    options = {k: v for k, v in options.items() if k.lower() not in _NOT_OPTIONS}
    selecting = [name for name in options if name.lower() in SELECTING_OPTIONS]
    if selecting and not is_partitioned:
        raise UnsupportedTable(
            f"Options of the table select only some of its files: {', '.join(selecting)}.",
            hint="read the table with Spark.",
        )
    form = ReadFormat.of(name, {k: v for k, v in options.items() if k not in selecting})
    if is_partitioned and is_recursive(form):
        raise UnsupportedTable(
            "The table sets recursiveFileLookup. Spark 4.3 does not read its partitions, and older "
            "versions ignore the option.",
            hint="remove the option from the table.",
        )
    return form


def serde_format(
    table: StorageEntry,
    partition: StorageEntry | None = None,
    *,
    is_partitioned: bool,
    types: Iterable[str] = (),
    converts: bool = True,
) -> ReadFormat:
    """Return the read format of files that were written with one of Hive's SerDes.

    Args:
        table: Storage of the table.
        partition: Storage of the partition that contains the files, or None for the table's own.
        is_partitioned: Whether the table has partition columns.
        types: Types of the data columns, as text.
        converts: Whether Spark reads Parquet and ORC tables of Hive with its own readers, as it
            does by default. Spark's readers ignore the SerDe of a partition.

    Raises:
        UnsupportedTable: for a SerDe or input format that Spark's readers do not support, for
            options that select files, and for a Parquet or ORC partition of a text table with
            dates or times.
    """
    own_name = _SERDES.get(table.serde or "", "")
    by_table = converts and own_name in _CONVERTED
    storage = table if partition is None or by_table else partition
    name = _SERDES.get(storage.serde or "")
    if name is None or (name.startswith("hive-") and storage.input_format != _TEXT_INPUT):
        raise UnsupportedTable(
            f"The SerDe {storage.serde or 'unknown'} over {storage.input_format} is not supported.",
            hint=_KNOWN,
        )
    if name.startswith("hive-"):
        # Spark's Hive reader merges properties in this order. Later ones override earlier ones.
        given = {**table.serde_properties, **table.parameters}
        if partition is not None:
            given |= {**partition.serde_properties, **partition.parameters}
        return ReadFormat.of(name, {key: given[key] for key in _TEXT_PROPERTIES if key in given})
    if own_name.startswith("hive-") and any(_IS_TIME.search(kind) for kind in types):
        raise UnsupportedTable(
            f"A partition of the text table is {name.upper()} with dates or times. Spark reads "
            "them with Hive's reader, which may return other values.",
            hint="read the table from the session's catalog.",
        )
    # Spark reads these files with its own reader. As options, the reader gets the table's
    # parameters for the format, and all SerDe properties of the table. Parameters and properties of
    # partitions are ignored.
    own = {k: v for k, v in table.parameters.items() if f".{name}." in f".{k}"}
    options = own | dict(table.serde_properties)
    if is_partitioned:  # Spark does not use this option for partitions from a catalog
        options = {k: v for k, v in options.items() if k.lower() != _RECURSIVE}
    return source_format(name, options, is_partitioned=is_partitioned)


def is_recursive(form: ReadFormat) -> bool:
    """Return whether files in subdirectories also belong to the table."""
    options = {name.lower(): value for name, value in form.options}
    return options.get(_RECURSIVE, "false").lower() == "true"


def is_read_by_hive(form: ReadFormat) -> bool:
    """Return whether Spark uses Hive's reader, which raises an error for subdirectories."""
    return form.name.startswith("hive-")


_PROVIDER = "spark.sql.sources.provider"
_SCHEMA = "spark.sql.sources.schema"
# Formats that Spark reads with its own readers, even from Hive tables.
_CONVERTED = ("parquet", "orc")
# Errors that Python raises on access to missing or malformed fields.
_NONSENSE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def hadoop_location(location: str | None) -> str | None:
    """Return a location without empty directory names, such as in ``s3://bucket/a//b``.

    Hadoop removes them, so Spark reads ``s3://bucket/a/b``. Glue stores locations as given.
    """
    return location and re.sub(r"([^:/])/{2,}", r"\1/", location)


@dataclass(frozen=True, slots=True)
class StorageEntry:
    """Location and format of the files of a table, or of one of its partitions.

    Attributes:
        location: Directory that contains the files, from :func:`hadoop_location`.
        serde: Class name of the SerDe.
        input_format: Class name of Hive's input format.
        serde_properties: SerDe properties.
        parameters: Table or partition parameters.
    """

    location: str | None
    serde: str | None
    input_format: str | None
    serde_properties: Mapping[str, str]
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table in the catalog.

    Attributes:
        kind: Kind of table, such as ``EXTERNAL_TABLE`` or ``VIRTUAL_VIEW``.
        declared: Names and declared types of the data columns.
        keys: Names and types of the partition keys.
        storage: The table's storage, which is also the default for its partitions.
        is_list_bucketed: Whether rows with skewed values lie in directories below their partition.
    """

    kind: str
    declared: Sequence[tuple[str, str]]
    keys: Sequence[tuple[str, str]]
    storage: StorageEntry
    is_list_bucketed: bool = False

    @property
    def columns(self) -> Sequence[tuple[str, str]]:
        """Names and types of the data columns, as Hive and Spark read them.

        OpenCSVSerde returns only strings, so they ignore the types that are declared for it.
        """
        as_strings = self.storage.serde == OPEN_CSV
        return [(name, "string" if as_strings else kind) for name, kind in self.declared]


@contextmanager
def readable_metadata(what: str, *, catalog: str = "metastore") -> Iterator[None]:
    """Convert exceptions from damaged catalog data in the ``with`` block to ``CorruptMetadata``.

    Args:
        what: Object that the catalog data describes, such as ``the table``, for the message.
        catalog: Catalog name for the message.

    Raises:
        CorruptMetadata: if catalog data is missing or malformed.
    """
    try:
        yield
    except SplitlibError:
        raise
    except _NONSENSE as error:
        raise CorruptMetadata(
            f"The {catalog}'s data about {what} is damaged: {type(error).__name__}: {error}"
        ) from error


def refuse_stream_output(storage: Storage, table: TableEntry, metadata: TableMetadata) -> None:
    """Reject a table if a Spark stream has written to its directory.

    Some tables are not rejected, because Spark ignores the stream's log there: Hive tables (with a
    SerDe) that are partitioned, or that Spark reads with Hive's reader.

    Raises:
        UnsupportedTable: for such a table.
    """
    is_hive = metadata.partition_keys or is_read_by_hive(metadata.read_format)
    if not metadata.location or (is_hive and not _is_source(table.storage.parameters)):
        return
    try:
        storage.level(f"{metadata.location.rstrip('/')}/{STREAM_LOG}", retries=True)
    except SourceUnavailable:
        # There may be a log. If the table were accepted, later listings would return files that the
        # log leaves out.
        raise
    except Exception:
        return  # no such log; lasting errors are raised again when the partitions are listed
    raise stream_output()


def stream_output() -> UnsupportedTable:
    """Return the error for a table that a Spark stream writes."""
    return UnsupportedTable(
        "A Spark stream writes the table. Spark reads only the files in the log of the stream.",
        hint="read the table with Spark.",
    )


def metadata_of(table: TableEntry) -> TableMetadata:
    """Return a table's metadata. Call this inside a :func:`readable_metadata` block.

    Raises:
        UnsupportedTable: if splitlib might return different rows than Spark.
    """
    parameters, storage = table.storage.parameters, table.storage
    _refuse_unreadable(table)
    spark_json = _spark_schema(parameters)
    if _is_source(parameters):
        if spark_json is None:
            raise UnsupportedTable("The table was written by Spark, but its schema is missing.")
        if (
            _partition_columns(parameters)
            and parameters.get("spark.sql.partitionProvider") != "catalog"
        ):
            raise UnsupportedTable(
                "The table's partitions are not in the metastore.",
                hint="run MSCK REPAIR TABLE on it in Spark, or use connector='files'.",
            )
        schema, keys = from_spark_json(spark_json), tuple(_partition_columns(parameters))
        location = hadoop_location(storage.serde_properties.get("path")) or storage.location
    else:
        schema = pa.schema([field_of(*column) for column in (*table.columns, *table.keys)])
        keys = tuple(name for name, _ in table.keys)
        location = storage.location
        restored = from_spark_json(spark_json) if spark_json else None
        if restored is not None and _same_but_case(restored, schema):
            schema, keys = restored, tuple(restored.names[len(schema) - len(keys) :])
        else:
            # Hive altered the table after Spark wrote the schema. Spark, too, then uses Hive's.
            spark_json = None
    form = read_format(table)
    if not keys:
        refuse_pattern(location, form)
    if spark_json and not _is_source(parameters) and form.name not in _CONVERTED:
        # Spark reads files of other formats with Hive's reader, which ignores NOT NULL.
        spark_json["fields"] = [{**field, "nullable": True} for field in spark_json["fields"]]
    return TableMetadata(
        schema, keys, form, location, spark_schema=json.dumps(spark_json) if spark_json else None
    )


def refuse_pattern(location: str | None, form: ReadFormat) -> None:
    """Reject the location of an unpartitioned table if it is a pattern, such as ``s3://b/*``."""
    if not is_read_by_hive(form) and re.search(r"[][{}*?\\]", location or ""):
        raise UnsupportedTable(
            f"The location {location!r} is a pattern, which Spark expands.",
            hint="read the table with Spark, or use connector='files' for each directory.",
        )


def _refuse_unreadable(table: TableEntry) -> None:
    """Reject tables whose rows splitlib cannot read from their files, such as views."""
    parameters = table.storage.parameters
    provider, input_format = parameters.get(_PROVIDER, ""), table.storage.input_format or ""
    refuse_unreadable(table.kind, provider, input_format, parameters)
    if table.is_list_bucketed:
        raise UnsupportedTable(
            "The table is list-bucketed: rows lie in directories below partitions.",
            hint="read it with Hive, or copy it into a table that is not list-bucketed.",
        )


def read_format(table: TableEntry, partition: StorageEntry | None = None) -> ReadFormat:
    """Return the read format of a table, or of one of its partitions.

    Raises:
        UnsupportedTable: for a SerDe or file format that Spark's own readers do not support.
    """
    own = table.storage
    if _is_source(own.parameters):
        is_partitioned = bool(_partition_columns(own.parameters))
        provider = own.parameters[_PROVIDER]
        return source_format(provider, own.serde_properties, is_partitioned=is_partitioned)
    types = [kind for _, kind in table.columns]
    return serde_format(own, partition, is_partitioned=bool(table.keys), types=types)


def files_each(parameters: Iterable[Mapping[str, str]]) -> float:
    """Return the average number of files per partition, or 0 if there are no statistics.

    Args:
        parameters: Each partition's parameters, such as ``{"numFiles": "12"}``.
    """
    texts = [each.get("numFiles", "") for each in parameters]
    numbers = [int(text) for text in texts if re.fullmatch(r"[1-9][0-9]{0,8}", text, re.ASCII)]
    return sum(numbers) / len(numbers) if numbers else 0.0


def _is_source(parameters: Mapping[str, str]) -> bool:
    """Return whether Spark reads the table with a data source instead of a SerDe."""
    return parameters.get(_PROVIDER, "hive").lower() != "hive"


def _spark_schema(parameters: Mapping[str, str]) -> dict[str, Any] | None:
    """Return Spark's schema as parsed JSON, or None if the table has no Spark schema.

    Spark stores it in several parameters, because metastores limit the size of a value.
    """
    text = parameters.get(_SCHEMA)
    count = parameters.get(f"{_SCHEMA}.numParts")
    if text is None and count is not None:
        text = "".join(parameters[f"{_SCHEMA}.part.{i}"] for i in range(int(count)))
    return json.loads(text) if text else None


def _partition_columns(parameters: Mapping[str, str]) -> list[str]:
    count = int(parameters.get(f"{_SCHEMA}.numPartCols", "0"))
    return [parameters[f"{_SCHEMA}.partCol.{i}"] for i in range(count)]


def _same_but_case(one: pa.Schema, other: pa.Schema) -> bool:
    def spelled(schema: pa.Schema) -> list[str]:
        return [f"{field.name} {field.type}".lower() for field in schema]

    return spelled(one) == spelled(other)
