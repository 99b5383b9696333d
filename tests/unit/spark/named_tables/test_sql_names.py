"""Table names in the text of a query, and the time to find them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitlib.spark.named_tables import pieces_of

MARKS = [
    "'",
    '"',
    "`",
    "``",
    "\\",
    "\\'",
    "/*",
    "*/",
    "--",
    "\n",
    ".",
    " ",
    "r'",
    'R"',
    "lake.d.t",
    "a",
]


@given(st.lists(st.sampled_from(MARKS) | st.characters()).map("".join))
def test_nothing_is_lost(query: str) -> None:
    """The concatenated pieces are the query, and names keep their spelling."""
    pieces = list(pieces_of(query))
    assert "".join(piece.text for piece in pieces) == query
    for piece in pieces:
        if piece.parts and "`" not in piece.text:
            assert "".join(piece.text.split()) == ".".join(piece.parts)


def names(query: str) -> list[tuple[str, ...]]:
    """Return the names in a query that have several parts, such as ``lake.d.t``."""
    return [piece.parts for piece in pieces_of(query) if len(piece.parts) > 1]


@pytest.mark.parametrize(
    "other",
    [
        "'lake.d.t'",
        '"lake.d.t"',
        r"'it\'s lake.d.t'",
        "'it''s lake.d.t'",
        "-- lake.d.t",
        "/* lake.d.t */",
        "/* a /* b */ it's lake.d.t */",
        r"r'\' || 'lake.d.t'",
        r'R"\" || "lake.d.t"',
        "'lake.d.t",
        "/* lake.d.t",
        "`lake.d.t`",
    ],
)
def test_what_is_no_name(other: str) -> None:
    """Strings and comments contain no names, even if they have no end."""
    assert names(f"SELECT {other}") == []
    assert names(f"SELECT x FROM lake.d.t {other}") == [("lake", "d", "t")]


@pytest.mark.parametrize("name", ["lake.d.t", "`lake`.d . `t`", "lake\n.\nd.t"])
def test_names(name: str) -> None:
    """Names are found with spaces, comments and quotes around their dots."""
    assert names(f"SELECT * FROM {name}, x") == [("lake", "d", "t")]
    assert names("SELECT `a``b`.`c.d`") == [("a`b", "c.d")]


CHANGED = {
    "INSERT INTO lake.d.t VALUES (1)": True,
    "insert into  table lake.d.t select 1": True,
    "INSERT /* x */ OVERWRITE lake.d.t SELECT 1": True,
    "DROP TABLE IF EXISTS lake.d.t": True,
    "MERGE INTO lake.d.t USING s ON true": True,
    "INSERT INTO s SELECT * FROM lake.d.t": False,
    "INSERT INTO s TABLE lake.d.t": False,
    "SHOW CREATE TABLE lake.d.t": False,
    "SELECT 'insert into' FROM lake.d.t": False,
    "SELECT 1 AS update FROM lake.d.t": False,
    "DESCRIBE TABLE lake.d.t": False,
}


@pytest.mark.parametrize(("query", "changed"), CHANGED.items(), ids=CHANGED)
def test_names_of_what_is_changed(query: str, changed: bool) -> None:
    """A statement may change one table and read others. Only the first is marked as changed."""
    (piece,) = (piece for piece in pieces_of(query) if len(piece.parts) == 3)
    assert piece.is_changed is changed


@pytest.mark.parametrize("column", ["replace(lake.d.t.c, 'x')", "x.update, lake.d.t.c"])
def test_columns_after_words_of_statements(column: str) -> None:
    """Functions and columns may have the names of keywords. Punctuation separates the names."""
    found = [piece for piece in pieces_of(f"SELECT {column} FROM lake.d.t, x") if piece.parts]
    assert not any(piece.is_changed for piece in found)
    assert [piece.parts for piece in found if piece.is_table] == [("lake", "d", "t")]


@pytest.mark.parametrize(
    "unit",
    ["a", "`", "'", '"', r"\'", "/*", "a ", "a.", "a. ", " ", "`a", "`a``", "-- ", "r'", "'a"],
)
@pytest.mark.parametrize("first", ["", "'", '"', "`", "/*", "a"])
def test_time_is_linear(first: str, unit: str) -> None:
    """The time is linear in the length of the query, for a long sequence of any kind of token."""
    query = first + unit * (200_000 // len(unit))
    started = time.process_time()
    assert "".join(piece.text for piece in pieces_of(query)) == query
    assert time.process_time() - started < 5  # a quadratic algorithm would take an hour
