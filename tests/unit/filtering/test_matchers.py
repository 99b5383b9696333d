"""``match_bounds`` agrees with a model that checks every value, for all types and statistics."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import splitlib
from splitlib.filtering import matchers
from splitlib.filtering.domains import RangeDomain, Ranges
from splitlib.filtering.predicate import Predicate
from splitlib.model import ColumnStatistics

NAN = math.nan
UTC = dt.UTC

# Some values of each type in ascending order. The smallest and largest values are included.
DOMAINS: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [False, True],
    pa.int32(): [-(2**31), -1, 0, 1, 2, 2**31 - 1],
    pa.int64(): [-(2**63), -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1],
    pa.float32(): [-math.inf, -1.5, 0.0, 0.5, math.inf],
    pa.float64(): [-math.inf, -1.5, 0.0, 5e-324, math.inf],
    pa.decimal128(38, 2): [Decimal("-1e35"), Decimal("-0.01"), Decimal("0.00"), Decimal("1e35")],
    pa.date32(): [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1)],
    pa.timestamp("us"): [
        dt.datetime(1, 1, 1),
        dt.datetime(1969, 12, 31, 23),
        dt.datetime(2024, 1, 1),
    ],
    pa.timestamp("us", "UTC"): [
        dt.datetime(1, 1, 1, tzinfo=UTC),
        dt.datetime(2024, 1, 1, 5, tzinfo=UTC),
        dt.datetime(2024, 1, 2, tzinfo=UTC),
    ],
    pa.string(): ["", "a", "a\x00", "b", "é", "\uffff", "\U0001f600"],
    pa.binary(): [b"", b"\x00", b"a", b"\x7f", b"\x80", b"\xff\xff"],
}
KINDS = st.sampled_from(list(DOMAINS))


def values_of(kind):
    plain = st.sampled_from(DOMAINS[kind])
    extra: list[st.SearchStrategy[Any]] = [st.none()]
    if pa.types.is_floating(kind):
        extra += [st.just(NAN), st.just(-0.0)]
    return st.one_of(plain, *extra)


def is_nan(value):
    return isinstance(value, float) and math.isnan(value)


def statistics_of(files, kind, forget):
    """Return correct statistics of each file's values. Entries marked in ``forget`` are missing."""
    rows = []
    for values, forgotten in zip(files, forget, strict=True):
        plain = [v for v in values if v is not None and not is_nan(v)]
        row = [
            min(plain) if plain else None,
            max(plain) if plain else None,
            None in values,
            any(map(is_nan, values)),
            bool(plain),
        ]
        rows.append([None if gone else known for known, gone in zip(row, forgotten, strict=True)])
    kinds = [kind, kind, pa.bool_(), pa.bool_(), pa.bool_()]
    columns = list(zip(*rows, strict=True)) or [()] * 5
    return ColumnStatistics(*(pa.array(c, k) for c, k in zip(columns, kinds, strict=True)))


def same(one, other):
    return one == other or (is_nan(one) and is_nan(other))


def keys_data(kind, keys):
    return splitlib.DynamicFilteringData.from_arrow(pa.table({"k": pa.array(keys, kind)}))


@st.composite
def one_column(draw):
    kind = draw(KINDS)
    files = draw(st.lists(st.lists(values_of(kind), max_size=4), min_size=1, max_size=8))
    forget = draw(
        st.lists(st.tuples(*[st.booleans()] * 5), min_size=len(files), max_size=len(files))
    )
    return kind, files, forget, draw(st.lists(values_of(kind), max_size=5))


@given(one_column())
@settings(deadline=None)
def test_values_keep_every_file_with_a_key_and_no_other_that_bounds_exclude(case):
    kind, files, forget, keys = case
    predicate = Predicate(pa.schema([("k", kind)]), [keys_data(kind, keys)])
    known = statistics_of(files, kind, forget)
    kept = predicate.match_bounds({"k": known}).to_pylist()
    for row, values in enumerate(files):
        if any(same(key, value) for key in keys for value in values):
            assert kept[row], (values, keys)
        # The model keeps files that the statistics cannot exclude.
        low, high = known.lower[row].as_py(), known.upper[row].as_py()
        open_ = False
        for key in keys:
            if key is None:
                open_ |= known.has_null[row].as_py() is not False
            elif is_nan(key):
                open_ |= known.has_nan[row].as_py() is not False
            else:
                inside = (low is None or low <= key) and (high is None or key <= high)
                open_ |= inside and known.has_value[row].as_py() is not False
        assert kept[row] == open_, (values, keys, low, high)


