"""Join keys that are compared with a truncated column, such as ``date(ts)``.

``date(ts) = k`` limits ``ts`` to the times of day ``k``. A table that is partitioned by days or
hours of ``ts``, or has statistics of ``ts``, can be pruned by this range. A day or an hour is one
of local time. So the range depends on the time zone in which Spark truncates the column, and a day
has 23 to 25 hours.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.arrow.values import is_instant, of_ordinals
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import Domain, RangeDomain, Ranges, ValueDomain
from splitlib.spark.logical_plan import Expression

_SECOND: Final = 1_000_000
_HOUR: Final = 3600 * _SECOND
_DAY: Final = 24 * _HOUR
# Lengths of units in microseconds, and of longer units in months.
_FIXED: Final = {"MINUTE": 60 * _SECOND, "HOUR": _HOUR, "DAY": _DAY, "DD": _DAY}
_MONTHS: Final = {
    **dict.fromkeys(("MON", "MONTH", "MM"), 1),
    "QUARTER": 3,
    **dict.fromkeys(("YEAR", "YYYY", "YY"), 12),
}
# 1 January 1970 was a Thursday, and weeks begin on Monday.
_MONDAY: Final = -3
_SOURCES: Final = {
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "date": pa.date32(),
}
# First value (inclusive) and end (exclusive) of an interval. Infinity means unbounded.
_Interval = tuple[float, float]
# Maximum number of ranges that the keys of one column become.
_MOST_RANGES: Final = 1000


@dataclass(frozen=True, slots=True)
class Truncation:
    """A column, truncated to a unit of time."""

    source: str
    """Type of the column: ``timestamp``, ``timestamp_ntz`` or ``date``."""
    unit: str
    """Unit as in Spark's ``date_trunc``, in upper case."""
    is_date: bool
    """Whether the truncated value is a DATE. Otherwise it is a TIMESTAMP."""
    zone: str | None
    """Time zone in which the column is truncated, or None if no time zone is involved."""
    column: int | None = None
    """Id of the scan's column."""


def truncation_of(expression: Expression) -> Truncation | None:
    """Return how an expression truncates one attribute, or None for any other expression."""
    while expression.kind == "Alias":
        (expression,) = expression.children
    unit, is_date, zone = "DAY", True, expression.fields.get("timeZoneId")
    match expression.kind:
        case "Cast" if expression.fields["dataType"] == "date":
            (inner,) = expression.children
        case "TruncDate":
            inner, unit = expression.children[0], _text(expression.children[1])
            inner, zone = _without_cast(inner, "date")
        case "TruncTimestamp":
            unit, is_date = _text(expression.children[0]), False
            inner, of_cast = _without_cast(expression.children[1], "timestamp")
            if of_cast not in (None, zone):
                return None
        case _:
            return None
    source = inner.fields.get("dataType") if inner.kind == "AttributeReference" else None
    # ``trunc`` of a date is NULL for units shorter than a week.
    is_known = unit in _MONTHS or unit == "WEEK"
    is_known = is_known or (unit in _FIXED and expression.kind != "TruncDate")
    if source not in _SOURCES or not is_known:
        return None
    needs_zone = not is_date or source == "timestamp"
    if needs_zone and not isinstance(zone, str):
        return None
    return Truncation(str(source), unit, is_date, zone if needs_zone else None)


def _text(expression: Expression) -> str:
    value = expression.fields.get("value") if expression.kind == "Literal" else None
    return str(value).upper()


def _without_cast(expression: Expression, kind: str) -> tuple[Expression, object]:
    """Return the child of a cast to ``kind`` and the cast's time zone, if there is such a cast."""
    if expression.kind == "Cast" and expression.fields["dataType"] == kind:
        return expression.children[0], expression.fields.get("timeZoneId")
    return expression, None


class _Segment(NamedTuple):
    """A period with a constant offset from UTC. All fields are in microseconds."""

    start: int
    end: int | None
    """The first instant with another offset, or None if the offset never changes again."""
    offset: int


