"""Time zones: translate the names that Java and Spark accept to Arrow's names."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import ConfigError

# Short names of time zones, from java.time.ZoneId.SHORT_IDS.
_SHORT: Final = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
# Arrow ignores the rule at the end of a time zone file, which applies from 2038 on.
_LAST_KNOWN_DAY: Final = dt.datetime(2037, 12, 28)
_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{1,2}))?(?::?00)?")


@lru_cache
def arrow_zone(zone: str) -> str:
    """Return Arrow's name for the time zone ``zone``, a name as in Spark's settings.

    Raises:
        ConfigError: if Arrow does not have this time zone.
    """
    offset = _OFFSET.fullmatch(zone)
    if offset is not None:
        known = f"{offset[1]}{int(offset[2]):02}:{int(offset[3] or 0):02}"
    else:
        known = "UTC" if zone in ("Z", "UT") else _SHORT.get(zone, zone)
    try:
        pc.local_timestamp(pa.array([0], pa.timestamp("us", known)))
    except pa.ArrowException as error:
        raise ConfigError(
            f"Time zone {zone!r} is unknown.",
            hint="set spark.sql.session.timeZone (timeZone) to 'Europe/Berlin' or '+08:00', say.",
        ) from error
    return known


@lru_cache
def is_known(zone: str) -> bool:
    """Return whether Arrow has the time zone ``zone``, a name as in Arrow or Java."""
    if zone in ("UTC", "Z"):  # available without a time zone database
        return True
    try:
        arrow_zone(zone)
    except ConfigError:
        return False
    return True


def in_zone(fields: Iterable[pa.Field], zone: str) -> pa.Schema:
    """Return the fields with ``zone`` as the time zone of all instants.

    Raises:
        ConfigError: if Arrow does not have this time zone.
    """
    return pa.schema(
        field.with_type(pa.timestamp(field.type.unit, arrow_zone(zone)))
        if is_instant(field.type)
        else field
        for field in fields
    )


def is_instant(kind: pa.DataType) -> bool:
    """Return whether a type is a timestamp with a time zone: a point in time, not a local time."""
    return bool(pa.types.is_timestamp(kind)) and kind.tz is not None


def is_east(zone: str) -> bool:
    """Return whether the clocks of ``zone`` are ahead of UTC in the last winter that Arrow has."""
    instant = pa.array([_LAST_KNOWN_DAY], pa.timestamp("s", arrow_zone(zone)))
    ahead = pc.greater(pc.local_timestamp(instant), instant.cast(pa.timestamp("s")))
    return bool(ahead[0].as_py())


def local_to_instant(local: pa.Array, kind: pa.TimestampType) -> pa.Array:
    """Convert wall-clock times of the time zone ``kind.tz`` to instants.

    A time that daylight saving skips becomes null, as does one after 2037 (see
    :func:`has_unknown_clock`). A time that occurs twice becomes the earlier instant, as in
    ``java.time``.
    """
    early = pc.assume_timezone(local, kind.tz, ambiguous="earliest", nonexistent="earliest")
    late = pc.assume_timezone(local, kind.tz, ambiguous="earliest", nonexistent="latest")
    known = pc.and_(pc.equal(early, late), pc.invert(has_unknown_clock(local, kind.tz)))
    return pc.if_else(known, early, pa.scalar(None, early.type))


def has_unknown_clock(times: pa.Array, zone: str) -> pa.BooleanArray:
    """Return for each time whether Arrow's wall clock of ``zone`` may be an hour off.

    Arrow does not apply daylight saving after the year 2037.
    """
    if not _has_daylight_saving(zone):
        return pa.repeat(False, len(times))
    return pc.greater_equal(times, pa.scalar(_LAST_KNOWN_DAY, times.type))


@lru_cache
def _has_daylight_saving(zone: str) -> bool:
    """Return whether ``zone`` still changes its clocks in the last year that Arrow covers."""
    months = [_LAST_KNOWN_DAY.replace(month=month) for month in range(1, 13)]
    instants = pa.array(months, pa.timestamp("s", zone))
    offsets = pc.subtract(pc.local_timestamp(instants), instants.cast(pa.timestamp("s")))
    return len(pc.unique(offsets)) > 1
