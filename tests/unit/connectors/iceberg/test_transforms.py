"""Transforms of Arrow arrays give the same results as PyIceberg's transforms of single values."""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from splitlib import DynamicFilteringData as Keys
from splitlib.filtering.domains import BRACKETS, RangeDomain, Ranges, has_range
from splitlib.filtering.predicate import Predicate
from splitlib.model import PartitionField
from splitlib_iceberg.bounds import decode
from splitlib_iceberg.partition_specs import adapt, result_type
from splitlib_iceberg.schema import arrow_type
from tests.support.iceberg_tables import internal

EPOCH = dt.datetime(1970, 1, 1)
ORDERED: list[Any] = [
    YearTransform(), MonthTransform(), DayTransform(), HourTransform(), TruncateTransform(3),
]  # fmt: skip
SMALL, BIG = -(2**31) + 1000, 2**31 - 1
INTS = st.integers(SMALL, BIG)
LONGS = st.integers(-(2**63) + 1000, 2**63 - 1)
TEXT = st.text(max_size=6)
DATES = st.dates()
MOMENTS = st.datetimes()
VALUES = {
    IntegerType(): INTS,
    LongType(): LONGS,
    DateType(): DATES,
    TimestampType(): MOMENTS,
    TimestamptzType(): MOMENTS.map(lambda m: m.replace(tzinfo=dt.UTC)),
    DecimalType(9, 2): st.decimals(-9999999, 9999999, places=2),
    DecimalType(38, 0): st.decimals(-(10**36), 10**36, places=0),
    StringType(): TEXT,
    BinaryType(): st.binary(max_size=6),
    FixedType(4): st.binary(min_size=4, max_size=4),
    UUIDType(): st.uuids(),
}
TEMPORAL: tuple[Transform[Any, Any], ...] = (
    YearTransform(),
    MonthTransform(),
    DayTransform(),
    HourTransform(),
)
CASES = [
    (transform, source)
    for transform in (
        *TEMPORAL,
        *map(BucketTransform, (1, 7, 2**20)),
        *map(TruncateTransform, (1, 3, 10)),
    )
    for source in VALUES
    if transform.can_transform(source)
    # PyIceberg treats FIXED like BINARY, and does not support the hour of a date.
]


@pytest.mark.parametrize("transform", [*ORDERED, BucketTransform(4)], ids=str)
def test_which_keep_the_order(transform):
    """Transforms that preserve order turn a range of values into a range of results."""
    kind = (
        DateType()
        if isinstance(transform, DayTransform | MonthTransform | YearTransform)
        else (TimestampType() if isinstance(transform, HourTransform) else IntegerType())
    )
    adapted = adapt(transform, kind)
    assert adapted is not None
    assert adapted.preserves_order is (transform in ORDERED)


def adapted_to(source, transform):
    """Return splitlib's version of a transform. Fail if splitlib does not support it."""
    adapted = adapt(transform, source)
    assert adapted is not None
    return adapted


def shown(value):
    """Return a value as Arrow represents it."""
    return str(value) if isinstance(value, uuid.UUID) else value


@pytest.mark.parametrize(("transform", "source"), CASES, ids=str)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_every_transform_of_every_type(transform, source, data):
    values = data.draw(st.lists(st.one_of(st.none(), VALUES[source]), max_size=8))
    kind = arrow_type(source, "c")
    adapted = adapted_to(source, transform)
    result = adapted(pa.array(map(shown, values), kind))
    assert result.type == result_type(adapted, kind)
    apply = transform.transform(source)
    expected = [None if value is None else apply(internal(value)) for value in values]
    assert list(map(internal, result.to_pylist())) == expected
    if adapted.preserves_order:
        known = [pair for pair in zip(values, result.to_pylist(), strict=True) if None not in pair]
        ordered = [after for _, after in sorted(known)]
        assert ordered == sorted(ordered)


ORDERED_CASES = [
    (transform, source)
    for transform, source in CASES
    if adapted_to(source, transform).preserves_order and has_range(arrow_type(source, "c"))
]


@pytest.mark.parametrize("brackets", BRACKETS)
@pytest.mark.parametrize(("transform", "source"), ORDERED_CASES, ids=str)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_ranges_of_a_column_in_its_partitions(transform, source, brackets, data):
    kind = arrow_type(source, "c")
    drawn = data.draw(st.lists(VALUES[source], min_size=2, max_size=8))
    ends = st.sampled_from(drawn)
    intervals = data.draw(st.lists(st.tuples(ends, ends), min_size=1, max_size=4))
    lower, upper = (pa.array(map(shown, ends), kind) for ends in zip(*intervals, strict=True))
    ranges = Ranges.merged(lower, upper, brackets)
    if ranges is None:
        return
    adapted = adapted_to(source, transform)
    values = pa.array(map(shown, drawn), kind)
    inside = ranges.contain(values).to_pylist()
    domain = RangeDomain(pa.field("k", kind), ranges)
    keys = Keys(pa.schema([("k", kind)]), [domain], exceeds_threshold=False)
    partitions = pa.record_batch({"p": adapted(values)})
    predicate = Predicate(pa.schema([("k", kind)]), [keys])
    kept = predicate.match(partitions, (PartitionField("p", "k", adapted),)).to_pylist()
    assert all(now or not wanted for wanted, now in zip(inside, kept, strict=True))
    lows, highs = adapted(ranges.lower), adapted(ranges.upper)
    mistaken = adapted.mistaken(highs)
    highs = highs if mistaken is None else mistaken
    known = list(
        zip(map(internal, lows.to_pylist()), map(internal, highs.to_pylist()), strict=True)
    )
    for value, keep in zip(map(internal, partitions["p"].to_pylist()), kept, strict=True):
        assert keep == any(low <= value <= high for low, high in known)


