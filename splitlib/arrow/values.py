"""Functions on Arrow values: casts that do not raise, sort keys, normalization of floats.

They also convert the time zone names of Java and Spark to Arrow's names.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.arrow.utf8 import contains_any
from splitlib.errors import ConfigError

_DECIMAL = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)"
_EXPONENT = "[eE][+-]?[0-9]+"
_DAY = (
    r"[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    r"|02-(0[1-9]|[12][0-9]))"
)
_TIME = r"([01][0-9]|2[0-3])(:[0-5][0-9](:[0-5][0-9]%s)?)?"
_FRACTION = {"s": "", "ms": r"(\.[0-9]{1,3})?", "us": r"(\.[0-9]{1,6})?", "ns": r"(\.[0-9]{1,9})?"}
_UTC = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$"

# Maximum number of casts for texts that a regular expression cannot check, such as 29 February.
ATTEMPTS = 20_000
# First date and first time for which bounds are used. Depending on session settings, Spark may
# convert earlier values from the Julian calendar. So earlier bounds are treated as unknown,
# whichever program wrote the file. Spark converts times before 1900-01-01 UTC, and moves some of
# them to up to 25 hours after it (spark-catalyst's julian-gregorian-rebase-micros.json). So bounds
# of times are used only from 1900-01-03 on.
SAME_DATES: Final = -141_427  # 1582-10-15, in days since the epoch
SAME_INSTANTS: Final = -2_208_816_000  # 1900-01-03, in seconds since the epoch


def cast_views(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Cast a column. Its type may be a string view or a dictionary of string views, as in Polars.

    Arrow cannot cast a dictionary of views, so such a column is converted through Python values.
    """
    try:
        return column.cast(kind)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return pa.chunked_array([pa.array(column.to_pylist(), kind)])


def try_cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast ``values`` to ``kind``. Values that cannot be cast without loss become null.

    The run time is about linear in the number of values, even if many cannot be cast. If a regular
    expression cannot detect the invalid texts, and there are very many of them, some valid texts
    become null too. Hexadecimal numbers always become null: Arrow parses them, but Spark does not.
    """
    if pa.types.is_decimal(values.type) and pa.types.is_decimal(kind):
        return _of_others(values, kind)  # Arrow's own cast does not detect some overflows.
    is_text = pa.types.is_string(values.type)
    try:
        if not (is_text and pa.types.is_integer(kind) and contains_any(values, b"xX")):
            return values.cast(kind)
    except pa.ArrowNotImplementedError:
        return pa.nulls(len(values), kind)
    except pa.ArrowInvalid:
        pass
    return _of_text(values, kind) if is_text else _of_others(values, kind)


def _of_text(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    encoded = texts.dictionary_encode()
    words = encoded.dictionary
    likely = pc.match_substring_regex(words, f"^({_spelling(kind)})$")
    chosen = words.filter(likely)
    if pa.types.is_integer(kind):
        found = try_cast(chosen.cast(pa.decimal128(38, 0)), kind)
    else:
        found = _halved(chosen, kind, ATTEMPTS)
    places = pc.subtract(pc.cumulative_sum(likely.cast(pa.int64())), 1)
    of_words = found.take(pc.if_else(likely, places, pa.scalar(None, pa.int64())))
    return of_words.take(encoded.indices)


def _spelling(kind: pa.DataType) -> str:
    """Return a regular expression for the texts that can be cast to ``kind``, and few others."""
    if pa.types.is_unsigned_integer(kind):
        return "[0-9]{1,38}"
    if pa.types.is_integer(kind):
        return "-?[0-9]{1,38}"
    if pa.types.is_floating(kind):
        return f"{_DECIMAL}({_EXPONENT})?|(?i:nan|[+-]?inf(inity)?)"
    if pa.types.is_decimal(kind):
        scale = max(kind.scale, 0)
        digits = rf"0*[0-9]{{0,{kind.precision - kind.scale}}}(\.[0-9]{{0,{scale}}}0*)?"
        return f"[+-]?{digits}|{_DECIMAL}{_EXPONENT}"
    if pa.types.is_date(kind):
        return _DAY
    if pa.types.is_timestamp(kind):
        return f"{_DAY}([ T]{_TIME % _FRACTION[kind.unit]})?"
    if pa.types.is_boolean(kind):
        return "(?i:true|false|0|1)"
    return "(?s:.*)"


def _of_others(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast values other than text to ``kind``. Values that do not fit become null."""
    try:
        fits = _fits_decimal(values, kind) if pa.types.is_decimal(values.type) else None
        if fits is None:
            converted = values.cast(kind, safe=False)
            fits = pc.equal(converted.cast(values.type, safe=False), values)
            if pa.types.is_integer(kind) and pa.types.is_integer(values.type):
                # The largest uint64 casts to -1 and back, so compare the signs too.
                fits = pc.and_(fits, pc.equal(pc.less(converted, 0), pc.less(values, 0)))
        return pc.if_else(fits, values, pa.scalar(None, values.type)).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _halved(values, kind)


