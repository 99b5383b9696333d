"""Read the rows of a split from a Parquet or ORC file, in batches.

A row group of a Parquet file is skipped if its statistics show that it contains no join key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc
from pyarrow import parquet as pq

from splitlib.arrow.parquet_footer import Footer, read_footer
from splitlib.errors import CorruptMetadata, SplitlibError, UnsupportedTable
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.predicate import Predicate
from splitlib.hive.partition_values import is_char
from splitlib.model import ColumnStatistics, FileSplit
from splitlib.reading.columns import NATIVE, Find, by_name, fit, found_columns, is_uuid
from splitlib.remote.calls import cached_property
from splitlib.statistics.footers import has_no_bounds, place_in_file, statistics_in

Fit = Callable[[pa.Array, pa.Field], pa.Array]


class RowGroupFilter:
    """Skips row groups that contain none of the join keys. Can be pickled.

    Args:
        schema: Columns of the table.
        filters: Filters on the table; fields that are not in ``schema`` are ignored.
        constants: Values by column name, for the columns that have the same value in all rows, such
            as partition keys. Columns of these names in the files are ignored.
    """

    def __init__(
        self,
        schema: pa.Schema,
        filters: Iterable[DynamicFilteringData],
        constants: Mapping[str, pa.Scalar] | None = None,
    ) -> None:
        self._filters = tuple(filters)
        self._constants = dict(constants or {})
        named = {name.lower() for data in self._filters for name in data.fields}
        self.columns: Final[pa.Schema] = pa.schema(
            field
            for field in schema
            if field.name.lower() in named
            and not (
                is_char(field) or pa.types.is_null(field.type) or pa.types.is_nested(field.type)
            )
        )
        """The columns of ``schema`` that the filters use, except CHAR, null and nested columns."""

    def __bool__(self) -> bool:
        return len(self.columns) > 0

    def __reduce__(self) -> tuple[object, ...]:
        return RowGroupFilter, (self.columns, self._filters, self._constants)

    @cached_property
    def _predicate(self) -> Predicate:
        return Predicate(self.columns, self._filters)

    def within(self, constants: Mapping[str, pa.Scalar]) -> RowGroupFilter:
        """Return a copy of this filter for the files of one partition.

        Args:
            constants: The partition's values, by column name.
        """
        made = RowGroupFilter(self.columns, self._filters, constants)
        made._predicate = self._predicate  # The keys are prepared only once.
        return made

    def keeps(
        self,
        footer: Footer,
        stored: pa.Schema,
        groups: Sequence[int],
        fit: Fit,
        find: Find = by_name,
    ) -> list[int]:
        """Return the indexes of the row groups that may contain a join key.

        Row groups are checked by their statistics in the footer.

        Args:
            footer: The footer of the file.
            stored: The columns in the file.
            groups: Indexes of the row groups to check.
            fit: Function that converts bounds to the type of a table's column.
            find: Function that finds the table's columns in the file.
        """
        if not groups:  # a split may lie inside of a row group that belongs to another split
            return []
        found = find(stored, [field for field in self.columns if field.name not in self._constants])
        known = {
            name: _statistics(footer, groups, stored.field(column), field, fit)
            for name, column in found.items()
            if not pa.types.is_nested((field := self.columns.field(name)).type)
        }
        if not known:
            return list(groups)
        for name in set(self.columns.names) & self._constants.keys():
            known[name] = _of_constant(self._constants[name], len(groups))
        mask = self._predicate.match_bounds(known)
        return [group for group, keep in zip(groups, mask.to_pylist(), strict=True) if keep]


def belongs(metadata: pq.FileMetaData, group: int, split: FileSplit) -> bool:
    """Return whether a split contains the middle byte of a row group, and so has to read it.

    Spark uses the same rule. Each row group belongs to exactly one split of the file.
    """
    middle = sum(place_in_file(metadata.row_group(group))) // 2
    return bool(split.start <= min(middle, split.file_size - 1) < split.start + split.length)


def _statistics(
    footer: Footer, groups: Sequence[int], stored: pa.Field, field: pa.Field, fit: Fit
) -> ColumnStatistics:
    metadata = footer.metadata
    paths = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    rows: list[tuple[Any, Any, bool | None, bool | None]] = [(None, None, None, None)] * len(groups)
    # The path is ambiguous if a column is named "a.b" and a struct "a" has a field "b".
    if paths.count(stored.name) == 1:
        place = paths.index(stored.name)
        bounds = partial(_bounds, footer.ordered[place], stored.type, field, fit)
        if not has_no_bounds(metadata.schema.column(place)):
            rows = [statistics_in(metadata.row_group(each), place, bounds) for each in groups]
    lower, upper, has_null, has_value = zip(*rows, strict=True)
    return ColumnStatistics(
        pa.array(lower, field.type),
        pa.array(upper, field.type),
        pa.array(has_null, pa.bool_()),
        pa.nulls(len(groups), pa.bool_()),
        pa.array(has_value, pa.bool_()),
    )


def _of_constant(value: pa.Scalar, rows: int) -> ColumnStatistics:
    values = pa.repeat(value, rows)
    has_value = pa.repeat(value.is_valid, rows)
    return ColumnStatistics(
        values, values, pc.invert(has_value), pa.nulls(rows, pa.bool_()), has_value
    )


def _bounds(
    ordered: bool, stored: pa.DataType, field: pa.Field, fit: Fit, found: pq.Statistics
) -> tuple[Any, Any]:
    """Return a column's bounds as values of the table's type, or None if they are unknown."""
    # Old writers sorted the bytes of texts and decimals in an order of their own, so their bounds
    # are not used. Nor are bounds of UUIDs, which writers sort in different orders, and bounds in
    # nanoseconds, which Python's times cannot represent.
    is_ordered = ordered or "BYTE_ARRAY" not in found.physical_type
    if not is_ordered or is_uuid(field) or str(stored) == "time64[ns]":
        return None, None
    try:
        lower, upper = fit(pa.array([found.min, found.max], stored), field)
        return lower.as_py(), upper.as_py()
    except (SplitlibError, pa.ArrowException, ValueError, OverflowError):
        return None, None  # The bounds do not fit the table's type.


def read_parquet(
    file: pa.NativeFile,
    split: FileSplit,
    fields: Sequence[pa.Field],
    row_groups: RowGroupFilter | None,
    batch_rows: int,
    find: Find = by_name,
    deleted: pa.Int64Array | None = None,
    *,
    pre_buffer: bool = True,
) -> Iterator[tuple[int, dict[str, pa.Array]]]:
    """Yield each batch as its row count and a dict of its columns, by the names in ``fields``.

    Columns that the file does not have are omitted.

    Args:
        file: The file.
        split: The part of the file to read.
        fields: The columns to read.
        row_groups: Filter that skips row groups; None means no filter.
        batch_rows: Maximum number of rows in a batch.
        find: Function that finds the columns in the file.
        deleted: Positions of the file's deleted rows, which are omitted; None means no deletes.
        pre_buffer: Whether Arrow's threads may read columns in advance.

    Raises:
        UnsupportedTable: see :func:`splitlib.reading.columns.fit`.
    """
    # Read INT96 timestamps as microseconds, because some are out of range for 64-bit nanoseconds.
    footer = read_footer(file)
    metadata = footer.metadata
    parquet = pq.ParquetFile(
        file, metadata=metadata, pre_buffer=pre_buffer, coerce_int96_timestamp_unit="us"
    )
    stored = parquet.schema_arrow
    to_table = partial(fit, find=find, hybrid_calendar=has_hybrid_calendar(metadata))
    groups = [g for g in range(parquet.num_row_groups) if belongs(metadata, g, split)]
    if row_groups:
        groups = row_groups.keeps(footer, stored, groups, to_table, find)
    found = find(stored, fields)
    wanted = {field.name: field for field in fields if field.name in found}
    _refuse_int96_without_zone(parquet, wanted, found)
    keeps = None if deleted is None else _not_deleted(metadata, groups, deleted)
    if not wanted:
        rows = sum(metadata.row_group(group).num_rows for group in groups)
        yield rows if keeps is None else int(keeps.sum()), {}
    elif groups:
        start = 0
        for stored_rows in parquet.iter_batches(
            batch_rows, row_groups=groups, columns=list(found.values()), use_threads=False
        ):
            batch = stored_rows
            if keeps is not None:
                batch = batch.filter(pa.array(keeps[start : start + stored_rows.num_rows]))
                start += stored_rows.num_rows
            columns = {n: to_table(batch.column(found[n]), field) for n, field in wanted.items()}
            yield batch.num_rows, columns


def _not_deleted(
    metadata: pq.FileMetaData, groups: Sequence[int], deleted: pa.Int64Array
) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows in ``groups``, in order, that is false for deleted rows."""
    keeps = np.ones(metadata.num_rows, np.bool_)
    positions = deleted.to_numpy(zero_copy_only=False)
    if len(positions) and not 0 <= positions.min() <= positions.max() < len(keeps):
        raise CorruptMetadata(
            f"Row {positions.max()} is deleted, but the file has {len(keeps)} rows."
        )
    keeps[positions] = False
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    ends = np.cumsum(sizes, dtype=np.int64)
    parts = [keeps[ends[group] - sizes[group] : ends[group]] for group in groups]
    return np.concatenate([np.zeros(0, np.bool_), *parts])


