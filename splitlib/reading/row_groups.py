"""Select the row groups of a Parquet file that a reader of one split needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet as pq

from splitlib.errors import SplitlibError
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.predicate import Predicate
from splitlib.hive.partition_values import is_char
from splitlib.model import ColumnStatistics, FileSplit
from splitlib.reading.columns import found_columns

Fit = Callable[[pa.Array, pa.DataType], pa.Array]


class RowGroupFilter:
    """Skips row groups that contain none of the join keys. Can be pickled.

    Args:
        schema: The data columns of the table.
        filters: All filters of the table; those on other columns are ignored.
    """

    def __init__(self, schema: pa.Schema, filters: Iterable[DynamicFilteringData]) -> None:
        self._filters = tuple(filters)
        named = {name.lower() for data in self._filters for name in data.fields}
        self.columns: Final[pa.Schema] = pa.schema(
            [f for f in schema if f.name.lower() in named and not is_char(f)]
        )
        """The columns of ``schema`` that the filters use, except CHAR columns."""

    def __bool__(self) -> bool:
        return len(self.columns) > 0

    def __reduce__(self) -> tuple[object, ...]:
        return RowGroupFilter, (self.columns, self._filters)

    @cached_property
    def _predicate(self) -> Predicate:
        return Predicate(self.columns, self._filters)

    def keeps(self, parquet: pq.ParquetFile, groups: Sequence[int], fit: Fit) -> list[int]:
        """Return those of ``groups`` that may contain a key, according to their statistics."""
        stored = parquet.schema_arrow
        found = found_columns(stored.names, self.columns.names)
        known = {
            name: _statistics(parquet.metadata, groups, stored.field(column), kind, fit)
            for name, column in found.items()
            if not pa.types.is_nested(kind := self.columns.field(name).type)
        }
        if not known or not groups:
            return list(groups)
        mask = self._predicate.match_bounds(known)
        return [group for group, keep in zip(groups, mask.to_pylist(), strict=True) if keep]


def belongs(metadata: pq.FileMetaData, group: int, split: FileSplit) -> bool:
    """Return whether a row group belongs to a split: by its middle byte, as in Spark.

    Each row group belongs to exactly one of the splits that cover a file.
    """
    row_group = metadata.row_group(group)
    columns = [row_group.column(i) for i in range(row_group.num_columns)]
    start = columns[0].data_page_offset
    if columns[0].has_dictionary_page:
        start = min(start, columns[0].dictionary_page_offset)
    middle = start + sum(column.total_compressed_size for column in columns) // 2
    return bool(split.start <= min(middle, split.file_size - 1) < split.start + split.length)


def _statistics(
    metadata: pq.FileMetaData,
    groups: Sequence[int],
    stored: pa.Field,
    kind: pa.DataType,
    fit: Fit,
) -> ColumnStatistics:
    paths = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    # A column name with dots may equal the path of a struct field; then statistics are unknown.
    index = paths.index(stored.name) if paths.count(stored.name) == 1 else None
    rows = [_of_group(metadata, group, index, stored.type, kind, fit) for group in groups]
    lower, upper, has_null, has_value = zip(*rows, strict=True)
    return ColumnStatistics(
        pa.array(lower, kind),
        pa.array(upper, kind),
        pa.array(has_null, pa.bool_()),
        pa.nulls(len(groups), pa.bool_()),
        pa.array(has_value, pa.bool_()),
    )


def _of_group(
    metadata: pq.FileMetaData,
    group: int,
    index: int | None,
    stored: pa.DataType,
    kind: pa.DataType,
    fit: Fit,
) -> tuple[Any, Any, bool | None, bool | None]:
    """Return lower and upper bound, whether nulls exist, whether values exist; None = unknown."""
    row_group = metadata.row_group(group)
    found = None if index is None else row_group.column(index).statistics
    if found is None:
        return None, None, None, None
    has_null = found.null_count > 0 if found.has_null_count else None
    has_value = found.null_count < row_group.num_rows if found.has_null_count else None
    if not found.has_min_max:
        return None, None, has_null, has_value
    try:
        lower, upper = fit(pa.array([found.min, found.max], stored), kind)
    except (SplitlibError, pa.ArrowException, ValueError, OverflowError):
        return None, None, has_null, has_value  # the bounds do not fit the type
    return lower.as_py(), upper.as_py(), has_null, has_value
