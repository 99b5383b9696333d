"""Keep statistics from Parquet footers in memory until the files change."""

from __future__ import annotations

import os
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.statistics.row_groups import FileGroups, group_type, stored_type
from splitlib.storage.clients import in_forks_of_this

MOST_BYTES: Final = 256 << 20
"""Maximum size of all tables' statistics in memory, in bytes."""
# Minimum age of a file when its footer is read, so that its statistics are kept. Storage may round
# modification times to seconds, so a younger file could be replaced unnoticed by another file with
# the same size and time.
_YOUNG_MS: Final = 2_000

Ints = npt.NDArray[np.int64]


class ColumnKey(NamedTuple):
    """Name and type of a column. The case of the name matters.

    In a case-sensitive session, ``Item`` and ``item`` are different columns. So statistics of
    ``Item`` are not valid for ``item``.
    """

    name: str
    kind: pa.DataType

    @classmethod
    def of(cls, column: pa.Field) -> ColumnKey:
        """Return the key for a table column."""
        return cls(column.name, stored_type(column.type))


class _Chunk(NamedTuple):
    """Statistics of one column in several files, sorted by the hashes of the file paths."""

    hashes: Ints
    sizes: Ints
    modified: Ints
    groups: pa.ListArray

    @property
    def nbytes(self) -> int:
        own = self.hashes.nbytes + self.sizes.nbytes + self.modified.nbytes
        return int(own + self.groups.nbytes)

    def find(self, other: _Chunk) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return an index in this chunk for each file in ``other``, and a mask of valid indexes.

        An index is valid if this chunk has the file, with the same size and modification time.
        """
        rows = np.searchsorted(self.hashes, other.hashes)
        rows[rows == len(self.hashes)] = 0
        same = self.hashes[rows] == other.hashes
        same &= (self.sizes[rows] == other.sizes) & (self.modified[rows] == other.modified)
        return rows, same


def young_since(began: float) -> int:
    """Return the modification time from which files are too young to keep their statistics.

    Args:
        began: Time in seconds since the epoch, not later than the first read. By a later time, such
            as the end of the last read, a file that was young when it was read would seem old.

    Returns:
        Time in milliseconds since the epoch.
    """
    return int(began * 1000) - _YOUNG_MS


class StatisticsStore:
    """In-memory statistics by column and file. Files are identified by path, size and time.

    If a file's size or modification time has changed, or the time is unknown, the store has no
    statistics for the file. A full store drops the least recently used columns. Thread-safe. A
    forked process continues with the same content.

    Args:
        most_bytes: Maximum size of the content, in bytes.
        keeps_young: Whether to also keep statistics of files that were written a moment ago, and
            so could be replaced unnoticed.
    """

    def __init__(self, most_bytes: int = MOST_BYTES, *, keeps_young: bool = False) -> None:
        self._most_bytes = most_bytes
        self._keeps_young = keeps_young
        # If Python's hashes are not random, paths get a secret prefix. Without it, somebody could
        # construct two paths with the same hash.
        is_random = os.environ.get("PYTHONHASHSEED", "random") == "random"
        self._secret = "" if is_random else secrets.token_hex(8)
        self._loaded: dict[ColumnKey, frozenset[str]] = {}
        self._columns: OrderedDict[ColumnKey, list[_Chunk]] = OrderedDict()
        self._renew()
        in_forks_of_this(self, StatisticsStore._renew)

    def _renew(self) -> None:
        self.lock = threading.Lock()
        """Protects the content against concurrent changes."""

    @property
    def nbytes(self) -> int:
        """Size of the content, in bytes."""
        with self.lock:
            return self._nbytes()

    def get(self, columns: pa.Schema, files: pa.RecordBatch) -> FileGroups:
        """Return the files' row groups, with a null list for each file without statistics.

        Args:
            columns: Table columns.
            files: Files, with the columns of :data:`splitlib.model.FILE_SCHEMA`.
        """
        wanted = self._identified(files)
        found = {}
        for column in columns:
            with self.lock:
                chunks = tuple(self._columns.get(ColumnKey.of(column), ()))
                if chunks:
                    self._columns.move_to_end(ColumnKey.of(column))
            found[column.name.lower()] = _taken(chunks, wanted, column.type)
        return FileGroups(found)

    def add(
        self,
        columns: pa.Schema,
        files: pa.RecordBatch,
        groups: Mapping[str, pa.ListArray],
        began: float,
    ) -> pa.BooleanArray:
        """Keep the files' row groups, except for files with unknown row groups and new files.

        Files are new if they were written so shortly before their footers were read that they could
        be replaced unnoticed.

        Args:
            columns: Table columns.
            files: Files, with the columns of :data:`splitlib.model.FILE_SCHEMA`.
            groups: Row groups by column, as in :attr:`FileGroups.columns`.
            began: Time in seconds since the epoch, before any of the footers was read.

        Returns:
            For each file, whether it is old enough and has a known modification time.
        """
        times = files["modified"]
        old = pc.greater(times, 0)
        if not self._keeps_young:
            old = pc.and_(old, pc.less(times, young_since(began)))
        identified = self._identified(files)
        for column in columns:
            lists = groups[column.name.lower()]
            rows = pc.indices_nonzero(pc.and_(old, pc.is_valid(lists))).to_numpy()
            if len(rows):
                rows = rows[np.argsort(identified.hashes[rows], kind="stable")]
                chunk = _Chunk(
                    identified.hashes[rows],
                    identified.sizes[rows],
                    identified.modified[rows],
                    lists.take(pa.array(rows)),
                )
                self._keep(ColumnKey.of(column), chunk)
        return old

    def loaded(self, column: ColumnKey) -> frozenset[str]:
        """Return the paths of a column's saved files that this process has already loaded.

        File names are never reused, so these files cannot have changed since then.
        """
        with self.lock:
            return self._loaded.get(column, frozenset())

    def add_loaded(self, column: ColumnKey, paths: Iterable[str]) -> None:
        """Record that saved files were loaded, until the column's statistics are dropped."""
        with self.lock:
            self._loaded[column] = self._loaded.get(column, frozenset()).union(paths)

    def _keep(self, key: ColumnKey, chunk: _Chunk) -> None:
        with self.lock:
            chunks = self._columns.setdefault(key, [])
            chunks.append(chunk)
            self._columns.move_to_end(key)
            # Merge chunks so that each is more than twice as long as the next one. Then each row is
            # copied only a few times.
            while len(chunks) > 1 and len(chunks[-2].hashes) <= 2 * len(chunks[-1].hashes):
                newer, older = chunks.pop(), chunks.pop()
                chunks.append(_merged(older, newer))
            while self._nbytes() > self._most_bytes and self._columns:
                least = next(iter(self._columns))
                self._loaded.pop(least, None)
                if len(self._columns) > 1 or len(self._columns[least]) < 2:
                    del self._columns[least]
                else:
                    del self._columns[least][0]

    def _nbytes(self) -> int:
        return sum(chunk.nbytes for chunks in self._columns.values() for chunk in chunks)

    def _identified(self, files: pa.RecordBatch) -> _Chunk:
        paths = files["path"].to_pylist()
        if self._secret:
            paths = [self._secret + path for path in paths]
        hashes = list(map(hash, paths))
        sizes, modified = (files[name].to_numpy() for name in ("size", "modified"))
        nothing = pa.nulls(0, group_type(pa.int64()))
        return _Chunk(np.array(hashes, np.int64), sizes, modified, nothing)


