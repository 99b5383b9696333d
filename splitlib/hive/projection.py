"""Athena's partition projection: partitions computed from the table's properties.

Athena ignores partitions of such a table that are registered in the metastore. Spark and the
metastore ignore the projection. Source: the pages on "partition projection" in the Amazon Athena
user guide.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

import pyarrow as pa

from splitlib.errors import UnsupportedTable
from splitlib.hive.partition_values import escape
from splitlib.hive.projected_dates import (
    FIXED,
    UNITS,
    DateFormat,
    is_relative,
    plus_months,
    range_end,
)

_INT64: Final = range(-(2**63), 2**63)
_MOST_DIGITS: Final = 100
_WHOLE: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_PADDED: Final = re.compile(rf"-?[0-9]{{1,{_MOST_DIGITS}}}", re.ASCII)


class Projected(ABC):
    """The projected values of one partition key, as a sequence with indexes from 0."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of projected values."""

    @abstractmethod
    def text(self, number: int) -> str:
        """Return the partition value at index ``number``, as text."""

    def in_location(self, number: int) -> str:
        """Return the value at index ``number``, as it is written in partition locations."""
        return self.text(number)

    @property
    def position(self) -> Callable[[Any], int | None] | None:
        """Function that maps a projected value to its index, and any other value to None.

        This property is None if there is no such function. The index can then only be found by
        comparing with every projected value.
        """
        return None

    @property
    def value(self) -> Callable[[int], Any] | None:
        """Function that maps an index to the projected value, in the key's type.

        This property is None if the mapping is not strictly increasing.
        """
        return None


@dataclass(frozen=True)
class EnumProjected(Projected):
    """A projection of type ``enum``: values that are listed in the table's properties."""

    texts: tuple[str, ...]

    @property
    def count(self) -> int:
        """Number of projected values."""
        return len(self.texts)

    def text(self, number: int) -> str:
        """Return the partition value at index ``number``, as text."""
        return self.texts[number]


@dataclass(frozen=True)
class IntegerProjected(Projected):
    """A projection of type ``integer``: integers at a fixed interval."""

    first: int
    last: int
    interval: int
    digits: int
    """Minimum number of digits, padded with leading zeros."""
    kind: Literal["integer", "text"] | None
    """Category of the partition key's type. None for other types, for which :attr:`position` and
    :attr:`value` are None."""

    @property
    def count(self) -> int:
        """Number of projected values."""
        return (self.last - self.first) // self.interval + 1

    def text(self, number: int) -> str:
        """Return the partition value at index ``number``, as text."""
        return f"{self.first + number * self.interval:0{self.digits}d}"

    @property
    def position(self) -> Callable[[Any], int | None] | None:
        """Function that maps a value of the key's type to its index. See :class:`Projected`."""
        return None if self.kind is None else self._position

    @property
    def value(self) -> Callable[[int], Any] | None:
        """Function that maps an index to a value of the key's type. See :class:`Projected`."""
        return self._value if self.kind == "integer" else None

    def _value(self, number: int) -> int:
        return self.first + number * self.interval

    def _position(self, value: Any) -> int | None:
        if self.kind == "text" and not _PADDED.fullmatch(value):
            return None
        number, rest = divmod(int(value) - self.first, self.interval)
        if rest or not 0 <= number < self.count:
            return None
        is_same = self.kind == "integer" or self.text(number) == value
        return number if is_same else None


@dataclass(frozen=True)
class DateProjected(Projected):
    """A projection of type ``date``: points in time at a fixed interval."""

    form: DateFormat
    first: datetime
    last: datetime
    """Upper bound of the range. The last value may be earlier."""
    interval: int
    unit: str
    kind: Literal["date", "text", "timestamp"] | None
    """Category of the partition key's type. None for other types, for which :attr:`position` and
    :attr:`value` are None."""

    @property
    def count(self) -> int:
        """Number of projected values."""
        if self.unit in FIXED:
            return (self.last - self.first) // (self.interval * FIXED[self.unit]) + 1
        number = _months(self.first, self.last) // self._step
        return number + (self._moment(number) <= self.last)

    def text(self, number: int) -> str:
        """Return the partition value at index ``number``, as text."""
        moment = self._moment(number)
        match self.kind:
            case "date":
                return moment.date().isoformat()
            case "timestamp":
                return moment.isoformat(" ", "milliseconds" if moment.microsecond else "seconds")
        return self.form.write(moment)

    def in_location(self, number: int) -> str:
        """Return the value at index ``number``, as it is written in partition locations."""
        return self.form.write(self._moment(number))

    @property
    def position(self) -> Callable[[Any], int | None] | None:
        """Function that maps a value of the key's type to its index. See :class:`Projected`."""
        return self._position if self.kind in ("date", "text") else None

    @property
    def value(self) -> Callable[[int], Any] | None:
        """Function that maps an index to a value of the key's type. See :class:`Projected`."""
        return (lambda number: self._moment(number).date()) if self.kind == "date" else None

    @property
    def _step(self) -> int:
        return self.interval * (12 if self.unit == "YEARS" else 1)

    def _moment(self, number: int) -> datetime:
        if self.unit in FIXED:
            return self.first + number * self.interval * FIXED[self.unit]
        return plus_months(self.first, number * self._step)

    def _position(self, value: Any) -> int | None:
        if self.kind == "text":
            moment = self.form.read(value)
        else:
            moment = datetime(value.year, value.month, value.day)
        if moment is None or not self.first <= moment <= self.last:
            return None
        if self.unit in FIXED:
            number, _ = divmod(moment - self.first, self.interval * FIXED[self.unit])
        else:
            number = _months(self.first, moment) // self._step
        return number if self._moment(number) == moment else None


