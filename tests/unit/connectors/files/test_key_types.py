"""The ``files`` connector infers the same types from directory names as Spark."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

import splitlib
from splitlib_files.key_types import NULL, common_type, type_of, values_of

INT, LONG, DOUBLE = pa.int32(), pa.int64(), pa.float64()
DATE, INSTANT, STRING = pa.date32(), pa.timestamp("us", "UTC"), pa.string()


def decimal(digits):
    return pa.decimal128(digits, 0)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1", INT),
        ("01", INT),
        ("+5", INT),
        ("-0", INT),
        ("\uff11", INT),
        ("-2147483648", INT),
        ("2147483648", LONG),
        ("-9223372036854775808", LONG),
        ("9223372036854775808", decimal(19)),
        ("9" * 38, decimal(38)),
        ("9" * 39, DOUBLE),
        ("1e3", decimal(4)),
        ("1.", decimal(1)),
        ("1.0e1", decimal(2)),
        ("0e99", DOUBLE),
        ("1e999999999", DOUBLE),
        ("1.0", DOUBLE),
        (".5", DOUBLE),
        ("7d", DOUBLE),
        ("1f", DOUBLE),
        (" 5", DOUBLE),
        ("0x1p3", DOUBLE),
        ("-Infinity", DOUBLE),
        ("NaN", DOUBLE),
        ("nan", STRING),
        ("1_0", STRING),
        ("0x10", STRING),
        ("%31", STRING),
        ("true", STRING),
        ("", STRING),
        ("2024-01-01", DATE),
        ("2024-1-1", STRING),
        ("2024-02-30", STRING),
        ("2024-01-01x", STRING),
        ("2024-01-01 00%3A00%3A00", INSTANT),
        ("2024-01-01 00:00:00.5", INSTANT),
        ("2024-01-01 00:00:00.12", STRING),
        ("2024-01-01 24:00:00", STRING),
        ("2024-01-01T00", STRING),
        ("20240101", INT),
        ("12024-01-01", STRING),
        ("__HIVE_DEFAULT_PARTITION__", pa.null()),
    ],
)
def test_one_value(text, kind):
    assert type_of(text, INSTANT) == kind


@pytest.mark.parametrize("text", ["+12024-01-01", "0000-01-01", "-0001-12-31 10%3A00%3A00"])
def test_dates_that_python_does_not_have_are_refused(text):
    with pytest.raises(splitlib.UnsupportedTable, match="outside the years 1 to 9999"):
        type_of(text, INSTANT)


@pytest.mark.parametrize(
    ("types", "kind"),
    [
        ([], STRING),
        ([pa.null()], STRING),
        ([pa.null(), INT], INT),
        ([INT, LONG], LONG),
        ([INT, DOUBLE], DOUBLE),
        ([LONG, DOUBLE], STRING),
        ([INT, decimal(4)], decimal(10)),
        ([LONG, decimal(4)], decimal(20)),
        ([decimal(25), LONG, INT], decimal(25)),
        ([decimal(25), DOUBLE], STRING),
        ([DATE, INSTANT], INSTANT),
        ([INSTANT, DATE, pa.null()], INSTANT),
        ([DATE, INT], STRING),
        ([INT, STRING], STRING),
        ([INT, DOUBLE, LONG], STRING),
    ],
    ids=str,
)
def test_all_values_of_a_key(types, kind):
    assert common_type(types) == common_type(reversed(types)) == kind


@pytest.mark.parametrize(
    ("kind", "texts", "values"),
    [
        (INT, ["01", None, "+5", "\uff11"], [1, None, 5, 1]),
        (LONG, ["-9223372036854775808"], [-(2**63)]),
        (decimal(20), ["1e3", "99999999999999999999"], [Decimal(1000), Decimal("9" * 20)]),
        (decimal(38), ["9" * 38], [Decimal("9" * 38)]),
        (DOUBLE, ["1", "7d", "0x1p3", "0x1p9999", " .5"], [1.0, 7.0, 8.0, float("inf"), 0.5]),
        (DATE, ["2024-02-29"], [date(2024, 2, 29)]),
        (INSTANT, ["2024-01-01"], ["2024-01-01"]),
        (STRING, ["01", None], ["01", None]),
        (NULL, [None, None], [None, None]),
    ],
    ids=str,
)
def test_values_follow_their_type(kind, texts, values):
    found = values_of(pa.array(texts, pa.string()), kind)
    assert found.to_pylist() == values
    assert found.type == (kind if kind not in (INSTANT, STRING) else STRING)


@pytest.mark.parametrize(
    ("kind", "text"),
    [(INT, "2147483648"), (INT, "1.0"), (LONG, "x"), (DOUBLE, "1_0"), (decimal(4), "12345"),
     (decimal(4), "1.5"), (DATE, "2024-1-1"), (DATE, "2023-02-29"), (NULL, "1")],
    ids=str,
)  # fmt: skip
def test_a_later_value_of_another_type(kind, text):
    assert values_of(pa.array([text]), kind).null_count == 1