def test_the_day_is_that_of_utc_whatever_the_zone():
    moment = dt.datetime(2024, 1, 1, 3, tzinfo=dt.UTC)
    values = pa.array([moment], pa.timestamp("us", "America/New_York"))
    assert adapted_to(TimestamptzType(), DayTransform())(values).to_pylist() == [
        dt.date(2024, 1, 1)
    ]


def test_times_before_1970_may_have_been_rounded_up():
    """Both results of old writers are kept. Iceberg before 0.11 rounded times before 1970 up."""
    day = adapted_to(TimestampType(), DayTransform())
    moments = pa.array([dt.datetime(1969, 12, 30, 12), dt.datetime(1970, 1, 1), None])
    mistaken = day.mistaken(day(moments))
    assert mistaken is not None
    assert mistaken.to_pylist() == [dt.date(1969, 12, 31), EPOCH.date(), None]
    assert day.mistaken(day(moments[1:])) is None


def test_a_text_that_is_no_uuid_is_in_no_bucket():
    one = uuid.uuid4()
    texts = pa.array([str(one), str(one).upper().replace("-", ""), "x", None])
    known, *rest = adapted_to(UUIDType(), BucketTransform(8))(texts).to_pylist()
    assert known == BucketTransform(8).transform(UUIDType())(one)
    assert rest == [None, None, None]


def test_what_is_not_known_says_nothing():
    assert adapt(UnknownTransform("zorder"), IntegerType()) is None


def test_equal_ones_are_one():
    """Two transforms of the same kind are equal and have the same hash, as they are cache keys."""
    for transform, source in CASES:
        assert hash(adapt(transform, source)) == hash(adapt(transform, source))
        assert adapt(transform, source) == adapt(transform, source)


def test_rounding_down_may_take_a_digit_more():
    source = DecimalType(2, 0)
    adapted = adapted_to(source, TruncateTransform(10))
    assert adapted(pa.array([Decimal(-99)], pa.decimal128(2, 0))).to_pylist() == [Decimal(-100)]


def test_the_least_integers_wrap_as_in_java():
    adapted = adapted_to(IntegerType(), TruncateTransform(10))
    assert adapted(pa.array([-(2**31)], pa.int32())).to_pylist() == [2**31 - 2]


LITTLE = {
    (IntegerType(), -5, struct.pack("<i", -5)),
    (LongType(), -5, struct.pack("<i", -5)),  # the column was an int when the file was written
    (LongType(), 2**40, struct.pack("<q", 2**40)),
    (DoubleType(), 0.5, struct.pack("<f", 0.5)),  # the column was a float
    (DoubleType(), -0.1, struct.pack("<d", -0.1)),
    (FloatType(), 1.5, struct.pack("<f", 1.5)),
    (DoubleType(), None, struct.pack("<d", float("nan"))),
    (DateType(), dt.date(1969, 12, 31), struct.pack("<i", -1)),
    (TimestampType(), dt.datetime(1969, 12, 31, 23), struct.pack("<q", -3_600_000_000)),
    (TimestampType(), None, struct.pack("<i", -1)),  # the bytes belong to a date
    (BooleanType(), True, b"\x01"),
    (BooleanType(), False, b"\x00"),
    (DecimalType(9, 2), Decimal("-0.01"), b"\xff"),
    (DecimalType(9, 2), Decimal("655.35"), b"\x00\xff\xff"),
    (DecimalType(2, 0), None, b"\x7f"),  # 127 has more digits than the type allows
    (StringType(), "é", "é".encode()),
    (StringType(), None, b"\xff"),
    (BinaryType(), b"\xff", b"\xff"),
    (FixedType(2), b"\x00\x01", b"\x00\x01"),
    (UUIDType(), None, uuid.UUID(int=1 << 127).bytes),
}


@pytest.mark.parametrize(("source", "value", "stored"), sorted(LITTLE, key=repr), ids=repr)
def test_bounds(source, value, stored):
    assert decode([stored, None], source, arrow_type(source, "c")).to_pylist() == [value, None]


@given(st.lists(st.binary(max_size=20)))
@example([b""])
@settings(max_examples=50, deadline=None)
def test_no_bytes_break_the_decoding_of_bounds(stored):
    for source in (*VALUES, BooleanType(), FloatType(), DoubleType()):
        assert len(decode(stored, source, arrow_type(source, "c"))) == len(stored)


@pytest.mark.parametrize(("text", "bucket"), [("-1.28", 13), ("-327.68", 3), ("14.20", 3)])
def test_decimals_are_hashed_in_as_few_bytes_as_possible(text, bucket):
    found = adapted_to(DecimalType(9, 2), BucketTransform(16))
    assert found(pa.array([Decimal(text), None], pa.decimal128(9, 2))).to_pylist() == [bucket, None]
