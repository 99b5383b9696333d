"""Cut selected files into splits, and compute the ids of files and splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import repeat
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.arrow.values import python_value, python_values
from splitlib.filtering.predicate import Predicate
from splitlib.hive.partition_values import name_of, parse, parse_exactly, table_fields
from splitlib.model import (
    FILE_SCHEMA,
    ColumnStatistics,
    FileBatch,
    FileSplit,
    PartitionBatch,
    ReadFormat,
    TableMetadata,
)
from splitlib.redaction import without_login
from splitlib.statistics.row_groups import FileGroups

HOSTS = "hosts"
"""Name of an optional column in :attr:`splitlib.model.FileBatch.files`: the hosts of each file."""
_SPLITTABLE = frozenset({"parquet", "orc", "avro"})
_LINES = frozenset({"json", "csv", "text", "hive-text", "hive-csv"})
# File suffixes of Hadoop's compression codecs. Compressed text files cannot be split.
_COMPRESSED = (".gz", ".bz2", ".zst", ".snappy", ".lz4", ".deflate", ".xz", ".zip", ".lzo")
# As in Hadoop's FileInputFormat, a file's last split may be up to a tenth longer than the target.
_SLOP = 1.1


@dataclass(frozen=True, slots=True)
class SelectedFiles:
    """Files that match every filter, and the partitions that they belong to."""

    partitions: PartitionBatch
    """The files' partitions. Some may have no files in this batch."""
    files: FileBatch
    """Files with at least one byte. Column ``partition`` is an index into :attr:`partitions`."""
    learned: FileGroups | None = None
    """Row groups of the files, from their footers; None if footers were not used."""
    places: pa.ListArray | None = None
    """For each file, the byte ranges of its matching row groups: fields ``start`` and ``end``
    (exclusive). A file without known ranges has a null list. None means that no file has known
    ranges."""

    def take(self, rows: pa.Array) -> SelectedFiles:
        """Return a selection of the files at the indexes ``rows``."""
        return SelectedFiles(
            self.partitions,
            self.files.take(rows),
            None if self.learned is None else self.learned.take(rows),
            None if self.places is None else self.places.take(rows),
        )


def typed_values(batch: PartitionBatch, keys: pa.Schema) -> dict[str, list[Any]]:
    """Return the values of all partitions by key, as Python values of the key's type.

    Text that Arrow and Spark may parse to different values remains text.
    """
    fields = table_fields(batch.values.schema, batch.fields, keys)
    return {
        field.name: _typed(column, field)
        for field, column in zip(fields, batch.values.columns, strict=True)
    }


def with_keys(
    groups: FileGroups, selected: SelectedFiles, predicate: Predicate, table: TableMetadata
) -> FileGroups:
    """Return row groups with the partition values that a predicate compares together with bounds.

    Args:
        groups: Row groups of the selected files.
        selected: The files and their partitions.
        predicate: All filters.
        table: Metadata of the table.
    """
    matchers = () if predicate.of_learned is None else predicate.of_learned.matchers
    tuples = (matcher.keys for matcher in matchers if len(matcher.keys) > 1)
    wanted = {key for of_tuple in tuples for key in of_tuple} - groups.columns.keys()
    batch, rows = selected.partitions, selected.files.files["partition"]
    plain = (f for f in batch.fields if f.transform is None)
    own = {f.name.lower() for f in plain if f.name.lower() == f.source.lower()}
    found = {}
    fields = table_fields(batch.values.schema, batch.fields, table.partition_schema)
    for field, column in zip(fields, batch.values.columns, strict=True):
        if field.name.lower() in wanted & own:
            values, undecided = parse(column.take(rows), field)
            has_value = values.is_valid()
            if undecided is not None:
                has_value = pc.if_else(undecided, pa.scalar(None, pa.bool_()), has_value)
            has_nan = pa.nulls(len(values), pa.bool_())
            found[field.name.lower()] = ColumnStatistics(
                values, values, pc.invert(has_value), has_nan, has_value
            )
    return replace(groups, keys=found)


def _typed(column: pa.Array, field: pa.Field) -> list[Any]:
    typed = parse_exactly(column, field)
    values = python_values(typed.values)
    if typed.undecided is not None:
        for row in pc.indices_nonzero(typed.undecided).to_pylist():
            values[row] = python_value(column[row])
    return values


class SplitsOfFile(NamedTuple):
    """All splits of one file in one partition."""

    row: int
    """The file's index in the batch of selected files."""
    path: str
    partition: str
    """Partition name, for messages and identifiers."""
    copy: int
    """Number of earlier occurrences of this file in the same snapshot."""
    splits: list[FileSplit]

    @property
    def file_id(self) -> bytes:
        """See :func:`file_id`."""
        return file_id(self.path, self.partition, self.copy)


