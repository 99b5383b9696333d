"""Value sets of a condition contain the values of all rows for which it is true (or false)."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitlib.filtering.domains import RangeDomain, ValueDomain
from splitlib.spark.predicates.domains import domain_of, is_exact, key_of
from splitlib.spark.predicates.value_sets import (
    UNKNOWN,
    Truth,
    ValueSet,
    after,
    always,
    among,
    before,
    compared,
    is_null,
)

# Conditions on the columns a and b. "?" stands for a condition that value sets do not support. The
# row contains its result.
values = st.integers(0, 5) | st.none()
column = st.sampled_from(["a", "b"])
leaves = st.one_of(
    st.tuples(column, st.sampled_from(["=", "<=>", "<", "<=", ">", ">="]), values),
    st.tuples(column, st.just("in"), st.lists(values, max_size=3)),
    st.tuples(column, st.just("null"), st.none()),
    st.tuples(st.sampled_from([True, False, None]), st.just("always"), st.none()),
    st.just(("?", "?", None)),
)
conditions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.just("and"), inner, inner),
        st.tuples(st.just("or"), inner, inner),
        st.tuples(st.just("not"), inner, st.none()),
    ),
    max_leaves=8,
)
rows = st.fixed_dictionaries({"a": values, "b": values, "?": st.sampled_from([True, False, None])})


def truth_of(condition: Any) -> Truth:
    match condition:
        case ("and", left, right):
            return truth_of(left) & truth_of(right)
        case ("or", left, right):
            return truth_of(left) | truth_of(right)
        case ("not", inner, None):
            return ~truth_of(inner)
        case (name, "in", listed):
            return among(name, listed)
        case (name, "null", None):
            return is_null(name)
        case (value, "always", None):
            return always(value)
        case ("?", "?", None):
            return UNKNOWN
        case (name, comparison, value):
            return compared(name, comparison, value)
    raise AssertionError(condition)


def evaluated(condition: Any, row: Any) -> bool | None:
    """Evaluate a condition for a row by the rules of SQL. None means null."""
    match condition:
        case ("and", left, right):
            both = {evaluated(left, row), evaluated(right, row)}
            return False if False in both else None if None in both else True
        case ("or", left, right):
            both = {evaluated(left, row), evaluated(right, row)}
            return True if True in both else None if None in both else False
        case ("not", inner, None):
            value = evaluated(inner, row)
            return None if value is None else not value
        case (name, "in", listed):
            if row[name] is None:
                return None if listed else False
            return True if row[name] in listed else None if None in listed else False
        case (name, "null", None):
            return row[name] is None
        case (value, "always", None):
            return None if value is None else bool(value)
        case ("?", "?", None):
            return None if row["?"] is None else bool(row["?"])
        case (name, "<=>", value):
            return bool(row[name] == value)
    name, comparison, value = condition
    own = row[name]
    if own is None or value is None:
        return None
    found: dict[str, bool] = {
        "=": own == value,
        "<": own < value,
        "<=": own <= value,
        ">": own > value,
        ">=": own >= value,
    }
    return found[comparison]


def has(values_: ValueSet, value: Any) -> bool:
    if value is None:
        return values_.null
    return any(low <= before(value) and after(value) <= high for low, high in values_.intervals)


@given(conditions, rows)
def test_no_row_is_left_out(condition, row) -> None:
    truth = truth_of(condition)
    for region, wanted in ((truth.true, True), (truth.false, False)):
        if evaluated(condition, row) is wanted:
            assert region is not None
            assert all(has(found, row[name]) for name, found in region.items())


@given(conditions.filter(lambda c: "?" not in str(c) and "'b'" not in str(c)), values)
def test_of_one_column_nothing_else_is_left(condition, value) -> None:
    region = truth_of(condition).true
    row = {"a": value, "b": None, "?": None}
    kept = region is not None and all(has(found, row[name]) for name, found in region.items())
    assert kept == (evaluated(condition, row) is True)


KINDS = [
    (pa.int8(), [-128, -1, 0, 1, 127]),
    (pa.bool_(), [False, True]),
    (pa.date32(), [dt.date(1, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]),
    (pa.timestamp("us"), [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 0, 1)]),
    (pa.decimal128(38, 2), [Decimal("-1e35"), Decimal("0.01"), Decimal("0.02"), Decimal("9e35")]),
    (pa.string(), ["", "a", "a\0", "ab", "ß", "\U0001f600"]),
    (pa.binary(), [b"", b"\0", b"\xff"]),
    (pa.float64(), [-math.inf, -0.0, 0.0, 1.5, math.inf, math.nan]),
]


def number_of(value: Any, kind: pa.DataType) -> Any:
    """Return the value of a literal in the form that Catalyst stores."""
    if pa.types.is_date(kind):
        return (value - dt.date(1970, 1, 1)).days
    if pa.types.is_timestamp(kind):
        return (value - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    return value


@given(st.data())
def test_domains_keep_every_value(data) -> None:
    kind, known = data.draw(st.sampled_from(KINDS))
    comparison = st.tuples(st.sampled_from(["=", "<", "<=", ">", ">="]), st.sampled_from(known))
    drawn = data.draw(st.lists(comparison, min_size=1, max_size=3))
    negated = data.draw(st.booleans())
    keyed = [(c, key_of(number_of(value, kind), kind)) for c, value in drawn]
    truth = always(False)
    for sign, key in keyed:
        truth = truth | compared("a", sign, key)
    region = (~truth if negated else truth).true
    if region is None:
        return
    field = pa.field("a", kind)
    domain = domain_of(region["a"], field)
    for value in known:
        key = key_of(number_of(value, kind), kind)
        wanted = has(region["a"], key)
        scalar = pa.scalar(value, kind)
        if isinstance(domain, ValueDomain):
            found = [key_of(number_of(v, kind), kind) for v in domain.rows["a"].to_pylist()]
            assert wanted == (key in found)
        elif isinstance(domain, RangeDomain):
            kept = domain.contains({"a": scalar})
            assert kept or not wanted
            if is_exact(region["a"], domain):
                assert kept == wanted
        assert not (pa.types.is_floating(kind) and isinstance(domain, RangeDomain))


@pytest.mark.parametrize(
    ("kind", "text", "next_text"), [(pa.string(), "a", "a\0"), (pa.binary(), b"", b"\0")]
)
def test_nothing_lies_between_a_text_and_the_next(kind, text, next_text) -> None:
    for sign, found in (("<", []), ("<=", [next_text])):
        region = (compared("a", ">", text) & compared("a", sign, next_text)).true
        assert region is not None
        domain = domain_of(region["a"], pa.field("a", kind))
        assert isinstance(domain, ValueDomain)
        assert domain.rows["a"].to_pylist() == found


def test_several_intervals_are_several_ranges() -> None:
    def ranges(kind, *signed):
        truth = always(False)
        for sign, value in signed:
            truth = truth | compared("a", sign, value)
        assert truth.true is not None
        domain = domain_of(truth.true["a"], pa.field("a", kind))
        assert isinstance(domain, RangeDomain)
        found = [(low.as_py(), high.as_py()) for low, high in domain.ranges]
        return found, is_exact(truth.true["a"], domain)

    ints = pa.int32(), ("<", 3), ("=", 5), (">=", 7)
    assert ranges(*ints) == ([(None, 2), (5, 5), (7, None)], True)
    texts = pa.string(), ("<", "b"), (">", "b")
    assert ranges(*texts) == ([(None, "b"), ("b\0", None)], False)
    # No int8 is greater than 127. A range cannot express that, so it includes all values.
    assert ranges(pa.int8(), ("<", 3), (">", 127)) == ([(None, None)], False)


def test_open_ends_are_values_of_their_own() -> None:
    def ends(kind, *signed):
        truth = always(True)
        for sign, value in signed:
            truth = truth & compared("a", sign, key_of(number_of(value, kind), kind))
        assert truth.true is not None
        domain = domain_of(truth.true["a"], pa.field("a", kind))
        assert isinstance(domain, RangeDomain)
        ((lower, upper),) = domain.ranges
        return lower.as_py(), upper.as_py()

    days = pa.date32(), (">", dt.date(2024, 2, 28)), ("<", dt.date(2024, 3, 3))
    assert ends(*days) == (dt.date(2024, 2, 29), dt.date(2024, 3, 2))
    assert ends(pa.int32(), (">", 2**31 - 1)) == (None, None)
    assert ends(pa.string(), (">", "a"), ("<", "c")) == ("a\0", "c")
    small = pa.decimal128(5, 2), (">", Decimal("1.00")), ("<", Decimal("2.00"))
    assert ends(*small) == (Decimal("1.01"), Decimal("1.99"))
