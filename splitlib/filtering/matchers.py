"""Match one filter with the values of many partitions, or the statistics of many files.

Join keys are first converted to the partition key's type. This is done only if Spark's
``fact.k = dim.k`` is true exactly when the converted values are equal. Other pairs of types prune
nothing.
Some keys have no equal value in the partition key's type, and so match no partition: a number out
of range, a fraction for an integer key, or a time other than midnight for a date key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.arrow.values import (
    arrow_zone,
    has_unknown_clock,
    have_same_ordinals,
    is_instant,
    local_to_instant,
    ordinals,
    try_cast,
)
from splitlib.filtering.domains import Ranges
from splitlib.hive.partition_values import TypedValues, comparable
from splitlib.model import ColumnStatistics
from splitlib.remote.calls import cached_property

# Spark compares an integer with a decimal by converting the integer to a decimal. This is the
# decimal's precision, by the integer's width in bits.
_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_SPARK_MAX_PRECISION = 38


class Coerced(NamedTuple):
    """Join keys, converted to a partition key's type."""

    values: pa.Array
    matchable: pa.BooleanArray
    """Mask that is false for keys that equal no value of the partition key's type."""


def coerce(keys: pa.Array, key: pa.Field) -> Coerced | None:
    """Convert join keys to the type of ``key``, or return None if the conversion is inexact."""
    if is_instant(keys.type) and not is_instant(key.type):
        # The time zone of the keys may have one of Java's names that Arrow does not know.
        keys = keys.cast(pa.timestamp(keys.type.unit, arrow_zone(keys.type.tz)))
        if pc.any(has_unknown_clock(keys, keys.type.tz)).as_py():
            return None
    converted = _convert(keys, key.type)
    if converted is None:
        return None
    lost = pc.and_(pc.is_null(converted), pc.is_valid(keys))
    return Coerced(comparable(converted, key), pc.invert(lost))


def _convert(keys: pa.Array, target: pa.DataType) -> pa.Array | None:
    """Convert ``keys`` to ``target``, or return None if the types cannot be compared exactly.

    Keys without an equal value in ``target`` become null.
    """
    source = keys.type
    if pa.types.is_float16(target):  # Arrow cannot compare it
        return None
    if source == target or pa.types.is_null(source):
        return keys.cast(target)
    if pa.types.is_null(target):  # a partition key that is null in all partitions
        return pa.nulls(len(keys))
    if _is_exact_number(source) and _is_exact_number(target):
        return _exact_number(keys, target) if _comparable_exactly(source, target) else None
    if pa.types.is_floating(source) and pa.types.is_floating(target):
        narrow = keys.cast(target, safe=False)
        same = pc.or_(pc.equal(narrow.cast(source), keys), pc.is_nan(keys))
        return pc.if_else(same, narrow, pa.scalar(None, target))
    if pa.types.is_timestamp(source):
        if pa.types.is_date(target):
            dates, begins = _wall_clock(keys).cast(pa.date32(), safe=False), _begins_day(keys)
            if keys.type.tz and _follow_skipped_days(keys.filter(begins), dates.filter(begins)):
                return None
            return pc.if_else(begins, dates, pa.scalar(None, pa.date32()))
        if pa.types.is_timestamp(target):
            return _timestamp(keys, target)
    if pa.types.is_date(source) and pa.types.is_timestamp(target):
        return _timestamp(try_cast(keys, pa.timestamp("us")), target)
    return None


def _is_exact_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def _digits(kind: pa.DataType) -> tuple[int, int]:
    """Return how many digits Spark's decimal for this type has before and after the point."""
    if pa.types.is_decimal(kind):
        return kind.precision - kind.scale, kind.scale
    return _INTEGER_DIGITS[kind.bit_width], 0