@dataclass(frozen=True)
class InjectedProjected(EnumProjected):
    """A projection of type ``injected``: the table does not define its values.

    They are the keys of a filter on the column, sorted.
    """

    texts: tuple[str, ...] = ()


def projected(key: pa.Field, properties: dict[str, str], now: datetime) -> Projected:
    """Return the projected values of a partition key.

    Args:
        key: The partition key, with its type in the table.
        properties: The table's properties for this key, without the prefix ``projection.NAME.``.
        now: The current time in UTC, without a time zone.

    Raises:
        UnsupportedTable: if Athena rejects the projection, or if its values are ambiguous.
    """
    name, kind = key.name, properties.get("type", "").strip().lower()
    is_other = pa.types.is_boolean(key.type) or pa.types.is_binary(key.type)
    match kind:
        case "enum":
            texts = _required(properties, name, "values").split(",")
            return EnumProjected(tuple(dict.fromkeys(texts)))
        case "integer" if not is_other and not pa.types.is_temporal(key.type):
            return _integer(key, properties)
        case "date" if not is_other:
            return _date(key, properties, now)
        case "injected" if pa.types.is_string(key.type) and not key.metadata:
            return InjectedProjected()
    raise _invalid(name, f"of type {kind!r} does not apply to {key.type}")


def _integer(key: pa.Field, properties: dict[str, str]) -> IntegerProjected:
    ends = [end.strip() for end in _required(properties, key.name, "range").split(",")]
    if len(ends) != 2 or not all(map(_WHOLE.fullmatch, ends)):
        raise _invalid(key.name, "has a range that is not two integers")
    first, last = map(int, ends)
    if first > last or first not in _INT64 or last not in _INT64:
        raise _invalid(key.name, "has a range that is empty or exceeds 64-bit integers")
    digits = _number(properties, key.name, "digits", 1)
    if digits > _MOST_DIGITS:
        raise _invalid(key.name, f"has more than {_MOST_DIGITS} digits")
    interval = _number(properties, key.name, "interval", 1)
    of: Literal["integer", "text"] | None = None
    if pa.types.is_integer(key.type):
        of = "integer"
    elif pa.types.is_string(key.type) and not key.metadata:
        of = "text"
    return IntegerProjected(first, last, interval, digits, of)


def _date(key: pa.Field, properties: dict[str, str], now: datetime) -> DateProjected:
    form = DateFormat(_required(properties, key.name, "format"))
    ends = _required(properties, key.name, "range").split(",")
    moments = [moment for end in ends if (moment := range_end(end, form, now)) is not None]
    if len(ends) != 2 or len(moments) != 2:
        raise _invalid(key.name, "has a range that is not two dates in its format")
    first, last = moments
    if first > last:
        raise _invalid(key.name, "has a range that ends before it begins")
    unit = _unit(key.name, properties, form)
    if UNITS.index(unit) > UNITS.index(form.unit):
        raise _invalid(key.name, f"has a unit, {unit}, that is finer than its format")
    if unit not in FIXED and form.unit not in ("YEARS", "MONTHS"):
        # A start relative to NOW is after the 28th on some days only. The table would be refused on
        # these days and readable on others, so such a start is always refused.
        if is_relative(ends[0]):
            raise _invalid(
                key.name,
                f"begins on a day relative to NOW, which not every month has, with unit {unit}",
            )
        if first.day > 28:
            raise _invalid(key.name, f"begins on a day that not every month has, with unit {unit}")
    of: Literal["date", "text", "timestamp"] | None = None
    if pa.types.is_date(key.type):
        of = "date"
        if form.unit not in ("DAYS", "MONTHS", "YEARS"):
            raise _invalid(key.name, "has a format with hours, but the key is a date")
    elif pa.types.is_timestamp(key.type):
        of = "timestamp"
    elif pa.types.is_string(key.type) and not key.metadata:
        of = "text"
    interval = _number(properties, key.name, "interval", 1)
    if interval > 10**6:
        raise _invalid(key.name, "has an interval above a million")
    return DateProjected(form, first, last, interval, unit, of)