def _fits_decimal(values: pa.Array, kind: pa.DataType) -> pa.BooleanArray | None:
    """Return whether each decimal fits ``kind``, or None if ``kind`` is not decimal or integer."""
    if pa.types.is_decimal(kind):
        scale, limit = kind.scale, 10 ** (kind.precision - kind.scale)
        least, most = 1 - limit, limit - 1
    elif pa.types.is_integer(kind):
        scale = 0
        signed = pa.types.is_signed_integer(kind)
        least = -(2 ** (kind.bit_width - 1)) if signed else 0
        most = 2 ** (kind.bit_width - signed) - 1
    else:
        return None
    # This type can represent the limits of every target type, and all decimal places of the values.
    wide = values.cast(pa.decimal256(76, values.type.scale))
    whole = pc.trunc(wide)
    inside = pc.and_(
        pc.greater_equal(whole, pa.scalar(Decimal(least), wide.type)),
        pc.less_equal(whole, pa.scalar(Decimal(most), wide.type)),
    )
    return pc.and_(inside, pc.equal(pc.round(wide, ndigits=scale), wide))


def _halved(values: pa.Array, kind: pa.DataType, attempts: int | None = None) -> pa.Array:
    """Cast ``values`` to ``kind``. Values that cannot be cast become null.

    An array that cannot be cast is halved again and again, until the invalid values are isolated.

    Args:
        values: Values to cast.
        kind: Target type.
        attempts: Maximum number of casts. Values that are not cast by then become null. None means
            no limit.
    """
    found = []
    waiting = [values]
    tried = 0
    while waiting:
        piece = waiting.pop()
        tried += 1
        try:
            if attempts is not None and tried > attempts:
                found.append(pa.nulls(len(piece), kind))
            else:
                found.append(piece.cast(kind))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            if len(piece) == 1:
                found.append(pa.nulls(1, kind))
            else:
                half = len(piece) // 2
                waiting += [piece[half:], piece[:half]]
    return pa.concat_arrays(found)


def ordinals(values: pa.Array) -> npt.NDArray[Any]:
    """Convert values to a NumPy array with the same sort order. Nulls become an arbitrary value."""
    kind = values.type
    if pa.types.is_null(kind):
        return np.zeros(len(values), np.int64)
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        values = values.cast(pa.int32())
    elif pa.types.is_temporal(kind):
        values = values.cast(pa.int64())
    elif pa.types.is_boolean(kind):
        values = values.cast(pa.uint8())
    elif pa.types.is_fixed_size_binary(kind) or pa.types.is_string(kind):
        values = values.cast(pa.binary())  # Spark's strings may be invalid UTF-8.
    if values.null_count:
        values = values.fill_null(b"" if pa.types.is_binary(values.type) else _zero(values.type))
    numbers: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return numbers


def of_ordinals(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return an Arrow array. Dates are given in days since 1970, and timestamps in their unit."""
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)


def have_same_ordinals(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether values of two types can be compared by their :func:`ordinals`."""
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other):
        return bool(one.unit == other.unit)
    return bool(one == other)


