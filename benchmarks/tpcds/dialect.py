"""Replacements that adapt DuckDB's TPC-DS queries to Spark SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Replacement:
    """A text that is replaced everywhere in a query."""

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
"""Replacements for both engines, by query number, so that the order of rows is the same."""

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
"""Replacements for Spark only, by query number."""


def replaced(text: str, replacements: Sequence[Replacement]) -> str:
    """Return the text after all replacements.

    Raises:
        ValueError: A text to replace does not occur. Probably DuckDB has changed the query.
    """
    for replacement in replacements:
        if replacement.old not in text:
            raise ValueError(f"there is no {replacement.old!r} in: {text}")
        text = text.replace(replacement.old, replacement.new)
    return text
