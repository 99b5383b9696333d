"""Filters: the values that they contain, and their form as bytes."""

from __future__ import annotations

import datetime as dt
import pickle
import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitlib import DynamicFilteringData, DynamicFilteringDataCollector, InvalidFilter
from splitlib.filtering.domains import BRACKETS, RangeDomain, Ranges, ValueDomain
from splitlib.filtering.predicate import Predicate

INTS = pa.schema([("d", pa.int64())])

from_values = DynamicFilteringData.from_values


def test_tuples_are_no_cross_product():
    data = from_values({"d": [1, 2, 2], "store": [7, 8, 8]})
    assert data.num_values == 2
    assert data.contains({"d": 1, "store": 7})
    assert not data.contains({"d": 1, "store": 8})


@pytest.mark.parametrize("name", [".k", ".", "[0]", "a.b"])
def test_names_that_arrow_takes_for_paths(name):
    """Keys are distinct and sorted, whatever the name of their column."""
    keys = DynamicFilteringData.from_arrow(pa.table({name: [3, 1, 3, 2]}))
    (domain,) = keys.domains
    assert isinstance(domain, ValueDomain)
    assert domain.rows.to_pydict() == {name: [1, 2, 3]}


@pytest.mark.skipif(not hasattr(pa, "decimal32"), reason="needs pyarrow 19")
def test_decimals_of_32_and_64_bits():
    """DuckDB can export such columns."""
    values = [Decimal("1.25"), Decimal("-3.50"), None]
    for kind in (pa.decimal32(5, 2), pa.decimal64(15, 2)):
        data = DynamicFilteringData.from_arrow(pa.table({"d": pa.array(values, kind)}))
        assert data.schema.field("d").type == pa.decimal128(kind.precision, 2)
        assert data.contains({"d": Decimal("1.25")})
        assert DynamicFilteringData.from_bytes(data.to_bytes()) == data
        collector = DynamicFilteringDataCollector(pa.schema([("d", kind)]), threshold_bytes=1)
        collector.add(pa.table({"d": pa.array(values, kind)}))
        assert collector.finish().contains({"d": Decimal("0.00")})


def test_null_equals_null():
    data = from_values({"d": [1, None]})
    assert data.contains({"d": None})
    assert not data.without_nulls().contains({"d": None})


@pytest.mark.parametrize("row", [{}, {"d": 1, "x": 2}, {"x": 1}, {"d": "text"}])
def test_contains_refuses_other_fields_and_types(row):
    with pytest.raises(InvalidFilter):
        from_values({"d": [1]}).contains(row)


def test_empty_contains_nothing_and_the_marker_everything():
    empty = DynamicFilteringData.from_arrow(INTS.empty_table())
    marker = DynamicFilteringData.exceeded(INTS)
    assert empty.is_empty
    assert not empty.contains({"d": 1})
    assert marker.exceeds_threshold
    assert marker.contains({"d": 1})
    assert marker.contains({"d": None})


def test_range_is_inclusive_and_open_at_none():
    data = DynamicFilteringData.from_range({"d": (10, 20)})
    assert [data.contains({"d": d}) for d in (9, 10, 20, 21, None)] == [False, True, True] + [
        False
    ] * 2
    assert DynamicFilteringData.from_range({"d": (10, None)}).contains({"d": 10**9})
    assert DynamicFilteringData.from_range({"d": (None, None)}).contains({"d": None})
    for value in (1, "x", 1.5):
        assert DynamicFilteringData.from_range({"d": (None, None)}).contains({"d": value})


def test_a_range_of_floats_is_refused():
    with pytest.raises(InvalidFilter, match="does not support ranges"):
        DynamicFilteringData.from_range({"d": (1.0, 2.0)})


def test_names_that_arrow_reads_as_paths():
    data = from_values({".x": [2, 1, 2], "x": [7, 7, 7], "[0]": ["a", "b", "a"]})
    (domain,) = data.domains
    assert isinstance(domain, ValueDomain)
    assert domain.rows.to_pylist() == [
        {".x": 1, "x": 7, "[0]": "b"},
        {".x": 2, "x": 7, "[0]": "a"},
    ]
    assert data.contains({".x": 1, "x": 7, "[0]": "b"})
    assert not data.contains({".x": 7, "x": 7, "[0]": "b"})


def test_nan_equals_nan_and_minus_zero_zero():
    data = from_values({"d": [float("nan"), 0.0, -0.0]})
    assert data.num_values == 2
    assert data.contains({"d": float("nan")})
    assert data.contains({"d": -0.0})


