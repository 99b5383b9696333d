"""Merge the columns of several files, as Spark's option ``mergeSchema`` does.

The rules are those of Spark's ``StructType.merge``: names are equal in any case, new columns follow
the known ones, and decimals of the same scale take the larger precision. Other types must be equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from splitlib.errors import UnsupportedTable
from splitlib.model import SPARK_FIELD


def merged_columns(known: Iterable[pa.Field], more: Iterable[pa.Field]) -> list[pa.Field]:
    """Return the columns in ``known``, and after them those that only ``more`` has.

    Raises:
        UnsupportedTable: if a column has two types that Spark does not merge, or two columns of one
            file differ only in case.
    """
    found = _by_name(known)
    for name, field in _by_name(more).items():
        found[name] = _merged(found[name], field) if name in found else field
    return list(found.values())


def _by_name(fields: Iterable[pa.Field]) -> dict[str, pa.Field]:
    found: dict[str, pa.Field] = {}
    for field in fields:
        if field.name.lower() in found:
            raise UnsupportedTable(f"A file has several columns named {field.name!r}.")
        found[field.name.lower()] = field
    return found


def _merged(one: pa.Field, other: pa.Field) -> pa.Field:
    if one.type == other.type and _spark_type(one) == _spark_type(other):
        return one
    kind = _merged_type(one, other)
    if kind is None or SPARK_FIELD in {*(one.metadata or {}), *(other.metadata or {})}:
        raise UnsupportedTable(
            f"Column {one.name!r} is {one.type} in one file and {other.type} in another.",
            hint="pass the data columns as schema=, or rewrite the files.",
        )
    return one.with_type(kind)


def _merged_type(one: pa.Field, other: pa.Field) -> pa.DataType | None:
    """Return the common type of two fields; None if they do not have one."""
    left, right = one.type, other.type
    if pa.types.is_decimal(left) and pa.types.is_decimal(right) and left.scale == right.scale:
        return max(left, right, key=lambda kind: kind.precision)
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        return pa.struct(merged_columns(left, right))
    if pa.types.is_map(left) and pa.types.is_map(right):
        key, item = _merged_parts(
            [left.key_field, left.item_field], [right.key_field, right.item_field]
        )
        return pa.map_(key, item)
    if pa.types.is_list(left) and pa.types.is_list(right):
        return pa.list_(*_merged_parts([left.value_field], [right.value_field]))
    return None


def _merged_parts(left: Sequence[pa.Field], right: Sequence[pa.Field]) -> list[pa.Field]:
    return [_merged(one, other) for one, other in zip(left, right, strict=True)]


def _spark_type(field: pa.Field) -> Any:
    """Return the type that Spark stored for a field; None if the Arrow type is enough."""
    text = (field.metadata or {}).get(SPARK_FIELD)
    return None if text is None else json.loads(text)["type"]