class SplitMaker:
    """Cuts files into splits. Caches the parsed partition values of the latest batch.

    Args:
        keys: The partition keys with the table's types.
        target_bytes: Target size of a split in bytes, for files that can be split.
        count: Function that is called with each file's number of splits.
        repeats: Whether the table may contain a file several times. Each copy gets its own ids.
    """

    def __init__(
        self,
        keys: pa.Schema,
        target_bytes: int,
        count: Callable[[int], object],
        *,
        repeats: bool = False,
    ) -> None:
        self._keys = keys
        self._target = target_bytes
        self._count = count
        self._copies: Counter[bytes] | None = Counter() if repeats else None
        self._latest: PartitionBatch | None = None
        self._columns: dict[str, list[Any]] = {}
        self._partitions: dict[int, tuple[str, dict[str, Any]]] = {}

    def splits_of(
        self, selected: SelectedFiles, is_wanted: Callable[[int], bool] | None = None
    ) -> Iterator[SplitsOfFile]:
        """Yield the splits of each file lazily, in the order of the files.

        Args:
            selected: The files.
            is_wanted: Function that returns whether to make the splits of the file at an index. It
                is called just before they are made.
        """
        if selected.partitions is not self._latest:
            self._latest = selected.partitions
            self._columns = typed_values(selected.partitions, self._keys)
            self._partitions = {}
        files, read_format = selected.files.files, selected.files.read_format
        hosts = files[HOSTS].to_pylist() if HOSTS in files.schema.names else repeat(())
        columns = [files[name].to_pylist() for name in FILE_SCHEMA.names]
        groups = repeat(None) if selected.places is None else selected.places.to_pylist()
        found = zip(*columns, selected.files.deletes_of_each(), hosts, groups, strict=False)
        for row, (path, size, modified, partition, deletes, near, wanted) in enumerate(found):
            name, values = self._partition(partition)
            copy = 0
            if self._copies is not None:
                known_by = file_id(path, name)
                copy = self._copies[known_by]
                self._copies[known_by] += 1
            if is_wanted is not None and not is_wanted(row):
                continue
            target = self._target if can_split(read_format, path) else size
            ranges = byte_ranges(size, target)
            splits = [
                FileSplit(
                    split_id=split_id(path, name, start, length, copy),
                    path=path,
                    start=start,
                    length=length,
                    file_size=size,
                    modified=modified,
                    partition_values=values,
                    read_format=read_format,
                    deletes=deletes,
                    hosts=tuple(near),
                )
                for start, length in ranges
                if wanted is None or _has_any(wanted, start, start + length)
            ]
            self._count(len(splits))
            yield SplitsOfFile(row, path, name, copy, splits)

    def _partition(self, row: int) -> tuple[str, dict[str, Any]]:
        """Return the name and values of a partition in the latest batch.

        The result is cached, because all files of the partition need it.
        """
        known = self._partitions.get(row)
        if known is None:
            assert self._latest is not None
            values = {key: column[row] for key, column in self._columns.items()}
            known = self._partitions[row] = name_of(self._latest, row), values
        return known


def can_split(read_format: ReadFormat, path: str) -> bool:
    """Return whether a reader can start in the middle of the file at ``path``."""
    if read_format.name in _SPLITTABLE:
        return True
    if read_format.name not in _LINES or path.lower().endswith(_COMPRESSED):
        return False
    # Spark ignores the case of these names.
    options = {name.lower(): value.lower() for name, value in read_format.options}
    return "true" not in (options.get("multiline"), options.get("wholetext"))


def byte_ranges(size: int, target: int) -> Iterator[tuple[int, int]]:
    """Yield the start and length of adjacent splits that together cover ``size`` bytes."""
    start = 0
    while size - start > target * _SLOP:
        yield start, target
        start += target
    if size > start:
        yield start, size - start


def _has_any(groups: list[dict[str, int]], start: int, end: int) -> bool:
    """Return whether any part of a row group lies in the byte range from ``start`` to ``end``.

    Any part counts, because readers differ in which split they assign a row group to.
    """
    return any(group["start"] < end and start < group["end"] for group in groups)


def split_id(path: str, partition: str, start: int, length: int, copy: int = 0) -> str:
    """Return a split's id, which is the same in every run and every process."""
    return _digest(path, partition, str(start), str(length), *_numbered(copy)).hexdigest()


FILE_ID_BYTES = 16
"""Length of a :func:`file_id`, in bytes."""


def file_id(path: str, partition: str, copy: int = 0) -> bytes:
    """Return a file's id, which depends on its path and partition, but not on its size.

    Args:
        path: The file's path.
        partition: Name of its partition.
        copy: Number of earlier occurrences of this file in the same snapshot.
    """
    return _digest(path, partition, *_numbered(copy)).digest()


def _numbered(copy: int) -> list[str]:
    return [f"copy {copy}"] if copy else []


def _digest(path: str, *more: str) -> blake2b:
    # The user name and password in a URI are not part of the file's identity.
    key = "\0".join([without_login(path), *more]).encode()
    return blake2b(key, digest_size=FILE_ID_BYTES)
