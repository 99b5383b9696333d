"""Names and literals in Spark's SQL that mean the same in every session.

How the parser reads quotes and backslashes, and in which time zone it reads times, are settings.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, StringType

from splitlib.errors import UnsupportedTable
from splitlib.model import INITIAL_DEFAULT, LOGICAL_TYPE

# How Spark writes a literal of each type.
_SUFFIX = {pa.int8(): "Y", pa.int16(): "S", pa.int32(): "", pa.int64(): "L"}


def quoted(*parts: str) -> str:
    """A name of one part or several, whatever characters are in them."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


def default_literal(field: pa.Field) -> str | None:
    """The initial default of ``field`` as SQL text of the type that files have; None for null.

    Text, because Spark takes the default of a column that files lack as text in its metadata.

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
    if pa.types.is_string(kind):
        return plain
    return f"CAST({plain} AS {_spark_type(kind).simpleString()})"


def bare_literals(values: pa.Array, kind: pa.DataType) -> list[str] | None:
    """Each value as a literal that Spark takes for its type by itself; None if there is none.

    For conditions that a catalog hands on to a metastore, which takes no casts.
    """
    if values.null_count:
        return None
    if kind in _SUFFIX:
        return [f"{value}{_SUFFIX[kind]}" for value in values.to_pylist()]
    if pa.types.is_date(kind):
        return [f"DATE'{value}'" for value in values.to_pylist()]
    if pa.types.is_string(kind):
        texts: list[str] = values.to_pylist()
        return None if any("'" in t or "\\" in t for t in texts) else [f"'{t}'" for t in texts]
    return None


def arrow_literal(value: pa.Scalar, kind: pa.DataType) -> Column:
    """An Arrow value as a literal of type ``kind``."""
    if pa.types.is_binary(kind):
        return F.lit(value.as_py())
    if pa.types.is_timestamp(value.type) and value.type.tz:
        value = value.cast(pa.timestamp("us", "UTC"))  # whose text ends in Z
    # not through Python, which has no instants beyond the year 9999, nor nanoseconds
    return text_literal(str(pc.cast(value, pa.string())), _spark_type(kind))


def text_literal(text: str, kind: DataType) -> Column:
    """A value given as text, of which a decimal or a time loses nothing, as a literal."""
    plain = F.lit(text)
    return plain if kind == StringType() else plain.cast(kind)


def _spark_type(kind: pa.DataType) -> DataType:
    return from_arrow_type(kind, prefer_timestamp_ntz=True)
