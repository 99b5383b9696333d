"""Values as Python has them, and floats as Spark's joins compare them."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def normal_floats(values: Any) -> Any:
    """Floats such that what Spark's join takes as equal has the same bits: -0.0 and 0.0, all NaN.

    Args:
        values: An array, a column or a scalar; of another type it is given back as it is.
    """
    if not pa.types.is_floating(values.type):
        return values
    zero, nan = pa.scalar(0.0, values.type), pa.scalar(math.nan, values.type)
    # a processor's own NaN, of 0.0 / 0.0, has another sign than the one that Java writes
    return pc.if_else(pc.is_nan(values), nan, pc.add(values, zero))


def python_value(value: pa.Scalar) -> Any:
    """As Python has it, or the text where it has none: a date beyond the year 9999, nanoseconds."""
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return str(pc.cast(value, pa.string(), safe=False).as_py())


def python_values(values: pa.Array) -> list[Any]:
    """See :func:`python_value`."""
    try:
        found: list[Any] = values.to_pylist()
    except (OverflowError, ValueError):
        found = [python_value(value) for value in values]
    return found


def shown(value: pa.Scalar) -> str:
    """A value as people read it."""
    return str(python_value(value))
