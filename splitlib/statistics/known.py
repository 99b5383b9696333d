"""Load and save one table's column statistics, so that footers are not read again.

Statistics are in memory, and in files below ``statistics_location``, which any number of processes
can share. Each column of each table has its own directory there. A file is written in one step and
never changed. Its name has a digest of its content, so a damaged file is ignored. Any file may be
deleted at any time.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial, reduce
from hashlib import blake2b
from itertools import accumulate
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.config import SplitConfig
from splitlib.errors import SourceUnavailable, SplitlibError
from splitlib.redaction import get_logger, redact_path
from splitlib.remote.calls import run_bounded
from splitlib.statistics.row_groups import FileGroups, MatchedGroups, group_type
from splitlib.statistics.store import LEARNED, ColumnKey, StatisticsStore
from splitlib.table import Table

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

_log = get_logger(__name__)
T = TypeVar("T")
# Version of the format of saved files. It is a part of their directory, so files of other versions
# are never read.
_FORMAT: Final = "v3"
_SUFFIX: Final = ".parquet"
# Maximum size of one saved file, and of all saved files of a column, in bytes. Files that exceed a
# limit are ignored.
MOST_FILE_BYTES: Final = 64 << 20
_MOST_BYTES: Final = 512 << 20
# Maximum number of values in one saved file. A small file may be very large after decompression.
MOST_VALUES: Final = 64 << 20
# If a column has at least this many saved files, the next save merges them.
MOST_FILES: Final = 32
_IDENTITY: Final = pa.schema(
    [("path", pa.string()), ("size", pa.int64()), ("modified", pa.int64())]
)
# Deadline for reading or writing saved statistics, in seconds. A location that does not answer in
# this time is not used for the next `_PAUSE_SECONDS`.
SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 300.0


def is_unchanged(table: Table, files: pa.RecordBatch, config: SplitConfig) -> pa.BooleanArray:
    """Return a mask of the files for which earlier statistics are still valid.

    Args:
        table: The table.
        files: Files from the table's listing, with the columns of ``FILE_SCHEMA``.
        config: Settings.
    """
    try:
        return table.unchanged(files, config)
    except SplitlibError:
        _log.debug("The files of %s could not be listed again.", table.name, exc_info=True)
        return pa.repeat(pa.scalar(False), len(files))


def valid_now(
    table: Table,
    files: pa.RecordBatch,
    groups: FileGroups,
    matched: MatchedGroups,
    fresh: Collection[str],
    config: SplitConfig,
) -> tuple[FileGroups, int]:
    """Return the row groups, with null for files whose statistics may be out of date.

    Statistics from earlier plans are kept only for files that would be dropped and have not changed
    since they were listed. Only for these files is a lookup worth its request, because a dropped
    file is not read. The second result is the number of directories that were listed to look up
    the files.

    Args:
        table: The table.
        files: Files from the table's listing, with the columns of ``FILE_SCHEMA``.
        groups: Row groups of the files.
        matched: The row groups that match the filters.
        fresh: Paths of the files whose footers were read in this plan.
        config: Settings.
    """
    if not table.may_be_old:
        return groups, 0
    earlier = np.array([path not in fresh for path in files["path"].to_pylist()], np.bool_)
    dropped = np.flatnonzero(earlier & ~matched.keeps)
    unsure = files.take(pa.array(dropped))
    same = is_unchanged(table, unsure, config)
    directories = pc.replace_substring_regex(unsure["path"], "/[^/]*$", "")
    earlier[dropped[same.to_numpy(zero_copy_only=False)]] = False
    rows = np.flatnonzero(earlier)
    unknown = {name: pa.nulls(len(rows), lists.type) for name, lists in groups.columns.items()}
    return groups.replaced(rows, unknown), pc.count_distinct(directories).as_py()


class SavedColumn:
    """The files with the saved statistics of one column of one table.

    Args:
        location: The setting ``statistics_location``, a directory or URI.
        table: Table location or name.
        key: Column name and type.
    """

    def __init__(self, location: str, table: str, key: ColumnKey) -> None:
        from splitlib.storage import Storage  # imports fsspec, which is slow

        name = blake2b("\0".join([table, key.name, str(key.kind)]).encode(), digest_size=16)
        place = f"{location.rstrip('/')}/{_FORMAT}/{name.hexdigest()}"
        self._fs, self._directory = Storage().filesystem(place)
        self._schema = pa.schema([*_IDENTITY, ("groups", group_type(key.kind))])

    def load(self, known: Collection[str] = ()) -> Iterator[tuple[str, pa.Table | None]]:
        """Yield the path and the Arrow table of each saved file whose path is not in ``known``.

        The table is None if splitlib did not write the file, or the file is damaged. Files that are
        too large, or that cannot be read at the moment, are skipped.
        """
        total = 0
        for path, size in self._files():
            if path in known:
                continue
            total += size
            if size > MOST_FILE_BYTES or total > _MOST_BYTES:
                _log.warning("Statistics in %s are ignored: they are too large.", path)
                continue
            rows = None
            try:
                rows = self.read(path)
            except FileNotFoundError:
                continue  # another process has just merged this file into a new one
            except Exception as error:  # another program wrote the file, or the storage failed
                _log.warning("Statistics in %s are ignored: %s", path, error)
                if not isinstance(error, pa.ArrowException):
                    continue
            yield path, rows

    def save(
        self, rows: pa.Table, listed: pa.Table | None = None, *, is_whole: bool = False
    ) -> None:
        """Write rows to new files, and merge small files if there are many.

        Merging drops the rows of files that are gone or have been replaced. A row that is dropped
        by mistake, because its file is newer than the listing, costs one read of its footer.

        Args:
            rows: Rows from :func:`rows_to_save`.
            listed: Path, size and time of all files in some directories; None if this is unknown.
            is_whole: Whether ``listed`` has all files of the table.
        """
        merged: list[str] = []
        if len(files := self._files()) >= MOST_FILES:
            # Only small files are merged, because a merged file that is too large is never read.
            of_size = sorted((size, path) for path, size in files)
            ends = accumulate(size for size, _ in of_size)
            small = {
                one[1]
                for one, end in zip(of_size, ends, strict=True)
                if end <= MOST_FILE_BYTES // 2
            }
            old = list(self.load({path for path, _ in files} - small))
            merged = [path for path, _ in old]
            rows = pa.concat_tables([*(part for _, part in old if part), rows])
            if listed is not None:
                rows = _still_there(rows, listed, is_whole=is_whole)
            rows = _latest(rows)
        self._write(rows)
        for path in merged:
            try:
                self._fs.rm_file(path)
            except FileNotFoundError:
                continue  # another process has also merged this file, and deleted it

    def _files(self) -> list[tuple[str, int]]:
        try:
            found = self._fs.ls(self._directory, detail=True)
        except FileNotFoundError:
            return []
        return sorted((f["name"], f["size"]) for f in found if f["name"].endswith(_SUFFIX))

    def read(self, path: str) -> pa.Table:
        """Read a saved file into an Arrow table.

        Raises:
            pyarrow.ArrowException: if splitlib did not write the file, or it is damaged.
        """
        from pyarrow import parquet  # slow to import

        content = self._fs.cat_file(path)
        # Compare the digest first, because no later check finds all damage. Pages have no
        # checksums, so most values could change unnoticed. And if some parts of the metadata are
        # damaged, Arrow ends the process.
        if not path.endswith(_end_of_name(content)):
            raise pa.ArrowInvalid("the file is damaged, or splitlib did not write it")
        try:
            file = parquet.ParquetFile(pa.BufferReader(content))
            if _number_of_values(file.metadata) > MOST_VALUES:
                raise pa.ArrowInvalid("the file has too many values")
            table = file.read(use_threads=False)
        except OSError as error:  # Arrow raises this for damaged pages
            raise pa.ArrowInvalid(str(error)) from error
        if table.schema.remove_metadata() != self._schema:
            raise pa.ArrowInvalid("the file has unexpected columns")
        table.validate(full=True)
        places = pc.list_flatten(table["groups"].combine_chunks())
        required = [table[name] for name in _IDENTITY.names]
        required += [places, places.field("start"), places.field("end")]
        if any(values.null_count for values in required):
            raise pa.ArrowInvalid("the file has nulls")
        return table

    def _write(self, rows: pa.Table) -> None:
        """Write rows to a new file, or to several if one would be too large."""
        from pyarrow import parquet

        content = pa.BufferOutputStream()
        parquet.write_table(rows.cast(self._schema), content, compression="zstd")
        data = content.getvalue().to_pybytes()
        values = _number_of_values(parquet.read_metadata(pa.BufferReader(data)))
        if (len(data) > MOST_FILE_BYTES or values > MOST_VALUES) and rows.num_rows > 1:
            self._write(rows[: rows.num_rows // 2])
            self._write(rows[rows.num_rows // 2 :])
            return
        # A random part keeps names from being reused. Otherwise a process that merges files could
        # delete a file that another process has just written again, with the same rows.
        path = f"{self._directory}/{uuid.uuid4().hex}{_end_of_name(data)}"
        if not getattr(self._fs, "local_file", False):
            self._fs.pipe_file(path, data)  # object stores never show an incomplete object
        else:
            # Only the owner may read these files, because bounds contain values from the table.
            # Only the owner may write them, because other processes trust them.
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
            hidden = f"{self._directory}/.{uuid.uuid4().hex}"
            with open(os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
            os.replace(hidden, path)


def _end_of_name(content: bytes) -> str:
    """Return the end of the name of a saved file: a digest of its content, and the suffix."""
    return f"-{blake2b(content, digest_size=16).hexdigest()}{_SUFFIX}"


def _number_of_values(metadata: FileMetaData) -> int:
    groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
    return sum(group.column(i).num_values for group in groups for i in range(group.num_columns))


def rows_to_save(files: pa.RecordBatch, groups: pa.ListArray, old: pa.BooleanArray) -> pa.Table:
    """Return the rows for :meth:`SavedColumn.save`: one for each file with known row groups.

    Args:
        files: Files, with the columns of :data:`splitlib.model.FILE_SCHEMA`.
        groups: One column's row groups, a list per file; null means unknown.
        old: Mask of the files whose statistics can be kept.
    """
    columns: dict[str, Any] = {name: files[name] for name in _IDENTITY.names}
    return pa.table({**columns, "groups": groups}).filter(pc.and_(old, pc.is_valid(groups)))


def without_secrets(paths: pa.StringArray) -> pa.BooleanArray:
    """Return a mask of the paths that have no credentials, so that they may be stored."""
    suspects = paths.filter(pc.match_substring_regex(paths, r"://[^@]*:[^@]*@|\?")).to_pylist()
    secret = pa.array([path for path in suspects if redact_path(path) != path], pa.string())
    return pc.invert(pc.is_in(paths, value_set=secret))


def _still_there(rows: pa.Table, listed: pa.Table, *, is_whole: bool) -> pa.Table:
    """Return the rows of listed files, and of directories that may have other files.

    See :meth:`SavedColumn.save` for the arguments.
    """
    at = pc.index_in(rows["path"], value_set=listed["path"])
    same = (pc.equal(rows[name], listed[name].take(at)) for name in _IDENTITY.names)
    keep = pc.fill_null(reduce(pc.and_, same), False)
    if not is_whole:
        own, others = (pc.replace_substring_regex(t["path"], "[^/]*$", "") for t in (rows, listed))
        keep = pc.or_(keep, pc.invert(pc.is_in(own, value_set=others)))
    return rows.filter(keep)


def _latest(rows: pa.Table) -> pa.Table:
    """Return one row per file path: the row with the latest modification time."""
    order = pc.sort_indices(rows, sort_keys=[("path", "ascending"), ("modified", "ascending")])
    paths = rows["path"].take(order).combine_chunks()
    is_last = pc.not_equal(paths[:-1], paths[1:])
    keep = pa.concat_arrays([is_last, pa.array([True])])
    return rows.take(order.filter(keep))


def _is_saved(column: SavedColumn, *args: Any, **options: Any) -> bool:
    column.save(*args, **options)
    return True


# Locations that did not answer, with the ``time.monotonic`` until which they are not used.
PAUSED_UNTIL: Final[dict[str, float]] = {}


class KnownStatistics:
    """Statistics of one table's files, in memory and in ``statistics_location``.

    Errors from ``statistics_location`` are logged, and only make planning slower. Each plan has its
    own instance, which also keeps statistics of files that are too new to be kept for later plans.
    An instance must be created before the footers are read. A file counts as too new if it was
    written shortly before the instance was created, or later.

    Args:
        table: The table.
        config: Settings.
    """

    def __init__(self, table: Table, config: SplitConfig) -> None:
        self._table = table.metadata.location or f"{table.connector_name}:{table.name}"
        self._location = location = config.statistics_location
        if PAUSED_UNTIL.get(location or "", 0) > monotonic():
            _log.warning("Statistics in %s are not used: it did not answer before.", location)
            self._location = None
        self._may_be_old = table.may_be_old
        self._config = replace(config, call_deadline_seconds=SECONDS)
        self._began = time.time()
        self._young = StatisticsStore(keeps_young=True)
        self._tried: set[ColumnKey] = set()
        self._new: dict[ColumnKey, list[pa.Table]] = {}
        self._listed: list[pa.RecordBatch] = []
        self.read_now: set[str] = set()
        """Paths of the files with footers read in this plan. Empty if this plan has listed the
        files itself, because then no statistics can be out of date."""

    def get(self, columns: pa.Schema, files: pa.RecordBatch) -> FileGroups:
        """Return the files' row groups from memory. If some are missing, load saved statistics.

        See :meth:`StatisticsStore.get` for the arguments and the result.
        """
        found = self._in_memory(columns, files)
        if self._location is None:
            return found
        missing = [
            column
            for column in columns
            if ColumnKey.of(column) not in self._tried
            and found.columns[column.name.lower()].null_count
        ]
        for column in missing:
            self._tried.add(ColumnKey.of(column))
            self._load(column)
        return self._in_memory(columns, files) if missing else found

    def _in_memory(self, columns: pa.Schema, files: pa.RecordBatch) -> FileGroups:
        found = LEARNED.get(columns, files)
        if not self._young.nbytes:
            return found
        young = self._young.get(columns, files).columns
        known = {name: pc.coalesce(lists, young[name]) for name, lists in found.columns.items()}
        return FileGroups(known)

    def add(
        self, columns: pa.Schema, files: pa.RecordBatch, groups: Mapping[str, pa.ListArray]
    ) -> pa.BooleanArray:
        """Keep the files' row groups in memory, and collect them for :meth:`save`.

        See :meth:`StatisticsStore.add` for the arguments and the result.
        """
        if self._may_be_old:
            known = [groups[column.name.lower()].is_valid() for column in columns]
            self.read_now.update(files["path"].filter(reduce(pc.and_, known)).to_pylist())
        old = LEARNED.add(columns, files, groups, self._began)
        if old.false_count:
            self._young.add(columns, files, groups, self._began)
        if self._location is not None and pc.any(old).as_py():
            may_be_saved = pc.and_(old, without_secrets(files["path"]))
            for column in columns:
                rows = rows_to_save(files, groups[column.name.lower()], may_be_saved)
                if rows.num_rows:
                    self._new.setdefault(ColumnKey.of(column), []).append(rows)
        return old

    def add_listed(self, files: pa.RecordBatch) -> None:
        """Note files of a listing. :meth:`save` drops rows of other files in their directories."""
        if self._location is not None:
            self._listed.append(files.select(_IDENTITY.names))

    def save(self, *, has_ended: bool = True, is_whole: bool = False) -> bool:
        """Write the statistics from :meth:`add` to ``statistics_location``, if it is set.

        Args:
            has_ended: Whether :meth:`add_listed` has got all files of their directories.
            is_whole: Whether it has got all files of the table.

        Returns:
            Whether all of them are written. True also if ``statistics_location`` is not set.
        """
        new, self._new = self._new, {}
        is_saved = self._location == self._config.statistics_location
        listed = pa.Table.from_batches(self._listed) if self._listed and has_ended else None
        for key, parts in new.items():
            rows = pa.concat_tables(parts)
            save = partial(_is_saved, rows=rows, listed=listed, is_whole=is_whole)
            # The new files are not marked as loaded. They may have rows of other processes, and the
            # store may have dropped own rows since they were added.
            is_saved = self._tried_with(key, save, "saved") is True and is_saved
        return is_saved

    def _tried_with(self, key: ColumnKey, use: Callable[[SavedColumn], T], done: str) -> T | None:
        """Use the saved files of a column. If this fails, log it, and return None."""
        location = self._location
        if location is None:
            return None
        try:
            return run_bounded(lambda: use(SavedColumn(location, self._table, key)), self._config)
        except Exception as error:  # the storage may raise any error
            _log.warning("Statistics of %s are not %s: %s", self._table, done, error)
            if isinstance(error, SourceUnavailable):
                self._location = None
                PAUSED_UNTIL[location] = monotonic() + _PAUSE_SECONDS
            return None

    def _load(self, column: pa.Field) -> None:
        key = ColumnKey.of(column)
        parts = self._tried_with(
            key, lambda column: list(column.load(LEARNED.loaded(key))), "loaded"
        )
        if parts is None:
            return
        now = time.time()  # the process that saved the statistics already left out too new files
        for path, part in parts:
            # Mark it first: the store removes the mark if it drops rows while this part is added.
            LEARNED.add_loaded(key, [path])
            for batch in () if part is None else part.to_batches():
                groups = {key.name.lower(): batch["groups"]}
                LEARNED.add(pa.schema([pa.field(column.name, key.kind)]), batch, groups, now)
