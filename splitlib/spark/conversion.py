"""Convert between Arrow, Python and Spark: SQL literals, schemas, rows, time zones.

Session settings decide how Spark's parser reads quotes and backslashes, and in which time zone it
reads times. The SQL that this module writes has the same meaning under all settings.

Spark represents CHAR and VARCHAR as strings. Their metadata contains the declared type, such as
``char(5)``, or a whole nested type such as ``struct<c:char(5)>``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from splitlib.arrow.values import python_value
from splitlib.errors import UnsupportedTable
from splitlib.hive.partition_values import SPARK_CHAR_VARCHAR, has_char_or_varchar, parse
from splitlib.model import INITIAL_DEFAULT, LOGICAL_TYPE, SPARK_FIELD, TableMetadata
from splitlib.spark.compat import dataframe_of_arrow, try_cast, type_of

# Suffix of Spark's literals for each integer type.
_SUFFIX = {pa.int8(): "Y", pa.int16(): "S", pa.int32(): "", pa.int64(): "L"}

# Matches text that needs no escaping in a literal, for any parser or catalog. "$" is excluded,
# because Spark replaces variables such as ${name}.
_PLAIN = re.compile(r"[^'\\$\x00-\x1f\x7f]*")
_VARIABLE = re.compile(r"\$\{\S+?\}")
_IN_BACKTICKS = re.compile(r"`((?:[^`]|``)+)`")
_QUOTED_NAME = re.compile(r"(?:`(?:[^`]|``)+`|[^`.]+)(?:\.(?:`(?:[^`]|``)+`|[^`.]+))*")
_COMMON_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def quoted(*parts: str) -> str:
    """Quote each part of a name with backticks, and join the parts as in `` `db`.`t` ``."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


def column_text(spark: SparkSession, *parts: str) -> str:
    """Return a column name, quoted so that the session's SQL parser reads it correctly.

    With ``spark.sql.parser.quotedRegexColumnNames``, Spark reads a name in backticks as a regular
    expression. Spark also replaces ``${…}``, even inside backticks.
    """
    is_pattern = str(spark.conf.get("spark.sql.parser.quotedRegexColumnNames", "false"))
    if is_pattern.lower() == "true" or any(map(has_variable, parts)):
        return f"IDENTIFIER({_string_literal(quoted(*parts))})"
    return quoted(*parts)


def has_variable(name: str) -> bool:
    """Return whether a name contains ``${…}``, which Spark may replace even inside backticks."""
    return _VARIABLE.search(name) is not None


def unquoted(name: str) -> str:
    """Remove the backticks around a name's parts. Names with unpaired backticks stay unchanged."""
    if _QUOTED_NAME.fullmatch(name) is None:
        return name
    return _IN_BACKTICKS.sub(lambda found: found[1].replace("``", "`"), name)


def default_literal(field: pa.Field) -> str | None:
    """Return the default value of ``field`` as an SQL literal, or None if the default is null.

    Rows in files that lack the column have this value. Spark expects it as SQL text in the metadata
    of the column.

    Raises:
        UnsupportedTable: if the default is a nested value.
    """
    metadata = field.metadata or {}
    value = json.loads(metadata.get(INITIAL_DEFAULT, b"null"))
    if value is None:
        return None
    if isinstance(value, dict) and value.keys() == {"sql"} and not pa.types.is_struct(field.type):
        return str(value["sql"])
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
    """Return SQL literals of type ``kind`` that contain no cast, such as ``DATE'2024-01-05'``.

    Return None if a value cannot be written without a cast. The literals are for filters that a
    catalog sends to a metastore, which does not accept casts.
    """
    found: list[str] = []
    for value in values:
        literal = _bare_literal(value, kind)
        if literal is None:
            return None
        found.append(literal)
    return found