# Different bit patterns of NaN: the result of 0.0 / 0.0 on x86, Java's NaN, and one with a payload.
NANS = [
    struct.unpack("<d", struct.pack("<Q", bits))[0]
    for bits in (0xFFF8000000000000, 0x7FF8000000000000, 0x7FF8000000000123)
]


@pytest.mark.parametrize("nan", NANS)
@pytest.mark.parametrize("other", NANS)
def test_nan_equals_nan_whatever_its_bits(nan, other):
    data = from_values({"d": [nan, other], "e": [1, 1]})
    assert data.num_values == 1
    assert data.contains({"d": nan, "e": 1})
    for filtering in (data, from_values({"d": [nan]})):
        schema = pa.schema([("d", pa.float64()), ("e", pa.int64())])
        batch = pa.record_batch({"d": [other, 1.0], "e": [1, 1]})
        assert Predicate(schema, [filtering]).match(batch).to_pylist() == [True, False]


def test_struct_keys_are_no_error():
    rows = pa.table({"s": pa.array([{"a": 1}, {"a": 1}])})
    assert DynamicFilteringData.from_arrow(rows).fields == ("s",)


@pytest.mark.parametrize(
    "make",
    [
        lambda: from_values({"d": [1, 2], "e": [1]}),
        lambda: from_values({"d": [1, "x"]}),
        lambda: from_values({}),
        lambda: DynamicFilteringData.from_arrow(pa.table({"d": [1]}), fields=["x"]),
        lambda: DynamicFilteringData.from_range({"d": (1, "x")}),
        lambda: DynamicFilteringData.from_bytes(b""),
        lambda: DynamicFilteringData.from_bytes(b"x" * 100),
    ],
)
def test_bad_input_is_named(make):
    with pytest.raises(InvalidFilter):
        make()


values = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.none()),
    st.lists(st.text(max_size=5) | st.none()),
    st.lists(st.dates() | st.none()),
    st.lists(st.floats() | st.none()),
    st.lists(st.decimals(-999, 999, places=2) | st.none()),
    st.lists(st.binary(max_size=3)),
    st.lists(st.datetimes(dt.datetime(1970, 1, 2), dt.datetime(2100, 1, 1))),
)


@given(values)
def test_bytes_round_trip(column):
    data = from_values({"k": column})
    again = DynamicFilteringData.from_bytes(data.to_bytes())
    assert again == data
    assert hash(again) == hash(data)
    assert pickle.loads(pickle.dumps(data)) == data
    assert again.nbytes == data.nbytes
    for value in column:
        assert again.contains({"k": value})


@given(values, st.randoms())
def test_equal_whatever_the_order(column, random):
    shuffled = list(column)
    random.shuffle(shuffled)
    if column:
        kind = pa.array(column).type
        one = DynamicFilteringData.from_arrow(pa.table({"k": pa.array(column, kind)}))
        other = DynamicFilteringData.from_arrow(pa.table({"k": pa.array(shuffled, kind)}))
        assert one == other


@pytest.mark.parametrize("includes_null", [False, True])
def test_bytes_keep_whether_null_is_in_a_range(includes_null):
    ranges = Ranges.between(pa.scalar(1), pa.scalar(9))
    domain = RangeDomain(INTS.field(0), ranges, includes_null)
    data = DynamicFilteringData(INTS, [domain], exceeds_threshold=True)
    again = DynamicFilteringData.from_bytes(data.to_bytes())
    assert again.contains({"d": None}) == includes_null
    assert again.exceeds_threshold


@pytest.mark.parametrize("brackets", BRACKETS)
@pytest.mark.parametrize("lower", [[1], [1, 7], [None, 7]])
def test_bytes_keep_ranges(brackets, lower):
    kind = INTS.field(0).type
    upper = pa.array([3, None][: len(lower)], kind)
    ranges = Ranges(pa.array(lower, kind), upper, brackets)
    data = DynamicFilteringData(INTS, [RangeDomain(INTS.field(0), ranges)], exceeds_threshold=False)
    again = DynamicFilteringData.from_bytes(data.to_bytes())
    assert again == data
    for value in range(10):
        assert again.contains({"d": value}) == data.contains({"d": value})
    assert data.contains({"d": 3}) == (brackets[1] == "]")
    assert data.contains({"d": 7}) == (len(lower) > 1 and brackets[0] == "[")


