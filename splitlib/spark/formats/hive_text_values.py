r"""Convert one Hive text field to a Spark value, as Hive's ``Lazy*`` primitives do.

Most functions take a field's bytes as an ISO-8859-1 string. It has one character per byte, so bytes
that are not UTF-8 are preserved. The result is NULL where Hive returns NULL. Hive uses Java's
parsers (``Double.parseDouble``, ``Date.valueOf``, ``Timestamp.valueOf``). The patterns in this
module follow the rules of these parsers. Spark's casts accept different formats and depend on ANSI
mode.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType

from splitlib.spark.compat import try_cast

BYTES: Final = "ISO-8859-1"

# Hive's LazyInteger drops a fraction. It requires a digit on at least one side of the ".".
_INTEGER: Final = r"\A([+-]?\d+)(?:\.\d*)?\z"
_BARE_FRACTION: Final = r"\A[+-]?\.\d+\z"

# Matches numbers that Java and Spark parse in the same way. Java trims characters up to U+0020 and
# accepts only "NaN" and "Infinity". Spark also accepts "inf" and ignores case. Hive returns NULL
# for any field of four bytes that begins with "N".
_NOT_A_SPARK_WORD: Final = (
    r"\A(?!NaN[\x00-\x20]\z)(?:[^nN]*|[\x00-\x20]*[+-]?(?:NaN|Infinity)[\x00-\x20]*)\z"
)

_DECIMAL: Final = r"\A[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?0*\d{0,2}(?<=\d))?\z"

# The parts of a date may have a sign, because Integer.parseInt accepts one. java.sql.Date limits
# the lengths of the parts.
_DAY: Final = r"(\+\d{3}|\d{4})-(\+\d|\d\d?)-(\+\d|\d\d?)"
_DATE: Final = rf"\A{_DAY}\z"
_TIMESTAMP: Final = (
    rf"\A[\x00-\x20]*{_DAY} ([+-]?\d+):([+-]?\d+):([+-]?\d+)(?:\.(\d{{1,9}}))?[\x00-\x20]*\z"
)
_SHORTEST_DATE: Final = 8

# Match text that Spark's cast either parses as Hive does or rejects. All other text is parsed by
# expressions in this module. The patterns exclude the days in October 1582 that do not exist in
# Java's calendar, because they exist in Spark's calendar.
_PLAIN_DAY: Final = r"(?!1582-10-(?:0?[5-9]|1[0-4]))\d{4}-\d\d?-\d\d?"
_PLAIN_TIME: Final = r"(?:[01]?\d|2[0-3]):[0-5]?\d:[0-5]?\d(?:\.\d{1,9})?"

# Integer.parseInt accepts the decimal digits of every script in the basic multilingual plane.
_DIGITS: Final = [chr(c) for c in range(0x80, 0x10000) if unicodedata.category(chr(c)) == "Nd"]

# Matches the bytes for which Java's Character.isWhitespace is true.
_WHITESPACE: Final = r"[\t-\r\x1c-\x20]"

# In microseconds: the length of a day, and the start of the year 1583 relative to 1970.
_MICROS_A_DAY: Final = 86_400_000_000
_YEAR_1583: Final = -141_349 * _MICROS_A_DAY


def utf8(raw: Column) -> Column:
    """Decode the field's bytes as UTF-8. Invalid bytes are preserved."""
    return F.encode(raw, BYTES).cast("string")


def integer(raw: Column, data_type: DataType) -> Column:
    """Parse a whole number. The result is NULL if it is outside the type's range."""
    whole = F.regexp_extract(raw, _INTEGER, 1)
    return try_cast(F.when(raw.rlike(_BARE_FRACTION), "0").otherwise(whole), data_type)


def floating(raw: Column, data_type: DataType) -> Column:
    """Parse a float or double in Java's syntax (``1e3``, ``1d``, ``0x1p3``, ``NaN``)."""
    return F.when(raw.rlike(_NOT_A_SPARK_WORD), try_cast(raw, data_type))