@dataclass(slots=True)
class Clock:
    """The local time of a time zone. Instants and local times are microseconds since 1970."""

    rules: Callable[[int], tuple[int, int | None]]
    """Function that receives an instant in seconds. It returns the offset from UTC in seconds, and
    the instant in seconds at which the offset next changes (None if it never does)."""
    _known: list[_Segment] = field(default_factory=list)

    def segments(self, first: int, last: int) -> list[_Segment]:
        """Return the segments between two instants. The first one may begin earlier."""
        found = [self._at(first)]
        while (end := found[-1].end) is not None and end <= last:
            found.append(self._at(end))
        return found

    def _at(self, instant: int) -> _Segment:
        place = bisect_right(self._known, instant, key=lambda segment: segment.start) - 1
        if place >= 0:
            known = self._known[place]
            if known.end is None or instant < known.end:
                return known
        second = instant // _SECOND
        offset, change = self.rules(second)
        end = None if change is None else change * _SECOND
        found = _Segment(second * _SECOND, end, offset * _SECOND)
        self._known.insert(place + 1, found)
        return found

    def begin(self, local: int) -> int:
        """Return the first instant whose local time is ``local`` or later."""
        near = self.segments(local - 2 * _DAY, local + 2 * _DAY)
        starts = ((max(s.start, local - s.offset), s.end) for s in near)
        return min(start for start, end in starts if end is None or start < end)

    def end(self, local: int) -> int:
        """Return the first instant after which the local time is never before ``local`` again."""
        near = self.segments(local - 2 * _DAY, local + 2 * _DAY)
        ends = [(s.start, local - s.offset, s.end) for s in near]
        return max(
            end if last is None else min(end, last) for start, end, last in ends if start < end
        )

    def begin_of_truncated(self, key: int) -> int:
        """Return the first instant that may be truncated to the instant ``key`` or a later one.

        Truncation makes an instant earlier. There is one exception: if the truncated local time is
        skipped, because clocks are set forward, the result is later than the skipped time.
        """
        for before, after in pairwise(self.segments(key - 2 * _DAY, key)):
            if after.start < key <= after.start + after.offset - before.offset:
                return after.start
        return key

    def end_of_truncated(self, key: int, unit: str) -> int:
        """Return an instant after all instants that truncate to ``key`` or an earlier instant."""
        near = self.segments(key - 2 * _DAY, key)
        # If clocks were set back shortly before the key, its local time occurs twice, and later
        # local times precede the key. So also use the offset before this change.
        offsets = [near[-1].offset]
        for before, after in pairwise(near):
            if key <= after.start + before.offset - after.offset:
                offsets.append(before.offset)
        return self.end(max(_next(key + offset, unit) for offset in offsets))

    def offsets_near(self, instant: int) -> list[int]:
        """Return the offsets from UTC within two days of an instant."""
        return [s.offset for s in self.segments(instant - 2 * _DAY, instant + 2 * _DAY)]


