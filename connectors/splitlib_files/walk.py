"""Find partitions by listing directories, one level per partition key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import ConfigError, MissingPartition, SourceError
from splitlib.model import PartitionBatch, Requests
from splitlib.remote.calls import in_parallel
from splitlib.spi import Predicate
from splitlib.storage import Level, Storage
from splitlib_files.names import DirectoryNames

_MEANINGS = {"*": ".*", "?": ".", "{": "(?:", "}": ")"}
# Number of directories listed for one batch.
_DIRECTORIES = 256


def pattern_of(glob: str) -> re.Pattern[str]:
    """Convert a Hadoop file name pattern, as in Spark's option ``pathGlobFilter``, to a regex.

    ``*`` matches any characters, ``?`` matches one character, ``[a-c]`` and ``[^a-c]`` match one
    character of a class, and ``{csv,txt}`` matches one of several strings. A backslash makes the
    next character literal.

    Raises:
        ConfigError: if the pattern is invalid.
    """
    found, depth, at = "", 0, 0
    while at < len(glob):
        char = glob[at]
        at += 1
        if char == "\\" and at < len(glob):
            found += re.escape(glob[at])
            at += 1
        elif char == "[":
            end = glob.find("]", at + 1)
            if end < 0:
                raise ConfigError(f"path_glob {glob!r} has a [ without a ].")
            found += _class(glob[at:end])
            at = end + 1
        elif char == "," and depth:
            found += "|"
        elif char == "}" and not depth:
            found += re.escape(char)
        else:
            depth += (char == "{") - (char == "}")
            found += _MEANINGS.get(char) or re.escape(char)
    try:
        return re.compile(found, re.DOTALL)
    except re.error as error:
        raise ConfigError(f"path_glob {glob!r} is not a pattern: {error}.") from error


def _class(inside: str) -> str:
    negated = inside[:1] in ("^", "!")
    escaped = re.sub(r"([\\\[^&~|])", r"\\\1", inside[negated:])
    return f"[{'^' if negated else ''}{escaped}]"


class GlobbedStorage(Storage):
    """A storage that lists all directories, but only files whose names match a pattern.

    Args:
        options: Options of the fsspec filesystem.
        glob: The pattern, see :func:`pattern_of`.
    """

    def __init__(self, options: Mapping[str, Any] | None, glob: str) -> None:
        super().__init__(options)
        self._pattern = pattern_of(glob)

    def level(self, location: str, *, retries: bool = False) -> Level:
        """Return the matching files and all subdirectories directly in a directory."""
        level = super().level(location, retries=retries)
        return level._replace(files=[file for file in level.files if self._shows(file.path)])

    def list_first(
        self, locations: Sequence[str], *, below: bool = False
    ) -> tuple[pa.RecordBatch, int, int]:
        """Return the result of :meth:`Storage.list_first`, with only the matching files."""
        files, requests, listed = super().list_first(locations, below=below)
        mask = [self._shows(path) for path in files["path"].to_pylist()]
        return files.filter(pa.array(mask, pa.bool_())), requests, listed

    def _shows(self, path: str) -> bool:
        return self._pattern.fullmatch(path.rpartition("/")[2]) is not None


class Walk:
    """Yields the partitions below a root, and skips directories that the predicate cannot match.

    Each partition's handle is its path relative to the root, such as ``/y=2024/m=1``.

    Args:
        storage: Access to the directories.
        root: The table's directory.
        keys: The partition keys, from the top level down.
        predicate: Decides which directories above the last level are listed, because they may
            contain matching partitions.
        names: Parser of directory names.
        inferred: Whether the key types were inferred. If so, this class parses the values.
            Otherwise the engine does.
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
            yield PartitionBatch.whole(pa.array([""], pa.string()))
            return
        yield from self._below([""], 1)

    def _below(self, parents: Sequence[str], level: int) -> Iterator[PartitionBatch]:
        """Yield the partitions below some directories.

        Args:
            parents: The directories, relative to the root.
            level: Level of their subdirectories; the subdirectories of the root have level 1.
        """
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
                # Do not filter the last level here, because the engine filters partitions, and
                # counts the partitions that it drops.
                requests, self._requests = self._requests, 0
                yield PartitionBatch(values, directories, Requests(storage=requests))

    def _refuse_files_in(self, directories: pa.StringArray, keys: pa.Schema) -> None:
        """Reject directories whose values have the wrong type, if they contain files.

        Directories without files are accepted, because type inference ignores them.

        Raises:
            SourceError: if a directory has files; the message names the directory.
        """
        for directory in directories.to_pylist():
            if has_files(self._storage, self._root + directory):
                types = ", ".join(f"{key.name} is {key.type}" for key in keys)
                raise SourceError(
                    f"Files were added to {self._root + directory!r} after the table was opened, "
                    f"and do not fit the inferred types: {types}.",
                    hint="open the table again, or pass partition_schema=.",
                )

    def _children(self, parents: Sequence[str], key: str) -> list[str]:
        if self._top is not None and parents == [""]:
            levels = [self._top]
        else:
            levels = in_parallel(self._level, parents)
            self._requests += sum(level.requests for level in levels)
        for parent, level in zip(parents, levels, strict=True):
            # Spark ignores files in the root that lie next to the directories of the first
            # partition key. It raises an error for files in other directories above the partitions.
            if level.files and (parent or not level.directories):
                raise SourceError(
                    f"File {level.files[0].path!r} is in a directory above the partitions of "
                    f"{key!r}.",
                    hint="move it away, or pass the right partition_schema=.",
                )
        return [
            f"{parent}/{name}"
            for parent, level in zip(parents, levels, strict=True)
            for name in level.directories
            if self._is_partition(f"{parent}/{name}", key)
        ]

    def _level(self, parent: str) -> Level:
        return self._storage.level(self._root + parent, retries=True)

    def _is_partition(self, directory: str, key: str) -> bool:
        """Return whether a directory is named ``key=value``. Other directories must have no files.

        Raises:
            SourceError: if another directory has files; the message names the directory.
        """
        if self._names.key(directory.rpartition("/")[2]).lower() == key.lower():
            return True
        if has_files(self._storage, self._root + directory):
            raise SourceError(
                f"Directory {self._root + directory!r} is not a partition of {key!r}.",
                hint="move it away, or pass the right partition_schema=.",
            )
        return False


def has_files(storage: Storage, location: str) -> bool:
    """Return whether a directory or its subdirectories contain a data file."""
    try:
        return any(level.files for level in storage.levels_below(location, retries=True))
    except MissingPartition:
        return False  # the directory was deleted after it was listed
