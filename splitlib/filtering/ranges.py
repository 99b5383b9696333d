"""Disjoint, ordered ranges of values, and matching of values and bounds against them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.arrow.ordinals import have_same_ordinals, ordinals
from splitlib.arrow.values import shown

BRACKETS: Final = ("[]", "[)", "(]", "()")
"""Whether lower and upper ends belong to the ranges, in mathematical notation."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """At least one range, in order. A range may begin where the previous one ends."""

    lower: pa.Array
    """Lower ends, ascending; null in the first one means an open end."""
    upper: pa.Array
    """Upper ends, ascending; null in the last one means an open end."""
    brackets: str = "[]"
    """One of :data:`BRACKETS`."""

    @classmethod
    def between(cls, lower: pa.Scalar, upper: pa.Scalar) -> Self:
        """Make one range that includes both ends; null is an open end."""
        # Arrow scalars, because Python has no dates after the year 9999.
        return cls(*(pa.array([end], end.type) for end in (lower, upper)))

    @classmethod
    def covering(cls, values: pa.Array, most: int) -> Self:
        """Cover many values with a few ranges, and as little as possible between the values.

        Consecutive integers or dates have no gap between them. For other types see :meth:`at_most`.

        Args:
            values: At least one value, sorted, without nulls.
            most: Maximum number of ranges, at least 1.
        """
        ranges = cls(values, values)
        gaps = ranges._gaps()
        is_whole = pa.types.is_integer(values.type) or pa.types.is_date32(values.type)
        if is_whole and gaps is not None:
            ranges = ranges._cut((np.flatnonzero(gaps > 1) + 1).tolist())
        return ranges.at_most(most)

    @classmethod
    def merged(cls, lower: pa.Array, upper: pa.Array, brackets: str = "[]") -> Self | None:
        """Return the union of some intervals; None if all of them are empty.

        Args:
            lower: Lower ends, without nulls.
            upper: Upper ends, without nulls; an interval is empty if its upper end is less.
            brackets: See :attr:`brackets`.
        """
        holds = (pc.less_equal if brackets == "[]" else pc.less)(lower, upper)
        lower, upper = lower.filter(holds), upper.filter(holds)
        if not len(lower):
            return None
        ranks = pc.rank(pa.concat_arrays([lower, upper]), tiebreaker="dense").to_numpy()
        order = np.argsort(ranks[: len(lower)], kind="stable")
        begins, ends = ranks[: len(lower)][order], ranks[len(lower) :][order]
        reached = np.maximum.accumulate(ends)
        # Two open intervals that meet leave out the point between them, so they stay apart.
        is_apart = np.greater_equal if brackets == "()" else np.greater
        starts = np.flatnonzero(np.append(True, is_apart(begins[1:], reached[:-1])))
        lasts = np.append(starts[1:], len(begins)) - 1
        _, with_rank = np.unique(ends, return_index=True)
        furthest = with_rank[np.searchsorted(ends[with_rank], reached[lasts])]
        return cls(lower.take(order[starts]), upper.take(order[furthest]), brackets)

    def __len__(self) -> int:
        return len(self.lower)

    def __iter__(self) -> Iterator[tuple[pa.Scalar, pa.Scalar]]:
        return zip(self.lower, self.upper, strict=True)

    @property
    def ends(self) -> pa.Array:
        """All lower ends, then all upper ends."""
        return pa.concat_arrays([self.lower, self.upper])

    @property
    def is_closed(self) -> bool:
        """Whether all ends belong to the ranges."""
        return self.brackets == "[]"

    @property
    def are_in_order(self) -> bool:
        """Whether the ranges are valid and ordered; deserialized ranges may not be."""
        if self.brackets not in BRACKETS or not len(self):
            return False
        if len(self) == 1:
            return True  # a range that ends before it begins is empty, but valid
        if self.lower[1:].null_count or self.upper[:-1].null_count:
            return False
        pairs = ((self.lower, self.upper), (self.upper[:-1], self.lower[1:]))
        return not any(pc.any(pc.greater(*pair)).as_py() for pair in pairs)

    def contain(self, values: pa.Array) -> pa.BooleanArray:
        """Return true for each value in one of the ranges, and for nulls."""
        return self._overlap(values, values)

    def meet(self, lower: pa.Array, upper: pa.Array) -> pa.BooleanArray:
        """Return true for bounds that overlap a range; a null bound is unknown."""
        return self._overlap(lower, upper)

    def at_most(self, number: int) -> Self:
        """Merge into at most ``number`` ranges, keeping the widest gaps.

        Types without a distance, such as strings, are merged in groups of equal size.

        Args:
            number: At least 1.
        """
        if len(self) <= number:
            return self
        gaps = self._gaps()
        if gaps is None:
            return self._cut([len(self) * part // number for part in range(1, number)])
        widest = np.argsort(gaps, kind="stable")[len(gaps) - number + 1 :]
        return self._cut((np.sort(widest) + 1).tolist())

    def cast(self, kind: pa.DataType) -> Self:
        """Return the same ranges in another type."""
        return replace(self, lower=self.lower.cast(kind), upper=self.upper.cast(kind))

    def describe(self) -> str:
        """Return a short description for reports."""
        ends = f"{shown(self.lower[0])}, {shown(self.upper[-1])}"
        ends = f"{self.brackets[0]}{ends}{self.brackets[1]}"
        return f"{len(self)} ranges in {ends}" if len(self) > 1 else ends

    def _overlap(self, lower: pa.Array, upper: pa.Array) -> pa.BooleanArray:
        """Check whether the last range that begins before the upper bound reaches the lower one."""
        if len(self) > 1 and not have_same_ordinals(self.lower.type, upper.type):
            return self.at_most(1)._overlap(lower, upper)
        begins: Any = self.lower[0]
        ends: Any = self.upper[0]
        if len(self) > 1:
            starts = ordinals(self.lower[1:])
            side: Literal["left", "right"] = "right" if self.brackets[0] == "[" else "left"
            at = np.searchsorted(starts, ordinals(upper), side)
            at[pc.is_null(upper).to_numpy(zero_copy_only=False)] = len(self) - 1
            begins, ends = self.lower.take(pa.array(at)), self.upper.take(pa.array(at))
        begun = pc.less_equal if self.brackets[0] == "[" else pc.less
        not_ended = pc.greater_equal if self.brackets[1] == "]" else pc.greater
        return pc.and_(
            pc.fill_null(begun(begins, upper), True), pc.fill_null(not_ended(ends, lower), True)
        )

    def _cut(self, at: list[int]) -> Self:
        """Merge ranges into groups that start at index 0 and at these indices."""
        starts, ends = [0, *at], [*(number - 1 for number in at), len(self) - 1]
        return replace(self, lower=self.lower.take(starts), upper=self.upper.take(ends))

    def _gaps(self) -> npt.NDArray[np.float64] | None:
        """Return the approximate gap between each range and the next; None for other types."""
        lower, upper = _numbers(self.lower[1:]), _numbers(self.upper[:-1])
        return None if lower is None or upper is None else lower - upper


def _numbers(values: pa.Array) -> npt.NDArray[np.float64] | None:
    """Return approximate positions of values on a line; None for types without a distance."""
    kind = values.type
    if pa.types.is_decimal(kind):
        return np.asarray(pc.cast(values, pa.float64(), safe=False))
    if pa.types.is_temporal(kind):
        values = values.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif not pa.types.is_integer(kind):
        return None
    return np.asarray(values).astype(np.float64)