def _zero(kind: pa.DataType) -> pa.Scalar:
    return pa.scalar("" if pa.types.is_string(kind) else 0, kind)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type for the same values without encodings, views, large offsets or half width."""
    while pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        kind = kind.value_type
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return pa.decimal128(kind.precision, kind.scale)
    return kind


def normal_floats(values: Any, kind: pa.DataType | None = None) -> Any:
    """Normalize floats so that values that a Spark join treats as equal have the same bits.

    -0.0 becomes 0.0, and all NaNs become the same NaN.

    Args:
        values: An array, a chunked array, a scalar or an expression. Types other than floats are
            not changed.
        kind: Type of the values. Required for an expression.
    """
    kind = values.type if kind is None else kind
    if not pa.types.is_floating(kind):
        return values
    zero, nan = pa.scalar(0.0, kind), pa.scalar(math.nan, kind)
    # NaNs may have different bits: on x86, 0.0 / 0.0 and Java's NaN differ in the sign bit.
    return pc.if_else(pc.is_nan(values), nan, pc.add(values, zero))


def python_value(value: pa.Scalar) -> Any:
    """Return a scalar as a Python value, or as text if Python cannot represent it.

    For example, Python has no dates in the year 10000, no nanoseconds, and no invalid UTF-8.
    """
    with suppress(OverflowError, ValueError):
        return value.as_py()
    if pa.types.is_string(value.type):
        return value.as_buffer().to_pybytes().decode(errors="backslashreplace")
    try:
        return str(pc.cast(value, pa.string(), safe=False).as_py())
    except pa.ArrowInvalid:  # Arrow cannot format years after 32767.
        return f"<value out of range: {value.cast(pa.int64())}>"


def python_values(values: pa.Array) -> list[Any]:
    """Convert an array to a list, by converting each value with :func:`python_value`."""
    try:
        found: list[Any] = values.to_pylist()
    except (OverflowError, ValueError):
        found = [python_value(value) for value in values]
    return found


def shown(value: pa.Scalar) -> str:
    """Format a scalar as text for messages."""
    return str(python_value(value))


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
# Last day with known rules: Arrow ignores the rule in time zone files for all times from 2038 on.
_LAST_KNOWN_DAY: Final = dt.datetime(2037, 12, 28)
_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{1,2}))?(?::?00)?")


@lru_cache
def arrow_zone(zone: str) -> str:
    """Convert a Spark time zone name, as in ``spark.sql.session.timeZone``, to Arrow's name.

    Raises:
        ConfigError: if Arrow does not have this time zone.
    """
    names = ["UTC" if zone in ("Z", "UT") else _SHORT.get(zone, zone)]
    offset = _OFFSET.fullmatch(names[0])
    if offset is not None:
        sign, hours, minutes = offset[1], int(offset[2]), int(offset[3] or 0)
        names = [f"{sign}{hours:02}:{minutes:02}"]
        if not minutes:  # Older versions of Arrow need Etc/GMT names, whose sign is reversed.
            names.append(f"Etc/GMT{'-' if sign == '+' else '+'}{hours}")
    for known in names:
        try:
            pc.local_timestamp(pa.array([0], pa.timestamp("us", known)))
        except pa.ArrowException:
            continue
        return known
    raise ConfigError(
        f"Time zone {zone!r} is unknown.",
        hint="set spark.sql.session.timeZone (timeZone), for example to 'Europe/Berlin' or "
        "'+08:00'. Offsets with minutes need pyarrow 22 or newer.",
    )


@lru_cache
def is_known(zone: str) -> bool:
    """Return whether Arrow has the time zone with this Arrow or Java name."""
    if zone in ("UTC", "Z"):  # These names need no time zone database.
        return True
    try:
        arrow_zone(zone)
    except ConfigError:
        return False
    return True


def in_zone(fields: Iterable[pa.Field], zone: str) -> pa.Schema:
    """Return a schema of ``fields`` in which every timestamp with a time zone uses ``zone``.

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
    """Return whether a type is a timestamp with a time zone (an instant, not a local time)."""
    return bool(pa.types.is_timestamp(kind)) and kind.tz is not None


def is_east(zone: str) -> bool:
    """Return whether ``zone`` is ahead of UTC on the last day of Arrow's time zone rules."""
    instant = pa.array([_LAST_KNOWN_DAY], pa.timestamp("s", arrow_zone(zone)))
    ahead = pc.greater(pc.local_timestamp(instant), instant.cast(pa.timestamp("s")))
    return bool(ahead[0].as_py())


def local_to_instant(local: pa.Array, kind: pa.TimestampType) -> pa.Array:
    """Convert wall-clock times in the time zone ``kind.tz`` to instants.

    A time that daylight saving skips becomes null, and so does a time after 2037 (see
    :func:`has_unknown_clock`). A time that occurs twice becomes the earlier instant, as in
    ``java.time``.
    """
    early = pc.assume_timezone(local, kind.tz, ambiguous="earliest", nonexistent="earliest")
    late = pc.assume_timezone(local, kind.tz, ambiguous="earliest", nonexistent="latest")
    known = pc.and_(pc.equal(early, late), pc.invert(has_unknown_clock(local, kind.tz)))
    return pc.if_else(known, early, pa.scalar(None, early.type))


def parse_instants(texts: pa.StringArray, kind: pa.TimestampType) -> pa.Array:
    """Parse times in UTC that end in ``Z``, and wall-clock times in the time zone ``kind.tz``."""
    local = local_to_instant(try_cast(texts, pa.timestamp(kind.unit)), kind)
    if not contains_any(texts, b"Z"):
        return local
    is_utc = pc.match_substring_regex(texts, _UTC)
    plain = pc.if_else(is_utc, pc.utf8_slice_codeunits(texts, 0, -1), pa.scalar(None, pa.string()))
    in_utc = pc.assume_timezone(try_cast(plain, pa.timestamp(kind.unit)), "UTC")
    return pc.if_else(is_utc, in_utc.cast(kind), local)


def has_unknown_clock(times: pa.Array, zone: str) -> pa.BooleanArray:
    """Return a mask of the times for which Arrow's local time in ``zone`` may be an hour off.

    Arrow does not apply daylight saving after the year 2037.
    """
    if not _has_daylight_saving(zone):
        return pa.repeat(False, len(times))
    return pc.greater_equal(times, pa.scalar(_LAST_KNOWN_DAY, times.type))


@lru_cache
def _has_daylight_saving(zone: str) -> bool:
    """Return whether ``zone`` has daylight saving in the last year of Arrow's time zone rules."""
    months = [_LAST_KNOWN_DAY.replace(month=month) for month in range(1, 13)]
    instants = pa.array(months, pa.timestamp("s", zone))
    offsets = pc.subtract(pc.local_timestamp(instants), instants.cast(pa.timestamp("s")))
    return len(pc.unique(offsets)) > 1
