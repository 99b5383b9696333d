"""Lossless casts: different values stay different, and keep their order.

Only for a lossless cast, a condition on the cast column is also a condition on the column.
"""

from __future__ import annotations

import re
from typing import Final

# Maximal number of decimal digits of each integer type, narrowest type first.
_DIGITS: Final = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_WIDTHS: Final = tuple(_DIGITS)
_DECIMAL: Final = re.compile(r"decimal\((\d+),(-?\d+)\)")
# date -> timestamp is not lossless: it depends on the time zone, and some zones skipped a day.
_OTHERS: Final = frozenset({("float", "double"), ("date", "timestamp_ntz")})


def is_lossless(source: object, target: object) -> bool:
    """Return whether a cast is lossless for all values, with and without ANSI mode.

    Casts between strings are never lossless here: the JSON of a plan does not contain collations.

    Args:
        source: Type before the cast, as in the JSON of a plan, such as ``decimal(10,2)``.
        target: Type after the cast, in the same form.
    """
    if not isinstance(source, str) or not isinstance(target, str):
        return False  # nested type
    if (source, target) in _OTHERS:
        return True
    if source in _WIDTHS and target in _WIDTHS:
        return _WIDTHS.index(source) <= _WIDTHS.index(target)
    own, others = _digits(source), _digits(target)
    if own is None or others is None or target in _DIGITS:
        return False
    return own[0] <= others[0] and own[1] <= others[1]


def _digits(kind: str) -> tuple[int, int] | None:
    """Return the digits before and after the point; None if the type is not an exact number."""
    if kind in _DIGITS:
        return _DIGITS[kind], 0
    found = _DECIMAL.fullmatch(kind)
    return None if found is None else (int(found[1]) - int(found[2]), int(found[2]))
