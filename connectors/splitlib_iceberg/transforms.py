"""Iceberg's partition transforms for Arrow arrays."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import DecimalType, IcebergType, UUIDType

from splitlib.model import Transform as PartitionTransform

_UNITS: dict[type[Transform[Any, Any]], Literal["Y", "M", "D", "h"]] = {
    YearTransform: "Y",
    MonthTransform: "M",
    DayTransform: "D",
    HourTransform: "h",
}


@dataclass(frozen=True, slots=True)
class Temporal:
    """Convert a date or timestamp to whole years, months, days or hours since 1970, in UTC."""

    unit: Literal["Y", "M", "D", "h"]
    """NumPy's name of the unit."""

    preserves_order = True

    def __call__(self, values: pa.Array) -> pa.Array:
        """Return the partition values for the values of a column."""
        if pa.types.is_date(values.type):
            counts, known = values.cast(pa.int32()), "D"
        else:
            counts, known = values.cast(pa.int64()), values.type.unit
        instants = counts.fill_null(0).to_numpy().astype(f"datetime64[{known}]")
        whole = instants.astype(f"datetime64[{self.unit}]").astype(np.int64).astype(np.int32)
        result = pa.array(whole, mask=_nulls(values))
        return result.cast(pa.date32()) if self.unit == "D" else result

    def mistaken(self, results: pa.Array) -> pa.Array | None:
        """Return the values that Iceberg before 0.11 wrote; None if they are the same.

        These versions rounded times before 1970 up instead of down.
        """
        counts = results.cast(pa.int32())
        before = pc.less(counts, 0)
        if not pc.any(before).as_py():
            return None
        return pc.add(counts, before.cast(pa.int32())).cast(results.type)


@dataclass(frozen=True, slots=True)
class Truncate:
    """Round a number down to a multiple of the width, or shorten a text to this length."""

    width: int
    """Distance of the multiples, or the maximum length in characters or bytes."""

    preserves_order = True

    def __call__(self, values: pa.Array) -> pa.Array:
        """Return the partition values for the values of a column."""
        if pa.types.is_string(values.type):
            return pc.utf8_slice_codeunits(values, 0, self.width)
        if pa.types.is_binary(values.type):
            return pc.binary_slice(values, 0, self.width)
        if pa.types.is_decimal(values.type):
            return self._decimals(values)
        numbers = values.fill_null(0).to_numpy()
        width = np.array(self.width, numbers.dtype)
        # For numbers below the smallest multiple the difference overflows, as in Iceberg's Java
        # code.
        return pa.array(numbers - numbers % width, values.type, mask=_nulls(values))

    def mistaken(self, results: pa.Array) -> pa.Array | None:
        """Return None, because no writer is known to compute other values."""

    def _decimals(self, values: pa.Array) -> pa.Array:
        source = DecimalType(values.type.precision, values.type.scale)
        apply = TruncateTransform(self.width).transform(source)
        return pa.array(map(apply, values.to_pylist()), result_type(self, values.type))


@dataclass(frozen=True, slots=True)
class Bucket:
    """Map a value to a bucket by its hash."""

    buckets: int
    """Number of buckets."""
    source: IcebergType
    """Iceberg's type of the column, which determines the hash."""

    preserves_order = False

    def __call__(self, values: pa.Array) -> pa.Array:
        """Return the partition values for the values of a column."""
        apply: Callable[[Any], int | None]
        apply = BucketTransform(self.buckets).transform(self.source)
        return pa.array(map(apply, self._hashable(values)), pa.int32())

    def mistaken(self, results: pa.Array) -> pa.Array | None:
        """Return None, because no writer is known to compute other values."""

    def _hashable(self, values: pa.Array) -> list[Any]:
        if isinstance(self.source, UUIDType):
            return [_uuid_bytes(text) for text in values.to_pylist()]
        if pa.types.is_date(values.type):
            values = values.cast(pa.int32())
        elif pa.types.is_timestamp(values.type):
            values = values.cast(pa.int64())
        found: list[Any] = values.to_pylist()
        return found


def adapt(transform: Transform[Any, Any], source: IcebergType) -> PartitionTransform | None:
    """Return a transform for Arrow arrays; None for an unknown transform, which cannot prune.

    Callers handle the transforms identity and void themselves.
    """
    unit = _UNITS.get(type(transform))
    if unit is not None:
        return Temporal(unit)
    if isinstance(transform, TruncateTransform):
        return Truncate(transform.width)
    if isinstance(transform, BucketTransform):
        return Bucket(transform.num_buckets, source)
    return None


def result_type(transform: PartitionTransform | None, source: pa.DataType) -> pa.DataType:
    """Return the Arrow type of partition values; None as the transform means identity."""
    match transform:
        case None:
            return source
        case Temporal(unit="D"):
            return pa.date32()
        case Truncate() if pa.types.is_decimal(source):
            # Rounding -99 down to a multiple of 10 needs one more digit.
            return pa.decimal128(min(38, source.precision + 1), source.scale)
        case Truncate():
            return source
    return pa.int32()


def _nulls(values: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    mask: np.ndarray[Any, np.dtype[np.bool_]] = pc.is_null(values).to_numpy(zero_copy_only=False)
    return mask


def _uuid_bytes(text: str | None) -> bytes | None:
    """Return the 16 bytes of a UUID; None for a text that is not a UUID as Spark writes it."""
    try:
        found = uuid.UUID(text) if text is not None else None
    except ValueError:
        return None
    return found.bytes if found is not None and str(found) == text else None
