"""A few ranges that cover many values, and as little as possible between them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Range = tuple[pa.Scalar, pa.Scalar]


def covering_ranges(values: pa.Array, most: int) -> list[Range]:
    """At most so many disjoint ranges, in order, each from one of the values to another.

    The widest gaps are left out; between two whole numbers or two days in a row there is none.
    Values that have no distance, such as strings, are parted into groups of the same size.

    Args:
        values: At least one, sorted, without nulls.
        most: At least 1.
    """
    cuts = _cuts(values, most)
    starts, ends = [0, *cuts], [*(cut - 1 for cut in cuts), len(values) - 1]
    return [(values[a], values[b]) for a, b in zip(starts, ends, strict=True)]


def _cuts(values: pa.Array, most: int) -> list[int]:
    """Where ranges begin, but for the first."""
    numbers = _numbers(values)
    if numbers is None:
        parts = min(most, len(values))
        return [len(values) * part // parts for part in range(1, parts)]
    gaps = np.diff(numbers)
    is_whole = pa.types.is_integer(values.type) or pa.types.is_date32(values.type)
    (found,) = np.nonzero(gaps > 1) if is_whole else np.nonzero(gaps >= 0)
    if len(found) >= most:
        widest = np.argsort(gaps[found], kind="stable")[len(found) - most + 1 :]
        found = np.sort(found[widest])
    cuts: list[int] = (found + 1).tolist()
    return cuts


def _numbers(values: pa.Array) -> np.ndarray | None:
    """Where the values lie, nearly; None if they have no distance."""
    kind = values.type
    if pa.types.is_decimal(kind):
        return np.asarray(pc.cast(values, pa.float64(), safe=False))
    if pa.types.is_temporal(kind):
        values = values.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif not pa.types.is_integer(kind):
        return None
    return np.asarray(values).astype(np.float64)
