"""Convert a table's schema to the ``StructType`` that ``spark.table`` would have.

Spark represents CHAR and VARCHAR as strings. Their metadata contains the declared type, such as
``char(5)``, or a whole nested type such as ``struct<c:char(5)>``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from splitlib.errors import UnsupportedTable
from splitlib.hive.partition_values import SPARK_CHAR_VARCHAR, has_char_or_varchar, parse
from splitlib.model import LOGICAL_TYPE, SPARK_FIELD, TableMetadata
from splitlib.spark.compat import type_of

# Packages of the user-defined types that Spark includes.
_SPARKS_OWN = ("pyspark.ml.linalg.", "pyspark.mllib.linalg.")
_MOST_DIGITS = 38
_CHAR = re.compile(r"char\((\d+)\)")


def spark_schema(metadata: TableMetadata) -> StructType:
    """Return a table's columns, from Spark's schema in the catalog or from the Arrow schema."""
    if metadata.spark_schema is not None:
        fields = StructType.fromJson(json.loads(metadata.spark_schema)).fields
        # Files may lack any column, even one that the table declares as required.
        return StructType([StructField(f.name, f.dataType, True, f.metadata) for f in fields])
    return StructType([_field(field) for field in metadata.schema])


def partition_fields(metadata: TableMetadata, values: pa.Table) -> StructType:
    """Return the partition columns that ``spark.table`` would have. Some may be NOT NULL.

    A NOT NULL column becomes nullable if one of its values is null. Otherwise Spark would read the
    null as 0, or fail.

    Args:
        metadata: Metadata of the table.
        values: Values of the partitions to read, one column per key.
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
        return False  # only Spark can parse this type
    # parse() returns null for text that is not a value of the type.
    return bool(parse(values[key.name].combine_chunks(), field).values.null_count == 0)


def nullable(field: StructField) -> StructField:
    """Make a column nullable, with its nested fields, because files may lack required columns."""
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
    # PySpark imports the class of a user-defined type, and a file may name any class.
    for python_class in _python_classes(declared):
        if not python_class.startswith(_SPARKS_OWN):
            raise _unknown(field.name, f"the user-defined type {python_class}")
    try:
        return nullable(StructField.fromJson(declared))
    # PySpark 4.0 raises AssertionError while it formats its own error.
    except (PySparkException, ValueError, KeyError, TypeError, AssertionError) as error:
        raise _unknown(field.name, declared["type"]) from error


def _python_classes(declared: Any) -> Iterator[str]:
    """Yield the Python classes of user-defined types anywhere in Spark's JSON schema."""
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
    """Return the length of a CHAR column, in characters; None for any other type."""
    found = _CHAR.fullmatch(_declared(field) or "")
    return int(found[1]) if found else None


def is_char_or_varchar(field: StructField) -> bool:
    """Whether the column is CHAR or VARCHAR, which Spark compares with padding."""
    return _declared(field) is not None


def declared_type(field: StructField) -> DataType:
    """Return the declared type of the column, including CHAR and VARCHAR."""
    declared = _declared(field)
    return field.dataType if declared is None else type_of(declared)


def _declared(field: StructField) -> str | None:
    declared: str | None = (field.metadata or {}).get(SPARK_CHAR_VARCHAR)
    return declared
