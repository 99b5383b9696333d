"""Compare the rows of two engines, with a tolerance for their different arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from itertools import zip_longest

# Spark divides and averages decimals as decimals, often with six decimal places. DuckDB uses
# doubles.
_RELATIVE, _ABSOLUTE = 1e-9, 2e-6


def difference(actual: Sequence[Sequence[object]], expected: Sequence[Sequence[object]]) -> str:
    """Describe the first difference. Return "" if both have the same rows in the same order."""
    for number, (one, other) in enumerate(zip_longest(actual, expected), start=1):
        if one is None or other is None or len(one) != len(other):
            return (
                f"{len(actual)} rows instead of {len(expected)}; row {number} is {one}, not {other}"
            )
        for column, (value, wanted) in enumerate(zip(one, other, strict=True), start=1):
            if not _same(value, wanted):
                return (
                    f"row {number} of {len(expected)}, column {column}: {value!r}, not {wanted!r}"
                )
    return ""


def _same(value: object, wanted: object) -> bool:
    if isinstance(value, int) and isinstance(wanted, int):
        return value == wanted
    if isinstance(value, int | float | Decimal) and isinstance(wanted, int | float | Decimal):
        return math.isclose(value, wanted, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
    return value == wanted