def boolean(raw: Column, *, extended: bool) -> Column:
    """Parse ``true`` or ``false``, ignoring case, and one-letter texts if ``extended``."""
    upper = F.upper(raw)
    texts = (("TRUE", "T", "1"), ("FALSE", "F", "0")) if extended else (("TRUE",), ("FALSE",))
    return F.when(upper.isin(*texts[0]), True).when(upper.isin(*texts[1]), False)


def binary(raw: Column) -> Column:
    """Decode Base64. A field with characters that Base64 does not use is returned unchanged."""
    symbols = F.translate(
        F.regexp_replace(F.regexp_extract(raw, r"\A[^=]*", 0), _WHITESPACE, ""), "-_", "+/"
    )
    # A single character after the last group of four is dropped: it does not encode a whole byte.
    decoded = F.unbase64(F.regexp_replace(symbols, r"\A((?:.{4})*).\z", "$1"))
    original = F.encode(raw, BYTES)
    is_base64 = raw.rlike(rf"\A(?:[A-Za-z0-9+/_=-]|{_WHITESPACE})*+\z")
    return F.when(is_base64 & (F.length(decoded) > 0), decoded).otherwise(original)


def character(text: Column, length: int, *, padded: bool) -> Column:
    """Convert UTF-8 text to CHAR (``padded``) or VARCHAR of at most ``length`` characters."""
    # translate() converts the text to a Java string, which replaces bytes that are not UTF-8.
    text = F.translate(text, "", "")
    # Spark's rpad also truncates longer text.
    return F.rpad(text, length, " ") if padded else F.substring(text, 1, length)


def decimal(raw: Column, data_type: DecimalType) -> Column:
    """Parse a decimal, rounded half up. The result is NULL if it has too many digits for its type.

    Hive rounds twice: first to its maximum of 38 digits, then to the column's scale.
    """

    def twice(raw: Column) -> Column:
        mantissa = let(F.regexp_extract(raw, r"\A[+-]?0*([\d.]+)", 1), _round_to_38)
        sign = F.regexp_extract(raw, r"\A[+-]?", 0)
        exponent = F.regexp_extract(raw, r"[eE].*", 0)
        # For a number below 1, only a type with scale 38 can hold all 38 digits.
        below_one = DecimalType(38, 38)
        return let(
            F.concat(sign, mantissa, exponent),
            lambda text: F.coalesce(
                try_cast(try_cast(text, below_one), data_type), try_cast(text, data_type)
            ),
        )

    is_short = (F.length(raw) <= 38) & ~raw.rlike("[eE]")
    value = F.when(is_short, try_cast(raw, data_type)).otherwise(let(raw, twice))
    return F.when(raw.rlike(_DECIMAL), value)


def _round_to_38(digits: Column) -> Column:
    """Round a number to 38 digits. ``digits`` has no sign, exponent or leading zeros."""
    held = F.regexp_extract(digits, r"\A(?=\d*\.)[\d.]{0,39}|\A\d*", 0)
    last, nines = (F.regexp_extract(held, r"\A(.*?)([0-8]?)([9.]*)\z", i) for i in (2, 3))
    head = F.regexp_extract(held, r"\A(.*?)([0-8]?)([9.]*)\z", 1)
    carried = F.when(last == "", "1").otherwise(F.translate(last, "012345678", "123456789"))
    above = F.concat(head, carried, F.translate(nines, "9", "0"))
    return F.when(F.regexp_extract(digits, r"\A(?=\d*\.).{39}(.)", 1) >= "5", above).otherwise(held)


def date(raw: Column) -> Column:
    """Parse a date. Days past the end of a month continue into the next month."""

    def lenient(raw: Column) -> Column:
        text = F.translate(
            utf8(raw), "".join(_DIGITS), "".join(str(unicodedata.digit(digit)) for digit in _DIGITS)
        )
        return F.when(text.rlike(_DATE), _day(text, _DATE))

    plain = F.when(raw.rlike(rf"\A{_PLAIN_DAY}\z"), try_cast(raw, "date"))
    return F.when(F.length(raw) >= _SHORTEST_DATE, F.coalesce(plain, let(raw, lenient)))


