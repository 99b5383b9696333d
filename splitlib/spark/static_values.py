"""What a condition says of single columns, as values and ranges that files can be pruned by."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError

from splitlib.filtering import DynamicFilteringData, RangeDomain, has_range

# By the name of Catalyst's class: the same with the sides exchanged.
_MIRRORED: Final = {
    "EqualTo": "EqualTo",
    "EqualNullSafe": "EqualNullSafe",
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
}


def values_of(condition: Any, columns: pa.Schema) -> DynamicFilteringData | None:
    """What must hold of one column where ``condition`` is true; None if that is not known.

    It may say less than the condition, as ``<`` is taken for ``<=``.

    Args:
        condition: One conjunct, a resolved expression of Catalyst.
        columns: With the table's types, ``a.b`` for a field of a struct.
    """
    name = condition.nodeName()
    if name == "IsNull":
        field = _column(condition.child(), columns)
        return None if field is None else _among(field, [None])
    if name == "In":
        field = _column(condition.value(), columns)
        return None if field is None else _in_list(field, _each(condition.list()))
    if name not in _MIRRORED:
        return None
    left, right = condition.left(), condition.right()
    field = _column(left, columns)
    if field is None:
        field, right, name = _column(right, columns), left, _MIRRORED[name]
    return None if field is None else _compared(field, name, right)


def _column(expression: Any, columns: pa.Schema) -> pa.Field | None:
    """The column that an expression is, in the type in which it is compared."""
    if expression.nodeName() == "Cast" and expression.dataType().typeName() == "long":
        field = _column(expression.child(), columns)
        return field.with_type(pa.int64()) if field and pa.types.is_int32(field.type) else None
    name = _name(expression)
    found = [field for field in columns if name is not None and field.name.lower() == name.lower()]
    if found and pa.types.is_string(found[0].type) and expression.dataType().typeName() != "string":
        return None  # a collation has an equality and an order of its own
    return found[0] if found else None


def _name(expression: Any) -> str | None:
    """Of a column, or of a field of a struct."""
    match expression.nodeName():
        case "AttributeReference":
            return str(expression.name())
        case "GetStructField":
            parent = _name(expression.child())
            return None if parent is None else f"{parent}.{expression.extractFieldName()}"
    return None


def _in_list(field: pa.Field, items: Iterator[Any]) -> DynamicFilteringData | None:
    found = [_constant(item, field.type) for item in items]
    values = [value for value in found if value is not None]
    if len(values) < len(found):
        return None
    return _among(field, [value for value in values if value.is_valid])


def _compared(field: pa.Field, comparison: str, side: Any) -> DynamicFilteringData | None:
    value = _constant(side, field.type)
    if value is None:
        return None
    if comparison == "EqualNullSafe" or (comparison == "EqualTo" and value.is_valid):
        return _among(field, [value])
    if not value.is_valid:
        return _among(field, [])
    if not has_range(field.type):
        return None
    open_ = pa.scalar(None, field.type)
    ends = (open_, value) if comparison.startswith("Less") else (value, open_)
    plain = field.remove_metadata()
    return DynamicFilteringData(
        pa.schema([plain]), [RangeDomain(plain, *ends)], exceeds_threshold=False
    )


def _among(field: pa.Field, values: list[Any]) -> DynamicFilteringData:
    return DynamicFilteringData.from_arrow(pa.table({field.name: pa.array(values, field.type)}))


def _constant(expression: Any, kind: pa.DataType) -> pa.Scalar | None:
    """The value of an expression without columns, if it is of this very type; else None."""
    try:
        if not expression.foldable():
            return None
        value = expression.eval(None)
        return _scalar(value, kind)
    except (Py4JError, pa.ArrowException, TypeError, ValueError, OverflowError):
        return None  # it raises for every row, or is evaluated in another way


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """From Catalyst's own representation."""
    if value is None:
        return pa.scalar(None, kind)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        ticks = pa.int32() if pa.types.is_date(kind) else pa.int64()
        return pa.scalar(int(value), ticks).cast(kind)
    if pa.types.is_decimal(kind):
        return pa.scalar(Decimal(value.toString()), kind)
    if pa.types.is_string(kind):
        return pa.scalar(value.toString(), kind)
    return pa.scalar(value, kind)


def _each(items: Any) -> Iterator[Any]:
    iterator = items.iterator()
    while iterator.hasNext():
        yield iterator.next()
