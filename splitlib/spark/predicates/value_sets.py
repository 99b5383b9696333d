"""Describe conditions as sets of values per column, in Spark's sort order, without calling Spark.

A value is any Python object that can be sorted. If Spark's order differs from Python's, as for NaN,
the caller converts values with :func:`splitlib.spark.predicates.domains.key_of`.

A set may be too large, but never too small. An unsupported condition becomes the set of all values.
A condition on several columns becomes one set per column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

# An interval's end: before all values, just before or after one value, or after all values.
Cut = tuple[Any, ...]
_FIRST: Final[Cut] = (-1,)
_LAST: Final[Cut] = (1,)


def before(value: Any) -> Cut:
    """Return an interval's end just before ``value``. An interval that starts here includes it."""
    return (0, value, 0)


def after(value: Any) -> Cut:
    """Return an interval's end just after ``value``. An interval that ends here includes it."""
    return (0, value, 1)


@dataclass(frozen=True, slots=True)
class ValueSet:
    """A set of values that one column can have."""

    intervals: tuple[tuple[Cut, Cut], ...]
    """Disjoint intervals in ascending order, with gaps between them."""
    null: bool = False
    """Whether the set contains null."""

    @classmethod
    def of(cls, intervals: Iterable[tuple[Cut, Cut]], *, null: bool = False) -> ValueSet:
        """Return the union of ``intervals``, which may overlap."""
        merged: list[tuple[Cut, Cut]] = []
        for low, high in sorted(intervals):
            if low >= high:
                continue
            if merged and low <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        return cls(tuple(merged), null)

    @property
    def is_empty(self) -> bool:
        """Whether the set contains neither values nor null."""
        return not self.intervals and not self.null

    def __or__(self, other: ValueSet) -> ValueSet:
        return ValueSet.of((*self.intervals, *other.intervals), null=self.null or other.null)

    def __and__(self, other: ValueSet) -> ValueSet:
        both = [
            (max(low, other_low), min(high, other_high))
            for low, high in self.intervals
            for other_low, other_high in other.intervals
        ]
        return ValueSet.of(both, null=self.null and other.null)


NOT_NULL: Final = ValueSet(((_FIRST, _LAST),))
ONLY_NULL: Final = ValueSet((), null=True)

# A set of rows, described by the values that some columns may have. Columns that are not in the
# mapping may have any value. None stands for no rows.
Region = Mapping[str, ValueSet] | None
_EVERYWHERE: Final[Region] = {}


@dataclass(frozen=True, slots=True)
class Truth:
    """The rows for which a condition is true, and the rows for which it is false (not null)."""

    true: Region
    false: Region

    def __and__(self, other: Truth) -> Truth:
        return Truth(_both(self.true, other.true), _either(self.false, other.false))

    def __or__(self, other: Truth) -> Truth:
        return Truth(_either(self.true, other.true), _both(self.false, other.false))

    def __invert__(self) -> Truth:
        return Truth(self.false, self.true)


UNKNOWN: Final = Truth(_EVERYWHERE, _EVERYWHERE)


def always(value: bool | None) -> Truth:
    """Return the :class:`Truth` of a constant condition; None means null."""
    return Truth(_EVERYWHERE if value else None, _EVERYWHERE if value is False else None)


def compared(column: str, comparison: str, value: Any) -> Truth:
    """Return the :class:`Truth` of ``column comparison value``.

    Args:
        column: Column on the left.
        comparison: One of ``=``, ``<``, ``<=``, ``>``, ``>=`` and ``<=>``.
        value: Value on the right; None means null.
    """
    if comparison == "<=>" and value is None:
        return is_null(column)
    if value is None:
        return always(None)
    true = {
        "=": [(before(value), after(value))],
        "<=>": [(before(value), after(value))],
        "<": [(_FIRST, before(value))],
        "<=": [(_FIRST, after(value))],
        ">": [(after(value), _LAST)],
        ">=": [(before(value), _LAST)],
    }[comparison]
    return _where(column, ValueSet.of(true), null_is_false=comparison == "<=>")


def among(column: str, values: Iterable[Any]) -> Truth:
    """Return the :class:`Truth` of ``column IN (values)``; a value of None means null."""
    listed = list(values)
    if not listed:
        return always(False)  # IN with an empty list is false, even for null
    found = ValueSet.of((before(v), after(v)) for v in listed if v is not None)
    truth = _where(column, found)
    # If the list contains null, IN is null for values that are not in the list.
    return Truth(truth.true, None) if None in listed else truth


def is_null(column: str) -> Truth:
    """Return the :class:`Truth` of ``column IS NULL``."""
    return Truth({column: ONLY_NULL}, {column: NOT_NULL})


def _where(column: str, true: ValueSet, *, null_is_false: bool = False) -> Truth:
    edges = [_FIRST, *(cut for interval in true.intervals for cut in interval), _LAST]
    gaps = zip(edges[::2], edges[1::2], strict=True)
    return Truth(_region(column, true), _region(column, ValueSet.of(gaps, null=null_is_false)))


def _region(column: str, values: ValueSet) -> Region:
    return None if values.is_empty else {column: values}


def _both(one: Region, other: Region) -> Region:
    if one is None or other is None:
        return None
    found = dict(one)
    for column, values in other.items():
        found[column] = found[column] & values if column in found else values
    return None if any(values.is_empty for values in found.values()) else found


def _either(one: Region, other: Region) -> Region:
    if one is None or other is None:
        return other if one is None else one
    return {column: one[column] | other[column] for column in one.keys() & other.keys()}