@given(one_column(), st.data())
@settings(max_examples=80, deadline=None)
def test_ranges(case, data):
    kind, files, forget, _ = case
    if pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return
    ends = st.one_of(st.none(), st.sampled_from(DOMAINS[kind]))
    low, high = data.draw(ends), data.draw(ends)
    schema = pa.schema([("k", kind)])
    typed = (pa.scalar(low, kind), pa.scalar(high, kind))
    bounds = splitlib.DynamicFilteringData.from_range({"k": typed})
    known = statistics_of(files, kind, forget)
    kept = Predicate(schema, [bounds]).match_bounds({"k": known}).to_pylist()
    for row, values in enumerate(files):
        inside = [
            v
            for v in values
            if v is not None and (low is None or low <= v) and (high is None or v <= high)
        ]
        # A range without lower and upper end matches every value, even null.
        if inside or (low is None and high is None):
            assert kept[row]
        lower, upper = known.lower[row].as_py(), known.upper[row].as_py()
        apart = (
            (low is not None and upper is not None and upper < low)
            or (high is not None and lower is not None and lower > high)
            or known.has_value[row].as_py() is False
        )
        if low is not None or high is not None:
            assert kept[row] == (not apart)


@given(st.data(), KINDS, KINDS)
@settings(deadline=None)
def test_tuples_are_no_cross_product(data, one, other):
    kinds = {"a": one, "b": other}
    keys = data.draw(st.lists(st.tuples(values_of(one), values_of(other)), max_size=4))
    rows = st.lists(st.tuples(values_of(one), values_of(other)), min_size=1, max_size=3)
    files = data.draw(st.lists(rows, min_size=1, max_size=6))
    schema = pa.schema(list(kinds.items()))
    columns = {
        name: pa.array([key[i] for key in keys], kind)
        for i, (name, kind) in enumerate(kinds.items())
    }
    filtering = splitlib.DynamicFilteringData.from_arrow(pa.table(columns))
    complete = [(False,) * 5] * len(files)
    known = {
        name: statistics_of([[row[i] for row in file] for file in files], kind, complete)
        for i, (name, kind) in enumerate(kinds.items())
    }
    kept = Predicate(schema, [filtering]).match_bounds(known).to_pylist()
    for file, keep in zip(files, kept, strict=True):
        may_hold = any(
            all(encloses([row[i] for row in file], key[i]) for i in range(2)) for key in keys
        )
        assert keep == may_hold, (file, keys)


def encloses(values, key):
    if key is None:
        return None in values
    if is_nan(key):
        return any(map(is_nan, values))
    plain = [v for v in values if v is not None and not is_nan(v)]
    return bool(plain) and min(plain) <= key <= max(plain)


def test_a_missing_column_is_unknown():
    keys = splitlib.DynamicFilteringData.from_values({"a": [1], "b": [2]})
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    known = {"b": statistics_of([[2], [3]], pa.int64(), [(False,) * 5] * 2)}
    assert Predicate(schema, [keys]).match_bounds(known).to_pylist() == [True, False]


@pytest.mark.parametrize("budget", [0, 1, 10**9])
def test_files_are_kept_once_the_budget_for_tuples_is_spent(monkeypatch, budget):
    monkeypatch.setattr(matchers, "TUPLE_BUDGET", (budget, 0, 0))
    keys = splitlib.DynamicFilteringData.from_values({"a": [1, 2, 3], "b": [1, 2, 3]})
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    complete = [(False,) * 5] * 4
    known = {
        "a": statistics_of([[1], [1], [9], [1]], pa.int64(), complete),
        "b": statistics_of([[2], [3], [1], [9]], pa.int64(), complete),
    }
    kept = Predicate(schema, [keys]).match_bounds(known).to_pylist()
    # Comparing each column alone needs no budget. It drops the last files, with a = 9 and b = 9.
    # For each of the others, one tuple is compared: the only one with a = 1.
    some = {0: [True, True, False, False], 1: [False, True, False, False]}
    assert kept == some.get(budget, [False] * 4)


