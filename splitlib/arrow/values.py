"""Convert Arrow values to Python, and normalize floats as Spark's joins do."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def normal_floats(values: Any) -> Any:
    """Normalize floats so that values that Spark's join treats as equal have the same bits.

    -0.0 becomes 0.0, and all NaN become the same NaN.

    Args:
        values: An array, a column or a scalar; other types are returned unchanged.
    """
    if not pa.types.is_floating(values.type):
        return values
    zero, nan = pa.scalar(0.0, values.type), pa.scalar(math.nan, values.type)
    # x86 computes 0.0 / 0.0 as a NaN with another sign bit than the one that Java writes.
    return pc.if_else(pc.is_nan(values), nan, pc.add(values, zero))


def python_value(value: pa.Scalar) -> Any:
    """Return the Python value, or text where Python has none (year 10000, nanoseconds)."""
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return str(pc.cast(value, pa.string(), safe=False).as_py())


def python_values(values: pa.Array) -> list[Any]:
    """Convert each value as :func:`python_value` does."""
    try:
        found: list[Any] = values.to_pylist()
    except (OverflowError, ValueError):
        found = [python_value(value) for value in values]
    return found


def shown(value: pa.Scalar) -> str:
    """Return a value as text for people."""
    return str(python_value(value))