@pytest.mark.parametrize("ends", [[], [1], [5, 1, 6, 2], [1, None, 2, 9]])
def test_bytes_of_ranges_that_are_none(ends):
    kind = INTS.field(0).type
    half = len(ends) // 2
    ranges = Ranges(pa.array(ends[:half], kind), pa.array(ends[half:], kind), "[)")
    domain = RangeDomain(INTS.field(0), ranges)
    data = DynamicFilteringData(INTS, [domain], exceeds_threshold=False).to_bytes()
    with pytest.raises(InvalidFilter, match="is not a domain"):
        DynamicFilteringData.from_bytes(data)


@given(st.integers(0, 400), st.integers(1, 255))
def test_a_damaged_byte_is_noticed(position, change):
    good = from_values({"k": [1, 2, 3]}).to_bytes()
    position %= len(good)
    bad = bytes(b ^ change if i == position else b for i, b in enumerate(good))
    with pytest.raises(InvalidFilter, match="damaged"):
        DynamicFilteringData.from_bytes(bad)


def test_decimals_of_another_scale_are_equal():
    assert from_values({"k": [Decimal("1.50")]}).contains({"k": Decimal("1.5")})


def test_null_keys_contain_no_value():
    data = DynamicFilteringData.from_values({"d": [None, None], "e": [1, 2]})
    assert data.contains({"d": None, "e": 1})
    assert not data.contains({"d": 1, "e": 1})
    assert not data.contains({"d": None, "e": 3})


FAR = pa.array([3_000_000, 4_000_000], pa.int32()).cast(pa.date32())
FINE = pa.array([1, 2_000_000_001], pa.int64()).cast(pa.timestamp("ns"))
FAR_INSTANTS = pa.array([10**18, 2 * 10**18], pa.int64()).cast(pa.timestamp("us", "UTC"))


@pytest.mark.parametrize("ends", [FAR, FINE, FAR_INSTANTS], ids=lambda ends: str(ends.type))
class TestBeyondPython:
    """Arrow values that Python cannot represent, such as dates after the year 9999."""

    def test_a_range(self, ends):
        data = DynamicFilteringData.from_range({"k": (ends[0], ends[1])})
        assert DynamicFilteringData.from_bytes(data.to_bytes()) == data
        assert data.nbytes > 0
        assert "k in [" in repr(data)
        assert data.contains({"k": ends[1]})
        ticks = pa.int32() if pa.types.is_date(ends.type) else pa.int64()
        assert not data.contains({"k": pa.scalar(0, ticks).cast(ends.type)})
        predicate = Predicate(pa.schema([("k", ends.type)]), [data])
        assert predicate.match(pa.record_batch({"k": ends})).to_pylist() == [True, True]

    def test_values(self, ends):
        data = from_values({"k": ends})
        assert data.contains({"k": ends[0]})
        assert DynamicFilteringData.from_bytes(data.to_bytes()) == data

    def test_over_the_threshold(self, ends):
        collector = DynamicFilteringDataCollector(pa.schema([("k", ends.type)]), max_values=1)
        for _ in range(2):
            collector.add(pa.table({"k": ends}))
        data = collector.finish()
        assert data.exceeds_threshold
        assert data.contains({"k": ends[0]})


def test_renamed_keys_are_the_same_keys():
    both = from_values({"d": [1, 2], "store": [7, 8]}).renamed({"d": "k"})
    assert both == from_values({"k": [1, 2], "store": [7, 8]})
    ends = DynamicFilteringData.from_range({"d": (1, 9)}).renamed({"d": "k"})
    assert ends == DynamicFilteringData.from_range({"k": (1, 9)})


def test_what_is_known_in_words():
    ends = DynamicFilteringData.from_range({"d": (1, 9), "e": ("a", "b")})
    assert ends.describe() == "d in [1, 9] and e in [a, b]"
    assert from_values({"d": [1]}).describe() == "1 value"
    assert DynamicFilteringData.exceeded(INTS).describe() == "exceeded"
    assert DynamicFilteringData.from_range({"d": (None, None)}).describe() == "unbounded"


def test_a_field_is_named_once():
    with pytest.raises(InvalidFilter, match="several columns named d"):
        DynamicFilteringData.from_arrow(pa.table([[1], [2], [3]], names=["d", "d", "e"]))
    with pytest.raises(InvalidFilter, match="named twice"):
        DynamicFilteringData.from_arrow(pa.table({"d": [1]}), ["d", "d"])
    with pytest.raises(InvalidFilter, match="named twice"):
        DynamicFilteringData.exceeded(pa.schema([("d", pa.int8()), ("d", pa.int8())]))
