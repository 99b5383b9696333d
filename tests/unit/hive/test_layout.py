from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitlib import SourceError
from splitlib.hive.partition_values import (
    NULL_PARTITION,
    escape,
    parse,
    partition_name,
    split_names,
    unescape,
)

texts = st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda t: t != NULL_PARTITION)


@given(texts)
def test_escaping_round_trips(text):
    assert unescape(escape(text)) == text
    assert not set(escape(text)) & set("\"#'*/:=?\\{[]^\x01\x1f\x7f")


def test_the_characters_hive_escapes():
    assert escape("a b=c/d%e\n") == "a b%3Dc%2Fd%25e%0A"
    assert unescape("100%") == "100%"
    assert unescape("%zz%2F") == "%zz/"


@given(st.lists(st.tuples(texts | st.none(), texts | st.none()), min_size=1))
def test_names_round_trip(rows):
    names = pa.array([partition_name(["k=1", "b"], row) for row in rows])
    back = split_names(names, ["k", "b"])
    assert list(zip(back["k"].to_pylist(), back["b"].to_pylist(), strict=True)) == rows


def test_keys_spelled_differently():
    assert split_names(pa.array(["k=1", "K=2"]), ["k"])["k"].to_pylist() == ["1", "2"]


def test_a_name_with_other_keys_is_an_error():
    with pytest.raises(SourceError):
        split_names(pa.array(["a=1/b=2", "a=1"]), ["a", "b"])


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


@pytest.mark.parametrize("other", ["k", "K"])
def test_a_newline_in_a_value(other):
    """Also if partitions spell the keys differently, which another branch of the code reads."""
    names = pa.array(["k=a\nb", f"{other}=c\n", "k=\n"])
    assert split_names(names, ["k"])["k"].to_pylist() == ["a\nb", "c\n", "\n"]
    # is no number, nor the number before it
    assert typed(["1\n", "1"], pa.int32()).undecided.to_pylist() == [True, False]
