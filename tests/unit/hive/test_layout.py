from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitlib import SourceError
from splitlib.hive.partition_values import (
    NULL_PARTITION,
    escape,
    name_of,
    parse,
    partition_name,
    read_names,
    split_names,
    stored_name,
    unescape,
)
from splitlib.model import PartitionBatch

texts = st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda t: t != NULL_PARTITION)


@given(texts)
def test_escaping_round_trips(text):
    assert unescape(escape(text)) == text
    assert not set(escape(text)) & set("\"#'*/:=?\\{[]^\x01\x1f\x7f")


def test_the_characters_hive_escapes():
    assert escape("a b=c/d%e\n") == "a b%3Dc%2Fd%25e%0A"
    assert unescape("100%") == "100%"
    assert unescape("%zz%2F") == "%zz/"


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=3))
def test_the_metastore_has_keys_in_lower_case(pairs):
    keys, values = zip(*pairs, strict=True)
    lower = partition_name([key.lower() for key in keys], values)
    assert stored_name(partition_name(keys, values)) == lower


@given(st.lists(st.tuples(texts | st.none(), texts | st.none()), min_size=1))
def test_names_round_trip(rows):
    names = pa.array([partition_name(["k=1", "b"], row) for row in rows])
    back = split_names(names, ["k", "b"])
    assert list(zip(back["k"].to_pylist(), back["b"].to_pylist(), strict=True)) == rows


MOMENT = dt.datetime(2024, 1, 2, 3, 4, 5, 120_000)


@pytest.mark.parametrize(
    ("value", "kind", "name"),
    [
        (None, pa.date32(), NULL_PARTITION),
        ("", pa.string(), NULL_PARTITION),
        ("a b=c/é", pa.string(), "a b%3Dc%2Fé"),
        (True, pa.bool_(), "true"),
        (dt.date(1, 2, 3), pa.date32(), "0001-02-03"),
        (MOMENT, pa.timestamp("us"), "2024-01-02 03%3A04%3A05.12"),
        (MOMENT.replace(microsecond=0), pa.timestamp("us"), "2024-01-02 03%3A04%3A05"),
        (MOMENT, pa.timestamp("us", "UTC"), "2024-01-02 03%3A04%3A05.12"),
        (MOMENT, pa.timestamp("us", "+02:00"), "2024-01-02 03%3A04%3A05.12"),
        (Decimal("0.0000000000"), pa.decimal128(20, 10), "0.0000000000"),
        (Decimal("-1.50"), pa.decimal128(5, 2), "-1.50"),
        (b"a/b", pa.binary(), "a%2Fb"),
        (b"a\xff", pa.binary(), "a%5Cxff"),
        (-5, pa.int64(), "-5"),
    ],
    ids=str,
)
def test_names_of_typed_values_are_those_of_spark(value, kind, name):
    """Points in time are written in UTC."""
    column = pa.array([value], kind) if value != MOMENT else pa.array([value]).cast(kind)
    values = pa.RecordBatch.from_arrays([column], names=["k"])
    assert name_of(PartitionBatch(values, pa.array(["x"])), 0) == f"k={name}"


def test_keys_spelled_differently():
    assert split_names(pa.array(["k=1", "K=2"]), ["k"])["k"].to_pylist() == ["1", "2"]


def test_no_names():
    for keys in (["k"], ["k", "l"]):
        found = split_names(pa.array([], pa.string()), keys)
        assert (found.schema.names, found.num_rows) == (keys, 0)


def test_a_name_with_other_keys_is_an_error():
    with pytest.raises(SourceError):
        split_names(pa.array(["a=1/b=2", "a=1"]), ["a", "b"])


@pytest.mark.parametrize(
    ("names", "keys"),
    [
        (["a/b=1", "a=1/b=2"], ["a", "b"]),  # a path segment without a value
        (["k=1/x=2"], ["k"]),
        (["k"], ["k"]),
        (["a=1/b=2/c=3", "a=1"], ["a", "b"]),  # on average, names have the right number of slashes
        (["a=1", "a=1/b=2/c=3"], ["a", "b"]),
        (["a=1/b=2", "a=1/b=2/c=3"], ["a", "b"]),
    ],
)
def test_a_name_of_another_shape_is_an_error(names, keys):
    with pytest.raises(SourceError, match=r"partition name (does not have|is not a value)"):
        split_names(pa.array(names), keys)


@pytest.mark.parametrize(
    ("names", "have_keys"),
    [
        (["a=1/b=2", "a=2/b=1"], True),
        (["A=1/b=2", "A=2/b=1"], True),
        (["A=1/b=2", "a=2/B=1"], True),
        (["a=1/c=2", "a=2/c=1"], False),
        (["a=1/b=2", "c=2/b=1"], False),
        (["ab=1/b=2"], False),
        (["a=1/bb=2"], False),
        ([], True),
    ],
)
def test_whether_the_keys_are_the_tables(names, have_keys):
    found = read_names(pa.array(names, pa.string()), ["a", "b"])
    assert found.have_keys is have_keys
    assert found.values == split_names(pa.array(names, pa.string()), ["a", "b"])


def test_keys_that_are_escaped_in_names():
    found = read_names(pa.array(["k%3d1=a", "k%3d1=b"]), ["K=1"])
    assert found.have_keys is True
    assert found.values["K=1"].to_pylist() == ["a", "b"]