def test_a_nan_is_no_bound():
    nan, kind = [NAN, NAN], pa.float64()
    known = ColumnStatistics(pa.array(nan), pa.array([1.0, NAN]), *[pa.nulls(2, pa.bool_())] * 3)
    schema = pa.schema([("k", kind)])
    kept = [
        Predicate(schema, [keys_data(kind, keys)]).match_bounds({"k": known}).to_pylist()
        for keys in ([0.5], [2.0], nan)
    ]
    assert kept == [[True, True], [False, True], [True, True]]


@pytest.mark.parametrize("includes_null", [False, True])
def test_a_range_with_null_keeps_files_that_may_have_null(includes_null):
    field, flags = pa.field("k", pa.int64()), [False, True, None]
    domain = RangeDomain(field, Ranges.between(pa.scalar(1), pa.scalar(9)), includes_null)
    schema = pa.schema([field])
    keys = splitlib.DynamicFilteringData(schema, [domain], exceeds_threshold=False)
    far, near = ([value] * 3 for value in (50, 5))
    for bounds, expected in ((far, [False, includes_null, includes_null]), (near, [True] * 3)):
        ends = pa.array(bounds, pa.int64())
        no, has_null = pa.array([False] * 3), pa.array(flags, pa.bool_())
        known = ColumnStatistics(ends, ends, has_null, no, pa.array([True] * 3))
        assert Predicate(schema, [keys]).match_bounds({"k": known}).to_pylist() == expected


def test_gaps_between_keys_are_seen():
    keys = splitlib.DynamicFilteringData.from_values({"k": list(range(0, 1000, 10))})
    files = [[i, i + 3] for i in range(0, 1000)]
    known = {"k": statistics_of(files, pa.int64(), [(False,) * 5] * len(files))}
    kept = Predicate(pa.schema([("k", pa.int64())]), [keys]).match_bounds(known).to_pylist()
    assert kept == [any(v % 10 == 0 and v <= 990 for v in range(i, i + 4)) for i, _ in files]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize("make", ["values", "range"])
def test_instants_are_compared_whatever_their_zones(zone, make):
    """Timestamps with different zones are compared as instants.

    The table's column has the session's time zone, and the statistics are in UTC.
    """
    moment = dt.datetime(2024, 1, 1, 5, tzinfo=UTC)
    schema = pa.schema([("k", pa.timestamp("us", zone))])
    keys = pa.array([moment], pa.timestamp("us", "Asia/Tokyo"))
    if make == "values":
        data = splitlib.DynamicFilteringData.from_arrow(pa.table({"k": keys}))
    else:
        data = splitlib.DynamicFilteringData.from_range({"k": (keys[0], keys[0])})
    files = [[moment], [moment + dt.timedelta(hours=1)]]
    known = statistics_of(files, pa.timestamp("us", "UTC"), [(False,) * 5] * 2)
    predicate = Predicate(schema, [data])
    assert predicate.match_bounds({"k": known}).to_pylist() == [True, False]
    values = pa.record_batch({"k": known.lower})
    assert predicate.match(values).to_pylist() == [True, False]


@pytest.mark.parametrize(("zone", "is_exact"), [("UTC", True), ("Z", True), ("Asia/Tokyo", False)])
def test_instants_are_local_times_in_utc_only(zone, is_exact):
    """In other zones, two instants may have the same local time, so no partition is dropped."""
    keys = pa.array([dt.datetime(2024, 1, 1, 5, tzinfo=UTC)], pa.timestamp("us", zone))
    data = splitlib.DynamicFilteringData.from_arrow(pa.table({"k": keys}))
    predicate = Predicate(pa.schema([("k", pa.timestamp("us"))]), [data])
    values = [dt.datetime(2024, 1, 1, hour) for hour in (5, 14, 15)]
    found = predicate.match(pa.record_batch({"k": pa.array(values, pa.timestamp("us"))}))
    assert found.to_pylist() == ([True, False, False] if is_exact else [True] * 3)


