"""Arguments of a reader are converted if their form is supported, or else refused with a hint."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped,unused-ignore]
import pyarrow as pa
import pytest

import splitlib
from splitlib import DynamicFilteringData, InvalidFilter
from splitlib.checks import given_pairs
from splitlib.errors import ConfigError
from splitlib.spark.dimension import given_keys, keys_of_table
from splitlib.spark.read.reader import TableReader

NO_SESSION: Any = None
KEYS = pa.table({"day": [dt.date(2024, 1, 5)], "shop": ["a"]})


class Stream:
    """An object with Arrow's stream interface, such as a Polars DataFrame."""

    def __arrow_c_stream__(self, requested_schema=None):
        return KEYS.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "keys",
    [
        KEYS,
        KEYS.to_batches()[0],
        KEYS.to_pandas(),
        Stream(),
        {"day": [dt.date(2024, 1, 5)], "shop": ["a"]},
    ],
    ids=lambda keys: type(keys).__name__,
)
def test_tables_of_keys(keys) -> None:
    table = given_keys(keys)
    assert isinstance(table, pa.Table)
    assert table.to_pylist() == KEYS.to_pylist()
    reader = TableReader(NO_SESSION).filtered_by(keys, {"d": "day"})
    assert reader == TableReader(NO_SESSION).filtered_by(table, [("d", "day")])


def test_columns_of_keys_join_those_of_their_names() -> None:
    reader = TableReader(NO_SESSION).filtered_by(Stream())
    on = {"day": "day", "shop": "shop"}
    assert reader == TableReader(NO_SESSION).filtered_by(given_keys(Stream()), on)
    assert reader != TableReader(NO_SESSION).filtered_by(Stream(), "day")


def test_missing_values_of_pandas_are_nulls() -> None:
    keys = given_keys(pd.DataFrame({"k": [1.0, float("nan")]}))
    assert isinstance(keys, pa.Table)
    assert keys["k"].null_count == 1


def test_row_labels_of_pandas_are_no_keys() -> None:
    frame = pd.DataFrame({"k": [1, 2]})
    assert given_keys(frame[frame.k > 1]) == pa.table({"k": [2]})
    assert given_keys(frame.set_index("k")) == pa.table({"k": [1, 2]})


def test_a_filter_is_taken_as_it_is() -> None:
    data = DynamicFilteringData.from_arrow(KEYS)
    assert given_keys(data) is data


@pytest.mark.parametrize(
    ("keys", "hint"),
    [
        ([1, 2], r"\{'day'"),
        ({1, 2}, r"\{'day'"),
        ("2024-01-05", r"\{'day'"),
        (None, "DataFrame"),
        (TableReader(NO_SESSION), r"\.load\(\)"),
        (pd.Series([1]), "DataFrame"),
        (pa.array([1]), "DataFrame"),
    ],
    ids=str,
)
def test_what_has_no_key_columns(keys, hint) -> None:
    with pytest.raises(InvalidFilter, match=hint):
        TableReader(NO_SESSION).filtered_by(keys, "k")


@pytest.mark.parametrize(
    ("on", "pairs"),
    [
        ("a", {"a": "a"}),
        (["a", "b"], {"a": "a", "b": "b"}),
        (("a", "b"), {"a": "a", "b": "b"}),
        ([("a", "b")], {"a": "b"}),
        ([("a", "b"), "c"], {"a": "b", "c": "c"}),
        ({"a": "b"}, {"a": "b"}),
    ],
)
def test_pairs(on, pairs) -> None:
    assert given_pairs(on) == pairs


@pytest.mark.parametrize(
    "on", [[], {}, 7, b"ab", [1], [("a",)], [("a", "b"), ("a", "c")], {"a": 1}, "", {"": "a"}]
)
def test_what_does_not_pair(on) -> None:
    with pytest.raises(InvalidFilter, match="on="):
        given_pairs(on)


def test_text_for_dates_and_numbers() -> None:
    columns = pa.schema([("day", pa.date32()), ("n", pa.int16()), ("s", pa.string())])
    on = {"day": "x", "n": "y", "s": "y"}
    keys = pa.table({"x": ["2024-01-05", None], "y": pa.array(["7", "-1"]).dictionary_encode()})
    typed = keys_of_table(keys, on, columns)
    assert typed.to_pydict() == {
        "day": [dt.date(2024, 1, 5), None],
        "n": [7, -1],
        "s": ["7", "-1"],
    }
    for column, text in (
        ("day", "2024-1-5"),
        ("day", "05.01.2024"),
        ("day", "2024-02-30"),
        ("n", "70000"),
        ("n", "1.0"),
    ):
        with pytest.raises(InvalidFilter, match=text):
            keys_of_table(pa.table({"k": [text]}), {column: "k"}, columns)
    with pytest.raises(InvalidFilter, match="no column z"):
        keys_of_table(keys, {"day": "z"}, columns)


@pytest.mark.parametrize(
    "condition", [True, None, 5, ["a = 1"], {"a": 1}, lambda: True], ids=lambda c: type(c).__name__
)
def test_what_is_no_condition(condition) -> None:
    with pytest.raises(InvalidFilter, match="SQL such as"):
        TableReader(NO_SESSION).where(condition)


@pytest.mark.parametrize("name", [("db", "t"), None, 5, KEYS], ids=lambda name: type(name).__name__)
def test_what_is_no_name_of_a_table(name) -> None:
    with pytest.raises(ConfigError, match="name of a table"):
        TableReader(NO_SESSION).table(name)
    reader = TableReader(NO_SESSION)
    assert reader.table(Path("/a/b")) == reader.table(str(Path("/a/b")))


@pytest.mark.parametrize(
    "function", [splitlib.explain, splitlib.freeze, splitlib.optimize, splitlib.replan]
)
@pytest.mark.parametrize("given", [KEYS, TableReader(NO_SESSION), "db.t", None], ids=type)
def test_what_is_no_dataframe(function, given) -> None:
    with pytest.raises(InvalidFilter, match="Expected a Spark DataFrame"):
        function(given)


def test_what_is_no_session() -> None:
    with pytest.raises(ConfigError, match="Spark session"):
        splitlib.read(KEYS)