def has_hybrid_calendar(metadata: pq.FileMetaData) -> bool:
    """Return whether Spark would read days before October 1582 as Julian calendar dates.

    Spark decides this by footer metadata that only Spark writes. By default, it reads the dates in
    other writers' files unchanged.
    """
    own = metadata.metadata or {}
    version = own.get(b"org.apache.spark.version")
    return (
        (version is not None and version < b"3.1.0")
        or b"org.apache.spark.legacyDateTime" in own
        or b"org.apache.spark.legacyINT96" in own
    )


def _refuse_int96_without_zone(
    parquet: pq.ParquetFile, wanted: dict[str, pa.Field], found: dict[str, str]
) -> None:
    """Reject INT96 columns that the table declares as timestamps without time zone.

    Spark reads INT96 only as points in time.
    """
    columns = [parquet.schema.column(i) for i in range(len(parquet.schema))]
    instants = {c.path.partition(".")[0] for c in columns if c.physical_type == "INT96"}
    for name, field in wanted.items():
        if found[name] in instants and "timestamp[us]" in str(field.type):
            raise UnsupportedTable(
                f"INT96 column {name!r} cannot be read as {field.type}.", hint=NATIVE
            )


def read_orc(
    file: pa.NativeFile, split: FileSplit, fields: Sequence[pa.Field], batch_rows: int
) -> Iterator[tuple[int, dict[str, pa.Array]]]:
    """Yield each batch as its row count and a dict of its columns, by the names in ``fields``.

    Columns that the file does not have are omitted. pyarrow does not expose the positions of
    stripes. This function assumes that stripes are spread evenly over the file, so each stripe
    belongs to exactly one split of the file.

    Raises:
        UnsupportedTable: for timestamps, because their instants depend on the JVM's time zone, and
            for types that :func:`splitlib.reading.columns.fit` cannot convert.
    """
    reader = orc.ORCFile(file)
    stored = reader.schema
    if stored.names and all(name.startswith("_col") for name in stored.names):
        raise UnsupportedTable(
            "An old version of Hive wrote the ORC file without column names.", hint=NATIVE
        )
    found = found_columns(stored.names, [field.name for field in fields])
    wanted = {field.name: field for field in fields if field.name in found}
    for name, field in wanted.items():
        _refuse_inexact(name, stored.field(found[name]).type, field.type)
    for stripe in range(reader.nstripes):
        middle = (2 * stripe + 1) * split.file_size // (2 * reader.nstripes)
        if not split.start <= middle < split.start + split.length:
            continue
        # pyarrow returns the number of rows only if at least one column is read.
        names = list(found.values()) or stored.names[:1]
        for batch in pa.table(reader.read_stripe(stripe, names)).to_batches(batch_rows):
            # pyarrow does not expose the writer's calendar. It may be the old hybrid of Julian and
            # Gregorian calendar, so early dates are rejected.
            columns = {
                name: fit(batch.column(found[name]), field, hybrid_calendar=True)
                for name, field in wanted.items()
            }
            yield batch.num_rows, columns


def _refuse_inexact(name: str, stored: pa.DataType, kind: pa.DataType) -> None:
    if "timestamp" in f"{stored} {kind}":
        raise UnsupportedTable(
            f"Column {name!r} holds ORC timestamps, whose time zone is unknown.", hint=NATIVE
        )
    if not pa.types.is_nested(kind) and stored != kind:
        # Spark's ORC reader converts almost any type to any other, but not by Arrow's rules. The
        # values are the same for integers that become wider.
        widened = pa.types.is_integer(stored) and pa.types.is_integer(kind)
        if not (widened and stored.bit_width <= kind.bit_width):
            raise UnsupportedTable(
                f"Column {name!r} has type {stored} in the ORC file, not {kind}.", hint=NATIVE
            )
