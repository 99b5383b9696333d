"""Valid texts around bytes that are not valid UTF-8."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitlib.arrow.utf8 import after, are_valid, at_least, at_most, valid_ends

# Bytes at which UTF-8 characters start, go on, are out of range or are not allowed at all.
ODD = b"a\x7f\x80\xbf\xc0\xc3\xe0\xed\x9f\xa0\xee\xf0\xf4\x8f\x90\xf5\xff"
odd_texts = st.lists(st.sampled_from(ODD), max_size=6).map(bytes)


@given(odd_texts)
def test_bounds_are_valid_and_contain_the_text(text: bytes) -> None:
    upper = at_least(text)
    assert text.startswith(at_most(text).encode())
    assert upper is None or upper.encode() >= text
    try:
        assert text.decode() == at_most(text) == upper
    except UnicodeDecodeError:
        assert upper == after(at_most(text))


@pytest.mark.parametrize(
    ("text", "lower", "upper"),
    [
        (b"Caf\xe9", "Caf", "Cag"),
        (b"\xff", "", None),
        (b"", "", ""),
        ("a\ud7ff".encode() + b"\xff", "a\ud7ff", "a\ue000"),
        ("a\U0010ffff".encode() + b"\xff", "a\U0010ffff", "b"),
    ],
)
def test_bounds_of_a_text(text: bytes, lower: str, upper: str | None) -> None:
    assert (at_most(text), at_least(text)) == (lower, upper)


def test_texts_of_an_array() -> None:
    texts = pa.array([b"Caf\xe9", b"ok", None, b"\xff"], pa.binary()).view(pa.string())
    assert are_valid(texts).to_pylist() == [False, True, True, False]
    assert are_valid(texts[1:3]).to_pylist() == [True, True]
    ends = [[end.as_py() for end in valid_ends(text, text)] for text in texts]
    assert ends == [["Caf", "Cag"], ["ok", "ok"], [None, None], ["", None]]
