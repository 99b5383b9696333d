"""Convert an Iceberg schema to Arrow, with the types that Spark uses for these columns."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa
from pyiceberg.conversions import to_json
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UnknownType,
    UUIDType,
)

from splitlib.errors import UnsupportedTable
from splitlib.model import FIELD_ID, INITIAL_DEFAULT, LOGICAL_TYPE

_PLAIN: dict[type[IcebergType], pa.DataType] = {
    BooleanType: pa.bool_(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    DateType: pa.date32(),
    TimestampType: pa.timestamp("us"),
    TimestamptzType: pa.timestamp("us", "UTC"),
    StringType: pa.string(),
    UUIDType: pa.string(),
    FixedType: pa.binary(),
    BinaryType: pa.binary(),
    UnknownType: pa.null(),
}


class Column(NamedTuple):
    """A column or struct field of a primitive type, for which manifests may have statistics."""

    name: str
    """Full name, such as ``a.b`` for the field ``b`` of the struct column ``a``."""
    id: int
    source: PrimitiveType
    field: pa.Field
    """Arrow field with the full name."""


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return an Arrow schema of the columns in the table's order, with field ids.

    Raises:
        UnsupportedTable: for a type that Spark does not have, or names that differ only in case,
            because Spark cannot distinguish them.
    """
    spelled = Counter(name.lower() for name in schema.column_names)
    if clash := [name for name in schema.column_names if spelled[name.lower()] > 1]:
        raise UnsupportedTable(
            f"The columns {', '.join(sorted(clash))} differ only in case.",
            hint="rename all but one of them.",
        )
    return pa.schema([_field(field, field.name) for field in schema.fields])


def dropped_schema(schema: Schema, history: Iterable[Schema]) -> pa.Schema:
    """Return an Arrow schema of the columns dropped from the table, with their last types.

    Columns of a type that Spark does not have are omitted.

    Args:
        schema: The schema of the version to read.
        history: All schemas of the table, oldest first.
    """
    known = {field.field_id for field in schema.fields}
    dropped = {f.field_id: f for old in history for f in old.fields if f.field_id not in known}
    fields = []
    for field in dropped.values():
        with suppress(UnsupportedTable):  # an equality delete on the column raises an error later
            fields.append(_field(field, field.name))
    return pa.schema(fields)


def renamed(columns: Iterable[Column], history: Iterable[Schema]) -> frozenset[str]:
    """Return the names of columns that were renamed, or whose name once belonged to another column.

    The names are in lower case.
    """
    schemas = list(history)
    found = set()
    for column in columns:
        name = column.name.lower()
        for schema in schemas:
            before = schema.find_column_name(column.id)
            had_it = _id_of(schema, name) not in (None, column.id)
            if had_it or (before is not None and before.lower() != name):
                found.add(name)
    return frozenset(found)


def _id_of(schema: Schema, name: str) -> int | None:
    try:
        return schema.find_field(name, case_sensitive=False).field_id
    except ValueError:
        return None


def filter_columns(schema: Schema) -> tuple[Column, ...]:
    """Return all columns and struct fields of primitive types, except those in lists and maps."""
    return tuple(_columns(schema.fields, ""))


def refuse_reinterpreted(schema: Schema, history: Iterable[Schema]) -> None:
    """Reject a column whose type changed, unless one of the two types is wider than the other.

    Files may contain values, bounds and partition values of both types. After a change from string
    to binary, for example, ``truncate`` has cut some values by characters, and others by bytes.

    Raises:
        UnsupportedTable: if there is such a column; the message names it.
    """
    now = {identifier: field.field_type for identifier, field in index_by_id(schema).items()}
    for other in history:
        for identifier, field in index_by_id(other).items():
            before, after = field.field_type, now.get(identifier, field.field_type)
            if _is_wider(before, after) or _is_wider(after, before):
                continue
            raise UnsupportedTable(
                f"The type of column {schema.find_column_name(identifier)} changed from {before} "
                f"to {after}.",
                hint="read the table with Spark's own Iceberg reader.",
            )


def _is_wider(one: IcebergType, other: IcebergType) -> bool:
    """Return whether all values of ``one`` are values of ``other``, stored in the same way."""
    match one, other:
        case (IntegerType(), LongType()) | (FloatType(), DoubleType()) | (UnknownType(), _):
            return True
        case DecimalType(), DecimalType():
            return one.scale == other.scale and one.precision <= other.precision
    # Fields of nested types have ids of their own.
    return one == other or (not one.is_primitive and type(one) is type(other))


def arrow_type(source: IcebergType, name: str) -> pa.DataType:
    """Return the Arrow type for values of an Iceberg type.

    Args:
        source: The Iceberg type.
        name: Name of the column, for the error message.

    Raises:
        UnsupportedTable: for a type that Spark does not have.
    """
    match source:
        case StructType():
            return pa.struct([_field(field, f"{name}.{field.name}") for field in source.fields])
        case ListType():
            return pa.list_(_field(source.element_field, f"{name}.element"))
        case MapType():
            return pa.map_(
                _field(source.key_field, f"{name}.key"), _field(source.value_field, f"{name}.value")
            )
        case DecimalType():
            return pa.decimal128(source.precision, source.scale)
    plain = _PLAIN.get(type(source))
    if plain is None:
        raise UnsupportedTable(f"Column {name} has type {source}, which Spark does not support.")
    return plain


def _field(field: NestedField, name: str) -> pa.Field:
    metadata = {FIELD_ID: str(field.field_id).encode()}
    if isinstance(field.field_type, UUIDType):
        metadata[LOGICAL_TYPE] = b"uuid"
    if field.initial_default is not None and isinstance(field.field_type, PrimitiveType):
        default = to_json(field.field_type, field.initial_default)
        metadata[INITIAL_DEFAULT] = json.dumps(default).encode()
    kind = arrow_type(field.field_type, name)
    return pa.field(field.name, kind, nullable=field.optional, metadata=metadata)


def _columns(fields: Iterable[NestedField], prefix: str) -> Iterator[Column]:
    for name, identifier, source, field in _primitives(fields, prefix):
        yield Column(name, identifier, source, _field(field, name).with_name(name))


def _primitives(
    fields: Iterable[NestedField], prefix: str
) -> Iterator[tuple[str, int, PrimitiveType, NestedField]]:
    for field in fields:
        name = prefix + field.name
        if isinstance(field.field_type, StructType):
            yield from _primitives(field.field_type.fields, f"{name}.")
        elif isinstance(field.field_type, UnknownType):
            continue  # All values of this type are null, so there are no statistics.
        elif isinstance(field.field_type, PrimitiveType):
            yield name, field.field_id, field.field_type, field