def _taken(chunks: tuple[_Chunk, ...], wanted: _Chunk, kind: pa.DataType) -> pa.ListArray:
    """Return a list of row groups for each file in ``wanted``, or null if no chunk has the file.

    Newer chunks take precedence.
    """
    files = len(wanted.hashes)
    source, place = np.full(files, -1, np.int64), np.zeros(files, np.int64)
    for number in reversed(range(len(chunks))):
        rows, same = chunks[number].find(wanted)
        same &= (source < 0) & (wanted.modified > 0)
        source[same], place[same] = number, rows[same]
    if (source < 0).all():
        return pa.nulls(files, group_type(kind))
    taken, offset = [], 0
    for number in range(len(chunks)):
        at = np.flatnonzero(source == number)
        if not len(at):
            continue
        taken.append(chunks[number].groups.take(pa.array(place[at])))
        place[at] = offset + np.arange(len(at))
        offset += len(at)
    lists = taken[0] if len(taken) == 1 else pa.concat_arrays(taken)
    return lists.take(pa.array(place, mask=source < 0)).cast(group_type(kind))


def _merged(older: _Chunk, newer: _Chunk) -> _Chunk:
    """Merge two chunks, and keep only the latest version of each file."""
    hashes, sizes, modified = (
        np.concatenate(pair) for pair in zip(older[:3], newer[:3], strict=True)
    )
    order = np.lexsort((modified, hashes))
    last = np.append(hashes[order][1:] != hashes[order][:-1], True)
    order = order[last]
    groups = pa.concat_arrays([older.groups, newer.groups]).take(pa.array(order))
    return _Chunk(hashes[order], sizes[order], modified[order], groups)


LEARNED: Final = StatisticsStore()
"""The statistics that this process has read from footers or from ``statistics_location``."""
