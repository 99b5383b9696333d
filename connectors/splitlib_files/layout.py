"""Find a table's partition keys, their types and its first data file, when the table is opened."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress

import pyarrow as pa

from splitlib.errors import (
    LocationNotAllowed,
    MissingPartition,
    UnsupportedTable,
)
from splitlib.remote.calls import in_parallel
from splitlib.spi import Predicate
from splitlib.storage import STREAM_LOG, Level, Links, Storage
from splitlib_files.key_types import LENIENT_DATE, NULL, STRING, common_type, type_of
from splitlib_files.names import DirectoryNames
from splitlib_files.walk import Walk, has_files

_ALL = Predicate(pa.schema([]), [])
# Hidden directories that identify table formats, with each format's name and advice for users.
_LOGS = {
    "_delta_log": ("Delta Lake", "open it with connector='delta'."),
    ".hoodie": ("Hudi", "query it in a session that has Hudi's package."),
}


class Layout:
    """The table's directories, at the time when the table is opened.

    Args:
        storage: Access to the directories.
        root: The table's directory.
        names: Parser of directory names.

    Raises:
        MissingPartition: if the directory does not exist.
        UnsupportedTable: if the directory belongs to a table format with its own metadata, or is
            the output of a Spark stream.
    """

    def __init__(self, storage: Storage, root: str, names: DirectoryNames) -> None:
        self._storage = storage
        self._root = root
        self._names = names
        self._top = storage.level(root, retries=True)
        self._refuse_table_formats()

    @property
    def has_partitions(self) -> bool:
        """Whether the root has directories that are named like partitions, such as ``k=1``."""
        return any("=" in name for name in self._top.directories)

    def first_file(self) -> str | None:
        """Return the relative path of the first data file, or None if there is no data file.

        The first file is the first in path order that is not empty. Spark, too, reads the columns
        from this file. In a partitioned table, files next to the partition directories are ignored.
        In other tables, only files in the root directory are data files.

        Raises:
            UnsupportedTable: if all files lie in directories that are not partitions.
        """
        if self.has_partitions:
            return self._first_below(only_partitions=self.has_partitions)
        if self._top.files:
            return min((_name(file.path) for file in self._top.files if file.size), default=None)
        if (found := self._first_below(only_partitions=self.has_partitions)) is not None:
            raise UnsupportedTable(
                f"Files lie below {self._root!r}, but neither in it nor in partitions: {found!r}.",
                hint="pass the directory that directly contains the files or the partitions.",
            )
        return None

    def summary_files(self) -> list[str]:
        """Return the names of the root's Parquet summary files.

        Dask and PyArrow write such files. Spark reads the columns of a directory from the last one,
        or merges them in this order, after those of the data files.
        """
        names = ("_metadata", "_common_metadata")
        return [name for name in names if name in self._top.hidden_files]

    def all_files(self) -> list[str]:
        """Return the paths of all data files that are not empty, by listing all directories.

        Raises:
            UnsupportedTable: if all files lie in directories that are not partitions.
        """
        if not self.has_partitions:
            self.first_file()
            return [file.path for file in self._top.files if file.size]
        roots = [f"{self._root}/{name}" for name in self._top.directories if "=" in name]
        found = in_parallel(self._storage.files_below, roots)
        return [file.path for files, _ in found for file in files if file.size]

    def keys(
        self, first_file: str | None, *, timestamp: pa.DataType | None, is_legacy: bool = False
    ) -> pa.Schema:
        """Return the partition keys, with the types that Spark infers for them.

        Args:
            first_file: Result of :meth:`first_file`. Its directories determine the keys.
            timestamp: The type for timestamps. If it is None, no types are inferred, and all keys
                are strings.
            is_legacy: Whether Spark uses its former parser of dates.

        Raises:
            UnsupportedTable: if a key occurs twice in a path, or a key's name is empty. With
                ``is_legacy``, also for a value such as ``2020-1-1``, which only that parser reads.
            SourceError: if a directory or file does not fit the layout. :class:`Walk` checks this
                when it lists all directories to infer types.
        """
        path = self._first_directories() if first_file is None else first_file.split("/")[:-1]
        keys: list[pa.Field] = []
        for name in path:
            if "=" not in name:
                break  # a directory without "=" belongs to the partition above it
            key = self._names.key(name)
            if not key or key.lower() in (known.name.lower() for known in keys):
                raise UnsupportedTable(
                    f"Directories below {self._root!r} repeat partition key {key!r}."
                    if key
                    else f"Directory {name!r} does not name a partition key."
                )
            keys.append(pa.field(key, STRING))
        schema = pa.schema(keys)
        if not keys or timestamp is None:
            return schema
        return self._inferred(schema, timestamp, is_legacy=is_legacy)

    def _inferred(self, keys: pa.Schema, timestamp: pa.DataType, *, is_legacy: bool) -> pa.Schema:
        by_type: list[dict[pa.DataType, list[str]]] = [defaultdict(list) for _ in keys]
        known: dict[str, pa.DataType] = {}
        for batch in Walk(self._storage, self._root, keys, _ALL, self._names, top=self._top):
            for directory in batch.refs.to_pylist():
                for found, name in zip(by_type, directory[1:].split("/"), strict=True):
                    if name not in known:
                        text = self._names.value_text(name)
                        known[name] = type_of(text, timestamp)
                        if is_legacy and known[name] == STRING and LENIENT_DATE.match(text):
                            raise UnsupportedTable(
                                f"Spark's former parser may read a date from {name!r}.",
                                hint="pass partition_schema=, or set "
                                "spark.sql.legacy.timeParserPolicy to CORRECTED.",
                            )
                    found[known[name]].append(directory)
        types = [self._type(found) for found in by_type]
        return pa.schema([key.with_type(kind) for key, kind in zip(keys, types, strict=True)])

    def _type(self, directories: Mapping[pa.DataType, list[str]]) -> pa.DataType:
        """Return a key's type, or the null type if all its values are null.

        If the values have different types, directories without files are ignored.

        Args:
            directories: Paths of the key's directories, by the type of the value in their name.
        """
        kinds = [kind for kind in directories if kind != NULL]
        if len(directories) > 1:
            kinds = [kind for kind in kinds if any(map(self._has_files, directories[kind]))]
        return common_type(kinds) if kinds or NULL not in directories else NULL

    def _has_files(self, directory: str) -> bool:
        return has_files(self._storage, self._root + directory)

    def _first_directories(self) -> list[str]:
        found: list[str] = []
        level = self._top
        while partitions := [name for name in level.directories if "=" in name]:
            found.append(partitions[0])
            level = self._storage.level(self._root + "".join(f"/{name}" for name in found))
        return found

    def _refuse_table_formats(self) -> None:
        if STREAM_LOG in self._top.hidden:
            # The directory may contain files of failed tasks, which only the log leaves out.
            raise UnsupportedTable(
                f"{self._root!r} is the output of a Spark stream: Spark reads only the files that "
                f"{STREAM_LOG!r} lists.",
                hint="read the directory with Spark.",
            )
        self._refuse_in(self._root, self._top)
        above = self._root
        while "=" in _name(above):  # the root may be a partition's directory below the table's root
            above = above.rpartition("/")[0]
        if _name(above) == "data":  # the root may be the directory of an Iceberg table's data files
            above = above.rpartition("/")[0]
        if above != self._root and _name(above):
            with suppress(PermissionError, LocationNotAllowed, MissingPartition):
                self._refuse_in(above, self._storage.level(above, retries=True))

    def _refuse_in(self, directory: str, level: Level) -> None:
        for name, (format_name, advice) in _LOGS.items():
            if name in level.hidden:
                raise _foreign(directory, format_name, name, advice)
        if "metadata" in level.directories:
            # Call the base class, because GlobbedStorage would hide files that do not match
            # path_glob.
            metadata = Storage.level(self._storage, f"{directory}/metadata", retries=True)
            files = [_name(file.path) for file in metadata.files]
            if any(name.endswith((".metadata.json", "version-hint.text")) for name in files):
                advice = "read it with connector='iceberg', by the name in its catalog."
                raise _foreign(directory, "Iceberg", "metadata", advice)

    def _first_below(self, *, only_partitions: bool) -> str | None:
        """Return the relative path of the first file below the root in path order, or None."""
        at_top = [n for n in self._top.directories if "=" in n or not only_partitions]
        pending = [f"{name}/" for name in sorted(at_top, key=lambda name: f"{name}/", reverse=True)]
        links = Links()
        while pending:
            here = pending.pop()
            if not here.endswith("/"):
                return here
            location = f"{self._root}/{here[:-1]}"
            links.follow(*self._storage.filesystem(location))
            try:
                level = self._storage.level(location, retries=True)
            except MissingPartition:
                continue  # the directory was deleted after it was listed
            found = [_name(file.path) for file in level.files if file.size]
            found += (f"{name}/" for name in level.directories)
            pending += (here + name for name in sorted(found, reverse=True))
        return None


def _foreign(root: str, kind: str, found: str, hint: str) -> UnsupportedTable:
    return UnsupportedTable(
        f"{root!r} is a table of {kind}: it has {found!r}. Its files may have deleted rows.",
        hint=hint,
    )


def _name(path: str) -> str:
    return path.rpartition("/")[2]
