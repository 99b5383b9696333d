"""Ranges cover all values, are few, and leave out the widest gaps."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitlib.filtering.ranges import covering_ranges

_TYPES = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "date": (pa.date32(), st.dates()),
    "decimal": (pa.decimal128(38, 2), st.decimals(-(10**30), 10**30, places=2)),
    "string": (pa.string(), st.text(max_size=5)),
    "binary": (pa.binary(), st.binary(max_size=3)),
    "timestamp": (pa.timestamp("us"), st.datetimes()),
}


@pytest.mark.parametrize("name", _TYPES)
@given(data=st.data())
def test_every_value_is_in_one_range(name, data):
    kind, strategy = _TYPES[name]
    drawn = data.draw(st.sets(strategy, min_size=1, max_size=30))
    key = (lambda text: text.encode()) if kind == pa.string() else None
    values = sorted(drawn, key=key)
    most = data.draw(st.integers(1, 8))
    found = [(a.as_py(), b.as_py()) for a, b in covering_ranges(pa.array(values, kind), most)]
    assert 1 <= len(found) <= most
    flat = [end for ends in found for end in ends]
    assert flat == sorted(flat, key=key)
    assert all(a < b for (_, a), (b, _) in pairwise(found))
    places = {value: i for i, value in enumerate(values)}
    covered = [i for a, b in found for i in range(places[a], places[b] + 1)]
    assert covered == list(range(len(values)))


def test_the_widest_gaps_are_left_out():
    values = pa.array([1, 2, 3, 10, 11, 100, 1000], pa.int32())
    found = [(a.as_py(), b.as_py()) for a, b in covering_ranges(values, 3)]
    assert found == [(1, 11), (100, 100), (1000, 1000)]


def test_days_in_a_row_are_one_range():
    days = [date(2024, 1, 1) + timedelta(i) for i in range(30)]
    others = [date(2024, 6, 1) + timedelta(i) for i in range(5)]
    found = covering_ranges(pa.array(days + others), 20)
    assert [(a.as_py(), b.as_py()) for a, b in found] == [
        (days[0], days[-1]),
        (others[0], others[-1]),
    ]


def test_other_numbers_next_to_each_other_are_not():
    values = pa.array([Decimal("1.00"), Decimal("2.00"), Decimal("9.00")])
    assert len(covering_ranges(values, 9)) == 3
