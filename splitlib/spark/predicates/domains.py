"""Convert Spark conditions to domains, which prune files and partitions.

A domain describes a column's possible values, as a list of values or as ranges.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type

from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import Domain, RangeDomain, Ranges, ValueDomain, distinct, has_range
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.java_handles import Items
from splitlib.spark.jvm.spark_handles import CatalystExpression, CatalystType
from splitlib.spark.predicates.value_sets import (
    NOT_NULL,
    UNKNOWN,
    Cut,
    Truth,
    ValueSet,
    always,
    among,
    compared,
    is_null,
)

T = TypeVar("T")

_WIDE: Final = Context(prec=100)
# SQL operators of Catalyst's comparison classes, each with the operator for swapped sides.
_COMPARISONS: Final = {
    "EqualTo": ("=", "="),
    "EqualNullSafe": ("<=>", "<=>"),
    "LessThan": ("<", ">"),
    "LessThanOrEqual": ("<=", ">="),
    "GreaterThan": (">", "<"),
    "GreaterThanOrEqual": (">=", "<="),
}
_INTEGERS: Final = {"smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()}


def key_of(value: Any, kind: pa.DataType) -> Any:
    """Convert a value of type ``kind`` to a key that sorts in Python as the value sorts in Spark.

    Dates and timestamps must already be numbers.
    """
    if pa.types.is_floating(kind):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    if pa.types.is_decimal(kind):
        return int(_WIDE.scaleb(value, kind.scale))
    return int(value) if _is_discrete(kind) else value


def domain_of(values: ValueSet, field: pa.Field) -> Domain | None:
    """Return a domain that covers ``values``, or None if it would have to cover all values.

    All ranges of a domain include both ends. So if an interval excludes an end, the range ends at
    the adjacent value. If the type has no adjacent values, the range includes the end.
    """
    kind = field.type
    ends = [
        _closed(interval, kind) for interval in values.intervals if _may_have_values(interval, kind)
    ]
    ends = [(low, high) for low, high in ends if low is None or high is None or low <= high]
    if all(low is not None and low == high for low, high in ends):
        keys = [low for low, _ in ends]
        array = _array([*keys, *([None] if values.null else [])], kind)
        return ValueDomain(distinct(pa.table({field.name: array})))
    # Float columns get no range, because their statistics ignore NaN.
    if not has_range(kind) or (ends == [(None, None)] and values != NOT_NULL):
        return None
    lower, upper = (_array(keys, kind) for keys in zip(*ends, strict=True))
    if lower[1:].null_count or upper[:-1].null_count:
        lower, upper = lower[:1], upper[-1:]
    return RangeDomain(field.remove_metadata(), Ranges(lower, upper), values.null)


def is_exact(values: ValueSet, domain: Domain | None) -> bool:
    """Return whether ``domain``, made from ``values``, contains exactly these values."""
    if isinstance(domain, RangeDomain):
        # For a discrete type, a range is exact, unless one of its ends is not a value of the type.
        # For other types, a range is exact only if it is unbounded at both ends.
        open_ends = [len(cut) == 1 for interval in values.intervals for cut in interval]
        known = [not end.is_valid for ends in domain.ranges for end in ends]
        return open_ends == known and (_is_discrete(domain.field.type) or all(known))
    return isinstance(domain, ValueDomain)


def _may_have_values(interval: tuple[Cut, Cut], kind: pa.DataType) -> bool:
    """Return whether an interval may contain values.

    An interval between adjacent strings is empty. Only intervals of strings and bytes are checked.
    """
    low, high = interval
    is_text = pa.types.is_string(kind) or pa.types.is_binary(kind)
    if not is_text or (low[-1], high[-1]) != (1, 0):  # an end is included or unbounded
        return True
    return bool(_closed(interval, kind)[0] != high[1])


def _closed(interval: tuple[Cut, Cut], kind: pa.DataType) -> tuple[Any, Any]:
    """Return an interval's first and last value; None stands for an unbounded end."""
    low, high = interval
    if pa.types.is_boolean(kind):
        first = 0 if len(low) == 1 else low[1] + low[2]
        last = 1 if len(high) == 1 else high[1] - 1 + high[2]
        # An interval with both boolean values becomes an unbounded range.
        return (first, last) if first == last or first > last else (None, None)
    first, last = (None if len(cut) == 1 else cut[1] for cut in interval)
    if _is_discrete(kind):
        first = first + low[2] if first is not None else None
        last = last - 1 + high[2] if last is not None else None
    elif low[-1] == 1 and first is not None and not pa.types.is_floating(kind):
        first = first + ("\0" if pa.types.is_string(kind) else b"\0")
    return first, last