def _comparable_exactly(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether Spark compares values of the two types without losing digits."""
    if pa.types.is_integer(one) and pa.types.is_integer(other):
        return True
    (whole, scale), (other_whole, other_scale) = _digits(one), _digits(other)
    return max(whole, other_whole) + max(scale, other_scale) <= _SPARK_MAX_PRECISION


def _exact_number(keys: pa.Array, target: pa.DataType) -> pa.Array:
    # Arrow rejects a cast from int64 to decimal(10, 2) for all values, so integers are first cast
    # to a wide decimal. In the last cast, values become null if they are out of range or have a
    # fraction.
    if pa.types.is_integer(keys.type) and pa.types.is_decimal(target):
        keys = keys.cast(pa.decimal256(76, target.scale))
    return try_cast(keys, target)


def _wall_clock(keys: pa.Array) -> pa.Array:
    return pc.local_timestamp(keys) if keys.type.tz else keys


def _begins_day(keys: pa.Array) -> pa.BooleanArray:
    """Return a mask of the times at which a day begins.

    A day begins at midnight, or later if a clock change skips midnight.
    """
    wall = _wall_clock(keys)
    midnight = pc.floor_temporal(wall, unit="day")
    begins = pc.equal(midnight, wall)
    if not keys.type.tz:
        return begins
    zone = keys.type.tz
    first = pc.assume_timezone(midnight, zone, ambiguous="earliest", nonexistent="latest")
    return pc.or_(begins, pc.equal(first, keys))


def _follow_skipped_days(keys: pa.Array, dates: pa.Array) -> bool:
    """Return whether the time zone skipped the day before any of the days in ``dates``.

    In Spark, the beginning of such a day equals both dates. For example, Pacific/Apia skipped
    2011-12-30. So the beginning of 2011-12-31 equals 2011-12-30 and 2011-12-31.

    Args:
        keys: Times at which a day begins.
        dates: The day that begins at each of these times.
    """
    before = pc.subtract(keys.cast(pa.int64()), 1).cast(keys.type)
    days_before = _wall_clock(before).cast(pa.date32(), safe=False).cast(pa.int32())
    steps = pc.subtract(dates.cast(pa.int32()), days_before)
    return bool(pc.any(pc.not_equal(steps, 1)).as_py())


def _timestamp(keys: pa.Array, target: pa.TimestampType) -> pa.Array | None:
    """Convert timestamps to ``target``, or return None if the conversion is inexact.

    If only one type has a time zone, times of the other type are local times in this zone.
    """
    if keys.type.tz and target.tz:
        return try_cast(keys, target)
    if keys.type.tz:
        # Where clocks are set back, two instants have the same local time. So only keys in UTC are
        # converted: there, each instant has its own local time.
        return try_cast(_wall_clock(keys), target) if keys.type.tz == "UTC" else None
    local = try_cast(keys, pa.timestamp(target.unit))
    if not target.tz:
        return local
    instants = local_to_instant(local, target)
    skipped = pc.and_(pc.is_null(instants), pc.is_valid(keys))
    return None if pc.any(skipped).as_py() else instants


_MAX_CODE = 2**62

# Maximum number of comparisons of a tuple with a file's bounds: in one call, for each file, and for
# each file that is dropped. Files beyond the limit are only checked for each column alone.
TUPLE_BUDGET = 50_000, 300, 100_000
_TUPLES_TOGETHER = 2**16


def without_padding(lower: pa.Array) -> pa.Array:
    """Convert lower bounds of padded CHAR values to lower bounds of the values without padding.

    Padding changes the order: a space sorts above control characters, and the end of a text below
    them. So without padding, a value may sort below the bound. To prevent this, the bound is cut
    at its first control character, and trailing spaces are removed.
    """
    return pc.ascii_rtrim(pc.replace_substring_regex(lower, r"(?s)[\x00-\x1f].*", ""), " ")


class Matcher(Protocol):
    """A filter on some columns. Immutable, thread-safe."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns, in lower case."""

    def match(self, columns: Mapping[str, TypedValues]) -> pa.BooleanArray:
        """Return a mask of the rows whose values the filter accepts."""

    def match_bounds(self, columns: Mapping[str, ColumnStatistics]) -> pa.BooleanArray:
        """Return a mask of the files whose bounds may contain an accepted value.

        A column without statistics does not exclude a file.
        """


def are_in(columns: Sequence[Any], rows: Sequence[pa.Array]) -> Any:
    """Return a mask of the rows in ``columns`` that equal one of the tuples in ``rows``.

    Args:
        columns: Arrays, or Arrow expressions that are evaluated later.
        rows: The accepted tuples, as one array per column.

    Returns:
        A boolean array or expression.
    """
    if len(rows) == 1:
        return pc.is_in(columns[0], value_set=rows[0])
    # Each tuple is encoded as one number. It has one digit per column: the index of the tuple's
    # value among the column's accepted values. The codes are renumbered before they overflow.
    accepted: Any = None
    found: Any = None
    radix = 1
    for column, values in zip(columns, rows, strict=True):
        known = pc.unique(values)
        digit = pc.index_in(values, value_set=known).cast(pa.int64())
        found_digit = pc.index_in(column, value_set=known).cast(pa.int64())
        size = max(1, len(known))
        if accepted is None:
            accepted, found, radix = digit, found_digit, size
            continue
        if radix * size >= _MAX_CODE:
            codes = pc.unique(accepted)
            accepted = pc.index_in(accepted, value_set=codes).cast(pa.int64())
            found = pc.index_in(found, value_set=codes).cast(pa.int64())
            radix = len(codes)
        accepted = pc.add(pc.multiply(accepted, pa.scalar(size, pa.int64())), digit)
        found = pc.add(pc.multiply(found, pa.scalar(size, pa.int64())), found_digit)
        radix *= size
    return pc.is_in(found, value_set=accepted)


@dataclass(frozen=True, eq=False)
class ValueMatcher:
    """Accepts rows whose key columns form one of the accepted tuples."""

    keys: tuple[str, ...]
    rows: tuple[pa.Array, ...]
    """The accepted tuples, as one array per key column."""

    def match(self, columns: Mapping[str, TypedValues]) -> pa.BooleanArray:
        """Return a mask of the rows whose values the filter accepts."""
        found: pa.BooleanArray = are_in([columns[key].values for key in self.keys], self.rows)
        return found

    def match_bounds(self, columns: Mapping[str, ColumnStatistics]) -> pa.BooleanArray:
        """Return a mask of the files whose bounds may contain an accepted value.

        For one column, the time is O((keys + files) log keys).
        """
        known = {
            place: _window(ranks, columns[key])
            for place, (key, ranks) in enumerate(zip(self.keys, self._ranks, strict=True))
            if key in columns and have_same_ordinals(columns[key].lower.type, ranks.values.type)
        }
        if not known:
            return pa.repeat(True, len(next(iter(columns.values())).lower))
        of_columns = [window.any(self._ranks[place]) for place, window in known.items()]
        keep = np.logical_and.reduce(of_columns)
        if len(known) > 1:
            self._match_tuples(known, keep)
        return pa.array(keep)

    def _match_tuples(self, known: Mapping[int, _Window], keep: npt.NDArray[np.bool_]) -> None:
        """Set ``keep`` to false for files where no accepted tuple fits the bounds of all columns.

        Checking each column alone would also keep files where one tuple fits the bounds of one
        column, and another tuple another column's. A file is compared with the tuples that fit the
        column with the fewest of them. Files with few come first: they are most likely dropped.
        """
        places = list(known)
        sizes = np.array([self._orders[place].sizes(known[place]) for place in places])
        fewest = sizes.argmin(axis=0)
        rows = np.flatnonzero(keep)
        rows = rows[np.argsort(sizes[fewest[rows], rows], kind="stable")]
        ends = np.cumsum(sizes[fewest[rows], rows])
        least, for_each, for_dropped = TUPLE_BUDGET
        left, begin, done = least + for_each * len(keep), 0, 0
        while begin < len(rows) and ends[begin] - done <= left:
            limit = done + min(left, _TUPLES_TOGETHER)
            end = max(begin + 1, int(np.searchsorted(ends, limit, side="right")))
            some = rows[begin:end]
            keep[some] = False
            for number, place in enumerate(places):
                of_place = some[fewest[some] == number]
                files, tuples = self._orders[place].within(known[place], of_place)
                fits = [known[p].accepts(self._ranks[p], files, tuples) for p in places]
                keep[files[np.logical_and.reduce(fits)]] = True
            left += for_dropped * int(np.count_nonzero(~keep[some])) - int(ends[end - 1] - done)
            begin, done = end, ends[end - 1]

    @cached_property
    def _ranks(self) -> tuple[_Ranks, ...]:
        return tuple(_rank(column) for column in self.rows)

    @cached_property
    def _orders(self) -> tuple[_Order, ...]:
        return tuple(_order(ranks) for ranks in self._ranks)


@dataclass(frozen=True, eq=False)
class RangeMatcher:
    """Accepts rows where the value of one column lies in one of several ranges."""

    keys: tuple[str]
    ranges: Ranges
    includes_null: bool

    def match(self, columns: Mapping[str, TypedValues]) -> pa.BooleanArray:
        """Return a mask of the rows whose values the filter accepts."""
        values = columns[self.keys[0]].values
        inside = self.ranges.contain(values)
        return pc.if_else(pc.is_null(values), pa.scalar(self.includes_null), inside)

    def match_bounds(self, columns: Mapping[str, ColumnStatistics]) -> pa.BooleanArray:
        """Return a mask of the files whose bounds overlap a range.

        The time is O((ranges + files) log ranges).
        """
        known = columns[self.keys[0]]
        has_value = pc.fill_null(known.has_value, True)
        mask = pc.and_(has_value, self.ranges.meet(known.lower, known.upper))
        if self.includes_null:
            mask = pc.or_(mask, pc.fill_null(known.has_null, True))
        return mask


class _Ranks(NamedTuple):
    """One column's sorted distinct keys, and the rank (index in this order) of each tuple's key."""

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
    """The keys within each file's bounds, as ranks from ``low`` to ``high`` (exclusive)."""

    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]
    has_null: npt.NDArray[np.bool_]
    has_nan: npt.NDArray[np.bool_]

    def any(self, ranks: _Ranks) -> npt.NDArray[np.bool_]:
        """Return a mask of the files that may contain a key."""
        hit: npt.NDArray[np.bool_] = self.high > self.low
        if (ranks.of_row == ranks.null).any():
            hit = hit | self.has_null
        if (ranks.of_row == ranks.nan).any():
            hit = hit | self.has_nan
        return hit

    def accepts(
        self, ranks: _Ranks, files: npt.NDArray[np.int64], tuples: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Return a mask: whether each of the files may contain the key of the tuple beside it."""
        of_row = ranks.of_row[tuples]
        fits: npt.NDArray[np.bool_] = (of_row >= self.low[files]) & (of_row < self.high[files])
        fits |= (of_row == ranks.null) & self.has_null[files]
        fits |= (of_row == ranks.nan) & self.has_nan[files]
        return fits


class _Order(NamedTuple):
    """The tuples in the order of one column's keys."""

    tuples: npt.NDArray[np.int64]
    """Indexes of the tuples, by ascending rank."""
    starts: npt.NDArray[np.int64]
    """For each rank, and for the number of ranks, how many tuples have a lower rank."""

    def sizes(self, window: _Window) -> npt.NDArray[np.int64]:
        """Return, for each file, the number of tuples that :meth:`within` returns."""
        found = np.maximum(self.starts[window.high] - self.starts[window.low], 0)
        others = self.starts[-1] - self.starts[-3]
        sizes: npt.NDArray[np.int64] = found + others * (window.has_null | window.has_nan)
        return sizes

    def within(
        self, window: _Window, files: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return pairs of a file and a tuple with a key within its bounds, or with null or NaN."""
        low, high = self.starts[window.low[files]], self.starts[window.high[files]]
        first, end = self.starts[-3], self.starts[-1]
        has_others = window.has_null[files] | window.has_nan[files]
        begins = np.concatenate([low, np.full(len(files), first)])
        lengths = np.concatenate([np.maximum(high - low, 0), (end - first) * has_others])
        before = np.cumsum(lengths) - lengths
        places = np.arange(lengths.sum()) + np.repeat(begins - before, lengths)
        return np.repeat(np.concatenate([files, files]), lengths), self.tuples[places]


def _order(ranks: _Ranks) -> _Order:
    tuples = np.argsort(ranks.of_row, kind="stable")
    every = np.arange(ranks.nan + 2)
    return _Order(tuples, np.searchsorted(ranks.of_row[tuples], every))


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
    """Convert flags to a NumPy mask. Null flags, which mean unknown, become true."""
    flags: npt.NDArray[np.bool_] = pc.fill_null(known, True).to_numpy(zero_copy_only=False)
    return flags
