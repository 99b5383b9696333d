"""``try_cast`` of an array gives the same results as casting each value alone."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitlib.arrow import values as casting
from splitlib.arrow.values import try_cast
from splitlib.filtering.matchers import coerce


def one(value, source, kind):
    try:
        return pa.array([value], source).cast(kind)[0]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.scalar(None, kind)


def same(one, other):
    return one.equals(other) or (one.is_valid and other.is_valid and str(one) == str(other))


def test_values_that_python_cannot_represent_become_text():
    days = pa.array([0, 2_932_897, 2**31 - 1, None], pa.int32()).cast(pa.date32())
    assert casting.python_values(days) == [
        dt.date(1970, 1, 1),
        "10000-01-01",
        "<value out of range: 2147483647>",
        None,
    ]
    assert casting.python_values(pa.array(["a", None])) == ["a", None]


NUMBERS = st.one_of(
    st.text("0123456789-", max_size=5),
    st.integers(-(10**20), 10**20).map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.floats().map(str),
    st.sampled_from(
        ["", "-", ".", "1.", ".5", "1e3", "1E-2", "00012", "9" * 50, "nan", "Infinity"]
    ),
)
TIMES = st.one_of(
    st.dates().map(str),
    st.datetimes().map(str),
    st.text("0123456789-: T.", max_size=22),
    st.sampled_from(["2023-02-29", "2024-02-29", "2024-02-30", "2024-04-31", "2024-1-5", "x"]),
    st.sampled_from(["2024-01-01 10:00:00.1234567", "2024-01-01 24:00:00", "2023-02-29 01:02:03"]),
)


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (NUMBERS, pa.int8()),
        (NUMBERS, pa.int64()),
        (NUMBERS, pa.uint64()),
        (NUMBERS, pa.float32()),
        (NUMBERS, pa.float64()),
        (NUMBERS, pa.decimal128(5, 2)),
        (NUMBERS, pa.decimal128(38, 0)),
        (TIMES, pa.date32()),
        (TIMES, pa.timestamp("s")),
        (TIMES, pa.timestamp("us")),
        (st.sampled_from(["true", "FALSE", "0", "1", "T", "yes", ""]), pa.bool_()),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else "",
)
@given(data=st.data())
def test_text_is_cast_as_each_alone(texts, kind, data):
    given_ = data.draw(st.lists(texts | st.none(), max_size=12))
    found = try_cast(pa.array(given_, pa.string()), kind)
    for text, value in zip(given_, found, strict=True):
        expected = one(text, pa.string(), kind)
        assert same(value, expected), (text, value, expected)


@pytest.mark.parametrize("kind", [pa.binary(2), pa.time32("s"), pa.binary(), pa.large_string()])
def test_text_is_cast_to_other_types_as_each_alone(kind):
    texts = ["ab", None, "a\n", "abc", "", "é", "12:30:00"]
    found = try_cast(pa.array(texts), kind)
    assert found.to_pylist() == [one(text, pa.string(), kind).as_py() for text in texts]
    assert found.type == kind


def test_unsigned_numbers_have_no_sign_beside_a_failure_either():
    assert try_cast(pa.array(["-0", "x", "1"]), pa.uint64()).to_pylist() == [None, None, 1]


INTEGERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-300, 300))
DECIMALS = st.decimals(-(10**15), 10**15, places=4)
MICROS = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("values", "source", "kind"),
    [
        (INTEGERS, pa.int64(), pa.int8()),
        (INTEGERS, pa.int64(), pa.uint64()),
        (st.integers(0, 2**64 - 1), pa.uint64(), pa.int64()),
        (MICROS, pa.timestamp("us"), pa.timestamp("ns")),
        (MICROS, pa.timestamp("us"), pa.timestamp("s")),
        (st.integers(-(2**31), 2**31 - 1), pa.date32(), pa.timestamp("us")),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else "",
)
@given(data=st.data())
def test_other_values_are_cast_as_each_alone(values, source, kind, data):
    given_ = data.draw(st.lists(values | st.none(), max_size=12))
    found = try_cast(_array(given_, source), kind)
    for i, value in enumerate(found):
        expected = one(_array(given_, source)[i], source, kind)
        assert value.equals(expected), (given_[i], value, expected)


def _array(values, kind):
    ticks = {pa.date32(): pa.int32()}.get(kind, pa.int64())
    return (
        pa.array(values, ticks).cast(kind) if pa.types.is_temporal(kind) else pa.array(values, kind)
    )


def _is_whole(value):
    return value == value.to_integral_value()


@pytest.mark.parametrize("kind", [pa.decimal128(10, 2), pa.decimal128(38, 30)], ids=str)
@given(values=st.lists(DECIMALS | st.none(), max_size=12))
def test_decimals_to_decimals_are_exact(kind, values):
    limit = 10 ** (kind.precision - kind.scale)
    kept = [
        value is not None and abs(value) < limit and _is_whole(value.scaleb(kind.scale))
        for value in values
    ]
    found = try_cast(pa.array(values, pa.decimal128(38, 4)), kind).to_pylist()
    assert found == [value if keep else None for value, keep in zip(values, kept, strict=True)]


@given(st.lists(st.decimals(-(10**20), 10**20, places=2)))
def test_decimals_to_integers_are_exact(values):
    found = try_cast(pa.array(values, pa.decimal128(38, 2)), pa.int64())
    expected = [int(v) if v == int(v) and -(2**63) <= v < 2**63 else None for v in values]
    assert found.to_pylist() == expected


@pytest.mark.parametrize(
    ("good", "bad", "kind"),
    [
        (str, "x{}".format, pa.int32()),
        (str, "99999999999{}".format, pa.int32()),
        ("{}.5".format, "x{}".format, pa.float64()),
        ("{}.25".format, "{}.255".format, pa.decimal128(10, 2)),
        ("{}.25".format, "9999999999{}".format, pa.decimal128(10, 2)),
        ("20{:02}-01-01".format, "20{}-13-45".format, pa.date32()),
        ("2024-01-01 10:00:00.{:06}".format, "2024-01-01 25:00:00.{}".format, pa.timestamp("us")),
    ],
)
def test_what_does_not_convert_costs_no_cast_each(monkeypatch, good, bad, kind):
    """Many values that cannot be cast do not need one cast each, which would be slow.

    The test counts casts instead of measuring time.
    """
    monkeypatch.setattr(casting, "ATTEMPTS", 1)
    texts = [good(i) for i in range(50)] + [bad(i) for i in range(50)]
    values = try_cast(pa.array(texts), kind)
    assert pc.is_valid(values).to_pylist() == [True] * 50 + [False] * 50


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([1, 300] * 50), pa.int8()),
        (pa.array([1_000_000, 1] * 50, pa.timestamp("us")), pa.timestamp("s")),
        (pa.array([Decimal(99), Decimal(100)] * 50, pa.decimal128(5, 0)), pa.decimal128(4, 2)),
        (pa.array([Decimal(-99), Decimal(-100)] * 50, pa.decimal128(5, 0)), pa.decimal128(4, 2)),
        (pa.array([Decimal(127), Decimal(128)] * 50, pa.decimal128(5, 0)), pa.int8()),
        (pa.array([Decimal(-128), Decimal(-129)] * 50, pa.decimal128(5, 0)), pa.int8()),
        (pa.array([Decimal(255), Decimal(256)] * 50, pa.decimal128(5, 0)), pa.uint8()),
        (pa.array([Decimal(0), Decimal(-1)] * 50, pa.decimal128(5, 0)), pa.uint8()),
    ],
    ids=[
        *("integers", "timestamps", "large decimals", "small decimals"),
        *("large integers", "small integers", "large unsigned", "small unsigned"),
    ],
)
def test_other_values_that_do_not_convert_cost_no_cast_each(monkeypatch, values, kind):
    pieces: list[int] = []
    joined = pa.concat_arrays

    def counted(arrays):
        pieces.append(len(arrays))
        return joined(arrays)

    monkeypatch.setattr(pa, "concat_arrays", counted)
    assert pc.is_valid(try_cast(values, kind)).to_pylist() == [True, False] * 50
    assert sum(pieces) <= 1


def test_attempts_are_bounded_and_what_is_left_is_null(monkeypatch):
    monkeypatch.setattr(casting, "ATTEMPTS", 20)
    leaps = pa.array([f"{year}-02-29" for year in range(1000, 3000)])
    assert len(try_cast(leaps, pa.date32())) == 2000


def test_hexadecimal_is_no_number_of_a_table():
    assert try_cast(pa.array(["0x1A", "26"]), pa.int32()).to_pylist() == [None, 26]
    assert try_cast(pa.array(["0x1A"]), pa.int64()).to_pylist() == [None]


def test_keys_out_of_range_match_nothing_however_many():
    keys = pa.array([*range(100), *range(2**40, 2**40 + 100)])
    coerced = coerce(keys, pa.field("k", pa.int32()))
    assert coerced is not None
    assert coerced.matchable.to_pylist() == [True] * 100 + [False] * 100
    wide = pa.array([Decimal(i) for i in range(50)] + [Decimal(10**30 + i) for i in range(50)])
    coerced = coerce(wide, pa.field("k", pa.int64()))
    assert coerced is not None
    assert coerced.matchable.to_pylist() == [True] * 50 + [False] * 50


def test_a_date_beyond_all_timestamps_matches_none():
    dates = pa.array([2**31 - 1, 0], pa.int32()).cast(pa.date32())
    coerced = coerce(dates, pa.field("k", pa.timestamp("us")))
    assert coerced is not None
    assert coerced.matchable.to_pylist() == [False, True]
    assert coerced.values[1].as_py() == dt.datetime(1970, 1, 1)


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([True, None], pa.date32(), [None, None]),
        (["12:00:00", None], pa.time64("us"), [None, None]),
        (["abc", "x", "a\nb", None], pa.binary(3), [b"abc", None, b"a\nb", None]),
    ],
)
def test_rare_casts(values, kind, expected):
    found = try_cast(pa.array(values), kind)
    assert (found.type, found.to_pylist()) == (kind, expected)
