"""Casts that lose nothing: different values stay different, and in the same order.

Only then a condition on what a cast makes of a column is one on the column.
"""

from __future__ import annotations

import re
from typing import Final

# Decimal digits that every value of the type fits into, the narrowest type first.
_DIGITS: Final = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_WIDTHS: Final = tuple(_DIGITS)
_DECIMAL: Final = re.compile(r"decimal\((\d+),(-?\d+)\)")
# A date as an instant depends on the time zone, and some zones have skipped a day.
_OTHERS: Final = frozenset({("float", "double"), ("date", "timestamp_ntz")})


def is_lossless(source: object, target: object) -> bool:
    """Whether a cast from one type to another is, for all values, in every mode of casting.

    Strings are not told apart: as Catalyst writes its plans, a collation is no part of the type.

    Args:
        source: As Catalyst writes types in the JSON of a plan, such as ``decimal(10,2)``.
        target: The same of the result.
    """
    if not isinstance(source, str) or not isinstance(target, str):
        return False  # it has parts
    if (source, target) in _OTHERS:
        return True
    if source in _WIDTHS and target in _WIDTHS:
        return _WIDTHS.index(source) <= _WIDTHS.index(target)
    own, others = _digits(source), _digits(target)
    if own is None or others is None or target in _DIGITS:
        return False
    return own[0] <= others[0] and own[1] <= others[1]


def _digits(kind: str) -> tuple[int, int] | None:
    """Digits before and after the point; None of what is no exact number."""
    if kind in _DIGITS:
        return _DIGITS[kind], 0
    found = _DECIMAL.fullmatch(kind)
    return None if found is None else (int(found[1]) - int(found[2]), int(found[2]))
