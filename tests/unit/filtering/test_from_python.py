"""Python values as keys are converted to the intended type, or refused with a hint."""

from __future__ import annotations

import pandas as pd  # type: ignore[import-untyped,unused-ignore]
import pyarrow as pa
import pytest

from splitlib import DynamicFilteringData, InvalidFilter

from_values = DynamicFilteringData.from_values
from_range = DynamicFilteringData.from_range


@pytest.mark.parametrize(
    "value",
    ["2024-01-05", b"2024", bytearray(b"x"), memoryview(b"x"), 5, None, {"a": 1}, pa.scalar(1)],
    ids=lambda value: type(value).__name__,
)
def test_a_single_value_is_no_sequence(value):
    with pytest.raises(InvalidFilter, match=r"'day'.*not a sequence.*Hint: pass \{'day': \[value"):
        from_values({"day": value})


@pytest.mark.parametrize("values", [[1, 2], "day", pa.table({"d": [1]}), None])
def test_values_have_names(values):
    with pytest.raises(InvalidFilter, match="has no field names"):
        from_values(values)
    with pytest.raises(InvalidFilter, match="has no field names"):
        from_range(values)


@pytest.mark.parametrize(
    "values",
    [[1, 2], (1, 2), {1, 2}, frozenset({1, 2}), range(1, 3), {1: "a", 2: "b"}.keys(), iter([2, 1])],
)
def test_sequences_and_sets_of_one_field(values):
    assert from_values({"d": values}) == from_values({"d": pa.array([1, 2])})


def test_a_set_makes_no_tuples():
    with pytest.raises(InvalidFilter, match="'e' are a set"):
        from_values({"d": [1, 2], "e": {1, 2}})


@pytest.mark.parametrize(
    "ends", ["ab", b"ab", 5, None, {1, 2}, {1: 2, 3: 4}, (1,), (1, 2, 3), (1, "x"), (1, 2**70)]
)
def test_a_range_is_a_pair(ends):
    with pytest.raises(
        InvalidFilter, match=r"'d' is not a pair.*Hint: pass \{'d': \(lower, upper\)\}"
    ):
        from_range({"d": ends})


def test_fields_are_a_list():
    with pytest.raises(
        InvalidFilter, match=r"'ab' is not a list of names.*Hint: pass fields=\['ab'\]"
    ):
        DynamicFilteringData.from_arrow(pa.table({"a": [1], "b": [2], "ab": [3]}), fields="ab")


@pytest.mark.parametrize("kind", [pa.string_view(), pa.large_string(), pa.string()])
def test_keys_in_every_form_of_text(kind: pa.DataType) -> None:
    """Polars exports its strings as views, and its categories as dictionaries of views."""
    text = pa.array(["b", None, "a", "b"], kind)
    words = pa.DictionaryArray.from_arrays([1, None, 0, 1], pa.array(["a", "b"], kind))
    keys = pa.table({"text": text, "category": words})
    plain = pa.table({"text": ["b", None, "a"], "category": ["b", None, "a"]})
    found = DynamicFilteringData.from_arrow(keys)
    assert found == DynamicFilteringData.from_arrow(plain)


def test_run_end_encoded_keys() -> None:
    keys = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "b"]))
    data = DynamicFilteringData.from_arrow(pa.table({"k": keys}))
    assert data == DynamicFilteringData.from_arrow(pa.table({"k": ["a", "b"]}))


@pytest.mark.parametrize(
    "kind",
    [pa.list_view(pa.int64()), pa.struct([("a", pa.run_end_encoded(pa.int32(), pa.int8()))])],
)
def test_keys_that_cannot_be_serialized_are_refused(kind: pa.DataType) -> None:
    """Otherwise, a checkpoint with these keys could not be restored."""
    with pytest.raises(InvalidFilter, match="has unsupported type"):
        DynamicFilteringData.exceeded(pa.schema({"k": kind}))


@pytest.mark.parametrize(("key", "other"), [([1], [2]), ({"a": "x"}, {"a": "y"})])
def test_nested_keys_are_found(key: object, other: object) -> None:
    data = DynamicFilteringData.from_arrow(pa.table({"k": pa.array([key, None])}))
    assert data.contains({"k": key})
    assert data.contains({"k": None})
    assert not data.contains({"k": other})


def test_a_table_that_cannot_be_converted_is_refused():
    mixed = pd.DataFrame({"k": [1, "a"]})
    with pytest.raises(InvalidFilter, match="A DataFrame cannot be converted to a table of keys"):
        DynamicFilteringData.from_arrow(mixed)
    # An array has no column names, so it counts as something else than a table.
    with pytest.raises(InvalidFilter, match="is not an Arrow table"):
        DynamicFilteringData.from_arrow(pa.chunked_array([[1]]))
