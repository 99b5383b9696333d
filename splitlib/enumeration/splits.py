"""From selected files to the objects that readers get."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

import pyarrow as pa

from splitlib.enumeration.splitting import byte_ranges, can_split, split_id
from splitlib.hive.layout import parse, partition_name, python_value, python_values
from splitlib.model import FILE_SCHEMA, FileBatch, FileSplit, PartitionBatch


@dataclass(frozen=True, slots=True)
class SelectedFiles:
    """Files that survived every filter, and the partitions that they belong to."""

    partitions: PartitionBatch
    """May hold more partitions than have files here."""
    files: FileBatch
    """Its ``partition`` column is a row of :attr:`partitions`; no file is empty."""


class SplitsOfFile(NamedTuple):
    """All splits of one file in one partition."""

    row: int
    """Of the file in its batch."""
    path: str
    partition: str
    """Name of the partition, for messages and identifiers."""
    splits: list[FileSplit]


HOSTS = "hosts"
"""An optional column of :attr:`splitlib.model.FileBatch.files`: the hosts that hold each file."""


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


def typed_values(batch: PartitionBatch, keys: pa.Schema) -> dict[str, list[Any]]:
    """The values of each partition as a reader sees them, by key."""
    fields = keys if batch.fields is None else batch.values.schema
    return {
        field.name: python_values(parse(batch.values.column(i), field).values)
        for i, field in enumerate(fields)
    }


def name_of(partitions: PartitionBatch, row: int) -> str:
    """A name for messages and identifiers, whatever the types of the values."""
    values = [python_value(column[row]) for column in partitions.values.columns]
    texts = [None if value is None else str(value) for value in values]
    return partition_name(partitions.values.schema.names, texts)
