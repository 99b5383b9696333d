"""SQL literals have exactly the value, also where Arrow or Python cannot write it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from splitlib.arrow.values import shown
from splitlib.spark.conversion import arrow_literal

UTC, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")
ZERO = "CAST('1970-01-01 00:00:00.000000{}' AS timestamp_{})"
FAR = "CAST('{}' AS interval day to second)"


def scalar(number: int, kind: pa.DataType) -> pa.Scalar:
    whole = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array([number], whole).cast(kind)[0]


@pytest.mark.parametrize(
    ("number", "kind", "literal"),
    [
        (11_248_737, pa.date32(), "CAST('32767-12-31' AS date)"),
        (11_248_738, pa.date32(), "date_from_unix_date(11248738)"),
        (-(2**31), pa.date32(), "date_from_unix_date(-2147483648)"),
        (971_890_963_199_999_999, UTC, "CAST('32767-12-31 23:59:59.999999Z' AS timestamp_ltz)"),
        (
            971_890_963_200_000_001,
            UTC,
            f"({ZERO.format('Z', 'ltz')} + {FAR.format('11248738 00:00:00.000001')})",
        ),
        (
            -(2**62),
            LOCAL,
            f"({ZERO.format('', 'ntz')} + {FAR.format('-53375995 14:00:27.387904')})",
        ),
        (86_400_000_001, pa.duration("us"), FAR.format("1 00:00:00.000001")),
        (-3_723_000_000, pa.duration("us"), FAR.format("-0 01:02:03.000000")),
    ],
)
def test_literals_of_far_times_and_intervals(number: int, kind: Any, literal: str) -> None:
    assert arrow_literal(scalar(number, kind), kind) == literal


def test_far_times_are_shown() -> None:
    assert shown(scalar(11_248_738, pa.date32())) == "<value out of range: 11248738>"
    far = 971_890_963_200_000_001
    assert shown(scalar(far, UTC)) == f"<value out of range: {far}>"
