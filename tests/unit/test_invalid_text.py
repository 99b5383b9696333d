"""Text that is not valid UTF-8, which Spark allows, neither fails nor loses a row."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType

import splitlib
from splitlib import DynamicFilteringData, InvalidFilter
from splitlib.cli.filters import typed
from splitlib.filtering.predicate import Predicate
from splitlib.model import LOGICAL_TYPE
from splitlib.spark.conversion import bare_literals
from splitlib.spark.join_condition import ConditionWriter, Operand, are_compared
from tests.unit.statistics.tables import opened, selected, write

TEXTS = pa.array([b"Caf\xe9", b"ok", b"\xff "], pa.binary()).view(pa.string())
KEYS = DynamicFilteringData.from_arrow(pa.table({"a": TEXTS}))
RANGE = DynamicFilteringData.from_range({"a": (TEXTS[0], TEXTS[2])})
NUMBERED = DynamicFilteringData.from_arrow(pa.table({"a": TEXTS[:1], "n": [1]}))
OPERANDS = {"a": Operand("a", StringType()), "n": Operand("n", LongType())}


@pytest.mark.parametrize(
    ("data", "plain", "sql"),
    [
        (KEYS, True, "((a >= 'Caf' AND a <= 'Cag') OR a = 'ok' OR a >= '')"),
        (KEYS, False, "(a IS NOT NULL OR a = 'ok')"),
        (RANGE, True, "a >= 'Caf'"),
        (RANGE, False, "true"),
        (NUMBERED, True, "((a >= 'Caf' AND a <= 'Cag') AND n = 1L)"),
        (NUMBERED, False, "(a IS NOT NULL AND n = 1L)"),
    ],
)
def test_conditions_have_ranges_with_valid_ends(
    data: DynamicFilteringData, plain: bool, sql: str
) -> None:
    """Spark replaces invalid bytes in a literal before it passes the literal to readers."""
    operands = {name: OPERANDS[name] for name in data.fields}
    found = ConditionWriter(operands, 9, plain_strings=plain).of(data)
    assert (found.sql, found.is_exact) == (sql, False)
    assert found.explain().filters


def test_invalid_text_is_no_literal() -> None:
    assert are_compared(TEXTS).to_pylist() == [False, True, False]
    assert bare_literals(TEXTS, TEXTS.type) is None
    assert bare_literals(TEXTS[1:2], TEXTS.type) == ["'ok'"]


def test_condition_of_a_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    source = pa.table({"a": TEXTS, "n": [1, 2, 3]})
    cafe = "\"a\" >= 'Caf' AND \"a\" <= 'Cag'"
    assert splitlib.merge_condition(source, {"a": "a"}) == (
        f"(({cafe}) OR \"a\" = 'ok' OR (\"a\" >= ''))"
    )
    assert splitlib.merge_condition(source[:1], {"a": "a", "n": "n"}) == (
        f'((({cafe}) AND ("n" > 0 AND "n" < 2)))'
    )
    monkeypatch.setenv("SPLITLIB_CONDITION_LITERALS", "2")
    assert splitlib.merge_condition(source, {"a": "a"}) == "((\"a\" >= 'Caf'))"


@pytest.mark.parametrize("data", [KEYS, RANGE, NUMBERED])
def test_filters_are_restored(data: DynamicFilteringData) -> None:
    restored = DynamicFilteringData.from_bytes(data.to_bytes())
    assert restored == data == pickle.loads(pickle.dumps(data))
    assert restored.domains[0].fields == data.domains[0].fields


def test_char_keys_are_compared_without_padding() -> None:
    char = pa.field("a", pa.string(), metadata={LOGICAL_TYPE: b"char(5)"})
    values = pa.array([b"\xff", b"\xff   ", b"\xfe"], pa.binary()).view(pa.string())
    found = Predicate(pa.schema([char]), [KEYS]).match(pa.record_batch({"a": values}))
    assert found.to_pylist() == [True, True, False]


def test_files_are_found(tmp_path: Path) -> None:
    write(tmp_path / "odd.parquet", pa.table({"a": TEXTS}))
    write(tmp_path / "plain.parquet", pa.table({"a": ["x", "y"]}))
    names, enumerator = selected(opened(tmp_path, pa.schema([("a", pa.string())])), KEYS)
    assert names == {"odd.parquet"}
    assert enumerator.explain().to_dict()


def test_invalid_text_is_shown_in_errors() -> None:
    from splitlib.arrow.values import python_values

    with pytest.raises(InvalidFilter, match=r"'Caf\\\\xe9' is not a valid int32"):
        typed(python_values(TEXTS), pa.field("a", pa.int32()))
