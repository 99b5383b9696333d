"""What one filter says of some columns, decided for many values or many bounds at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.arrow.ordinals import have_same_ordinals, ordinals
from splitlib.filtering.ranges import Ranges
from splitlib.hive.partition_values import TypedValues
from splitlib.model import ColumnStatistics

_MAX_CODE = 2**62

# Comparing every tuple with the bounds of every file is quadratic; after this many comparisons the
# rest of the files is kept. Each column on its own has been compared before.
TUPLE_BUDGET = 50_000_000


class Matcher(Protocol):
    """A filter on some columns. Immutable, thread-safe."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns, in lower case."""

    def match(self, columns: Mapping[str, TypedValues]) -> pa.BooleanArray:
        """True for each row whose values the filter accepts."""

    def match_bounds(self, columns: Mapping[str, ColumnStatistics]) -> pa.BooleanArray:
        """True for each row between whose bounds an accepted value may lie.

        Columns that are missing are taken as unknown.
        """


@dataclass(frozen=True, eq=False)
class ValueMatcher:
    """The columns, as a tuple, are among some rows."""

    keys: tuple[str, ...]
    rows: tuple[pa.Array, ...]
    """The accepted tuples, a column per key."""

    def match(self, columns: Mapping[str, TypedValues]) -> pa.BooleanArray:
        """See :meth:`Matcher.match`."""
        if len(self.keys) == 1:
            return pc.is_in(columns[self.keys[0]].values, value_set=self.rows[0])
        # A tuple becomes one number: position among the accepted values of each key, in mixed
        # radix, renumbered before it could overflow.
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
        """See :meth:`Matcher.match_bounds`. O((keys + rows) log keys) for one column."""
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
        """Clear ``keep`` where every column has a key but no tuple has all of them."""
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
    """One column lies in one of some ranges."""

    keys: tuple[str]
    ranges: Ranges
    includes_null: bool

    def match(self, columns: Mapping[str, TypedValues]) -> pa.BooleanArray:
        """See :meth:`Matcher.match`."""
        values = columns[self.keys[0]].values
        inside = self.ranges.contain(values)
        return pc.if_else(pc.is_null(values), pa.scalar(self.includes_null), inside)

    def match_bounds(self, columns: Mapping[str, ColumnStatistics]) -> pa.BooleanArray:
        """See :meth:`Matcher.match_bounds`. O((ranges + rows) log ranges)."""
        known = columns[self.keys[0]]
        has_value = pc.fill_null(known.has_value, True)
        mask = pc.and_(has_value, self.ranges.meet(known.lower, known.upper))
        if self.includes_null:
            mask = pc.or_(mask, pc.fill_null(known.has_null, True))
        return mask


class _Ranks(NamedTuple):
    """The keys of one column in order, and where each tuple's key stands there."""

    values: pa.Array
    ordered: npt.NDArray[Any]
    """Distinct, neither null nor NaN."""
    of_row: npt.NDArray[np.int64]
    """Per tuple; null and NaN stand behind the last one."""

    @property
    def null(self) -> int:
        return len(self.ordered)

    @property
    def nan(self) -> int:
        return len(self.ordered) + 1


class _Window(NamedTuple):
    """Per file, the ranks of the keys that its bounds enclose: from low, up to below high."""

    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]
    has_null: npt.NDArray[np.bool_]
    has_nan: npt.NDArray[np.bool_]

    def any(self, ranks: _Ranks) -> npt.NDArray[np.bool_]:
        """Whether some key is accepted, per file."""
        hit: npt.NDArray[np.bool_] = self.high > self.low
        if (ranks.of_row == ranks.null).any():
            hit = hit | self.has_null
        if (ranks.of_row == ranks.nan).any():
            hit = hit | self.has_nan
        return hit

    def accepts(self, ranks: _Ranks, file: int) -> npt.NDArray[np.bool_]:
        """Per tuple, whether one file may hold its key."""
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
    # a NaN is no bound: writers differ in where they put it
    low[_flags(pc.is_null(known.lower, nan_is_null=True))] = 0
    high[_flags(pc.is_null(known.upper, nan_is_null=True))] = len(ranks.ordered)
    high[~_flags(known.has_value)] = 0
    return _Window(low, high, _flags(known.has_null), _flags(known.has_nan))


def _flags(known: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    """As a mask, in which not known is true."""
    flags: npt.NDArray[np.bool_] = pc.fill_null(known, True).to_numpy(zero_copy_only=False)
    return flags