def _array(keys: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Convert keys from :func:`key_of` to an array. Keys outside the type's range become null."""
    if pa.types.is_floating(kind):
        return pa.array([k and (math.nan if k[0] else k[1]) for k in keys], kind)
    if pa.types.is_decimal(kind):
        return pa.array([None if k is None else _decimal(k, kind) for k in keys], kind)
    if pa.types.is_boolean(kind):
        return pa.array([None if k is None else bool(k) for k in keys], kind)
    if _is_discrete(kind):
        ticks = kind if pa.types.is_integer(kind) else pa.int32()
        ticks = pa.int64() if pa.types.is_timestamp(kind) else ticks
        bound = 2 ** (ticks.bit_width - 1)
        within = [k if k is not None and -bound <= k < bound else None for k in keys]
        return pa.array(within, ticks).cast(kind)
    return pa.array(keys, kind)


def _decimal(key: int, kind: pa.DataType) -> Decimal | None:
    fits = len(str(abs(key))) <= kind.precision
    return _WIDE.scaleb(Decimal(key), -kind.scale) if fits else None


def _is_discrete(kind: pa.DataType) -> bool:
    """Return whether each value of a type has a next value, as for integers and dates."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
    )


class Known(NamedTuple):
    """The values that columns can have in rows for which a condition is true."""

    data: DynamicFilteringData
    is_exact: bool
    """Whether ``data`` is equivalent to the condition, and not wider."""


def known_of(condition: CatalystExpression, columns: pa.Schema) -> Known | None:
    """Return the values that columns can have in rows for which ``condition`` is true.

    The result may be wider than the condition, never narrower. It is None if the condition does not
    limit the values of any column, as far as splitlib can analyze it.

    Args:
        condition: A resolved Catalyst expression.
        columns: Columns with the table's types. A struct field is named ``a.b``.
    """
    reader = _Reader(columns)
    region = reader.truth_of(condition).true
    if region is None:
        return Known(_no_values(columns), True) if len(columns) else None
    fields = {name: reader.fields[name] for name in columns.names if name in region}
    domains = {name: domain_of(region[name], field) for name, field in fields.items()}
    known = {name: domain for name, domain in domains.items() if domain is not None}
    if not known:
        return None
    schema = pa.schema([fields[name].remove_metadata() for name in known])
    # A condition on several columns may combine their values, but the result describes each column
    # alone. So only a condition on one column can be exact.
    exact = len(reader.fields) == 1 and not reader.missed
    return Known(
        DynamicFilteringData(schema, known.values(), exceeds_threshold=False),
        exact and all(is_exact(region[name], domain) for name, domain in domains.items()),
    )


def _no_values(columns: pa.Schema) -> DynamicFilteringData:
    return DynamicFilteringData.from_arrow(columns.empty_table(), columns.names[:1])


class _Reader:
    """Finds the values for which one Catalyst condition is true, and for which it is false.

    Catalyst's analyzer has cast both sides of a comparison to the same type. So a column appears
    either directly or inside a cast. Only casts between integers are supported, because they
    preserve the values and their order.
    """

    def __init__(self, columns: pa.Schema) -> None:
        lower = Counter(name.lower() for name in columns.names)
        # Columns whose names differ only in case are excluded. They are ambiguous, because pruning
        # ignores case.
        self._columns = {f.name: f for f in columns if lower[f.name.lower()] == 1}
        self.fields: dict[str, pa.Field] = {}
        """The columns that the condition reads, by name, with the types for the comparison."""
        self.missed = False
        """Whether a part of the condition is not supported."""

    def truth_of(
        self, condition: CatalystExpression, shared: Mapping[str, CatalystExpression] | None = None
    ) -> Truth:
        """Return the values for which a condition is true, and for which it is false.

        Args:
            condition: A boolean expression.
            shared: Definitions of the common expressions in the condition, by id.
        """
        shared = shared or {}
        match condition.nodeName():
            case "And":
                left = self.truth_of(condition.left(), shared)
                return left & self.truth_of(condition.right(), shared)
            case "Or":
                left = self.truth_of(condition.left(), shared)
                return left | self.truth_of(condition.right(), shared)
            case "Not":
                return ~self.truth_of(condition.child(), shared)
            case "Between":
                return self.truth_of(condition.replacement(), shared)
            case "With":
                added = {d.id().toString(): d.child() for d in _each(condition.defs())}
                return self.truth_of(condition.child(), {**shared, **added})
        found = self._of_column(condition, shared)
        self.missed = self.missed or found is None
        return UNKNOWN if found is None else found

    def _of_column(
        self, condition: CatalystExpression, shared: Mapping[str, CatalystExpression]
    ) -> Truth | None:
        """Return the :class:`Truth` of a condition on one column, or None for other conditions."""
        name = condition.nodeName()
        if name in ("IsNull", "IsNotNull"):
            field = self._column(condition.child(), shared)
            if field is None:
                return None
            return is_null(field.name) if name == "IsNull" else ~is_null(field.name)
        if name in ("In", "InSet"):
            return self._in_list(condition, shared)
        if name in _COMPARISONS:
            return self._compared(condition, shared)
        field = self._column(condition, shared)
        if field is not None:
            return compared(field.name, "=", 1) if pa.types.is_boolean(field.type) else None
        constant = self._constant(condition, pa.bool_(), shared)
        return constant and always(None if constant.value is None else bool(constant.value))

    def _compared(
        self, condition: CatalystExpression, shared: Mapping[str, CatalystExpression]
    ) -> Truth | None:
        left, right = condition.left(), condition.right()
        comparison, mirrored = _COMPARISONS[condition.nodeName()]
        field = self._column(left, shared)
        if field is None:
            field, right, comparison = self._column(right, shared), left, mirrored
        if field is None:
            return None
        value = self._constant(right, field.type, shared)
        return value and compared(field.name, comparison, value.value)

    def _in_list(
        self, condition: CatalystExpression, shared: Mapping[str, CatalystExpression]
    ) -> Truth | None:
        is_set = condition.nodeName() == "InSet"  # the optimizer turns long IN lists into InSet
        field = self._column(condition.child() if is_set else condition.value(), shared)
        if field is None:
            return None
        if is_set:
            keys = [_constant_of(value, field.type) for value in _each(condition.hset())]
        else:
            keys = [self._constant(item, field.type, shared) for item in _each(condition.list())]
        values = [key.value for key in keys if key is not None]
        return among(field.name, values) if len(values) == len(keys) else None

    def _column(
        self, expression: CatalystExpression, shared: Mapping[str, CatalystExpression]
    ) -> pa.Field | None:
        """Return the column that an expression refers to, with its type for the comparison.

        The result is None if the expression is not a column or a supported cast.
        """
        expression = _resolved(expression, shared)
        if expression.nodeName() == "Cast":
            field = self._column(expression.child(), shared)
            wide = _INTEGERS.get(expression.dataType().simpleString())
            if field is None or wide is None or not pa.types.is_signed_integer(field.type):
                return None
            return self._seen(field.with_type(wide)) if _widens(field.type, wide) else None
        field = self._columns.get(_name(expression) or "")
        if field is None:
            return None
        return self._seen(field) if _is_of(expression.dataType(), field.type) else None

    def _seen(self, field: pa.Field) -> pa.Field:
        # If a column is compared in several types, its domain gets the widest of them.
        known = self.fields.get(field.name)
        if known is None or (known.type != field.type and not _widens(field.type, known.type)):
            self.fields[field.name] = field
        return field

    def _constant(
        self,
        expression: CatalystExpression,
        kind: pa.DataType,
        shared: Mapping[str, CatalystExpression],
    ) -> _Constant | None:
        """Evaluate an expression, or return None if it is not a constant of type ``kind``."""
        expression = _resolved(expression, shared)
        try:
            if not expression.foldable() or not _is_of(expression.dataType(), kind):
                return None
            return _constant_of(expression.eval(None), kind)
        except JVM_ERRORS:
            return None  # the expression raises an error, or cannot be evaluated on the driver


class _Constant(NamedTuple):
    value: Any
    """The value in the form that :func:`key_of` returns; None means null."""


def _constant_of(value: Any, kind: pa.DataType) -> _Constant | None:
    """Convert a Catalyst internal value to a constant, or return None if it is not supported."""
    try:
        if value is None:
            return _Constant(None)
        if pa.types.is_decimal(kind):
            value = Decimal(value.toString())
        elif pa.types.is_string(kind):
            value = bytes(value.getBytes()).decode()
        elif pa.types.is_binary(kind):
            value = bytes(value)
        if not isinstance(value, int | float | str | bytes | Decimal):
            return None
        return _Constant(key_of(value, kind))
    except (*JVM_ERRORS, ArithmeticError, TypeError, ValueError):
        return None


def _resolved(
    expression: CatalystExpression, shared: Mapping[str, CatalystExpression]
) -> CatalystExpression:
    """Replace a reference to a common expression with its definition."""
    while expression.nodeName() == "CommonExpressionRef":
        expression = shared[expression.id().toString()]
    return expression


def _name(expression: CatalystExpression) -> str | None:
    """Return the name of a column or of a struct field ``a.b``; None for other expressions."""
    match expression.nodeName():
        case "AttributeReference":
            return expression.name()
        case "GetStructField":
            parent = _name(expression.child())
            return None if parent is None else f"{parent}.{expression.extractFieldName()}"
    return None


def _is_of(spark_type: CatalystType, kind: pa.DataType) -> bool:
    """Return whether a Catalyst type equals an Arrow type. Strings with a collation never do."""
    try:
        own = from_arrow_type(kind, prefer_timestamp_ntz=True)
    except TypeError:
        return False
    if pa.types.is_timestamp(kind) and kind.unit != "us":
        return False
    return spark_type.simpleString() == own.simpleString()


def _widens(narrow: pa.DataType, wide: pa.DataType) -> bool:
    return bool(
        pa.types.is_signed_integer(narrow)
        and pa.types.is_signed_integer(wide)
        and narrow.bit_width <= wide.bit_width
    )


def _each(items: Items[T]) -> Iterator[T]:
    iterator = items.iterator()
    while iterator.hasNext():
        yield iterator.next()
