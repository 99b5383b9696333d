"""Join keys as SQL conditions. Their size depends on the system that evaluates them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from splitlib import DynamicFilteringData
from splitlib.spark.join_condition import ConditionWriter, Operand, are_compared

OPERANDS = {name: Operand(f"`{name}`", LongType()) for name in ("a", "b")}


def keys(number: int, columns: str = "ab") -> DynamicFilteringData:
    """Return keys for some columns, with gaps between their values."""
    values = {name: pa.array(range(0, number * 10, 10), pa.int64()) for name in columns}
    return DynamicFilteringData.from_arrow(pa.table(values))


@pytest.mark.parametrize(("number", "alternatives"), [(50, 50), (51, 51 + 51)])
def test_pairs_for_a_database(number: int, alternatives: int) -> None:
    """A few keys are written as pairs. For more keys, each column has its own condition."""
    writer = ConditionWriter(OPERANDS, 1000, for_database=True)
    condition = writer.of(keys(number))
    assert condition.is_exact == (number == 50)
    assert condition.sql.count("OR") + (1 if number == 50 else 2) == alternatives
    assert writer.literals == number * 2


def test_values_for_a_database() -> None:
    """Values are listed up to the limit. Above the limit, they become a few ranges."""
    operand = {"a": OPERANDS["a"]}
    writer = ConditionWriter(operand, 1000, for_database=True)
    assert writer.of(keys(1000, "a")).sql.count("=") == writer.literals == 1000
    writer = ConditionWriter(operand, 999, for_database=True)
    assert writer.of(keys(1000, "a")).sql.count(">=") <= 50
    assert writer.literals <= 100
    # The limit is negative if other conditions have used more literals than allowed.
    writer = ConditionWriter(operand, -3, for_database=True)
    assert writer.of(keys(1000, "a")).sql == "(`a` >= 0L AND `a` <= 9990L)"


def test_others_get_pairs_and_ranges() -> None:
    """Other systems get pairs and ranges. Only the number of literals is limited for them."""
    assert ConditionWriter(OPERANDS, 1000).of(keys(500)).is_exact
    ranges = ConditionWriter({"a": OPERANDS["a"]}, 400).of(keys(1000, "a"))
    assert ranges.sql.count("OR") + 1 == 200


def test_ranges_of_strings_for_what_compares_them_by_bytes() -> None:
    """Only systems that compare strings by bytes get ranges of strings.

    Other systems may sort strings in another order.
    """
    operand = {"a": Operand("`a`", StringType())}
    texts = DynamicFilteringData.from_arrow(pa.table({"a": ["b", "c\\", "d"]}))
    ranges = ConditionWriter(operand, 2, plain_strings=True).of(texts)
    assert ranges.sql == "(`a` >= 'b' AND `a` <= 'd')"
    assert ConditionWriter(operand, 2).of(texts).sql == "true"
    assert ConditionWriter(operand, 2, for_database=True).of(texts).sql == "true"


@pytest.mark.parametrize(
    ("kind", "arrow", "first", "text"),
    [
        (DateType(), pa.date32(), -141427, "DATE'1582-10-15'"),
        (
            TimestampType(),
            pa.timestamp("us", "UTC"),
            -2_208_816_000 * 10**6,
            "CAST('1900-01-03 00:00:00.000000Z' AS timestamp_ltz)",
        ),
    ],
)
def test_values_that_java_converts_to_others(
    kind: DataType, arrow: pa.DataType, first: int, text: str
) -> None:
    """Spark's readers would skip files with older values, so these become one range."""

    def written(*values: int, most: int = 9) -> tuple[str, bool]:
        column = pa.array(values, pa.int64()).cast(pa.int32()) if kind == DateType() else values
        keys = DynamicFilteringData.from_arrow(pa.table({"a": pa.array(column).cast(arrow)}))
        found = ConditionWriter({"a": Operand("a", kind)}, most).of(keys)
        return found.sql, found.is_exact

    assert written(first) == (f"a = {text}", True)
    assert written(first - 1) == (f"a <= {text}", False)
    assert written(first - 9, first - 1, first) == (f"(a <= {text} OR a = {text})", False)
    assert written(first - 9, first - 3, first - 1, first, most=2) == (f"a <= {text}", False)


