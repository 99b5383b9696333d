"""Decode column bounds, which Iceberg stores as bytes, to Arrow arrays."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)
from pyiceberg.utils.decimal import unscaled_to_decimal

from splitlib.arrow.values import of_ordinals

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


def decode(values: Sequence[bytes | None], source: PrimitiveType, kind: pa.DataType) -> pa.Array:
    """Decode a column's bounds to an Arrow array. Missing and unreliable bounds become null.

    A column's type may have been widened since a file was written. So a ``long`` column may have
    ``int`` bounds, a ``double`` column ``float`` bounds, and a decimal column bounds with fewer
    digits. Truncated bounds of strings and bytes are still valid.

    Args:
        values: Bounds as stored in a manifest, or None for a missing bound.
        source: The column's current type.
        kind: The Arrow type for ``source``.
    """
    read = _reader(source)
    if read is None:
        return pa.nulls(len(values), kind)
    return of_ordinals([None if value is None else read(value) for value in values], kind)


def _reader(source: PrimitiveType) -> Callable[[bytes], Any] | None:
    match source:
        case IntegerType() | DateType():
            return _int
        case LongType():
            return _long
        case TimestampType() | TimestamptzType():
            return _micros
        case FloatType() | DoubleType():
            return _number
        case DecimalType():
            scale, limit = source.scale, 10**source.precision

            def decimal(value: bytes) -> Any:
                unscaled = int.from_bytes(value, "big", signed=True)
                return unscaled_to_decimal(unscaled, scale) if abs(unscaled) < limit else None

            return decimal
        case StringType():
            return _text
        case BinaryType() | FixedType():
            return bytes
        case BooleanType():
            return lambda value: value != b"\x00"
    # Bounds of other types cannot be used. For example, writers disagree on the order of UUIDs.
    return None


def _int(value: bytes) -> int | None:
    return int.from_bytes(value, "little", signed=True) if len(value) == 4 else None


def _long(value: bytes) -> int | None:
    return int.from_bytes(value, "little", signed=True) if len(value) in (4, 8) else None


def _micros(value: bytes) -> int | None:
    return int.from_bytes(value, "little", signed=True) if len(value) == 8 else None


def _number(value: bytes) -> float | None:
    if len(value) not in (4, 8):
        return None
    (number,) = (_FLOAT if len(value) == 4 else _DOUBLE).unpack(value)
    return None if math.isnan(number) else number


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