def sql_literal(value: pa.Scalar, kind: DataType) -> str:
    """Return a non-null value as an SQL literal that has type ``kind`` in every session.

    Text must be valid UTF-8. There is no literal for other text: some versions of Spark turn the
    invalid bytes into null or an error, and Spark replaces them when it passes a literal to readers
    of files.
    """
    bare = _bare_literal(value, value.type) if collation_of(kind) is None else None
    if bare is not None:
        return bare
    if pa.types.is_boolean(value.type):
        return "true" if value.as_py() else "false"
    if pa.types.is_binary(value.type) or pa.types.is_large_binary(value.type):
        return f"X'{value.as_py().hex()}'"
    if pa.types.is_duration(value.type):
        return _interval(value)
    text = str(value.as_py()) if pa.types.is_floating(value.type) else _text_of(value)
    if text is None:
        return _since_1970(value, kind)
    plain = _string_literal(text)
    return plain if kind == StringType() else f"CAST({plain} AS {sql_type(kind)})"


def collation_of(kind: DataType) -> str | None:
    """Return the collation of a string type, or None if its strings are compared by bytes."""
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
        return f"DATE'{text}'" if text and _COMMON_DATE.fullmatch(text) else None
    if pa.types.is_string(kind):
        text = python_value(value)  # contains a backslash if the value is not valid UTF-8
        return f"'{text}'" if _PLAIN.fullmatch(text) else None
    return None


