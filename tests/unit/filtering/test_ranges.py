"""Ranges cover all values, leave out the widest gaps, and intersect correctly."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise
from operator import ge, gt, le, lt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitlib.filtering.domains import BRACKETS, Ranges

_TYPES = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "date": (pa.date32(), st.dates()),
    "decimal": (pa.decimal128(38, 2), st.decimals(-(10**30), 10**30, places=2)),
    "string": (pa.string(), st.text(max_size=5)),
    "binary": (pa.binary(), st.binary(max_size=3)),
    "timestamp": (pa.timestamp("us"), st.datetimes()),
    "few": (pa.int32(), st.integers(0, 8)),
}
OPEN = None


def pairs(ranges):
    return [(low.as_py(), high.as_py()) for low, high in ranges]


def key_of(value):
    return value.encode() if isinstance(value, str) else value


def is_in(value, interval, brackets):
    """Return whether a value lies in an interval with the given brackets."""
    low, high = interval
    after, before = ge if brackets[0] == "[" else gt, le if brackets[1] == "]" else lt
    value = key_of(value)
    return (low is OPEN or after(value, key_of(low))) and (
        high is OPEN or before(value, key_of(high))
    )


@pytest.mark.parametrize("name", _TYPES)
@given(data=st.data())
def test_every_value_is_in_one_range(name, data):
    kind, strategy = _TYPES[name]
    drawn = data.draw(st.sets(strategy, min_size=1, max_size=30))
    values = sorted(drawn, key=key_of)
    most = data.draw(st.integers(1, 8))
    found = pairs(Ranges.covering(pa.array(values, kind), most))
    assert 1 <= len(found) <= most
    flat = [end for ends in found for end in ends]
    assert flat == sorted(flat, key=key_of)
    assert all(a < b for (_, a), (b, _) in pairwise(found))
    places = {value: i for i, value in enumerate(values)}
    covered = [i for a, b in found for i in range(places[a], places[b] + 1)]
    assert covered == list(range(len(values)))


@pytest.mark.parametrize("brackets", BRACKETS)
@pytest.mark.parametrize("name", _TYPES)
@given(data=st.data())
def test_merged_intervals_hold_what_one_of_them_holds(name, brackets, data):
    kind, strategy = _TYPES[name]
    # The ends are chosen from few values, so that many intervals touch.
    ends = st.sampled_from(data.draw(st.lists(strategy, min_size=2, max_size=8)))
    intervals = data.draw(st.lists(st.tuples(ends, ends), min_size=1, max_size=8))
    lower, upper = (pa.array(column, kind) for column in zip(*intervals, strict=True))
    merged = Ranges.merged(lower, upper, brackets)
    values = [*{end for interval in intervals for end in interval}, data.draw(strategy)]
    expected = [any(is_in(v, interval, brackets) for interval in intervals) for v in values]
    if merged is None:
        assert not any(expected)
        return
    assert merged.are_in_order
    assert merged.contain(pa.array(values, kind)).to_pylist() == expected
    few = merged.at_most(data.draw(st.integers(1, 4)))
    covered = few.contain(pa.array(values, kind)).to_pylist()
    assert all(now or not before for before, now in zip(expected, covered, strict=True))


@pytest.mark.parametrize("brackets", BRACKETS)
@given(data=st.data())
def test_bounds_meet_what_is_in_a_range(brackets, data):
    ints = st.integers(0, 12)
    intervals = data.draw(st.lists(st.tuples(ints, ints), min_size=1, max_size=4))
    lower, upper = (pa.array(column, pa.int32()) for column in zip(*intervals, strict=True))
    merged = Ranges.merged(lower, upper, brackets)
    if merged is None:
        return
    opened = data.draw(st.tuples(st.booleans(), st.booleans()))
    begins, ends = merged.lower.to_pylist(), merged.upper.to_pylist()
    begins[0] = OPEN if opened[0] else begins[0]
    ends[-1] = OPEN if opened[1] else ends[-1]
    ranges = Ranges(pa.array(begins, pa.int32()), pa.array(ends, pa.int32()), brackets)
    bounds = data.draw(st.lists(st.tuples(st.none() | ints, st.none() | ints), min_size=1))
    bounds = [pair for pair in bounds if None in pair or pair[0] <= pair[1]]
    low, high = (pa.array([pair[i] for pair in bounds], pa.int32()) for i in (0, 1))
    for pair, met in zip(bounds, ranges.meet(low, high).to_pylist(), strict=True):
        # Values between whole numbers are needed to test exclusive ends.
        inside = [x / 2 for x in range(-2, 28)]
        inside = [x for x in inside if is_in(x, pair, "[]")]
        assert met or not any(is_in(x, r, brackets) for x in inside for r in pairs(ranges))
        if None not in pair:
            assert met == any(is_in(x, r, brackets) for x in inside for r in pairs(ranges))


def test_bounds_of_another_type_meet_all_between_the_first_and_the_last():
    ranges = Ranges(pa.array([1, 9], pa.int32()), pa.array([2, 10], pa.int32()))
    values = pa.array([0, 5, 11], pa.int64())
    assert ranges.meet(values, values).to_pylist() == [False, True, False]
    assert ranges.meet(values.cast(pa.int32()), values.cast(pa.int32())).to_pylist() == [False] * 3


def test_the_widest_gaps_are_left_out():
    values = pa.array([1, 2, 3, 10, 11, 100, 1000], pa.int32())
    assert pairs(Ranges.covering(values, 3)) == [(1, 11), (100, 100), (1000, 1000)]


@pytest.mark.parametrize("start", ["", "the same first letters "])
@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ("az b ca kz l x", [("az", "ca"), ("kz", "l"), ("x", "x")]),
        (" a b k l x", [("", ""), ("a", "l"), ("x", "x")]),  # all texts start with the first
    ],
)
def test_the_widest_gaps_between_texts_are_left_out(start, ends, expected):
    """The letters that all texts start with do not hide their gaps."""
    texts = [start + end for end in ends.split(" ")]
    found = pairs(Ranges.covering(pa.array(texts), 3))
    assert found == [(start + low, start + high) for low, high in expected]


def test_values_without_gaps_are_merged_in_groups():
    values = pa.array([b"aa", b"bb", b"cc", b"dd", b"ee", b"zz"], pa.binary(2))
    ranges = Ranges(values, values)
    assert pairs(ranges.at_most(3)) == [(b"aa", b"bb"), (b"cc", b"dd"), (b"ee", b"zz")]
    assert pairs(ranges.at_most(1)) == [(b"aa", b"zz")]
    assert pairs(ranges.at_most(6)) == pairs(ranges)


def test_days_in_a_row_are_one_range():
    days = [date(2024, 1, 1) + timedelta(i) for i in range(30)]
    others = [date(2024, 6, 1) + timedelta(i) for i in range(5)]
    found = pairs(Ranges.covering(pa.array(days + others), 20))
    assert found == [(days[0], days[-1]), (others[0], others[-1])]


def test_other_numbers_next_to_each_other_are_not():
    values = pa.array([Decimal("1.00"), Decimal("2.00"), Decimal("9.00")])
    assert len(Ranges.covering(values, 9)) == 3


@pytest.mark.parametrize(
    ("lower", "upper", "brackets"),
    [
        ([], [], "[]"),
        ([1, 5], [6, 9], "[]"),
        ([5, 1], [6, 2], "[]"),
        ([1, None], [2, 9], "[]"),
        ([1, 5], [None, 9], "[]"),
        ([3, 5], [2, 9], "[]"),
        ([1], [2], "]["),
    ],
)
def test_what_others_say_is_no_ranges(lower, upper, brackets):
    ints = pa.int32()
    assert not Ranges(pa.array(lower, ints), pa.array(upper, ints), brackets).are_in_order


def test_described():
    one = Ranges.between(pa.scalar(1), pa.scalar(None, pa.int64()))
    assert one.describe() == "[1, None]"
    merged = Ranges.merged(pa.array([1, 7]), pa.array([3, 9]), "[)")
    assert merged is not None
    assert merged.describe() == "2 ranges in [1, 9)"
