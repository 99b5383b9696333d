"""Convert tables of other libraries to Arrow tables, and measure tables."""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import InvalidFilter

# Matches the name of a column that pandas adds for row labels without a name, as after a filter.
_ROW_LABELS: Final = re.compile(r"__index_level_\d+__")


def table_of(value: Any) -> pa.Table | None:
    """Convert an object to an Arrow table, without unnamed row labels of pandas.

    Args:
        value: Any object.

    Returns:
        The table, or None if the object cannot export Arrow data.

    Raises:
        InvalidFilter: if the conversion fails.
    """
    if isinstance(value, pa.Table):
        return value
    # Check the class, because an instance of Spark's Column seems to have every attribute.
    kind = type(value)
    try:
        if hasattr(kind, "__arrow_c_stream__") or isinstance(value, pa.RecordBatch):
            table = pa.table(value)
        # In pandas before 2.2, DataFrames have no __arrow_c_stream__.
        elif kind.__module__.startswith("pandas.") and hasattr(kind, "columns"):
            table = pa.Table.from_pandas(value, preserve_index=False)
        elif hasattr(kind, "to_arrow"):
            table = pa.table(value.to_arrow())
        else:
            return None
    except (pa.ArrowException, TypeError, ValueError) as error:
        if not hasattr(kind, "columns"):  # Not a table, but a single column without a name.
            return None
        raise InvalidFilter(
            f"A {type(value).__name__} cannot be converted to a table of keys: {error}",
            hint="keys are an Arrow table, or a table of pandas or Polars with named columns.",
        ) from error
    return table.select([name for name in table.column_names if not _ROW_LABELS.fullmatch(name)])


def values_nbytes(rows: pa.Table) -> int:
    """Return the size of the values in bytes. A string counts as 4 bytes plus its length.

    The result depends only on the values, not on how Arrow stores them in memory.
    """
    total = 0
    for column in rows.columns:
        kind = column.type
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            text = pc.sum(pc.binary_length(column)).as_py() or 0
            total += 4 * len(column) + text
        elif pa.types.is_boolean(kind):
            total += len(column)
        else:
            try:
                total += len(column) * (kind.bit_width // 8)
            except ValueError:  # nested types have no fixed width, so use Arrow's own size
                total += column.nbytes
    return total