@pytest.mark.parametrize(
    ("day", "before", "after"),
    [
        ("1993-08-21", "1993-08-19", "1993-08-22"),
        ("1994-12-31", "1994-12-30", "1995-01-02"),
        ("2011-12-30", "2011-12-29", "2011-12-31"),
    ],
)
def test_days_that_a_time_zone_skipped(day: str, before: str, after: str) -> None:
    """In a JVM of this zone, Spark's readers would skip files with the day."""
    keys = DynamicFilteringData.from_arrow(pa.table({"a": pa.array([day]).cast(pa.date32())}))
    found = ConditionWriter({"a": Operand("a", DateType())}, 9).of(keys)
    assert found.sql == f"(a >= DATE'{before}' AND a <= DATE'{after}')"
    assert not found.is_exact
    values = pa.array([before, day, after]).cast(pa.date32())
    assert are_compared(values).to_pylist() == [True, False, True]


@pytest.mark.parametrize("text", ["\\", "a\\b", "'\""])
def test_text_that_others_misread_is_no_literal(text: str) -> None:
    """Text that some systems misread is written as a cast of bytes, which only Spark evaluates."""
    operand = {"a": Operand("`a`", StringType())}
    keys = DynamicFilteringData.from_arrow(pa.table({"a": [text]}))
    literal = f"CAST(X'{text.encode().hex()}' AS STRING)"
    found = ConditionWriter(operand, 2).of(keys)
    assert (found.sql, found.is_exact) == (f"`a` = CONCAT({literal}, REPEAT(`a`, 0))", True)
    assert ConditionWriter(operand, 2, plain_strings=True).of(keys).sql == f"`a` = {literal}"


@pytest.mark.parametrize(
    ("kind", "of_keys", "zero"),
    [
        (LongType(), pa.int64(), "0L"),
        (ByteType(), pa.int8(), "0Y"),
        (DoubleType(), pa.float64(), "CAST('0.0' AS double)"),
        (DecimalType(20, 3), pa.decimal128(20, 3), "CAST('0.000' AS decimal(20,3))"),
        (StringType(), pa.string(), "''"),
        (BinaryType(), pa.binary(), "X''"),
        (BooleanType(), pa.bool_(), "false"),
        (DateType(), pa.date32(), "DATE'1970-01-01'"),
        (
            TimestampType(),
            pa.timestamp("us", "UTC"),
            "CAST('1970-01-01 00:00:00.000000Z' AS timestamp_ltz)",
        ),
        (
            TimestampNTZType(),
            pa.timestamp("us"),
            "CAST('1970-01-01 00:00:00.000000' AS timestamp_ntz)",
        ),
    ],
)
def test_no_keys_of_a_command(kind: DataType, of_keys: pa.DataType, zero: str) -> None:
    """Without keys, the condition is never true, and Spark does not replace it with a constant."""
    none = DynamicFilteringData.from_arrow(pa.table({"a": pa.array([], of_keys)}))
    operand = {"a": Operand("`a`", kind)}
    never = ConditionWriter(operand, 1000, for_command=True).of(none)
    assert (never.sql, never.is_exact) == (f"(`a` < {zero} AND `a` > {zero})", True)
    assert ConditionWriter(operand, 1000).of(none).sql == "false"


def test_no_keys_of_a_command_with_a_column_without_literals() -> None:
    none = DynamicFilteringData.from_arrow(pa.table({"k": pa.array([], pa.int32())}))
    operands = {"a": Operand("`a`", ArrayType(IntegerType())), "k": Operand("`k`", IntegerType())}
    never = ConditionWriter(operands, 1000, for_command=True).of(none)
    assert never.sql == "(`k` < 0 AND `k` > 0)"


def test_ranges_beyond_the_dates_of_python() -> None:
    """Ends of ranges that Python's dates cannot represent are written and described as text."""
    days = pa.array([3_000_000 + 400 * n for n in range(20)], pa.int32()).cast(pa.date32())
    keys_of_days = DynamicFilteringData.from_arrow(pa.table({"a": days}))
    found = ConditionWriter({"a": Operand("`a`", DateType())}, 6).of(keys_of_days)
    assert found.sql.startswith("((`a` >= CAST('10183-09-21' AS date)")
    assert "from 10183-09-21 to 10204-07-13" in str(found.explain())