def _string_literal(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return f"'{text}'"
    # Write the text as hexadecimal bytes, because session settings affect how quotes are escaped.
    return f"CAST(X'{text.encode().hex()}' AS STRING)"


def arrow_literal(value: pa.Scalar, kind: pa.DataType) -> str:
    """Return a non-null value as an SQL literal of an Arrow type, like :func:`sql_literal`."""
    return sql_literal(value, _spark_type(kind))


def _text_of(value: pa.Scalar) -> str | None:
    """Format a value as text for Spark to parse, or return None if its year is out of range."""
    if pa.types.is_timestamp(value.type) and value.type.tz:
        # Arrow formats UTC times with a trailing Z.
        value = value.cast(pa.timestamp("us", "UTC"))
    # Do not convert values to Python, which has no dates after the year 9999 and no nanoseconds.
    try:
        text = str(pc.cast(value, pa.string()))
    except pa.ArrowInvalid:
        return None
    # For a value out of range, Arrow may return text such as <value out of range: 11248738>.
    return None if text.startswith("<") else text


def _since_1970(value: pa.Scalar, kind: DataType) -> str:
    """Return SQL that adds an offset to 1970-01-01, for values that Arrow cannot format."""
    if pa.types.is_date(value.type):
        return f"date_from_unix_date({value.cast(pa.int32())})"
    passed = value.cast(pa.int64()).cast(pa.duration(value.type.unit))
    return f"({sql_literal(pa.scalar(0, value.type), kind)} + {_interval(passed)})"


def _interval(value: pa.Scalar) -> str:
    number = value.cast(pa.duration("us")).cast(pa.int64()).as_py()
    seconds, micros = divmod(abs(number), 10**6)
    days, seconds = divmod(seconds, 86_400)
    time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"
    return f"CAST('{'-' if number < 0 else ''}{days} {time}' AS interval day to second)"


def text_literal(text: str, kind: DataType) -> Column:
    """Return a literal of type ``kind``, cast from text so that decimals and times are exact."""
    plain = F.lit(text)
    return plain if kind == StringType() else plain.cast(kind)


def sql_type(kind: DataType) -> str:
    """Return an SQL name of type ``kind`` that does not depend on session settings.

    A setting decides which type the name TIMESTAMP stands for, so this function never returns it.
    """
    return "timestamp_ltz" if kind == TimestampType() else kind.simpleString()


def _spark_type(kind: pa.DataType) -> DataType:
    return from_arrow_type(kind, prefer_timestamp_ntz=True)


# Packages of the user-defined types that come with Spark.
_SPARKS_OWN = ("pyspark.ml.linalg.", "pyspark.mllib.linalg.")
_MOST_DIGITS = 38
_CHAR = re.compile(r"char\((\d+)\)")


def spark_schema(metadata: TableMetadata) -> StructType:
    """Return a table's Spark schema: from the catalog if available, or converted from Arrow."""
    if metadata.spark_schema is not None:
        fields = StructType.fromJson(json.loads(metadata.spark_schema)).fields
        # Files may lack any column, even one that the table declares as required. So all columns
        # are nullable.
        return StructType([StructField(f.name, f.dataType, True, f.metadata) for f in fields])
    return StructType([_field(field) for field in metadata.schema])


def partition_fields(metadata: TableMetadata, values: pa.Table) -> StructType:
    """Return the partition columns as ``spark.table`` declares them, including NOT NULL.

    A NOT NULL column becomes nullable if one of its values is null. Otherwise Spark would read the
    null as 0, or raise an error.
    """
    fields = {field.name: field for field in spark_schema(metadata)}
    if metadata.spark_schema is not None:
        fields = {f.name: f for f in StructType.fromJson(json.loads(metadata.spark_schema))}
    keys = [fields[key] for key in metadata.partition_keys]
    return StructType(
        [key if _has_no_null(metadata, values, key) else nullable(key) for key in keys]
    )


def _has_no_null(metadata: TableMetadata, values: pa.Table, key: StructField) -> bool:
    if key.nullable:
        return True
    field = metadata.schema.field(key.name)
    if pa.types.is_string(field.type) and not isinstance(key.dataType, StringType):
        # Only Spark can parse this type, and its result is null for text that is not a value.
        return False
    # parse() returns null for text that is not a value of the type.
    return bool(parse(values[key.name].combine_chunks(), field).values.null_count == 0)


def nullable(field: StructField) -> StructField:
    """Return a nullable copy of a column, in which all nested fields are nullable too.

    Files may lack a column even if the table declares it as NOT NULL.
    """
    return StructField(field.name, _with_nulls(field.dataType), True, field.metadata)


def _with_nulls(kind: DataType) -> DataType:
    match kind:
        case StructType():
            return StructType([nullable(field) for field in kind])
        case ArrayType():
            return ArrayType(_with_nulls(kind.elementType), True)
        case MapType():
            return MapType(_with_nulls(kind.keyType), _with_nulls(kind.valueType), True)
    return kind


def _field(field: pa.Field) -> StructField:
    found = field.metadata or {}
    declared = found.get(SPARK_FIELD)
    if declared is not None:
        return _declared_field(field, json.loads(declared))
    logical = found.get(LOGICAL_TYPE, b"").decode()
    metadata = {SPARK_CHAR_VARCHAR: logical} if has_char_or_varchar(logical) else {}
    return StructField(field.name, _type(field), True, metadata)


def _type(field: pa.Field) -> DataType:
    kind = field.type
    if pa.types.is_struct(kind):
        return StructType([_field(child) for child in kind])
    if pa.types.is_map(kind):
        return MapType(_field(kind.key_field).dataType, _field(kind.item_field).dataType, True)
    if pa.types.is_list(kind):
        return ArrayType(_field(kind.value_field).dataType, True)
    if pa.types.is_decimal(kind) and kind.precision > _MOST_DIGITS:
        raise _unknown(field.name, kind)
    try:
        return from_arrow_type(kind, prefer_timestamp_ntz=True)
    except PySparkException as error:
        raise _unknown(field.name, kind) from error


def _declared_field(field: pa.Field, declared: dict[str, Any]) -> StructField:
    # Accept only Spark's own user-defined types: PySpark imports the Python class that the schema
    # in the file names, which could be any class.
    for python_class in _python_classes(declared):
        if not python_class.startswith(_SPARKS_OWN):
            raise _unknown(field.name, f"the user-defined type {python_class}")
    try:
        return nullable(StructField.fromJson(declared))
    # PySpark 4.0 raises an AssertionError while formatting the message of another error.
    except (PySparkException, ValueError, KeyError, TypeError, AssertionError) as error:
        raise _unknown(field.name, declared["type"]) from error


def _python_classes(declared: Any) -> Iterator[str]:
    """Yield the Python class names of all user-defined types in Spark's JSON schema."""
    match declared:
        case {"type": "udt", **rest}:
            yield str(rest.get("pyClass"))
        case dict():
            for value in declared.values():
                yield from _python_classes(value)
        case list():
            for value in declared:
                yield from _python_classes(value)


def _unknown(name: str, kind: object) -> UnsupportedTable:
    return UnsupportedTable(
        f"Column {name!r} has a type that Spark cannot read: {kind}.",
        hint="declare the other columns with schema=.",
    )


def char_length(field: StructField) -> int | None:
    """Return a CHAR column's length in characters, or None for a column of another type."""
    found = _CHAR.fullmatch(_declared(field) or "")
    return int(found[1]) if found else None


def pads_char(spark: SparkSession) -> bool:
    """Return whether Spark pads the values of CHAR columns with blanks when it reads them."""
    pads = str(spark.conf.get("spark.sql.readSideCharPadding", "true")).lower()
    as_strings = str(spark.conf.get("spark.sql.legacy.charVarcharAsString", "false")).lower()
    return pads == "true" and as_strings != "true"


def is_char_or_varchar(field: StructField) -> bool:
    """Return whether a column is CHAR or VARCHAR, which Spark compares with padding."""
    return _declared(field) is not None


def declared_type(field: StructField) -> DataType:
    """Return the column's declared type, which may be CHAR or VARCHAR instead of STRING."""
    declared = _declared(field)
    return field.dataType if declared is None else type_of(declared)


def _declared(field: StructField) -> str | None:
    declared: str | None = (field.metadata or {}).get(SPARK_CHAR_VARCHAR)
    return declared


def session_time_zone(spark: SparkSession) -> str:
    """Return the time zone in which Spark reads and shows timestamps, and casts them to dates."""
    return str(spark.conf.get("spark.sql.session.timeZone"))


def jvm_time_zone(spark: SparkSession) -> str:
    """Return the default time zone of Spark's JVM.

    Spark's Hive reader parses timestamps in this zone, regardless of the session's time zone.
    """
    row = spark.range(1).selectExpr("reflect('java.time.ZoneId', 'systemDefault')").first()
    if row is None:
        raise ValueError("Spark did not return the time zone of its JVM")
    return str(row[0])


def local_rows(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return a DataFrame with the rows of an Arrow table.

    Timestamps without time zone keep their type. By default Spark would interpret them in the
    session's time zone, and raise an error for times that daylight saving skips.
    """
    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    # The rows are sent as one batch, because the Spark Connect 4.0 server ignores later batches.
    return dataframe_of_arrow(spark, table.combine_chunks(), schema)


def typed_columns(
    spark: SparkSession, values: pa.Table, schema: StructType, **more: pa.ChunkedArray
) -> DataFrame:
    """Return ``values`` as a DataFrame with the column names and types of ``schema``.

    Spark casts text to the type of the field, in the session's time zone. Text that cannot be
    parsed becomes null. The order of the rows is kept.

    Args:
        spark: The session of the DataFrame.
        values: One column for each field of ``schema``, as text or with the field's type.
        schema: Column names and types of the result.
        more: Additional columns, which are appended unchanged.

    Raises:
        ValueError: if a column does not contain text or values of the field's type.
    """
    # Columns get numbered names, since keys may contain dots or differ only in case.
    numbered = [f"c{i}" for i in range(len(schema))]
    arrow = pa.table([*values.columns, *more.values()], names=[*numbered, *more])
    frame = local_rows(spark, arrow)
    columns = [
        _typed(F.col(name), given.dataType, field)
        for name, given, field in zip(numbered, frame.schema, schema, strict=False)
    ]
    return frame.select(*columns, *more)


def _typed(column: Column, given: object, field: StructField) -> Column:
    if isinstance(field.dataType, NullType):  # Spark has no cast to void
        return F.lit(None).alias(field.name)
    if given == field.dataType:
        return column.alias(field.name)
    if isinstance(given, (StringType, NullType)):
        return try_cast(column, field.dataType).alias(field.name)
    msg = f"Partition values of {field.name!r} are {given}, not text or {field.dataType}"
    raise ValueError(msg)
