"""Write names and literals as Spark SQL that means the same in every session.

Settings decide how the parser reads quotes and backslashes, and in which time zone it reads times.
"""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, StringType, TimestampType

from splitlib.errors import UnsupportedTable
from splitlib.model import INITIAL_DEFAULT, LOGICAL_TYPE

# Suffix that Spark's literals of each integer type have.
_SUFFIX = {pa.int8(): "Y", pa.int16(): "S", pa.int32(): "", pa.int64(): "L"}

# Text that needs no escapes in a literal, for any parser or catalog. Without "$", since Spark
# replaces variables such as ${name}.
_PLAIN = re.compile(r"[^'\\$\x00-\x1f\x7f]*")
_VARIABLE = re.compile(r"\$\{\S+?\}")
_IN_BACKTICKS = re.compile(r"`((?:[^`]|``)+)`")
_QUOTED_NAME = re.compile(r"(?:`(?:[^`]|``)+`|[^`.]+)(?:\.(?:`(?:[^`]|``)+`|[^`.]+))*")
_COMMON_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def quoted(*parts: str) -> str:
    """Quote the parts of a name with backticks."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


def column_text(spark: SparkSession, *parts: str) -> str:
    """Return a column as SQL text for the parser of a session.

    With ``spark.sql.parser.quotedRegexColumnNames``, a name in backticks is a regular expression.
    Spark replaces ``${…}`` even inside backticks.
    """
    is_pattern = str(spark.conf.get("spark.sql.parser.quotedRegexColumnNames", "false"))
    if is_pattern.lower() == "true" or any(map(has_variable, parts)):
        return f"IDENTIFIER({_string_literal(quoted(*parts))})"
    return quoted(*parts)


def has_variable(name: str) -> bool:
    """Whether a name contains ``${…}``, which Spark may replace in SQL even inside backticks."""
    return _VARIABLE.search(name) is not None


def unquoted(name: str) -> str:
    """Remove the backticks around the parts of a name. Return it unchanged if they are unpaired."""
    if _QUOTED_NAME.fullmatch(name) is None:
        return name
    return _IN_BACKTICKS.sub(lambda found: found[1].replace("``", "`"), name)


def default_literal(field: pa.Field) -> str | None:
    """Return the initial default of ``field`` as SQL text of the column's type; None for null.

    If a file lacks a column, Spark uses the default in the column's metadata, which is SQL text.

    Raises:
        UnsupportedTable: for a nested default.
    """
    metadata = field.metadata or {}
    value = json.loads(metadata.get(INITIAL_DEFAULT, b"null"))
    if value is None:
        return None
    kind = field.type
    if pa.types.is_nested(kind):
        raise UnsupportedTable(
            f"The default of column {field.name!r} is a nested value, which is not supported."
        )
    if metadata.get(LOGICAL_TYPE) == b"uuid":
        return f"X'{str(value).replace('-', '')}'"
    if pa.types.is_binary(kind):
        return f"X'{value}'"
    if pa.types.is_boolean(kind):
        return "true" if value else "false"
    plain = _string_literal(str(value))
    if pa.types.is_string(kind):
        return plain
    return f"CAST({plain} AS {sql_type(_spark_type(kind))})"


def bare_literals(values: pa.Array, kind: pa.DataType) -> list[str] | None:
    """Return literals that have the right type without a cast.

    The result is None if one of the values has no such literal.

    Used for conditions that a catalog passes on to a metastore, which does not accept casts.
    """
    found: list[str] = []
    for value in values:
        literal = _bare_literal(value, kind)
        if literal is None:
            return None
        found.append(literal)
    return found


def sql_literal(value: pa.Scalar, kind: DataType) -> str:
    """Return a non-null value as SQL text of exactly this type, for any session settings.

    Args:
        value: The value.
        kind: Type that the SQL text must have in Spark.
    """
    bare = _bare_literal(value, value.type) if collation_of(kind) is None else None
    if bare is not None:
        return bare
    if pa.types.is_boolean(value.type):
        return "true" if value.as_py() else "false"
    if pa.types.is_binary(value.type) or pa.types.is_large_binary(value.type):
        return f"X'{value.as_py().hex()}'"
    text = str(value.as_py()) if pa.types.is_floating(value.type) else _text_of(value)
    plain = _string_literal(text)
    return plain if kind == StringType() else f"CAST({plain} AS {sql_type(kind)})"


def collation_of(kind: DataType) -> str | None:
    """Return the collation of a string type; None if strings are compared by bytes."""
    if isinstance(kind, StringType) and "collate" in kind.simpleString():
        return kind.simpleString().split()[-1]
    return None


def _bare_literal(value: pa.Scalar, kind: pa.DataType) -> str | None:
    if not value.is_valid:
        return None
    if kind in _SUFFIX:
        return f"{value.as_py()}{_SUFFIX[kind]}"
    if pa.types.is_date(kind):
        text = _text_of(value)
        return f"DATE'{text}'" if _COMMON_DATE.fullmatch(text) else None
    if pa.types.is_string(kind) and _PLAIN.fullmatch(value.as_py()):
        return f"'{value.as_py()}'"
    return None


def _string_literal(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return f"'{text}'"
    # The text is written as bytes, because session settings affect how quotes are escaped.
    return f"CAST(X'{text.encode().hex()}' AS STRING)"


def arrow_literal(value: pa.Scalar, kind: pa.DataType) -> str:
    """Return a non-null Arrow value as SQL text of type ``kind``, for any session settings."""
    return sql_literal(value, _spark_type(kind))


def _text_of(value: pa.Scalar) -> str:
    """Format a value as text that Spark can parse."""
    if pa.types.is_timestamp(value.type) and value.type.tz:
        value = value.cast(pa.timestamp("us", "UTC"))  # Arrow formats UTC times with a trailing Z
    # Do not convert to Python values: they end in the year 9999 and have no nanoseconds.
    return str(pc.cast(value, pa.string()))


def text_literal(text: str, kind: DataType) -> Column:
    """Return a value as a literal column. Text as input preserves decimals and times exactly."""
    plain = F.lit(text)
    return plain if kind == StringType() else plain.cast(kind)


def sql_type(kind: DataType) -> str:
    """Return the SQL name of a type, which is the same type under all settings.

    The name TIMESTAMP is not used, since a setting decides which type it means.
    """
    return "timestamp_ltz" if kind == TimestampType() else kind.simpleString()


def _spark_type(kind: pa.DataType) -> DataType:
    return from_arrow_type(kind, prefer_timestamp_ntz=True)
