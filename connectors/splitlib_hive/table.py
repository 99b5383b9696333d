"""What a thrift ``Table`` says: its schema, its format, and whether it may be read at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from splitlib.errors import UnsupportedTable
from splitlib.hive.types import field_of, from_spark_json
from splitlib.model import ReadFormat, TableMetadata
from splitlib.storage import SELECTING_OPTIONS

_PROVIDER = "spark.sql.sources.provider"
_SCHEMA = "spark.sql.sources.schema"
# Spark's own data sources that read files given one by one.
_SOURCES = ("parquet", "orc", "json", "csv", "text")
_SERDES = {
    "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe": "parquet",
    "parquet.hive.serde.ParquetHiveSerDe": "parquet",
    "org.apache.hadoop.hive.ql.io.orc.OrcSerde": "orc",
    "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe": "hive-text",
    "org.apache.hadoop.hive.serde2.OpenCSVSerde": "hive-csv",
}
# What the text SerDes look at. With others, such as its statistics, every partition would have a
# read format of its own.
_TEXT_PROPERTIES = (
    "colelction.delim",  # Hive's own spelling
    "collection.delim",
    "escape.delim",
    "escapeChar",
    "field.delim",
    "hive.serialization.extend.additional.nesting.levels",
    "hive.serialization.extend.nesting.levels",
    "mapkey.delim",
    "quoteChar",
    "separatorChar",
    "serialization.encoding",
    "serialization.format",
    "serialization.last.column.takes.rest",
    "serialization.null.format",
    "textinputformat.record.delimiter",
    "timestamp.formats",
)
_TEXT_INPUT = "org.apache.hadoop.mapred.TextInputFormat"


def table_metadata(table: Any) -> TableMetadata:
    """The metadata of a thrift ``Table``.

    Raises:
        UnsupportedTable: for whatever could give other rows than its owner's engine gives.
    """
    refuse_unreadable(table)
    parameters = _parameters(table)
    spark_json = _spark_schema(parameters)
    if _is_source(parameters):
        if spark_json is None:
            raise UnsupportedTable("A table written by Spark has lost its schema.")
        if (
            _partition_columns(parameters)
            and parameters.get("spark.sql.partitionProvider") != "catalog"
        ):
            raise UnsupportedTable(
                "Its partitions are not in the metastore.",
                hint="run MSCK REPAIR TABLE on it in Spark, or use connector='files'.",
            )
        schema, keys = from_spark_json(spark_json), tuple(_partition_columns(parameters))
        location = (table.sd.serdeInfo.parameters or {}).get("path") or table.sd.location
    else:
        fields = [field_of(c.name, c.type) for c in (*table.sd.cols, *(table.partitionKeys or ()))]
        schema = pa.schema(fields)
        keys = tuple(column.name for column in table.partitionKeys or ())
        location = table.sd.location
        restored = from_spark_json(spark_json) if spark_json else None
        if restored is not None and _same_but_case(restored, schema):
            schema, keys = restored, tuple(restored.names[len(schema) - len(keys) :])
        else:
            spark_json = None  # Hive has altered the table since Spark wrote it: Hive's word counts
    return TableMetadata(
        schema,
        keys,
        read_format(table),
        location,
        spark_schema=json.dumps(spark_json) if spark_json else None,
    )


def refuse_unreadable(table: Any) -> None:
    """Refuse tables whose rows are not simply those in their files: views, deltas, other systems'.

    Raises:
        UnsupportedTable: with the connector to use, where there is one.
    """
    parameters = _parameters(table)
    provider = parameters.get(_PROVIDER, "").lower()
    kind = parameters.get("table_type", "").upper()
    input_format = table.sd.inputFormat or ""
    if (table.tableType or "").endswith("VIEW"):
        raise UnsupportedTable("It is a view.", hint="read the tables below it.")
    if parameters.get("transactional", "").lower() == "true":
        raise UnsupportedTable(
            "It is a transactional (ACID) table, whose files hold deltas of rows.",
            hint="read it with Hive, or copy it into a table that is not transactional.",
        )
    if kind == "ICEBERG" or provider == "iceberg":
        raise UnsupportedTable("It is an Iceberg table.", hint="use connector='iceberg'.")
    if kind == "DELTA" or provider == "delta":
        raise UnsupportedTable("It is a Delta table.", hint="read it with Spark's delta source.")
    if provider == "hudi" or "hudi" in input_format.lower() or "hoodie" in input_format.lower():
        raise UnsupportedTable("It is a Hudi table.", hint="read it with Spark's hudi source.")
    if parameters.get("storage_handler"):
        raise UnsupportedTable("Its rows are kept by a storage handler, not in files.")
    if "SymlinkTextInputFormat" in input_format:
        raise UnsupportedTable("It is a table of symlinks.", hint="read the tables linked to.")
    skew = table.sd.skewedInfo
    if table.sd.storedAsSubDirectories and skew and skew.skewedColNames:
        raise UnsupportedTable("It is list-bucketed: rows lie in directories below its partitions.")


def read_format(table: Any, partition: Any = None) -> ReadFormat:
    """How the files of a table, or of one partition of it, are read.

    Raises:
        UnsupportedTable: for a SerDe or file format that Spark's own readers do not know.
    """
    parameters = _parameters(table)
    storage = (partition or table).sd
    if _is_source(parameters):
        provider = parameters[_PROVIDER].lower()
        if provider not in _SOURCES:
            raise UnsupportedTable(f"Its data source is {provider!r}.", hint=_KNOWN)
        options = dict(table.sd.serdeInfo.parameters or {})
        for internal in ("path", "serialization.format"):
            options.pop(internal, None)
        if selecting := [name for name in options if name.lower() in SELECTING_OPTIONS]:
            raise UnsupportedTable(f"It takes only some of its files, by {', '.join(selecting)}.")
        return ReadFormat.of(provider, options)
    serde = storage.serdeInfo.serializationLib or ""
    name = _SERDES.get(serde)
    if name is None or (name.startswith("hive-") and storage.inputFormat != _TEXT_INPUT):
        raise UnsupportedTable(
            f"Its SerDe is {serde or 'unknown'} over {storage.inputFormat}.", hint=_KNOWN
        )
    if name.startswith("hive-"):
        # in this order in Spark's Hive reader, the later one winning
        given = dict(table.sd.serdeInfo.parameters or {}) | dict(parameters)
        if partition is not None:
            given |= (storage.serdeInfo.parameters or {}) | _parameters(partition)
        return ReadFormat.of(name, {key: given[key] for key in _TEXT_PROPERTIES if key in given})
    return ReadFormat.of(name)


def is_recursive(form: ReadFormat) -> bool:
    """Whether the table's files may also lie in directories below its own."""
    options = {name.lower(): value for name, value in form.options}
    return options.get("recursivefilelookup", "false").lower() == "true"


_KNOWN = "Spark's parquet, orc, json, csv and text can be read, and Hive's parquet, orc and text."


def _parameters(thing: Any) -> dict[str, str]:
    return thing.parameters or {}


def _is_source(parameters: Mapping[str, str]) -> bool:
    """Whether Spark reads the table through its own data source and not through a SerDe."""
    return parameters.get(_PROVIDER, "hive").lower() != "hive"


def _spark_schema(parameters: Mapping[str, str]) -> dict[str, Any] | None:
    """Spark's schema JSON, which it stores in parts because the metastore's values are short."""
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
