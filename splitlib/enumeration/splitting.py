"""From the files that are left to splits, and what splits and files are known by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import repeat
from typing import Any, NamedTuple

import pyarrow as pa

from splitlib.enumeration.selected_files import HOSTS, SelectedFiles, name_of, typed_values
from splitlib.model import FILE_SCHEMA, FileSplit, PartitionBatch, ReadFormat
from splitlib.redaction import without_login

_SPLITTABLE = frozenset({"parquet", "orc", "avro"})
_LINES = frozenset({"json", "csv", "text", "hive-text", "hive-csv"})
# Suffixes by which Hadoop picks a codec: such a file of lines is read from its start.
_COMPRESSED = (".gz", ".bz2", ".zst", ".snappy", ".lz4", ".deflate", ".xz", ".zip", ".lzo")
# Hadoop's FileInputFormat: a rest below a tenth of a split goes with the last one.
_SLOP = 1.1


class SplitsOfFile(NamedTuple):
    """All splits of one file in one partition."""

    row: int
    """Of the file in its batch."""
    path: str
    partition: str
    """Name of the partition, for messages and identifiers."""
    splits: list[FileSplit]


class SplitMaker:
    """Makes splits; looks into a batch of partitions once, while batches come in turn.

    Args:
        keys: The partition keys with the table's types.
        target_bytes: Size of a split of a file that can be split.
        count: Told how many splits were made.
    """

    def __init__(self, keys: pa.Schema, target_bytes: int, count: Callable[[int], object]) -> None:
        self._keys = keys
        self._target = target_bytes
        self._count = count
        self._latest: PartitionBatch | None = None
        self._columns: dict[str, list[Any]] = {}
        self._partitions: dict[int, tuple[str, dict[str, Any]]] = {}

    def splits_of(self, selected: SelectedFiles) -> Iterator[SplitsOfFile]:
        """The splits of each file, lazily, in the order of the files."""
        if selected.partitions is not self._latest:
            self._latest = selected.partitions
            self._columns = typed_values(selected.partitions, self._keys)
            self._partitions = {}
        files, read_format = selected.files.files, selected.files.read_format
        hosts = files[HOSTS].to_pylist() if HOSTS in files.schema.names else repeat(())
        columns = [files[name].to_pylist() for name in FILE_SCHEMA.names]
        found = zip(*columns, selected.files.deletes_of_each(), hosts, strict=False)
        for row, (path, size, modified, partition, deletes, near) in enumerate(found):
            name, values = self._partition(partition)
            target = self._target if can_split(read_format, path) else size
            splits = [
                FileSplit(
                    split_id=split_id(path, name, start, length),
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
                for start, length in byte_ranges(size, target)
            ]
            self._count(len(splits))
            yield SplitsOfFile(row, path, name, splits)

    def _partition(self, row: int) -> tuple[str, dict[str, Any]]:
        """Name and values of a partition of the latest batch; made once for all its files."""
        known = self._partitions.get(row)
        if known is None:
            assert self._latest is not None
            values = {key: column[row] for key, column in self._columns.items()}
            known = self._partitions[row] = name_of(self._latest, row), values
        return known


def can_split(read_format: ReadFormat, path: str) -> bool:
    """Whether a reader can start in the middle of the file."""
    if read_format.name in _SPLITTABLE:
        return True
    if read_format.name not in _LINES or path.lower().endswith(_COMPRESSED):
        return False
    return dict(read_format.options).get("multiLine", "false").lower() != "true"


def byte_ranges(size: int, target: int) -> Iterator[tuple[int, int]]:
    """``(start, length)`` of the splits of ``size`` bytes: adjacent, none empty, all covered."""
    start = 0
    while size - start > target * _SLOP:
        yield start, target
        start += target
    if size > start:
        yield start, size - start


def split_id(path: str, partition: str, start: int, length: int) -> str:
    """An identifier that depends on nothing but the split itself, whoever reads it."""
    return _digest(path, partition, str(start), str(length)).hexdigest()


FILE_ID_BYTES = 16
"""The length of what :func:`file_id` gives."""


def file_id(path: str, partition: str) -> bytes:
    """What a file in a partition is known by, however long it is when it is listed again."""
    return _digest(path, partition).digest()


def _digest(path: str, *more: str) -> blake2b:
    # whose login is used to read a file does not make it another one
    key = "\0".join([without_login(path), *more]).encode()
    return blake2b(key, digest_size=FILE_ID_BYTES)
