"""Convert Arrow values to NumPy arrays with the same order, for ``searchsorted`` and ``unique``."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import pyarrow as pa


def ordinals(values: pa.Array) -> npt.NDArray[Any]:
    """Return numbers or objects that sort like the values. Nulls become an arbitrary value."""
    kind = values.type
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        values = values.cast(pa.int32())
    elif pa.types.is_temporal(kind):
        values = values.cast(pa.int64())
    elif pa.types.is_boolean(kind):
        values = values.cast(pa.uint8())
    if values.null_count:
        values = values.fill_null(b"" if pa.types.is_binary(values.type) else _zero(values.type))
    numbers: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return numbers


def have_same_ordinals(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether the ordinals of the two types compare like their values."""
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other):
        return bool(one.unit == other.unit)
    return bool(one == other)


def _zero(kind: pa.DataType) -> pa.Scalar:
    return pa.scalar("" if pa.types.is_string(kind) else 0, kind)
