"""Derive schema and format from a table's entry in a catalog of Hive tables.

Hive's metastore and AWS Glue store the same entries and return them in different forms. Connectors
convert them to :class:`TableEntry`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from splitlib.errors import CorruptMetadata, SplitlibError, UnsupportedTable
from splitlib.hive import table_formats
from splitlib.hive.partition_values import field_of, from_spark_json
from splitlib.model import ReadFormat, TableMetadata

_PROVIDER = "spark.sql.sources.provider"
_SCHEMA = "spark.sql.sources.schema"
# Formats that Spark reads with its own readers, even from Hive tables.
_CONVERTED = ("parquet", "orc")
# Errors raised by access to missing or malformed fields.
_NONSENSE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class StorageEntry:
    """Where and how the files of a table, or of one of its partitions, are stored.

    Attributes:
        location: Directory of the files.
        serde: Class of the SerDe.
        input_format: Class of Hive's input format.
        serde_properties: Properties of the SerDe.
        parameters: Parameters of the table or partition.
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
        columns: Names and types of the data columns.
        keys: Names and types of the partition keys.
        storage: Storage of the table, which is also the default of its partitions.
        is_list_bucketed: Whether rows lie in directories below partitions, by skewed values.
    """

    kind: str
    columns: Sequence[tuple[str, str]]
    keys: Sequence[tuple[str, str]]
    storage: StorageEntry
    is_list_bucketed: bool = False


@contextmanager
def readable_metadata(what: str, *, catalog: str = "metastore") -> Iterator[None]:
    """Convert errors of the block that are due to damaged catalog data to ``CorruptMetadata``.

    Raises:
        CorruptMetadata: if data of the catalog is missing or malformed.
    """
    try:
        yield
    except SplitlibError:
        raise
    except _NONSENSE as error:
        raise CorruptMetadata(
            f"The {catalog}'s data about {what} is damaged: {type(error).__name__}: {error}"
        ) from error


def metadata_of(table: TableEntry) -> TableMetadata:
    """Return the metadata of a table. Use it inside of :func:`readable_metadata`.

    Raises:
        UnsupportedTable: for a table that splitlib cannot read with the same rows as Spark.
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
        location = storage.serde_properties.get("path") or storage.location
    else:
        schema = pa.schema([field_of(*column) for column in (*table.columns, *table.keys)])
        keys = tuple(name for name, _ in table.keys)
        location = storage.location
        restored = from_spark_json(spark_json) if spark_json else None
        if restored is not None and _same_but_case(restored, schema):
            schema, keys = restored, tuple(restored.names[len(schema) - len(keys) :])
        else:
            spark_json = None  # Hive altered the table after Spark wrote it: use Hive's schema
    form = read_format(table)
    if spark_json and not _is_source(parameters) and form.name not in _CONVERTED:
        # Spark reads such a table with Hive's reader, which ignores NOT NULL
        spark_json["fields"] = [{**field, "nullable": True} for field in spark_json["fields"]]
    return TableMetadata(
        schema,
        keys,
        form,
        location,
        spark_schema=json.dumps(spark_json) if spark_json else None,
    )


def _refuse_unreadable(table: TableEntry) -> None:
    """Reject views, transactional tables and others whose rows are not the rows in their files.

    Raises:
        UnsupportedTable: for such a table. The hint names the right connector if there is one.
    """
    parameters = table.storage.parameters
    provider, input_format = parameters.get(_PROVIDER, ""), table.storage.input_format or ""
    table_formats.refuse_unreadable(table.kind, provider, input_format, parameters)
    if table.is_list_bucketed:
        raise UnsupportedTable(
            "The table is list-bucketed: rows lie in directories below partitions."
        )


def read_format(table: TableEntry, partition: StorageEntry | None = None) -> ReadFormat:
    """Return how to read the files of a table, or of one of its partitions.

    Raises:
        UnsupportedTable: for a SerDe or file format that Spark's own readers do not support.
    """
    parameters = table.storage.parameters
    given = dict(table.storage.serde_properties)
    if _is_source(parameters):
        is_partitioned = bool(_partition_columns(parameters))
        provider = parameters[_PROVIDER]
        return table_formats.source_format(provider, given, is_partitioned=is_partitioned)
    storage = partition or table.storage
    # Spark's Hive reader merges properties in this order; later ones win.
    given |= parameters
    if partition is not None:
        given |= {**partition.serde_properties, **partition.parameters}
    return table_formats.serde_format(storage.serde, storage.input_format, given)


def files_each(parameters: Iterable[Mapping[str, str]]) -> float:
    """Return the average number of files per partition, from statistics; 0 if there are none.

    Args:
        parameters: Parameters of each partition.
    """
    texts = [each.get("numFiles", "") for each in parameters]
    numbers = [int(text) for text in texts if re.fullmatch(r"[1-9][0-9]{0,8}", text, re.ASCII)]
    return sum(numbers) / len(numbers) if numbers else 0.0


def _is_source(parameters: Mapping[str, str]) -> bool:
    """Return whether Spark reads the table with a data source instead of a SerDe."""
    return parameters.get(_PROVIDER, "hive").lower() != "hive"


def _spark_schema(parameters: Mapping[str, str]) -> dict[str, Any] | None:
    """Return Spark's schema as JSON; None if there is none.

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
