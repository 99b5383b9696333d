"""Compare one filter with the values of many partitions, or with the statistics of many files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.arrow.values import have_same_ordinals, ordinals
from splitlib.filtering.domains import Ranges
from splitlib.hive.partition_values import TypedValues
from splitlib.model import ColumnStatistics

_MAX_CODE = 2**62

# Maximum number of comparisons of a tuple with the bounds of a file, because comparing all tuples
# with all files takes quadratic time. Files beyond the limit are checked column by column only.
TUPLE_BUDGET = 50_000_000


class Matcher(Protocol):
    """A filter on some columns. Immutable, thread-safe."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns, in lower case."""

    def match(self, columns: Mapping[str, TypedValues]) -> pa.BooleanArray:
        """Return true for each row whose values the filter accepts."""

    def match_bounds(self, columns: Mapping[str, ColumnStatistics]) -> pa.BooleanArray:
        """Return true for each file whose bounds may contain an accepted value.

        A column without statistics does not exclude a file.
        """


@dataclass(frozen=True, eq=False)
class ValueMatcher:
    """Accepts rows whose columns, as a tuple, are among some values."""

    keys: tuple[str, ...]
    rows: tuple[pa.Array, ...]
    """The accepted tuples, one column per key."""

    def match(self, columns: Mapping[str, TypedValues]) -> pa.BooleanArray:
        """Return true for each row whose values the filter accepts."""
        if len(self.keys) == 1:
            return pc.is_in(columns[self.keys[0]].values, value_set=self.rows[0])
        # Encode each tuple as one number. Its digits are the positions of the tuple's values in the
        # list of accepted values of each key. Renumber the codes before they overflow.
        accepted = found = None
        radix = 1
        for key, column in zip(self.keys, self.rows, strict=True):
            known = pc.unique(column)
            digit = pc.index_in(column, value_set=known).cast(pa.int64())
            found_digit = pc.index_in(columns[key].values, value_set=known).cast(pa.int64())
            if accepted is None:
                accepted, found, radix = digit, found_digit, len(known)
                continue
            if radix * len(known) >= _MAX_CODE:
                codes = pc.unique(accepted)
                accepted = pc.index_in(accepted, value_set=codes).cast(pa.int64())
                found = pc.index_in(found, value_set=codes).cast(pa.int64())
                radix = len(codes)
            accepted = pc.add(pc.multiply(accepted, len(known)), digit)
            found = pc.add(pc.multiply(found, len(known)), found_digit)
            radix *= len(known)
        return pc.is_in(found, value_set=accepted)

    def match_bounds(self, columns: Mapping[str, ColumnStatistics]) -> pa.BooleanArray:
        """Return true for each file whose bounds may contain an accepted value.

        For one column, the time is O((keys + files) log keys).
        """
        known = [
            (ranks, _window(ranks, columns[key]))
            for key, ranks in zip(self.keys, self._ranks, strict=True)
            if key in columns and have_same_ordinals(columns[key].lower.type, ranks.values.type)
        ]
        if not known:
            return pa.repeat(True, len(next(iter(columns.values())).lower))
        keep = known[0][1].any(known[0][0])
        for ranks, window in known[1:]:
            keep &= window.any(ranks)
        if len(known) > 1:
            self._match_tuples(known, keep)
        return pa.array(keep)

    def _match_tuples(
        self, known: list[tuple[_Ranks, _Window]], keep: npt.NDArray[np.bool_]
    ) -> None:
        """Set ``keep`` to false for files where no accepted tuple fits the bounds of all columns.

        A file may contain accepted values of each column, but only from different tuples.
        """
        left = TUPLE_BUDGET
        for row in np.flatnonzero(keep).tolist():
            left -= len(known[0][0].of_row)
            if left < 0:
                return
            fits = known[0][1].accepts(known[0][0], row)
            for ranks, window in known[1:]:
                fits = fits & window.accepts(ranks, row)
            keep[row] = fits.any()

    @cached_property
    def _ranks(self) -> tuple[_Ranks, ...]:
        return tuple(_rank(column) for column in self.rows)


