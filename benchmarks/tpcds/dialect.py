"""Where Spark's SQL spells something differently; nothing else of a query is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Replacement:
    """A piece of a query, wherever it occurs, and what to write instead."""

    old: str
    new: str
    reason: str


_QUOTES = Replacement('"', "`", "Spark quotes names with backticks")
_ROUND = Replacement(
    "ORDER BY sum_sales - avg_monthly_sales",
    "ORDER BY round(sum_sales - avg_monthly_sales, 4)",
    "an average of decimals is a decimal to Spark and a double to DuckDB, which breaks ties",
)

FOR_BOTH: Mapping[int, Sequence[Replacement]] = {47: [_ROUND], 57: [_ROUND], 89: [_ROUND]}
"""By query: what is changed for both engines, so that one order is right."""

FOR_SPARK: Mapping[int, Sequence[Replacement]] = {
    16: [_QUOTES],
    32: [_QUOTES],
    50: [_QUOTES],
    62: [_QUOTES],
    92: [_QUOTES],
    94: [_QUOTES],
    95: [_QUOTES],
    99: [_QUOTES],
}
"""By query: what is changed for Spark alone."""


def replaced(text: str, replacements: Sequence[Replacement]) -> str:
    """The text with all of them.

    Raises:
        ValueError: One does not apply, so that the shipped query has changed.
    """
    for replacement in replacements:
        if replacement.old not in text:
            raise ValueError(f"there is no {replacement.old!r} in: {text}")
        text = text.replace(replacement.old, replacement.new)
    return text
