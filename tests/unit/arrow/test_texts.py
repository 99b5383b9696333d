from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from splitlib.arrow.utf8 import between, bounds, contains_any, find_all

texts = st.lists(st.text("a/é%", max_size=6) | st.none(), max_size=20)


def sliced(values, start):
    return pa.array([*("/x%" for _ in range(start)), *values, "%/"], pa.string())[start:-1]


@given(texts, st.integers(0, 3))
def test_characters_are_found_in_a_view_as_in_a_copy(values, start):
    view = sliced(values, start)
    assert contains_any(view, b"%") == any("%" in (value or "") for value in values)
    assert contains_any(view, b"%/") == any(set("%/") & set(value or "") for value in values)
    together = "".join(value or "" for value in values).encode()
    places = find_all(view, b"/") - bounds(view)[0]
    assert places.tolist() == [at for at, byte in enumerate(together) if byte == ord("/")]


@given(texts, st.integers(0, 3))
def test_bounds_are_those_of_each_text(values, start):
    view = sliced(values, start)
    ends = bounds(view)
    sizes = [len((value or "").encode()) for value in values]
    assert (ends[1:] - ends[:-1]).tolist() == sizes


@given(st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4), st.text(max_size=4))))
def test_parts_of_texts(rows):
    view = sliced(["".join(row) for row in rows], 1)
    places = bounds(view)
    begins = places[:-1] + np.array([len(row[0].encode()) for row in rows], np.int64)
    ends = places[1:] - np.array([len(row[2].encode()) for row in rows], np.int64)
    assert between(view, begins, ends).to_pylist() == [row[1] for row in rows]


def test_more_than_is_looked_at_at_once():
    view = pa.array(["x" * 300_000, "x" * 300_000 + "/", "x" * 300_000])
    assert find_all(view, b"/").tolist() == [600_000]
    assert contains_any(view, b"/")
    assert not contains_any(view, b"%")


def test_nothing():
    for empty in (pa.array([], pa.string()), pa.array([None, None], pa.string())):
        assert not contains_any(empty, b"a")
        assert find_all(empty, b"a").tolist() == []
        assert set(bounds(empty).tolist()) == {0}
    blank = pa.array(["", ""])
    assert between(blank, bounds(blank)[:-1], bounds(blank)[1:]).to_pylist() == ["", ""]