def timestamp(raw: Column, time_zone: str) -> Column:
    """Parse a timestamp in ``time_zone``. Hours, minutes and seconds may be out of range."""

    def lenient(raw: Column) -> Column:
        def part(group: int) -> Column:
            return try_cast(F.regexp_extract(raw, _TIMESTAMP, group), "int").cast("bigint")

        seconds = part(4) * 3600 + part(5) * 60 + part(6)
        fraction = try_cast(F.rpad(F.regexp_extract(raw, _TIMESTAMP, 7), 6, "0"), "bigint")
        midnight = F.unix_date(_day(raw, _TIMESTAMP)).cast("bigint") * _MICROS_A_DAY
        sum_of_parts = let(F.array(midnight, seconds * 1_000_000 + fraction), _wall)
        return F.when(raw.rlike(_TIMESTAMP), let(sum_of_parts, lambda w: _instant(w, time_zone)))

    wall = try_cast(F.concat(raw, F.lit("Z")), "timestamp")
    plain = F.when(raw.rlike(rf"\A{_PLAIN_DAY} {_PLAIN_TIME}\z"), _instant(wall, time_zone))
    return F.when(F.length(raw) >= _SHORTEST_DATE, F.coalesce(plain, let(raw, lenient)))


def let(value: Column, body: Callable[[Column], Column]) -> Column:
    """Return ``body(value)``. Spark computes the value once, however often ``body`` uses it."""
    return F.get(F.transform(F.array(value), body), F.lit(0))


def _day(text: Column, pattern: str) -> Column:
    """Parse a date from the groups of ``pattern``. Days past a month's end continue into the next.

    Java uses the Julian calendar before 15 October 1582. Spark's Hive reader keeps the year, month
    and day when it converts such a date.
    """

    def name(date: Column) -> Column:
        year, month, day = (date[i] for i in range(3))
        is_julian_leap = (year < 1582) & (year % 100 == 0) & (year % 400 != 0)
        past_leap_day = is_julian_leap & (month == 2) & (day > 29)
        in_gap = (year == 1582) & (month == 10) & day.between(5, 14)
        shift = F.when(past_leap_day, -2).when(in_gap, 9).otherwise(-1)
        named = F.date_add(F.make_date(year, month, F.lit(1)), day + shift)
        return F.when(month.between(1, 12) & day.between(1, 31), named)

    parts = (try_cast(F.regexp_extract(text, pattern, group), "int") for group in (1, 2, 3))
    return let(F.array(*parts), name)


def _wall(parts: Column) -> Column:
    """Return a timestamp for ``parts``: midnight of a day, and a time of day, in microseconds."""
    midnight, time = parts[0], parts[1]
    runs_over = ~time.between(0, _MICROS_A_DAY - 1) & (
        F.least(midnight, midnight + time) < _YEAR_1583
    )
    refusal = F.raise_error(
        "A timestamp near or before the year 1582 has a time of day of more than 24 hours, which"
        " cannot be read as Hive reads it."
    )
    return F.when(runs_over, refusal).otherwise(F.timestamp_micros(midnight + time))


def _instant(wall: Column, time_zone: str) -> Column:
    """Convert a local time, which is represented as if it were UTC, to an instant.

    When clocks are set back, some local times occur twice. Java uses the later instant, as this
    function does. Spark would use the earlier one.
    """
    earlier = F.to_utc_timestamp(wall, time_zone)

    def micros(instant: Column) -> Column:
        return F.unix_micros(instant)

    def shown(instant: Column) -> Column:
        return micros(F.from_utc_timestamp(instant, time_zone))

    a_day_on = F.timestamp_micros(micros(earlier) + _MICROS_A_DAY)
    later = F.timestamp_micros(micros(wall) - (shown(a_day_on) - micros(a_day_on)))
    return F.when(shown(later) == micros(wall), later).otherwise(earlier)
