"""Keys that are compared with ``date(ts)`` or ``date_trunc(unit, ts)`` become ranges of ``ts``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import RangeDomain, Ranges
from splitlib.spark.planner.truncated import Clock, Truncation, of_columns

MINUTE, HOUR, DAY = 60, 3600, 86_400
UNITS = ["MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"]
SOURCES = {"timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us")}


def second(text: str) -> int:
    """Return the seconds since 1970 of a UTC time."""
    return int(np.datetime64(text, "s").astype(np.int64))


# For each zone, the offset before a change, the instant of the change and the offset after it.
CHANGES = {
    "Berlin, forward": (HOUR, second("2024-03-31T01:00"), 2 * HOUR),
    "Berlin, back": (2 * HOUR, second("2024-10-27T01:00"), HOUR),
    "New York, back at the end of a week": (-4 * HOUR, second("2024-11-03T06:00"), -5 * HOUR),
    "Havana, midnight is skipped": (-5 * HOUR, second("2024-03-10T05:00"), -4 * HOUR),
    "Havana, midnight comes twice": (-4 * HOUR, second("2015-11-01T05:00"), -5 * HOUR),
    # At 00:01 on the first day of a month, the previous day comes back for 59 minutes.
    "St. John's, back": (-9000, second("2009-11-01T02:31"), -12_600),
    "St. John's, forward": (-12_600, second("2009-03-08T03:31"), -9000),
    "Lord Howe, half an hour": (37_800, second("2024-10-05T15:30"), 39_600),
    "Toronto, from 23:30 to 0:30": (-5 * HOUR, second("1919-03-31T04:30"), -4 * HOUR),
    "Samoa skips a day": (-10 * HOUR, second("2011-12-30T10:00"), 14 * HOUR),
    "a skipped New Year": (-10 * HOUR, second("1995-01-01T10:00"), 14 * HOUR),
    "local mean time": (-17_762, second("1883-11-18T16:59"), -18_000),
}


def rules_of(zone: str) -> Callable[[int], tuple[int, int | None]]:
    before, change, after = CHANGES[zone]
    return lambda at: (before, change) if at < change else (after, None)


class Java:
    """The conversions of ``java.time`` that Spark uses. All times are in seconds."""

    def __init__(self, zone: str) -> None:
        self.before, self.change, self.after = CHANGES[zone]

    def offset(self, instant: int) -> int:
        return self.before if instant < self.change else self.after

    def instant(self, local: int, preferred: int | None = None, *, of_day: bool = False) -> int:
        """Convert a local time as ``ZonedDateTime.ofLocal`` or ``LocalDate.atStartOfDay`` does."""
        valid = [o for o in (self.before, self.after) if self.offset(local - o) == o]
        if not valid:
            return self.change if of_day else local - self.before
        return local - (preferred if preferred in valid else valid[0])

    def truncated(self, unit: str, instant: int) -> int:
        """Truncate as ``date_trunc`` does."""
        offset = self.offset(instant)
        local = instant + offset
        if unit in ("MINUTE", "HOUR", "DAY"):
            return self.instant(
                local - local % {"MINUTE": 60, "HOUR": HOUR, "DAY": DAY}[unit], offset
            )
        return self.instant(first_day(unit, local // DAY) * DAY, of_day=True)


def first_day(unit: str, day: int) -> int:
    """Truncate a number of days since 1970 to a week, month, quarter or year."""
    date = np.datetime64(day, "D")
    match unit:
        case "WEEK":
            return day - (day + 3) % 7
        case "QUARTER":
            months = int(date.astype("datetime64[M]").astype(int))
            date = np.datetime64(months - months % 3, "M")
        case _:
            date = date.astype(f"datetime64[{unit[0]}]")
    return int(date.astype("datetime64[D]").astype(int))


def moments(zone: str) -> list[int]:
    """Return instants around a change of the offset, with the borders of hours and local days."""
    change = CHANGES[zone][1]
    near = [change + hour * HOUR + m * MINUTE for hour in range(-4, 4) for m in (0, 1, 13, 30, 59)]
    far = [change + n * HOUR + m * MINUTE for n in range(-60, 61, 2) for m in (0, 30, 91)]
    other = [change + shift for shift in (-HOUR - 1, -60, -1, 1, 59, 61, HOUR - 1)]
    days = [change + n * DAY for n in (-400, -100, -40, -8, 8, 40, 100, 400)]
    return sorted({*near, *far, *other, *days})


CASES = [
    Truncation(source, unit, is_date, "zone" if source == "timestamp" or not is_date else None)
    for is_date, units in ((True, UNITS[2:]), (False, UNITS))
    for source in SOURCES
    for unit in units
]


def by_truncated(zone: str, case: Truncation) -> dict[int, list[int]]:
    """Return the moments by the value that they truncate to: a day or an instant."""
    java, found = Java(zone), defaultdict(list)
    for value in moments(zone):
        has_zone = case.source == "timestamp"
        if case.is_date:
            day = (value + java.offset(value) if has_zone else value) // DAY
            key = day if case.unit == "DAY" else first_day(case.unit, day)
        else:
            key = java.truncated(case.unit, value if has_zone else java.instant(value))
        found[key].append(value)
    return found


def keys_of(values: Sequence[int | None], case: Truncation) -> pa.Array:
    if case.is_date:
        return pa.array(values, pa.int32()).cast(pa.date32())
    micros = [None if value is None else value * 10**6 for value in values]
    return pa.array(micros, pa.int64()).cast(pa.timestamp("us", "UTC"))


def domains_of(keys: DynamicFilteringData, case: Truncation, clock: Clock) -> tuple[Any, ...]:
    return of_columns(keys, {"k": case}, lambda _: clock).domains


def domain_of(keys: DynamicFilteringData, case: Truncation, zone: str) -> Any:
    (domain,) = domains_of(keys, case, Clock(rules_of(zone)))
    return domain


def count_in(domain: RangeDomain, values: list[int], case: Truncation) -> int:
    times = pa.array([value * 10**6 for value in values]).cast(SOURCES[case.source])
    return int(domain.ranges.contain(times).true_count)


@pytest.mark.parametrize("zone", CHANGES)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.unit}-{c.source}-{c.is_date}")
def test_no_time_is_lost(zone: str, case: Truncation) -> None:
    for key, values in by_truncated(zone, case).items():
        keys = DynamicFilteringData.from_arrow(pa.table({"k": keys_of([key], case)}))
        domain = domain_of(keys, case, zone)
        assert count_in(domain, values, case) == len(values), (key, values)


@pytest.mark.parametrize("brackets", ["[]", "(]", "[)", "()"])
@pytest.mark.parametrize("zone", CHANGES)
def test_ranges_of_keys(zone: str, brackets: str) -> None:
    for case in CASES:
        by_key = by_truncated(zone, case)
        ordered = sorted(by_key)[:: max(1, len(by_key) // 9)]
        pairs = [*((None, key) for key in ordered), *((key, None) for key in ordered)]
        for low, high in [*pairs, *zip(ordered, ordered[2:], strict=False)]:
            field = pa.field("k", keys_of([], case).type)
            ranges = Ranges(keys_of([low], case), keys_of([high], case), brackets)
            keys = DynamicFilteringData(
                pa.schema([field]), [RangeDomain(field, ranges)], exceeds_threshold=False
            )
            values = [
                value
                for key, some in by_key.items()
                if (low is None or key > low or (key == low and brackets[0] == "["))
                and (high is None or key < high or (key == high and brackets[1] == "]"))
                for value in some
            ]
            if values:
                domain = domain_of(keys, case, zone)
                assert count_in(domain, values, case) == len(values), (case, low, high)


@pytest.mark.parametrize("zone", [zone for zone in CHANGES if "St. John's, back" not in zone])
def test_a_range_is_no_longer_than_the_local_day(zone: str) -> None:
    case = Truncation("timestamp", "DAY", True, "zone")
    for day, values in by_truncated(zone, case).items():
        keys = DynamicFilteringData.from_arrow(pa.table({"k": keys_of([day], case)}))
        assert count_in(domain_of(keys, case, zone), moments(zone), case) == len(values)


def test_nulls_and_other_types() -> None:
    case = Truncation("timestamp", "DAY", True, "zone")
    days = pa.array([10, None], pa.int32()).cast(pa.date32())
    data = DynamicFilteringData.from_arrow(pa.table({"k": days, "id": [1, 2]}))
    clock = Clock(lambda _: (HOUR, None))
    of_id, of_k = domains_of(data, case, clock)
    assert of_id.rows["id"].to_pylist() == [1, 2]
    assert of_k.includes_null
    assert of_k.ranges.lower.cast(pa.int64()).to_pylist() == [(10 * DAY - HOUR) * 10**6]
    assert of_k.ranges.upper.cast(pa.int64()).to_pylist() == [(11 * DAY - HOUR) * 10**6]
    nothing = DynamicFilteringData.from_arrow(pa.table({"k": days.slice(1)}))
    (only_null,) = domains_of(nothing, case, clock)
    assert only_null.rows["k"].to_pylist() == [None]
    other = DynamicFilteringData.from_values({"k": [5]})
    assert of_columns(other, {"k": case}, lambda _: clock).fields == ()


def test_dates_beyond_the_first_and_last_timestamp() -> None:
    case = Truncation("timestamp", "DAY", True, "zone")
    first, last = -106_751_992, 106_751_991  # days with the first and the last TIMESTAMP
    for days, expected in (
        ([first - 1, last + 1], None),
        ([first, last], [(None, (first + 1) * DAY), (last * DAY, None)]),
        ([-(2**31), 0], [(0, DAY)]),
    ):
        keys = DynamicFilteringData.from_arrow(pa.table({"k": keys_of(days, case)}))
        clock = Clock(lambda _: (0, None))
        (domain,) = domains_of(keys, case, clock)
        if expected is None:
            assert domain.rows.num_rows == 0
            continue
        ends = [
            end.cast(pa.int64()).to_pylist() for end in (domain.ranges.lower, domain.ranges.upper)
        ]
        seconds = [[None if e is None else e // 10**6 for e in some] for some in ends]
        assert list(zip(*seconds, strict=True)) == expected


@pytest.mark.parametrize(
    ("unit", "key", "expected"),
    [
        ("MONTH", "2024-02-01", ("2024-02-01", "2024-03-01")),
        ("QUARTER", "1582-10-01", ("1582-10-01", "1583-01-01")),
        ("WEEK", "1969-12-29", ("1969-12-29", "1970-01-05")),
        ("YEAR", "0001-01-01", ("0001-01-01", "0002-01-01")),
    ],
)
def test_dates_truncated_to_longer_units(unit: str, key: str, expected: tuple[str, str]) -> None:
    days = [int(np.datetime64(text, "D").astype(int)) for text in (key, *expected)]
    case = Truncation("date", unit, True, None)
    keys = DynamicFilteringData.from_arrow(pa.table({"k": keys_of(days[:1], case)}))
    (domain,) = domains_of(keys, case, Clock(lambda _: (0, None)))
    assert [
        e[0].cast(pa.int32()).as_py() for e in (domain.ranges.lower, domain.ranges.upper)
    ] == days[1:]
