"""Derive schema and format from a thrift ``Table``, and reject unsupported tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
# Errors raised by access to missing or malformed thrift fields.
_NONSENSE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


@contextmanager
def readable_metadata(what: str) -> Iterator[None]:
    """Convert errors of the block that are due to damaged metastore data to ``CorruptMetadata``.

    Raises:
        CorruptMetadata: if metastore data is missing or malformed.
    """
    try:
        yield
    except SplitlibError:
        raise
    except _NONSENSE as error:
        raise CorruptMetadata(
            f"The metastore's data about {what} is damaged: {type(error).__name__}: {error}"
        ) from error


def table_metadata(table: Any) -> TableMetadata:
    """Return the metadata of a thrift ``Table``.

    Raises:
        UnsupportedTable: for a table that splitlib cannot read with the same rows as Spark.
        CorruptMetadata: if required metadata is missing or malformed.
    """
    with readable_metadata("the table"):
        return _metadata(table)


def _metadata(table: Any) -> TableMetadata:
    refuse_unreadable(table)
    parameters = _parameters(table)
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


def refuse_unreadable(table: Any) -> None:
    """Reject views, transactional tables and others whose rows are not the rows in their files.

    Raises:
        UnsupportedTable: for such a table. The hint names the right connector if there is one.
    """
    parameters = _parameters(table)
    provider = parameters.get(_PROVIDER, "")
    table_formats.refuse_unreadable(
        table.tableType or "", provider, table.sd.inputFormat or "", parameters
    )
    skew = table.sd.skewedInfo
    if table.sd.storedAsSubDirectories and skew and skew.skewedColNames:
        raise UnsupportedTable(
            "The table is list-bucketed: rows lie in directories below partitions."
        )


def read_format(table: Any, partition: Any = None) -> ReadFormat:
    """Return how to read the files of a table, or of one of its partitions.

    Raises:
        UnsupportedTable: for a SerDe or file format that Spark's own readers do not support.
    """
    parameters = _parameters(table)
    given = dict(table.sd.serdeInfo.parameters or {})
    if _is_source(parameters):
        is_partitioned = bool(_partition_columns(parameters))
        provider = parameters[_PROVIDER]
        return table_formats.source_format(provider, given, is_partitioned=is_partitioned)
    storage = (partition or table).sd
    # Spark's Hive reader merges properties in this order; later ones win.
    given |= parameters
    if partition is not None:
        given |= (storage.serdeInfo.parameters or {}) | _parameters(partition)
    serde = storage.serdeInfo.serializationLib
    return table_formats.serde_format(serde, storage.inputFormat, given)


def _parameters(entry: Any) -> dict[str, str]:
    return entry.parameters or {}


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
