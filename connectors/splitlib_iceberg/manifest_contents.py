"""Convert the data file entries of one manifest to Arrow columns, to match them with filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFileContent

from splitlib.model import ColumnStatistics
from splitlib.storage import local_path
from splitlib_iceberg.bounds import decode
from splitlib_iceberg.manifests import Entries
from splitlib_iceberg.partition_specs import Spec
from splitlib_iceberg.schema import Column

Integers = npt.NDArray[np.int64]


class Contents(NamedTuple):
    """The data files that one manifest lists."""

    files: pa.RecordBatch
    """One row per file, with the columns ``path``, ``size``, ``sequence`` and ``refused``.

    ``refused`` is the reason why a file cannot be read, or null if it can be read.
    """
    partitions: list[pa.Array]
    """Values of the distinct partitions, as one array per key of the partition specification."""
    partition_count: int
    partition_of: Integers
    """For each file, the row of its partition in :attr:`partitions`."""
    statistics: Statistics | None
    """Statistics of the files, or None if they were not requested."""

    @property
    def nbytes(self) -> int:
        """Approximate memory use, in bytes."""
        size = self.files.nbytes + self.partition_of.nbytes
        size += sum(column.nbytes for column in self.partitions)
        return int(size + (0 if self.statistics is None else self.statistics.nbytes))


class Statistics:
    """Column statistics (bounds and counts) of the data files that one manifest lists.

    The stored bytes are kept, and each column is decoded on first use. Thread-safe: if two threads
    decode the same column, they get the same result.
    """

    def __init__(self, entries: Entries) -> None:
        self._files = len(entries.path)
        values, nulls, nans, lower, upper = entries.bounds
        self._values = _Numbers(values)
        self._nulls = _Numbers(nulls)
        self._nans = _Numbers(nans)
        self._lower = _Bounds(lower)
        self._upper = _Bounds(upper)
        self._decoded: dict[tuple[int, str], ColumnStatistics] = {}
        parts = (self._values, self._nulls, self._nans, self._lower, self._upper)
        self.nbytes = sum(part.nbytes for part in parts)

    def of(self, column: Column) -> ColumnStatistics:
        """Return a column's statistics, with one row per file."""
        # Contents are cached per manifest, and tables that share a manifest may have different
        # types for a column. So the type is a part of the key.
        key = column.id, str(column.source)
        if key not in self._decoded:
            self._decoded[key] = self._decode(column)
        return self._decoded[key]

    def _decode(self, column: Column) -> ColumnStatistics:
        size, kind = self._files, column.field.type
        values = self._values.of(column.id, size)
        nulls = self._nulls.of(column.id, size)
        nans = self._nans.of(column.id, size)
        if not pa.types.is_floating(kind):
            nans = pa.repeat(pa.scalar(0, pa.int64()), size)
        others = pc.add(nulls, pc.fill_null(nans, 0))
        return ColumnStatistics(
            lower=decode(self._lower.of(column.id, size), column.source, kind),
            upper=decode(self._upper.of(column.id, size), column.source, kind),
            has_null=pc.greater(nulls, 0),
            has_nan=pc.greater(nans, 0),
            # If there are more nulls than values, one of the counts is wrong.
            has_value=pc.not_equal(pc.subtract(values, others), 0),
        )


class _Numbers:
    """Counts of one kind, such as null counts, as arrays with one row per file and column."""

    def __init__(self, maps: Sequence[Mapping[int, int] | None]) -> None:
        self._file, self._column = _pairs(maps)
        self._value = np.fromiter(_values(maps), np.int64, len(self._file))
        self.nbytes = self._file.nbytes + self._column.nbytes + self._value.nbytes

    def of(self, column: int, files: int) -> pa.Array:
        """Return an Arrow array of a column's counts, one per file. Missing counts are null.

        Args:
            column: Id of the column.
            files: Number of files.
        """
        found = np.flatnonzero(self._column == column)
        # Some writers store -1 for unknown counts.
        found = found[self._value[found] >= 0]
        counts, missing = np.zeros(files, np.int64), np.ones(files, np.bool_)
        counts[self._file[found]] = self._value[found]
        missing[self._file[found]] = False
        return pa.array(counts, mask=missing)


class _Bounds:
    """Lower or upper bounds, as arrays with one row per file and column."""

    def __init__(self, maps: Sequence[Mapping[int, bytes] | None]) -> None:
        self._file, self._column = _pairs(maps)
        self._value = pa.array(_values(maps), pa.large_binary())
        self.nbytes = self._file.nbytes + self._column.nbytes + self._value.nbytes

    def of(self, column: int, files: int) -> list[bytes | None]:
        """Return a list of a column's encoded bounds, one per file. Missing bounds are None.

        Args:
            column: Id of the column.
            files: Number of files.
        """
        found = np.flatnonzero(self._column == column)
        bounds: list[bytes | None] = [None] * files
        values = self._value.take(pa.array(found)).to_pylist()
        for file, value in zip(self._file[found].tolist(), values, strict=True):
            bounds[file] = value
        return bounds


def contents_of(entries: Entries, spec: Spec, *, statistics: bool) -> Contents:
    """Convert a manifest's entries to Arrow columns.

    Raises:
        ValueError: if an entry is not a data file, or lacks a partition value.
    """
    if any(content != DataFileContent.DATA for content in entries.content):
        raise ValueError("An entry is not a data file.")
    columns = spec.partitions(entries.partition, entries.partition_ids)
    partition_of, first = group(columns, len(entries.path))
    files = pa.record_batch(
        {
            "path": pa.array(map(local_path, entries.path), pa.string()),
            "size": pa.array(entries.size, pa.int64()),
            "sequence": pa.array(entries.sequence, pa.int64()),
            "refused": pa.array(map(refusal, entries.format, entries.encrypted), pa.string()),
        }
    )
    return Contents(
        files,
        [column.take(pa.array(first)) for column in columns],
        len(first),
        partition_of,
        Statistics(entries) if statistics else None,
    )


def refusal(form: str, encrypted: bool) -> str | None:
    """Return the reason why a file cannot be read, such as "is encrypted", or None if it can."""
    if encrypted:
        return "is encrypted"
    return None if form == "parquet" else f"has format {form}"


def group(columns: Sequence[pa.Array], rows: int) -> tuple[Integers, Integers]:
    """Group rows with equal values. Null equals null, and NaN equals NaN.

    Returns:
        The group number of each row, and the first row of each group. Groups are numbered in order
        of appearance.
    """
    codes: Integers = np.zeros(rows, np.int64)
    for column in columns:
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        digits = encoded.indices.to_numpy().astype(np.int64)
        codes = codes * len(encoded.dictionary) + digits
        # Renumber the codes from 0 without gaps. Otherwise the multiplication for the next column
        # could overflow.
        codes = np.unique(codes, return_inverse=True)[1]
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank[codes], first[order]


def _pairs(maps: Sequence[Mapping[int, Any] | None]) -> tuple[Integers, Integers]:
    sizes = [len(pairs) if pairs else 0 for pairs in maps]
    files = np.repeat(np.arange(len(maps)), sizes)
    columns = chain.from_iterable(pairs for pairs in maps if pairs)
    return files, np.fromiter(columns, np.int64, len(files))


def _values(maps: Sequence[Mapping[int, Any] | None]) -> Any:
    return chain.from_iterable(pairs.values() for pairs in maps if pairs)
