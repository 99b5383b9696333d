"""Read one version of a Delta table from its transaction log."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock
from typing import Any, Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import (
    CorruptMetadata,
    MissingFile,
    SnapshotNotFound,
    SourceUnavailable,
    UnsupportedTable,
)
from splitlib.remote.calls import in_parallel
from splitlib.storage import Storage
from splitlib_delta.actions import (
    Actions,
    absolute,
    child,
    decoding,
    entries,
    file_columns,
    live,
)
from splitlib_delta.versions import Log, LogFile, Version

MOST_BYTES: Final = (1 << 31) - 2  # the limit of Arrow's JSON reader
_DETAILS: Final = ("metaData", "protocol")
# Checkpoint columns that are read when the table is opened. Statistics are read later.
_OF_FILES: Final = (
    *("add.path", "add.partitionValues", "add.size", "add.modificationTime"),
    "add.deletionVector",
)
_STATISTICS: Final = ("add.path", "add.stats", "add.stats_parsed")
_ICT, _ICT_SINCE = "delta.enableInCommitTimestamps", "delta.inCommitTimestampEnablementVersion"


@dataclass(frozen=True)
class Statistics:
    """The column statistics of some data files, one row per file."""

    text: pa.StringArray
    """One JSON object per file, or null for a file without statistics."""
    parsed: Any
    """Arrow array of structs, or None if the log file has no statistics in this form."""


class Contents:
    """The contents of the log files that describe one version.

    Args:
        reader: Reader of the log.
        version: The version, with its log files.

    Raises:
        CorruptMetadata: if there is no ``metaData`` or ``protocol`` entry.
    """

    def __init__(self, reader: LogReader, version: Version) -> None:
        self.reader, self.version = reader, version
        self.commits = in_parallel(reader.read, version.commits)
        """The content of each commit."""
        self.checkpoint = _Checkpoint(reader, version.checkpoint)
        self._found: dict[str, Any] = {}
        for file, data in zip(version.commits, self.commits, strict=True):
            with decoding(file.name):
                self._note(list(entries(data, *_DETAILS)))
        self._note(self.checkpoint.entries(*_DETAILS))
        if missing := sorted(set(_DETAILS) - self._found.keys()):
            raise CorruptMetadata(f"The log of the table has no {missing[0]}.")
        self.metadata: Mapping[str, Any] = self._found["metaData"]
        self.protocol: Mapping[str, Any] = self._found["protocol"]

    def _note(self, found: Sequence[Mapping[str, Any]]) -> None:
        """Store the last entry of each kind in a file, unless a newer file had such an entry."""
        new = {name: each[name] for each in found for name in _DETAILS if each.get(name)}
        self._found = new | self._found


class Snapshot:
    """The data files of one version of a table. Thread-safe.

    Args:
        contents: The contents of the log.
        keys: Names of the partition columns in the log.
    """

    def __init__(self, contents: Contents, keys: Sequence[str]) -> None:
        self._reader = contents.reader
        self._texts: list[pa.StringArray | None] = []
        self._digests: list[bytes] = []
        self._names: list[str] = []
        recent, older = list[pa.Table](), list[pa.Table]()
        for file, data in zip(contents.version.commits, contents.commits, strict=True):
            with decoding(file.name):
                recent += self._columns(file.name, Actions.of_commit(data, keys), keys)
        for name, actions in contents.checkpoint.actions(keys):
            with decoding(name):
                older += self._columns(name, actions, keys)
        with decoding("An entry"):
            self.files = live(recent, older)
        if self.files["size"].null_count or self.files["path"].null_count:
            raise CorruptMetadata("A file in the log of the table has no size.")
        # The engine skips files with size 0. So a file with rows and a wrong size of 0 would lose
        # its rows.
        empty = self.files.filter(pc.less_equal(self.files["size"], 0))
        if len(empty):
            path, size = empty["path"][0], empty["size"][0]
            raise CorruptMetadata(f"File {path} in the log of the table has the size {size}.")

    def _columns(self, name: str, actions: Actions, keys: Sequence[str]) -> list[pa.Table]:
        source = len(self._names)
        self._names.append(name)
        text = None
        if not name.endswith(".parquet"):
            text = pc.struct_field(actions.added, ["stats"])
        self._texts.append(text)
        self._digests.append(_digest(child(actions.added, "path", pa.string()).drop_null()))
        root = self._reader.root
        found = [file_columns(actions.added, root, keys, source)]
        if actions.removed is not None:
            found.append(file_columns(actions.removed, root, keys, None))
        return found

    def statistics(self, rows: pa.Array) -> tuple[list[tuple[pa.Array, Statistics]], int]:
        """Return the statistics of some data files.

        Args:
            rows: Row numbers of the data files in :attr:`files`.

        Returns:
            A pair of a list and the number of storage requests. The list has one pair per log file:
            the indexes in ``rows`` of the data files that this log file adds, and their statistics.
        """
        files = self.files.select(["source", "row", "path"]).take(rows)
        source = files["source"].to_numpy()
        numbers = np.unique(source).tolist()
        places = [pa.array(np.flatnonzero(source == number)) for number in numbers]
        wanted = [(number, files.take(at)) for number, at in zip(numbers, places, strict=True)]
        found = in_parallel(self._statistics_in, wanted)
        requests = sum(self._texts[number] is None for number in numbers)
        return list(zip(places, found, strict=True)), requests

    def _statistics_in(self, wanted: tuple[int, pa.Table]) -> Statistics:
        """Return the statistics of some data files that one log file adds.

        Args:
            wanted: Number of the log file, and rows of :attr:`files`.
        """
        number, files = wanted
        text = self._texts[number]
        if text is not None:
            return Statistics(text.take(files["row"].combine_chunks()), None)
        table = self._reader.parquet(self._names[number], _STATISTICS)
        with decoding(self._names[number]):
            added = table["add"].combine_chunks()
            paths = child(added, "path", pa.string())
            valid = pc.indices_nonzero(pc.is_valid(paths))
            row, paths = files["row"].combine_chunks(), paths.take(valid)
            if _digest(paths) != self._digests[number]:
                # Another writer has replaced the checkpoint by one with another order of rows.
                paths = absolute(paths, self._reader.root)
                row = pc.index_in(files["path"].combine_chunks(), value_set=paths)
            at = valid.take(row)
            parsed = child(added, "stats_parsed")
            return Statistics(
                child(added, "stats", pa.string()).take(at),
                None if parsed is None else parsed.take(at),
            )


def _digest(paths: pa.StringArray) -> bytes:
    whole = pc.binary_join(pa.ListArray.from_arrays([0, len(paths)], paths), "\0")
    return blake2b(whole[0].as_buffer()).digest()


class LogReader:
    """Lists and reads the files in a table's log directory.

    Args:
        storage: Access to the table's files.
        root: Location of the table.
    """

    def __init__(self, storage: Storage, root: str) -> None:
        self._storage = storage
        self.root = root
        self.directory = f"{root.rstrip('/')}/_delta_log"
        self._requests = 0
        self._lock = Lock()

    @property
    def requests(self) -> int:
        """Number of storage requests so far."""
        with self._lock:
            return self._requests

    def log(self) -> Log:
        """List the files of the log."""
        self._count()
        return Log.listed(self._storage, self.directory)

    def read(self, file: LogFile) -> bytes:
        """Return the content of a log file.

        Raises:
            MissingFile: if the file no longer exists.
            SourceUnavailable: if the storage returned only a part of the file.
            UnsupportedTable: if the file is larger than 2 GiB.
        """
        data = self._read(file.name)
        # A truncated file of JSON lines may look complete.
        if file.size and len(data) != file.size:
            raise SourceUnavailable(f"Read {len(data)} of {file.size} bytes of {file.name}.")
        return data

    def parquet(self, name: str, columns: Sequence[str]) -> pa.Table:
        """Read columns of a Parquet file in the log. Columns that the file lacks are ignored."""
        from pyarrow import parquet  # slow to import

        data = self._read(name)
        with decoding(name):
            # Python reads the bytes, because a call that is blocked in Arrow cannot be abandoned.
            # Spark writes timestamps of statistics as INT96. Some of them do not fit in Arrow's
            # default unit for INT96, nanoseconds.
            file = parquet.ParquetFile(pa.BufferReader(data), coerce_int96_timestamp_unit="us")
            return file.read(list(columns), use_threads=False)

    def _read(self, name: str) -> bytes:
        self._count()
        fs, path = self._storage.filesystem(f"{self.directory}/{name}")
        try:
            with fs.open(path, "rb") as stream:
                # Request the file's size instead of the limit: `read` may reserve memory for all
                # requested bytes.
                size = stream.seek(0, os.SEEK_END)
                stream.seek(0)
                data: bytes = stream.read(min(size, MOST_BYTES) + 1)
        except FileNotFoundError as error:
            raise MissingFile(
                f"{name} in the log of the table no longer exists.",
                hint="the log was cleaned up meanwhile; open the table again.",
            ) from error
        if len(data) > MOST_BYTES:
            raise UnsupportedTable(f"{name} in the log of the table has more than 2 GiB.")
        return data

    def _count(self) -> None:
        with self._lock:
            self._requests += 1


def _rows(column: pa.ChunkedArray) -> list[dict[str, Any]]:
    """Return the rows of a struct column as dicts. Map fields become dicts, too."""
    maps = [field.name for field in column.type if pa.types.is_map(field.type)]
    return [row | {name: dict(row[name] or ()) for name in maps} for row in column.to_pylist()]


class _Checkpoint:
    """The contents of a checkpoint. Each of its files is read only once."""

    def __init__(self, reader: LogReader, files: Sequence[LogFile]) -> None:
        self._reader = reader
        self._files = files
        self._data: list[Any] = in_parallel(self._read, files)

    def _read(self, file: LogFile) -> bytes | pa.Table:
        if file.name.endswith(".json"):
            return self._reader.read(file)
        return self._reader.parquet(file.name, (*_OF_FILES, *_DETAILS, "sidecar"))

    def entries(self, *names: str) -> list[Mapping[str, Any]]:
        """Return the entries with one of these names, such as ``{"metaData": {...}}``."""
        found: list[Mapping[str, Any]] = []
        for file, data in zip(self._files, self._data, strict=True):
            with decoding(file.name):
                if isinstance(data, bytes):
                    found += entries(data, *names)
                    continue
                for name in names:
                    if name in data.column_names:
                        found += [{name: row} for row in _rows(data[name].drop_null())]
        return found

    def actions(self, keys: Sequence[str]) -> list[tuple[str, Actions]]:
        """Return the name of each checkpoint file and sidecar, and the data files that it lists."""
        found = []
        for file, data in zip(self._files, self._data, strict=True):
            with decoding(file.name):
                if isinstance(data, bytes):
                    found.append((file.name, Actions.of_commit(data, keys)._replace(removed=None)))
                else:
                    found.append((file.name, Actions.of_checkpoint(data)))
        with decoding("A checkpoint"):
            # A sidecar's path may be absolute, but all sidecars are in the directory `_sidecars`.
            # So only their file names are used.
            sidecars = [
                f"_sidecars/{unquote(entry['sidecar']['path'].rpartition('/')[2])}"
                for entry in self.entries("sidecar")
                if entry.get("sidecar")
            ]
        tables = in_parallel(lambda name: self._reader.parquet(name, _OF_FILES), sidecars)
        for name, table in zip(sidecars, tables, strict=True):
            with decoding(name):
                found.append((name, Actions.of_checkpoint(table)))
        return found


def version_at(reader: LogReader, log: Log, milliseconds: int) -> Version:
    """Return the newest version that was committed at or before a time.

    If the table has in-commit timestamps enabled, a commit's time is its ``inCommitTimestamp``.
    Otherwise it is the modification time of the commit's log file.

    Args:
        reader: Reader of the log.
        log: Listing of the log.
        milliseconds: The time, in milliseconds since the epoch.

    Raises:
        SnapshotNotFound: if there is no such version.
    """
    configuration = Contents(reader, log.version()).metadata.get("configuration") or {}
    since = log.latest + 1
    if str(configuration.get(_ICT)).lower() == "true":
        since = int(configuration.get(_ICT_SINCE, 0))
    best, last = None, 0
    for number, file in sorted(log.commits.items()):
        if number < since and not file.modified:
            raise SnapshotNotFound(
                f"The storage does not return when version {number} was written, so no version can "
                "be chosen by time.",
                hint="pass version= instead of timestamp=.",
            )
        if number < since:
            last = max(file.modified, last + 1)  # modification times may be out of order
        if number < since and last <= milliseconds:
            best = number
    numbers = sorted(number for number in log.commits if number >= since)
    low, high = 0, len(numbers)
    while low < high:
        middle = (low + high) // 2
        if _time_in(reader, log.commits[numbers[middle]]) <= milliseconds:
            best, low = numbers[middle], middle + 1
        else:
            high = middle
    if best is None:
        raise SnapshotNotFound(
            f"The table has no version at or before {milliseconds} ms since the epoch.",
            hint="its older versions may have been cleaned up.",
        )
    return log.version(best)


def _time_in(reader: LogReader, file: LogFile) -> int:
    data = reader.read(file)
    with decoding(file.name):
        for entry in entries(data, "inCommitTimestamp"):
            if (time := (entry.get("commitInfo") or {}).get("inCommitTimestamp")) is not None:
                return int(time)
    raise CorruptMetadata(f"{file.name} in the log of the table has no inCommitTimestamp.")