def _next(local: int, unit: str) -> int:
    """Return the first local time of the unit after the one that contains ``local``."""
    if unit in _FIXED:
        length = _FIXED[unit]
        return (local // length + 1) * length
    day = local // _DAY
    if unit == "WEEK":
        return ((day - _MONDAY) // 7 * 7 + 7 + _MONDAY) * _DAY
    months = _MONTHS[unit]
    month = int(np.datetime64(day, "D").astype("datetime64[M]").astype(np.int64))
    first = np.datetime64((month // months + 1) * months, "M").astype("datetime64[D]")
    return int(first.astype(np.int64)) * _DAY


def of_columns(
    data: DynamicFilteringData,
    truncations: Mapping[str, Truncation],
    clock_of: Callable[[str], Clock],
) -> DynamicFilteringData:
    """Replace keys of truncated columns by the values of the columns that can equal these keys.

    The result tests each field in ``truncations`` separately. So it may match combinations of
    values that no row of keys has. A field is missing in the result if its keys do not limit the
    values of the column.

    Args:
        data: The keys.
        truncations: How columns are truncated before a comparison with the keys, by field of
            ``data``.
        clock_of: Function that returns the clock of a time zone.
    """
    fields = {f.name: f for f in data.schema if f.name not in truncations}
    domains: list[Domain] = [part for d in data.domains if (part := d.only(fields)) is not None]
    for name, truncation in truncations.items():
        own = (part for d in data.domains if (part := d.only([name])) is not None)
        for domain in own:
            found = _of_column(domain, data.schema.field(name), truncation, clock_of)
            if found is not None:
                fields[name] = pa.field(name, _SOURCES[truncation.source])
                domains.append(found)
    schema = pa.schema([fields[name] for name in data.fields if name in fields])
    return DynamicFilteringData(schema, domains, exceeds_threshold=data.exceeds_threshold)


def _of_column(
    keys: Domain, of_keys: pa.Field, truncation: Truncation, clock_of: Callable[[str], Clock]
) -> Domain | None:
    """Return the values of a column that truncate to one of the keys, or None for all values."""
    kind = of_keys.type
    if not (pa.types.is_date32(kind) if truncation.is_date else is_instant(kind)):
        return None  # the truncated value is cast before the comparison
    ranges: Ranges | None
    if isinstance(keys, ValueDomain):
        values = pc.unique(keys.rows[of_keys.name])
        null, values = bool(values.null_count), values.drop_null()
        ordered = values.take(pc.sort_indices(values))
        ranges = Ranges.covering(ordered, _MOST_RANGES) if len(ordered) else None
    else:
        null, ranges = keys.includes_null, keys.ranges.at_most(_MOST_RANGES)
    of_column = pa.field(of_keys.name, _SOURCES[truncation.source])
    most = 2 ** (of_column.type.bit_width - 1)
    found = [] if ranges is None else _merged(_of_ranges(ranges, truncation, clock_of))
    found = [(low, high) for low, high in found if low < most and high > -most]
    if not found:
        nulls = [None] if null else []
        return ValueDomain(pa.table({of_column.name: pa.array(nulls, of_column.type)}))
    lower = [None if low <= -most else low for low, _ in found]
    upper = [None if high >= most else high for _, high in found]
    if lower == upper == [None]:
        return None
    begins, ends = (of_ordinals(end, of_column.type) for end in (lower, upper))
    return RangeDomain(of_column, Ranges(begins, ends, "[)"), null)


def _of_ranges(
    ranges: Ranges, truncation: Truncation, clock_of: Callable[[str], Clock]
) -> Iterator[_Interval]:
    """Yield the values of the column that truncate to a key, for each range of keys."""
    clock = None if truncation.zone is None else clock_of(truncation.zone)
    kind, numbers = (pa.timestamp("us"), pa.int64())
    unit, shift = 1, (0, 0)
    if truncation.is_date:
        kind, numbers = pa.date32(), pa.int32()
        # Dates become midnights of local time, and a range of dates has a first and a last date.
        unit, shift = _DAY, (int(ranges.brackets[0] == "("), -int(ranges.brackets[1] == ")"))
    ends = (end.cast(kind).cast(numbers).to_pylist() for end in (ranges.lower, ranges.upper))
    for low, high in zip(*ends, strict=True):
        yield (
            -inf if low is None else _first(truncation, (low + shift[0]) * unit, clock),
            inf if high is None else _after_last(truncation, (high + shift[1]) * unit, clock),
        )


def _first(truncation: Truncation, key: int, clock: Clock | None) -> int:
    """Return the first value of a column that may truncate to ``key`` or a later value.

    Args:
        truncation: How the column is truncated.
        key: The key in microseconds. A date is a midnight of local time.
        clock: The clock of the time zone, or None if no time zone is involved.

    Returns:
        The value in microseconds, or in days for a column of dates.
    """
    if clock is not None:
        if truncation.is_date:
            key = clock.begin(key)
        else:
            key = clock.begin_of_truncated(key)
            if truncation.source != "timestamp":  # Spark converts the column to an instant first
                key += min(clock.offsets_near(key))
    return -(-key // _DAY) if truncation.source == "date" else key


def _after_last(truncation: Truncation, key: int, clock: Clock | None) -> int:
    """Return the exclusive end of the values that may truncate to ``key`` or an earlier value.

    The arguments and the form of the result are as in :func:`_first`.
    """
    if truncation.is_date:
        key = _next(key, truncation.unit)
        key = key if clock is None else clock.end(key)
    elif clock is not None:
        key = clock.end_of_truncated(key, truncation.unit)
        if truncation.source != "timestamp":
            key += max(clock.offsets_near(key))
    return -(-key // _DAY) if truncation.source == "date" else key


def _merged(intervals: Iterable[_Interval]) -> list[_Interval]:
    """Return ascending intervals without empty ones, and merge those that overlap or touch."""
    found: list[_Interval] = []
    for low, high in intervals:
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        elif low < high:
            found.append((low, high))
    return found