@dataclass(frozen=True, eq=False)
class RangeMatcher:
    """Accepts rows where the value of one column lies in one of several ranges."""

    keys: tuple[str]
    ranges: Ranges
    includes_null: bool

    def match(self, columns: Mapping[str, TypedValues]) -> pa.BooleanArray:
        """Return true for each row whose values the filter accepts."""
        values = columns[self.keys[0]].values
        inside = self.ranges.contain(values)
        return pc.if_else(pc.is_null(values), pa.scalar(self.includes_null), inside)

    def match_bounds(self, columns: Mapping[str, ColumnStatistics]) -> pa.BooleanArray:
        """Return true for each file whose bounds overlap a range.

        The time is O((ranges + files) log ranges).
        """
        known = columns[self.keys[0]]
        has_value = pc.fill_null(known.has_value, True)
        mask = pc.and_(has_value, self.ranges.meet(known.lower, known.upper))
        if self.includes_null:
            mask = pc.or_(mask, pc.fill_null(known.has_null, True))
        return mask


class _Ranks(NamedTuple):
    """The sorted distinct keys of one column, and the rank of each tuple's key among them.

    A rank is an index into the sorted keys.
    """

    values: pa.Array
    """The key of each tuple."""
    ordered: npt.NDArray[Any]
    """Sorted distinct keys, without null and NaN."""
    of_row: npt.NDArray[np.int64]
    """Rank of each tuple's key. Null and NaN have the two ranks after the last key."""

    @property
    def null(self) -> int:
        return len(self.ordered)

    @property
    def nan(self) -> int:
        return len(self.ordered) + 1


class _Window(NamedTuple):
    """The keys within the bounds of each file: ranks from ``low`` to below ``high``."""

    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]
    has_null: npt.NDArray[np.bool_]
    has_nan: npt.NDArray[np.bool_]

    def any(self, ranks: _Ranks) -> npt.NDArray[np.bool_]:
        """Return for each file whether it may contain a key."""
        hit: npt.NDArray[np.bool_] = self.high > self.low
        if (ranks.of_row == ranks.null).any():
            hit = hit | self.has_null
        if (ranks.of_row == ranks.nan).any():
            hit = hit | self.has_nan
        return hit

    def accepts(self, ranks: _Ranks, file: int) -> npt.NDArray[np.bool_]:
        """Return for each tuple whether one file may contain its key."""
        of_row = ranks.of_row
        fits: npt.NDArray[np.bool_] = (of_row >= self.low[file]) & (of_row < self.high[file])
        if self.has_null[file]:
            fits |= of_row == ranks.null
        if self.has_nan[file]:
            fits |= of_row == ranks.nan
        return fits


def _rank(column: pa.Array) -> _Ranks:
    nan = pc.is_nan(column) if pa.types.is_floating(column.type) else pa.repeat(False, len(column))
    plain = pc.and_(pc.is_valid(column), pc.invert(pc.fill_null(nan, False)))
    ordered, inverse = np.unique(ordinals(column.filter(plain)), return_inverse=True)
    of_row = np.full(len(column), len(ordered), np.int64)
    of_row[pc.fill_null(nan, False).to_numpy(zero_copy_only=False)] = len(ordered) + 1
    of_row[plain.to_numpy(zero_copy_only=False)] = inverse
    return _Ranks(column, ordered, of_row)


def _window(ranks: _Ranks, known: ColumnStatistics) -> _Window:
    low = np.searchsorted(ranks.ordered, ordinals(known.lower), side="left")
    high = np.searchsorted(ranks.ordered, ordinals(known.upper), side="right")
    # A NaN bound is ignored, because file writers do not agree on the order of NaN.
    low[_flags(pc.is_null(known.lower, nan_is_null=True))] = 0
    high[_flags(pc.is_null(known.upper, nan_is_null=True))] = len(ranks.ordered)
    high[~_flags(known.has_value)] = 0
    return _Window(low, high, _flags(known.has_null), _flags(known.has_nan))


def _flags(known: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    """Return flags as a mask, with true for unknown (null) flags."""
    flags: npt.NDArray[np.bool_] = pc.fill_null(known, True).to_numpy(zero_copy_only=False)
    return flags
