"""Date formats and date ranges for Athena's partition projection."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any, Final

from splitlib.errors import UnsupportedTable

_NOW: Final = re.compile(
    r"\s*NOW\s*(?:([+-])\s*([0-9]{1,9})\s*(YEAR|MONTH|WEEK|DAY|HOUR|MINUTE|SECOND)S?\s*)?"
)
# Units of time, from coarse to fine. FIXED maps each unit of constant length to its length.
UNITS: Final = ("YEARS", "MONTHS", "WEEKS", "DAYS", "HOURS", "MINUTES", "SECONDS", "MILLIS")
FIXED: Final = {
    "WEEKS": timedelta(weeks=1),
    "DAYS": timedelta(days=1),
    "HOURS": timedelta(hours=1),
    "MINUTES": timedelta(minutes=1),
    "SECONDS": timedelta(seconds=1),
    "MILLIS": timedelta(milliseconds=1),
}
# Date fields in Java's DateTimeFormatter patterns: field name, and regular expression for its text.
_FIELDS: Final = {
    **dict.fromkeys(("yyyy", "uuuu", "y", "u"), ("year", "[0-9]{4}")),
    **dict.fromkeys(("yy", "uu"), ("year", "[0-9]{2}")),
    "MM": ("month", "[0-9]{2}"),
    "M": ("month", "[0-9]{1,2}"),
    "dd": ("day", "[0-9]{2}"),
    "d": ("day", "[0-9]{1,2}"),
    "HH": ("hour", "[0-9]{2}"),
    "H": ("hour", "[0-9]{1,2}"),
    "mm": ("minute", "[0-9]{2}"),
    "m": ("minute", "[0-9]{1,2}"),
    "ss": ("second", "[0-9]{2}"),
    "s": ("second", "[0-9]{1,2}"),
    "SSS": ("milli", "[0-9]{3}"),
}
_PRECISION: Final = {
    "year": "YEARS",
    "month": "MONTHS",
    "day": "DAYS",
    "hour": "HOURS",
    "minute": "MINUTES",
    "second": "SECONDS",
    "milli": "MILLIS",
}
_PATTERN: Final = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|([^A-Za-z'\[\]{}#])")


class DateFormat:
    """A Java ``DateTimeFormatter`` pattern that consists of numeric fields and literal text.

    Args:
        pattern: The pattern, such as ``yyyy/MM/dd``.

    Raises:
        UnsupportedTable: if the pattern has other fields, or has a gap between its fields, such as
            year and day without month.
    """

    def __init__(self, pattern: str) -> None:
        self._parts: list[tuple[str, int] | str] = []
        texts, names, end = list[str](), list[str](), 0
        for found in _PATTERN.finditer(pattern):
            if found.start() != end:
                break
            if not found[1]:
                literal = "'" if found[0] == "''" else found[3] or found[2].replace("''", "'")
                self._parts.append(literal)
                texts.append(re.escape(literal))
            elif found[0] not in _FIELDS or (texts and texts[-1].endswith("{1,2})")):
                # The field is unknown, or a field of variable width precedes it without a
                # separator. Such a text could be parsed in several ways.
                break
            else:
                name, text = _FIELDS[found[0]]
                names.append(name)
                self._parts.append((name, len(found[0])))
                texts.append(f"(?P<{name}>{text})")
            end = found.end()
        if end != len(pattern) or set(names) != set([*_PRECISION][: len(names)]) or not names:
            raise UnsupportedTable(
                f"The date format {pattern!r} of a partition projection is not supported.",
                hint="use year, month, day, hour, minute, second and SSS without gaps, as numbers.",
            )
        self.unit = _PRECISION[[*_PRECISION][len(names) - 1]]
        """The finest unit of time in the pattern."""
        self._text = re.compile("".join(texts), re.ASCII)

    def write(self, moment: datetime) -> str:
        """Format ``moment`` with this pattern. Units that the pattern does not have are omitted."""
        written = []
        for part in self._parts:
            if isinstance(part, str):
                written.append(part)
                continue
            name, width = part
            number = moment.microsecond // 1000 if name == "milli" else getattr(moment, name)
            if name == "year" and width == 2:
                number %= 100
            written.append(f"{number:0{4 if name == 'year' and width == 1 else width}d}")
        return "".join(written)

    def read(self, text: str) -> datetime | None:
        """Parse ``text``, or return None if it is not a date as :meth:`write` formats it."""
        found = self._text.fullmatch(text)
        if found is None:
            return None
        numbers: dict[str, Any] = {"month": 1, "day": 1} | {
            k: int(v) for k, v in found.groupdict().items()
        }
        if len(found["year"]) == 2:
            numbers["year"] += 2000
        numbers["microsecond"] = numbers.pop("milli", 0) * 1000
        try:
            moment = datetime(**numbers)
        except ValueError:
            return None
        return moment if self.write(moment) == text else None


def is_relative(text: str) -> bool:
    """Return whether one end of a range is a time relative to now, such as ``NOW-3YEARS``."""
    return _NOW.fullmatch(text) is not None


def range_end(text: str, form: DateFormat, now: datetime) -> datetime | None:
    """Parse one end of a range: a date, or a time relative to now, such as ``NOW-3YEARS``.

    Args:
        text: Date or relative time.
        form: Date format. A relative time is truncated to the finest unit of this format.
        now: Current time.

    Returns:
        The end of the range, or None if the text is not a valid date or relative time.
    """
    relative = _NOW.fullmatch(text)
    if relative is None:
        return form.read(text)
    if relative[1]:
        number, unit = int(relative[1] + relative[2]), f"{relative[3]}S"
        try:
            if unit in FIXED:
                now += number * FIXED[unit]
            else:
                now = plus_months(now, number * (12 if unit == "YEARS" else 1))
        except (OverflowError, ValueError):
            return None
    return form.read(form.write(now))


def plus_months(moment: datetime, months: int) -> datetime:
    """Add months to a date. As in Java, 31 January plus one month is the last day of February.

    Raises:
        ValueError: if the resulting year is outside the range of Python's dates.
    """
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    following = datetime(year + (month == 11), (month + 1) % 12 + 1, 1) if year < 9999 else None
    last = 31 if following is None else (following - timedelta(days=1)).day
    return moment.replace(year=year, month=month + 1, day=min(moment.day, last))
