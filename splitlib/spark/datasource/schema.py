"""The columns that the data source reads, as a Spark schema and as an Arrow schema."""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from splitlib.errors import ConfigError, UnsupportedTable
from splitlib.model import INITIAL_DEFAULT
from splitlib.reading.columns import NATIVE
from splitlib.spark.schema import nullable, spark_schema
from splitlib.table import Table

# Metadata key of a column's initial default: its value in files older than the column.
_SPARK_DEFAULT = "EXISTS_DEFAULT"
_READABLE = (
    T.BooleanType,
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.FloatType,
    T.DoubleType,
    T.DecimalType,
    T.StringType,
    T.BinaryType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
    T.NullType,
)


def wanted_schema(table: Table, columns: tuple[str, ...] | None) -> T.StructType:
    """Return the columns to read, with the types of ``spark.table``; by default all columns.

    Raises:
        ConfigError: if the table does not have one of the columns.
        UnsupportedTable: for a type that cannot be read with Arrow.
    """
    schema = spark_schema(table.metadata)
    if columns is not None:
        by_lower = {column.name.lower(): column for column in schema}
        if missing := [name for name in columns if name.lower() not in by_lower]:
            raise ConfigError(
                f"There is no column {missing[0]!r}.", hint=f"the columns are {schema.names}."
            )
        schema = T.StructType([by_lower[name.lower()] for name in dict.fromkeys(columns)])
    for column in schema:
        if not _is_readable(column.dataType):
            raise UnsupportedTable(
                f"Column {column.name!r} is {column.dataType}, which cannot be read with Arrow.",
                hint=NATIVE,
            )
    return T.StructType([nullable(column) for column in schema])


def arrow_schema(schema: T.StructType) -> pa.Schema:
    """Return the schema of the Arrow batches that Spark accepts for ``schema``."""
    # Newer versions of PySpark require the time zone of timestamps. Older versions use UTC.
    utc: Any = (
        {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    )
    fields = []
    for field, column in zip(to_arrow_schema(schema, **utc), schema, strict=True):
        default = (column.metadata or {}).get(_SPARK_DEFAULT)
        metadata = {INITIAL_DEFAULT: default} if default is not None else None
        fields.append(field.with_metadata(metadata))
    return pa.schema(fields)


def _is_readable(kind: T.DataType) -> bool:
    match kind:
        case T.StructType():
            return all(_is_readable(field.dataType) for field in kind)
        case T.ArrayType():
            return _is_readable(kind.elementType)
        case T.MapType():
            return _is_readable(kind.keyType) and _is_readable(kind.valueType)
    return isinstance(kind, _READABLE)
