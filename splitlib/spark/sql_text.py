"""Names and values as Spark's SQL spells them."""

from __future__ import annotations

import json

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from splitlib.errors import UnsupportedTable
from splitlib.model import INITIAL_DEFAULT, LOGICAL_TYPE


def quoted(*parts: str) -> str:
    """A name of one part or several, whatever characters are in them."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


def sql_literal(field: pa.Field) -> str | None:
    """The initial default of ``field`` as a literal of the type that files have; None for null.

    Raises:
        UnsupportedTable: for a nested value.
    """
    metadata = field.metadata or {}
    value = json.loads(metadata.get(INITIAL_DEFAULT, b"null"))
    if value is None:
        return None
    kind = field.type
    if pa.types.is_nested(kind):
        raise UnsupportedTable(f"The default of column {field.name!r} is a nested value.")
    if metadata.get(LOGICAL_TYPE) == b"uuid":
        return f"X'{str(value).replace('-', '')}'"
    if pa.types.is_binary(kind):
        return f"X'{value}'"
    if pa.types.is_boolean(kind):
        return "true" if value else "false"
    # as bytes: how a quote is escaped depends on the session
    plain = f"CAST(X'{str(value).encode().hex()}' AS STRING)"
    return plain if pa.types.is_string(kind) else f"CAST({plain} AS {_spark_type(kind)})"


def text_literal(text: str, kind: pa.DataType) -> Column:
    """A value given as text as a literal of type ``kind``."""
    plain = F.lit(text)
    return plain if pa.types.is_string(kind) else plain.cast(_spark_type(kind))


def _spark_type(kind: pa.DataType) -> str:
    return from_arrow_type(kind, prefer_timestamp_ntz=True).simpleString()
