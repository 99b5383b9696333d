"""Convert join keys to the type of a partition key, if Spark's comparison of the two is exact.

A pair of types is converted only if Spark's ``fact.k = dim.k`` is true exactly for equal converted
values. A key without an equal value of the other type then matches no partition: a number out of
range, a fraction, a time other than midnight. Other pairs of types prune nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.arrow.time_zones import arrow_zone, has_unknown_clock, is_instant, local_to_instant
from splitlib.arrow.values import try_cast
from splitlib.hive.partition_values import comparable

# Spark compares an integer with a decimal by converting it to a decimal of this precision. The keys
# are the integer's width in bits.
_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_SPARK_MAX_PRECISION = 38


class Coerced(NamedTuple):
    """Join keys converted to the type of a partition key."""

    values: pa.Array
    matchable: pa.BooleanArray
    """False for keys that do not equal any value of the partition key's type."""


def coerce(keys: pa.Array, key: pa.Field) -> Coerced | None:
    """Convert ``keys`` to the type of the partition key ``key``; None if this is not exact."""
    if is_instant(keys.type) and not is_instant(key.type):
        # Spark uses Java's time zone names, most of which Arrow accepts.
        keys = keys.cast(pa.timestamp(keys.type.unit, arrow_zone(keys.type.tz)))
        if _has_unknown_clock(keys):
            return None
    converted = _convert(keys, key.type)
    if converted is None:
        return None
    lost = pc.and_(pc.is_null(converted), pc.is_valid(keys))
    return Coerced(comparable(converted, key), pc.invert(lost))


def _convert(keys: pa.Array, target: pa.DataType) -> pa.Array | None:
    """Convert ``keys`` to ``target``; None if the types cannot be compared exactly.

    Keys without an equal value in ``target`` become null.
    """
    source = keys.type
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
            dates = _wall_clock(keys).cast(pa.date32(), safe=False)
            return pc.if_else(_begins_day(keys), dates, pa.scalar(None, pa.date32()))
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
    # Arrow rejects a cast from int64 to decimal(10, 2) for all values, so cast to a wide decimal
    # first. In the last cast, values that are out of range or have a fraction become null.
    if pa.types.is_integer(keys.type) and pa.types.is_decimal(target):
        keys = keys.cast(pa.decimal256(76, target.scale))
    return try_cast(keys, target)


def _has_unknown_clock(instants: pa.Array) -> bool:
    return bool(pc.any(has_unknown_clock(instants, instants.type.tz)).as_py())


def _wall_clock(keys: pa.Array) -> pa.Array:
    return pc.local_timestamp(keys) if keys.type.tz else keys


def _begins_day(keys: pa.Array) -> pa.BooleanArray:
    """Return for each time whether a day begins then: at midnight, or later if it is skipped."""
    wall = _wall_clock(keys)
    midnight = pc.floor_temporal(wall, unit="day")
    begins = pc.equal(midnight, wall)
    if not keys.type.tz:
        return begins
    zone = keys.type.tz
    first = pc.assume_timezone(midnight, zone, ambiguous="earliest", nonexistent="latest")
    return pc.or_(begins, pc.equal(first, keys))


def _timestamp(keys: pa.Array, target: pa.TimestampType) -> pa.Array | None:
    """Convert timestamps to ``target``, which may or may not have a time zone.

    If only one type has a time zone, times of the other type are local times in this zone.
    """
    if keys.type.tz and target.tz:
        return try_cast(keys, target)
    if keys.type.tz:
        # Several instants share one wall-clock time where clocks change, so only UTC is exact.
        return try_cast(_wall_clock(keys), target) if keys.type.tz in ("UTC", "Z") else None
    local = try_cast(keys, pa.timestamp(target.unit))
    if not target.tz:
        return local
    instants = local_to_instant(local, target)
    skipped = pc.and_(pc.is_null(instants), pc.is_valid(keys))
    return None if pc.any(skipped).as_py() else instants
