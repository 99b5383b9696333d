"""Infer types of partition keys from directory names, as Spark does.

The rules are those of Spark's ``PartitioningUtils``. A value has the first of these types to which
it can be parsed: int, long, decimal with scale 0, double, timestamp, date, string. A key has the
common type of its values. Numbers are parsed as in Java, so ``7d`` is a double.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import date, datetime
from decimal import Decimal
from functools import partial, reduce
from typing import Any

import pyarrow as pa

from splitlib.errors import UnsupportedTable
from splitlib.hive.partition_values import NULL_PARTITION, unescape

_MAX_DIGITS = 38
# Java accepts digits of every script in integers and decimals, but only those up to U+FFFF.
_DIGIT = r"(?:(?![^\0-\uffff])\d)"
_ANY_INTEGER = re.compile(rf"[+-]?{_DIGIT}+")
_DECIMAL = re.compile(rf"[+-]?({_DIGIT}+\.?{_DIGIT}*|\.{_DIGIT}+)([eE][+-]?{_DIGIT}{{1,9}})?")
_FLOAT = re.compile(r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)")
_HEX_FLOAT = re.compile(
    r"([+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?"
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9])?")
# Dates that Spark parses but Python cannot represent.
_FAR_DATE = re.compile(r"(\+[0-9]{5,7}|-[0-9]{4,7}|0000)-[0-9]{2}-[0-9]{2}( [0-9:.]+)?")
LENIENT_DATE = re.compile(r"\s*[+-]?\d+-\d")
"""Matches the start of texts that Spark reads as dates with ``timeParserPolicy=LEGACY``."""
# Java strips these characters from both ends of a string before it parses a double.
_JAVA_SPACE = "".join(map(chr, range(0x21)))

INT, LONG, DOUBLE = pa.int32(), pa.int64(), pa.float64()
DATE, STRING, NULL = pa.date32(), pa.string(), pa.null()


def type_of(text: str, timestamp: pa.DataType) -> pa.DataType:
    """Return the type of a value in a directory name. For Hive's null, this is Arrow's null type.

    Args:
        text: The value, still escaped.
        timestamp: The type to return for timestamps, with or without a time zone.

    Raises:
        UnsupportedTable: for a date outside the years 1 to 9999.
    """
    if text == NULL_PARTITION:
        return NULL
    if _ANY_INTEGER.fullmatch(text):
        number = int(text)
        if -(2**31) <= number < 2**31:
            return INT
        if -(2**63) <= number < 2**63:
            return LONG
    if (digits := _decimal_digits(text)) is not None:
        return pa.decimal128(digits, 0)
    if _as_double(text) is not None:
        return DOUBLE
    if _TIMESTAMP.fullmatch(local := unescape(text)) and _is(datetime.fromisoformat, local):
        return timestamp
    if _as_date(text) is not None:
        return DATE
    if _FAR_DATE.fullmatch(local):
        raise UnsupportedTable(
            f"Partition value {local!r} is a date outside the years 1 to 9999.",
            hint="pass partition_schema=.",
        )
    return STRING


def common_type(types: Iterable[pa.DataType]) -> pa.DataType:
    """Return the common type of a key's values, or string if all values are null."""
    found = reduce(_wider, types, NULL)
    return STRING if pa.types.is_null(found) else found


def values_of(texts: pa.StringArray, kind: pa.DataType) -> pa.Array:
    """Convert unescaped values to the inferred type. Values that cannot be converted become null.

    Timestamps are returned as strings, because only the engine knows the session's time zone.
    If ``kind`` is the null type, all values become null.
    """
    if kind == NULL:
        return pa.nulls(len(texts))
    parse = _parser(kind)
    if parse is None:
        return texts
    encoded = texts.dictionary_encode()
    values = [parse(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(values, kind).take(encoded.indices)


def _parser(kind: pa.DataType) -> Callable[[str], Any] | None:
    """Return the function that parses values of a type, or None if its values remain strings."""
    if pa.types.is_decimal(kind):
        return partial(_as_decimal, most_digits=kind.precision)
    return _PARSERS.get(kind)


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    pair = {one, other}
    if pair == {INT, LONG}:
        return LONG
    if pair == {INT, DOUBLE}:
        return DOUBLE
    digits = [_digits(kind) for kind in pair]
    if all(digits):
        return pa.decimal128(max(filter(None, digits)), 0)
    if DATE in pair and any(map(pa.types.is_timestamp, pair)):
        return one if pa.types.is_timestamp(one) else other
    return STRING


def _digits(kind: pa.DataType) -> int | None:
    """Return the precision of a decimal type that can represent all values of ``kind``.

    Return None for types other than int, long and decimal.
    """
    if pa.types.is_decimal(kind):
        return int(kind.precision)
    return {INT: 10, LONG: 20}.get(kind)


def _decimal_digits(text: str) -> int | None:
    """Return the number of digits in ``text``, or None if it is not an integer or has over 38."""
    if not _DECIMAL.fullmatch(text):
        return None
    _, digits, exponent = Decimal(text).as_tuple()
    if not isinstance(exponent, int) or exponent < 0 or len(digits) + exponent > _MAX_DIGITS:
        return None
    return len(digits) + exponent


def _as_integer(bits: int) -> Callable[[str], int | None]:
    def parse(text: str) -> int | None:
        number = int(text) if _ANY_INTEGER.fullmatch(text) else None
        return number if number is not None and -(2**bits) <= number < 2**bits else None

    return parse


def _as_decimal(text: str, most_digits: int) -> Decimal | None:
    digits = _decimal_digits(text)
    return None if digits is None or digits > most_digits else Decimal(int(Decimal(text)))


def _as_double(text: str) -> float | None:
    text = text.strip(_JAVA_SPACE)
    if found := _HEX_FLOAT.fullmatch(text):
        return _hex(found[1])
    return float(text.rstrip("fFdD")) if _FLOAT.fullmatch(text) else None


def _hex(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return float("-inf" if text.startswith("-") else "inf")


def _as_date(text: str) -> date | None:
    is_date = _DATE.fullmatch(text) and _is(date.fromisoformat, text)
    return date.fromisoformat(text) if is_date else None


def _is(parse: Callable[[str], Any], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


_PARSERS: dict[pa.DataType, Callable[[str], Any]] = {
    INT: _as_integer(31),
    LONG: _as_integer(63),
    DOUBLE: _as_double,
    DATE: _as_date,
}