def _unit(name: str, properties: dict[str, str], form: DateFormat) -> str:
    """Return the interval's unit. If it is not set, use the format's finest unit, as Athena does.

    Athena documents this default only for formats with days or months. splitlib also uses it for
    formats with only years if neither interval nor unit is set. The values are then the same as in
    Athena.
    """
    unit = properties.get("interval.unit", "").strip().upper()
    given = "interval" in properties
    by_default = form.unit in ("DAYS", "MONTHS") or (
        form.unit == "YEARS" and not unit and not given
    )
    if unit and unit not in UNITS:
        raise _invalid(name, f"has the unknown unit {unit!r}")
    if not by_default and not (unit and given):
        raise _invalid(
            name, "needs an interval and an interval.unit, because its format has no default"
        )
    return unit or form.unit


def _months(one: datetime, other: datetime) -> int:
    return (other.year - one.year) * 12 + other.month - one.month


def _required(properties: dict[str, str], name: str, option: str) -> str:
    if option not in properties:
        raise _invalid(name, f"has no property {option!r}")
    return properties[option]


def _number(properties: dict[str, str], name: str, option: str, default: int) -> int:
    text = properties.get(option, "").strip()
    if option not in properties:
        return default
    if not re.fullmatch(r"[0-9]{1,18}", text, re.ASCII) or not int(text):
        raise _invalid(name, f"has the property {option!r} with value {text!r}")
    return int(text)


def _invalid(name: str, what: str) -> UnsupportedTable:
    return UnsupportedTable(
        f"The partition projection of key {name!r} {what}.",
        hint="correct the table's properties, or pass partition_projection=False to read the "
        "registered partitions.",
    )


_PREFIX: Final = "projection."
_TEMPLATE: Final = "storage.location.template"
_PLACE: Final = re.compile(r"\$\{([^}]*)\}")


def is_projected(parameters: Mapping[str, str]) -> bool:
    """Return whether Athena computes the partitions of a table with these parameters."""
    return parameters.get(f"{_PREFIX}enabled", "").strip().lower() == "true"


class Projection:
    """The partition projection of one table.

    Args:
        parameters: Table parameters.
        keys: The partition keys, with their types in the table.
        location: Table location; None if the table has none.

    Raises:
        UnsupportedTable: if the parameters do not determine the location of each partition.
    """

    def __init__(
        self, parameters: Mapping[str, str], keys: pa.Schema, location: str | None
    ) -> None:
        self._keys = keys
        self._properties: dict[str, dict[str, str]] = {key.lower(): {} for key in keys.names}
        for name, value in parameters.items():
            for key, found in self._properties.items():
                if name.lower().startswith(f"{_PREFIX}{key}."):
                    found[name[len(_PREFIX) + len(key) + 1 :].lower()] = value
        template, self._root = parameters.get(_TEMPLATE), ""
        self._escapes = template is None
        if template is None:
            if not location:
                raise _no_location(f"The table has no location and no {_TEMPLATE}.")
            named = "/".join(f"{escape(key.lower())}=${{{key.lower()}}}" for key in keys.names)
            template, self._root = named, location.rstrip("/") + "/"
        pieces = _PLACE.split(template.rstrip("/"))
        self._literals, self._places = pieces[::2], [each.lower() for each in pieces[1::2]]
        if set(self._places) != set(self._properties):
            raise _no_location(
                f"{_TEMPLATE} {template!r} must have a placeholder for each partition key, and no "
                "other placeholders."
            )

    def values(self, now: datetime) -> list[Projected]:
        """Return the projected values of each partition key.

        Args:
            now: The current time in UTC, without a time zone.

        Raises:
            UnsupportedTable: if Athena rejects a projection, or if its values are ambiguous.
        """
        return [projected(key, self._properties[key.name.lower()], now) for key in self._keys]

    def location(self, values: Sequence[str]) -> str:
        """Return a partition's location.

        Args:
            values: Value of each key, as :meth:`Projected.in_location` returns it.
        """
        named = dict(zip(self._properties, values, strict=True))
        parts = [self._root, self._literals[0]]
        for place, literal in zip(self._places, self._literals[1:], strict=True):
            parts += [escape(named[place]) if self._escapes else named[place], literal]
        return "".join(parts)


def _no_location(message: str) -> UnsupportedTable:
    return UnsupportedTable(
        f"The locations of projected partitions cannot be determined. {message}",
        hint="correct the table's properties, or pass partition_projection=False to read the "
        "registered partitions.",
    )
