"""Find partitions by listing directories, one level per partition key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import MissingPartition, SourceError
from splitlib.model import PartitionBatch, Requests
from splitlib.remote.calls import Workers
from splitlib.spi import Predicate
from splitlib.storage import Level, Storage
from splitlib_files.names import DirectoryNames

_THREADS = 16
# Number of directories listed for one batch.
_DIRECTORIES = 256


class Walk:
    """Yields the partitions below a directory, and skips directories that cannot match.

    Each partition's handle is its path relative to the root, such as ``/y=2024/m=1``.

    Args:
        storage: Access to the directories.
        root: The table's directory.
        keys: The partition keys, from the top level down.
        predicate: Decides which directories of an upper level may contain a match.
        names: Parser of directory names.
        inferred: Whether the key types were inferred. If so, values are parsed here and not by the
            engine.
        top: The contents of the root, or None if the root has not been listed yet.
    """

    def __init__(
        self,
        storage: Storage,
        root: str,
        keys: pa.Schema,
        predicate: Predicate,
        names: DirectoryNames,
        *,
        inferred: bool = False,
        top: Level | None = None,
    ) -> None:
        self._storage = storage
        self._root = root
        self._keys = keys
        self._predicate = predicate
        self._names = names
        self._inferred = inferred
        self._top = top
        self._requests = 0
        """Number of storage requests since the last batch."""

    def __iter__(self) -> Iterator[PartitionBatch]:
        if not len(self._keys):  # unpartitioned: the root is the only partition
            nothing = pa.RecordBatch.from_arrays([], names=[])
            yield PartitionBatch(nothing, pa.array([""], pa.string()))
            return
        yield from self._below([""], 1)

    def _below(self, parents: Sequence[str], level: int) -> Iterator[PartitionBatch]:
        """Yield the partitions below directories whose children name key number ``level``."""
        keys = pa.schema(list(self._keys)[:level])
        for start in range(0, len(parents), _DIRECTORIES):
            children = self._children(parents[start : start + _DIRECTORIES], keys.names[-1])
            if not children:
                continue
            directories = pa.array(children, pa.string())
            relative = pa.array([child[1:] for child in children], pa.string())
            values, are_of_type = self._names.values(relative, keys, inferred=self._inferred)
            if not pc.all(are_of_type).as_py():
                self._refuse_files_in(directories.filter(pc.invert(are_of_type)), keys)
                values, directories = values.filter(are_of_type), directories.filter(are_of_type)
            if level < len(self._keys):
                matching = directories.filter(self._predicate.match(values)).to_pylist()
                yield from self._below(matching, level + 1)
            else:
                # Not filtered here: the engine filters partitions, and counts those that it drops.
                requests, self._requests = self._requests, 0
                yield PartitionBatch(values, directories, Requests(storage=requests))

    def _refuse_files_in(self, directories: pa.StringArray, keys: pa.Schema) -> None:
        """Reject directories that have files, since their values do not fit the inferred types.

        Directories without files are accepted, because the inference of types ignores them.

        Raises:
            SourceError: if a directory has files; the message names the directory.
        """
        for directory in directories.to_pylist():
            if has_files(self._storage, self._root + directory):
                types = ", ".join(f"{key.name} is {key.type}" for key in keys)
                raise SourceError(
                    f"Files were added to {self._root + directory!r} after the table was opened, "
                    f"and do not fit the inferred types: {types}.",
                    hint="open the table again, or give its partition_schema.",
                )

    def _children(self, parents: Sequence[str], key: str) -> list[str]:
        if self._top is not None and parents == [""]:
            levels = [self._top]
        else:
            # Start threads for this listing only, because the caller may never request another.
            with Workers(_THREADS, "splitlib-walk") as pool:
                levels = list(pool.map(self._level, parents))
            self._requests += sum(level.requests for level in levels)
        for parent, level in zip(parents, levels, strict=True):
            # Spark ignores files next to the first level of partitions, and fails on deeper ones.
            if level.files and (parent or not level.directories):
                raise SourceError(
                    f"File {level.files[0].path!r} lies above the partitions of {key!r}.",
                    hint="move it away, or give the right partition_schema.",
                )
        children = [
            f"{parent}/{name}"
            for parent, level in zip(parents, levels, strict=True)
            for name in level.directories
        ]
        for child in children:
            self._check(child, key)
        return children

    def _level(self, parent: str) -> Level:
        return self._storage.level(self._root + parent, retries=True)

    def _check(self, directory: str, key: str) -> None:
        name = directory.rpartition("/")[2]
        if self._names.key(name).lower() != key.lower():
            raise SourceError(
                f"Directory {self._root + directory!r} is not a partition of {key!r}.",
                hint="move it away, or give the right partition_schema.",
            )


def has_files(storage: Storage, location: str) -> bool:
    """Return whether a directory or its subdirectories contain a data file."""
    try:
        return any(level.files for level in storage.levels_below(location, retries=True))
    except MissingPartition:
        return False  # deleted since it was listed