@pytest.mark.parametrize("unit", ["us", "ms"])
def test_bounds_of_another_type_drop_no_file(unit):
    """Bounds in milliseconds may have been cut off, so they are not compared."""
    moment = dt.datetime(2024, 1, 1)
    predicate = Predicate(
        pa.schema([("k", pa.timestamp("us"))]), [keys_data(pa.timestamp("us"), [moment])]
    )
    files = [[moment], [moment + dt.timedelta(hours=1)]]
    known = statistics_of(files, pa.timestamp(unit), [(False,) * 5] * 2)
    assert predicate.match_bounds({"k": known}).to_pylist() == [True, unit == "ms"]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pa.int64(), pa.timestamp("us")),
        (pa.float64(), pa.timestamp("us")),
        (pa.bool_(), pa.timestamp("us", "UTC")),
        (pa.date32(), pa.string()),
        (pa.date32(), pa.int32()),
    ],
    ids=str,
)
def test_types_that_cannot_be_compared_drop_nothing(source, target):
    predicate = Predicate(pa.schema([("k", target)]), [keys_data(source, [DOMAINS[source][0]])])
    values = pa.record_batch({"k": pa.array([DOMAINS[target][1]], target)})
    assert predicate.match(values).to_pylist() == [True]


@pytest.mark.parametrize(
    ("kind", "scale"), [(pa.int8(), 35), (pa.int16(), 33), (pa.int32(), 28), (pa.int64(), 18)]
)
def test_decimals_that_spark_compares_with_integers_without_losing_digits(kind, scale):
    """Spark's decimals have 38 digits. With more places, it may round before it compares."""
    for places, expected in ((scale, [True, False]), (scale + 1, [True, True])):
        decimal = pa.decimal128(38, places)
        for source, target in ((kind, decimal), (decimal, kind)):
            predicate = Predicate(pa.schema([("k", target)]), [keys_data(source, [Decimal(1)])])
            values = pa.record_batch({"k": pa.array([Decimal(1), Decimal(2)]).cast(target)})
            assert predicate.match(values).to_pylist() == expected


def test_a_day_without_midnight_begins_at_one():
    """In this zone, the clocks were set forward at midnight."""
    schema = pa.schema([("d", pa.date32())])
    values = pa.record_batch({"d": ["2018-11-03", "2018-11-04", "2018-11-05"]})
    for hour, expected in (("01", [False, True, False]), ("02", [False] * 3)):
        local = pa.array([f"2018-11-04 {hour}:00:00"]).cast(pa.timestamp("us"))
        times = pc.assume_timezone(local, "America/Sao_Paulo")
        data = splitlib.DynamicFilteringData.from_arrow(pa.table({"d": times}))
        assert Predicate(schema, [data]).match(values).to_pylist() == expected


def test_a_day_with_two_midnights_is_found_by_the_first():
    """In this zone, the clocks were set back at one."""
    midnight = pa.array(["2019-11-03 00:00:00"]).cast(pa.timestamp("us"))
    times = pc.assume_timezone(midnight, "America/Havana", ambiguous="earliest")
    data = splitlib.DynamicFilteringData.from_arrow(pa.table({"d": times}))
    values = pa.record_batch({"d": ["2019-11-02", "2019-11-03", "2019-11-04"]})
    found = Predicate(pa.schema([("d", pa.date32())]), [data]).match(values)
    assert found.to_pylist() == [False, True, False]


@pytest.mark.parametrize(
    ("zone", "day", "skipped"),
    [
        ("Pacific/Apia", "2011-12-31", "2011-12-30"),
        ("Pacific/Kiritimati", "1995-01-01", "1994-12-31"),
    ],
)
def test_a_time_that_begins_two_days(zone, day, skipped):
    """Spark converts both dates to the same time, because the zone skipped the earlier one."""
    texts = pa.array([f"{day} 00:00:00"]).cast(pa.timestamp("us"))
    keys = pc.assume_timezone(texts, zone)
    data = splitlib.DynamicFilteringData.from_arrow(pa.table({"d": keys}))
    predicate = Predicate(pa.schema([("d", pa.date32())]), [data])
    values = pa.record_batch({"d": [day, skipped]})
    assert predicate.match(values).to_pylist() == [True, True]