def test_a_view_of_names_is_split_as_a_copy():
    names = pa.array([f"a={i}/b=x%2F{i}" for i in range(9)])
    for view in (names[3:7], names[:2], names[8:], names[4:4]):
        copy = pa.array(view.to_pylist(), pa.string())
        assert split_names(view, ["a", "b"]) == split_names(copy, ["a", "b"])


def typed(texts, kind, **metadata):
    return parse(pa.array(texts, pa.string()), pa.field("k", kind, **metadata))


def test_text_is_parsed_with_the_tables_type():
    assert typed(["01", "1"], pa.string()).values.to_pylist() == ["01", "1"]
    assert typed(["01", "1"], pa.int32()).values.to_pylist() == [1, 1]


def test_what_does_not_parse_is_undecided_and_null_is_not():
    values, undecided = typed(["1", "x", None, "300"], pa.int8())
    assert values.to_pylist() == [1, None, None, None]
    assert undecided.to_pylist() == [False, True, False, True]
    assert typed(["1", None], pa.int8()).undecided is None


def test_char_has_no_trailing_spaces():
    metadata = {b"splitlib.logical_type": b"char(5)"}
    assert typed(["ab", "ab   "], pa.string(), metadata=metadata).values.to_pylist() == ["ab", "ab"]


def test_a_time_that_does_not_exist_is_undecided():
    kind = pa.timestamp("us", "America/New_York")
    values, undecided = typed(["2020-03-08 02:30:00", "2020-03-08 03:30:00.0"], kind)
    assert undecided.to_pylist() == [True, False]
    assert values[1].as_py().hour == 3


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_times_in_utc_beside_times_in_the_zone(zone):
    kind = pa.timestamp("us", zone)
    in_utc = ["2050-07-01T12:00:00Z", "2020-07-01T00:00:00.000001Z", "0001-01-01T00:00:00.5Z"]
    undecided = ["2024-02-30T12:00:00Z", "2020-07-01T24:00:00Z", "2020-07-01T1:2:3Z", "Z", "x"]
    found = typed([*in_utc, "2020-07-01 00:00:00", None, *undecided], kind)
    assert found.values.type == kind
    local = dt.datetime(2020, 7, 1, 0 if zone == "UTC" else 4)
    moments = found.values.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us")).to_pylist()
    assert moments == [
        dt.datetime(2050, 7, 1, 12),
        dt.datetime(2020, 7, 1, 0, 0, 0, 1),
        dt.datetime(1, 1, 1, 0, 0, 0, 500_000),
        local,
        *[None] * 6,
    ]
    assert found.undecided.to_pylist() == [False] * 5 + [True] * 5


def test_after_2037_a_time_in_a_zone_with_daylight_saving_is_undecided():
    """Arrow ignores daylight saving time after 2037, so its result for July would be wrong."""
    texts = ["2037-07-01 12:00:00", "2050-07-01 12:00:00"]
    summer = typed(texts, pa.timestamp("us", "America/New_York"))
    assert summer.undecided.to_pylist() == [False, True]
    assert summer.values[0].as_py().utcoffset() == dt.timedelta(hours=-4)
    for zone in ("UTC", "Asia/Tokyo", "Etc/GMT-2"):
        assert typed(texts, pa.timestamp("us", zone)).undecided is None


@pytest.mark.parametrize("others", [[], ["x"]])
@pytest.mark.parametrize(
    ("kind", "plain", "odd"),
    [
        (pa.float64(), ["nan", "NaN", "-inf"], ["-nan", "+NaN", "nan(1)"]),
        (pa.int32(), ["-31", "031"], ["0x1F", "0X1f"]),
        (pa.decimal128(38, 0), ["9" * 38, "1e-0", "007"], ["9" * 39, "3" + "0" * 38, "3.4e38"]),
        (pa.decimal128(38, 18), ["9" * 20 + "." + "9" * 18, "0E-18"], ["3" + "0" * 37, "1e37"]),
    ],
    ids=str,
)
def test_what_arrow_alone_takes_for_a_value_is_undecided(kind, plain, odd, others):
    for text in odd:
        values, undecided = typed([*plain, text, None, *others], kind)
        assert undecided.to_pylist() == [False] * len(plain) + [True, False] + [True] * len(others)
        assert values.is_valid().to_pylist()[: len(plain)] == [True] * len(plain)
        assert typed([text], kind).values.null_count == 1
    assert typed(plain, kind).undecided is None


def test_a_view_of_texts_is_parsed_as_a_copy():
    texts = pa.array(["1e0", "1.5", None, "2", "3E0"])
    key = pa.field("k", pa.decimal128(5, 2))
    for offset in range(6):
        for length in range(6 - offset):
            view = texts.slice(offset, length)
            assert parse(view, key) == parse(pa.array(view.to_pylist(), pa.string()), key)


@pytest.mark.parametrize("other", ["k", "K"])
def test_a_newline_in_a_value(other):
    """Newlines are part of values. Names with different spellings of the key are no exception."""
    names = pa.array(["k=a\nb", f"{other}=c\n", "k=\n"])
    assert split_names(names, ["k"])["k"].to_pylist() == ["a\nb", "c\n", "\n"]
    # The text "1\n" is not a number, so it may match.
    assert typed(["1\n", "1"], pa.int32()).undecided.to_pylist() == [True, False]
