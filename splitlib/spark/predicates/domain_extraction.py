"""What a condition says of single columns, read from its expression in Catalyst."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type

from splitlib.filtering.data import DynamicFilteringData
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.predicates.value_domains import domain_of, is_exact, key_of
from splitlib.spark.predicates.value_sets import UNKNOWN, Truth, always, among, compared, is_null

# By the name of Catalyst's class: the comparison, and the one with the sides exchanged.
_COMPARISONS: Final = {
    "EqualTo": ("=", "="),
    "EqualNullSafe": ("<=>", "<=>"),
    "LessThan": ("<", ">"),
    "LessThanOrEqual": ("<=", ">="),
    "GreaterThan": (">", "<"),
    "GreaterThanOrEqual": (">=", "<="),
}


class Known(NamedTuple):
    """What must hold of columns where a condition is true."""

    data: DynamicFilteringData
    is_exact: bool
    """Whether that is all that the condition says."""


def values_of(condition: Any, columns: pa.Schema) -> DynamicFilteringData | None:
    """What must hold of columns where ``condition`` is true; None if nothing is known.

    It may say less than the condition.

    Args:
        condition: A resolved expression of Catalyst.
        columns: With the table's types, ``a.b`` for a field of a struct.
    """
    known = known_of(condition, columns)
    return known and known.data


def known_of(condition: Any, columns: pa.Schema) -> Known | None:
    """As :func:`values_of`, and whether it is all."""
    reader = _Reader(columns)
    region = reader.truth_of(condition).true
    if region is None:
        return Known(_nothing(columns), True) if len(columns) else None
    fields = {name: reader.fields[name] for name in columns.names if name in region}
    domains = {name: domain_of(region[name], field) for name, field in fields.items()}
    known = {name: domain for name, domain in domains.items() if domain is not None}
    if not known:
        return None
    schema = pa.schema([fields[name].remove_metadata() for name in known])
    exact = len(region) == 1 and not reader.missed
    return Known(
        DynamicFilteringData(schema, known.values(), exceeds_threshold=False),
        exact and all(is_exact(region[name], domain) for name, domain in domains.items()),
    )


def _nothing(columns: pa.Schema) -> DynamicFilteringData:
    return DynamicFilteringData.from_arrow(columns.empty_table(), columns.names[:1])


class _Reader:
    """Reads one expression.

    Catalyst's analyzer has made both sides of a comparison one type. So a column stands there as
    itself or under a cast; of casts only those between whole numbers lose nothing, and keep the
    order, for certain.
    """

    def __init__(self, columns: pa.Schema) -> None:
        lower = Counter(name.lower() for name in columns.names)
        # of names that differ in case only, what prunes does not know one from another
        self._columns = {f.name: f for f in columns if lower[f.name.lower()] == 1}
        self.fields: dict[str, pa.Field] = {}
        """The columns read, in the types in which they are compared."""
        self.missed = False
        """Whether something was not understood."""

    def truth_of(self, condition: Any, shared: Mapping[str, Any] | None = None) -> Truth:
        """Where a condition is true.

        Args:
            condition: An expression of type boolean.
            shared: What its common expressions stand for.
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

    def _of_column(self, condition: Any, shared: Mapping[str, Any]) -> Truth | None:
        """Of a condition on one column; None if it is none."""
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

    def _compared(self, condition: Any, shared: Mapping[str, Any]) -> Truth | None:
        left, right = condition.left(), condition.right()
        comparison, mirrored = _COMPARISONS[condition.nodeName()]
        field = self._column(left, shared)
        if field is None:
            field, right, comparison = self._column(right, shared), left, mirrored
        if field is None:
            return None
        value = self._constant(right, field.type, shared)
        return value and compared(field.name, comparison, value.value)

    def _in_list(self, condition: Any, shared: Mapping[str, Any]) -> Truth | None:
        is_set = condition.nodeName() == "InSet"  # the optimizer makes it of many constants
        field = self._column(condition.child() if is_set else condition.value(), shared)
        if field is None:
            return None
        if is_set:
            keys = [_constant_of(value, field.type) for value in _each(condition.hset())]
        else:
            keys = [self._constant(item, field.type, shared) for item in _each(condition.list())]
        values = [key.value for key in keys if key is not None]
        return among(field.name, values) if len(values) == len(keys) else None

    def _column(self, expression: Any, shared: Mapping[str, Any]) -> pa.Field | None:
        """The column that an expression is, in the type in which it is compared."""
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
        # in several types, ranges are of the widest
        known = self.fields.get(field.name)
        if known is None or (known.type != field.type and not _widens(field.type, known.type)):
            self.fields[field.name] = field
        return field

    def _constant(
        self, expression: Any, kind: pa.DataType, shared: Mapping[str, Any]
    ) -> _Constant | None:
        """The value of an expression without columns, if it is of this very type; else None."""
        expression = _resolved(expression, shared)
        try:
            if not expression.foldable() or not _is_of(expression.dataType(), kind):
                return None
            return _constant_of(expression.eval(None), kind)
        except JVM_ERRORS:
            return None  # it raises for every row, or is evaluated in another way


_INTEGERS: Final = {"smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()}


class _Constant(NamedTuple):
    value: Any
    """As it stands in a set; None = null."""


def _constant_of(value: Any, kind: pa.DataType) -> _Constant | None:
    """From Catalyst's own representation."""
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


def _resolved(expression: Any, shared: Mapping[str, Any]) -> Any:
    """What a common expression stands for."""
    while expression.nodeName() == "CommonExpressionRef":
        expression = shared[expression.id().toString()]
    return expression


def _name(expression: Any) -> str | None:
    """Of a column, or of a field of a struct."""
    match expression.nodeName():
        case "AttributeReference":
            return str(expression.name())
        case "GetStructField":
            parent = _name(expression.child())
            return None if parent is None else f"{parent}.{expression.extractFieldName()}"
    return None


def _is_of(spark_type: Any, kind: pa.DataType) -> bool:
    """Whether a type of Catalyst's is that of Arrow's; a string with a collation is not."""
    try:
        own = from_arrow_type(kind, prefer_timestamp_ntz=True)
    except TypeError:
        return False
    if pa.types.is_timestamp(kind) and kind.unit != "us":
        return False
    return bool(spark_type.simpleString() == own.simpleString())


def _widens(narrow: pa.DataType, wide: pa.DataType) -> bool:
    return bool(
        pa.types.is_signed_integer(narrow)
        and pa.types.is_signed_integer(wide)
        and narrow.bit_width <= wide.bit_width
    )


def _each(items: Any) -> Iterator[Any]:
    iterator = items.iterator()
    while iterator.hasNext():
        yield iterator.next()
