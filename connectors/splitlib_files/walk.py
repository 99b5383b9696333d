"""Partitions found by listing directories, one level for each partition key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from splitlib.errors import SourceError
from splitlib.hive.partition_values import split_names
from splitlib.model import PartitionBatch, Requests
from splitlib.remote.workers import Workers
from splitlib.spi import Predicate
from splitlib.storage import Storage

_THREADS = 16
# How many directories are listed for one batch.
_DIRECTORIES = 256


class Walk:
    """The partitions below a directory; what an upper level excludes is not entered.

    Directories are given relative to the root, as in ``/y=2024/m=1``.

    Args:
        storage: Where the directories are.
        root: The table's directory.
        keys: The partition keys, from the top level down.
        predicate: Says which directories of an upper level may hold a match.
    """

    def __init__(
        self, storage: Storage, root: str, keys: Sequence[str], predicate: Predicate
    ) -> None:
        self._storage = storage
        self._root = root
        self._keys = keys
        self._predicate = predicate
        self._requests = 0
        """How many there were that no batch has counted yet."""

    def __iter__(self) -> Iterator[PartitionBatch]:
        if not self._keys:  # one partition without values, which is the root itself
            nothing = pa.RecordBatch.from_arrays([], names=[])
            yield PartitionBatch(nothing, pa.array([""], pa.string()))
            return
        yield from self._below([""], 1)

    def _below(self, parents: Sequence[str], level: int) -> Iterator[PartitionBatch]:
        """The partitions below some directories, whose children are of key number ``level``."""
        keys = self._keys[:level]
        for start in range(0, len(parents), _DIRECTORIES):
            children = self._children(parents[start : start + _DIRECTORIES], keys[-1])
            if not children:
                continue
            values = split_names(pa.array([child[1:] for child in children]), keys)
            directories = pa.array(children, pa.string())
            if level < len(self._keys):
                matching = directories.filter(self._predicate.match(values)).to_pylist()
                yield from self._below(matching, level + 1)
            else:
                # not filtered: the engine does that itself, and counts what it leaves out
                requests, self._requests = self._requests, 0
                yield PartitionBatch(values, directories, Requests(storage=requests))

    def _children(self, parents: Sequence[str], key: str) -> list[str]:
        # threads for this listing alone: nobody may ever come back for the next one
        with Workers(_THREADS, "splitlib-walk") as pool:
            levels = list(
                pool.map(lambda p: self._storage.level(self._root + p, patient=True), parents)
            )
        children = [
            f"{parent}/{name}"
            for parent, level in zip(parents, levels, strict=True)
            for name in level.directories
        ]
        self._requests += sum(level.requests for level in levels)
        for child in children:
            self._check(child, key)
        return children

    def _check(self, directory: str, key: str) -> None:
        name, equals, _ = directory.rpartition("/")[2].partition("=")
        if not equals or name.lower() != key.lower():
            raise SourceError(
                f"Directory {self._root + directory!r} is no partition of {key!r}.",
                hint="move it away, or give the right partition_schema.",
            )
