"""Read the column statistics of Parquet files from their footers, in worker threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from splitlib.arrow.parquet_footer import parse_footer
from splitlib.config import SplitConfig
from splitlib.errors import SourceUnavailable
from splitlib.redaction import get_logger
from splitlib.remote.calls import BoundedCalls
from splitlib.statistics.footers import GroupRow, rows_of_groups
from splitlib.statistics.known import KnownStatistics
from splitlib.statistics.row_groups import FileGroups, groups_array
from splitlib.storage import StoredFile
from splitlib.table import Table

_log = get_logger(__name__)
SAMPLED_FILES: Final = 16
"""Maximum number of files in the sample that shows whether reading footers pays off."""
MOST_KEPT: Final = 0.5
"""More footers are read if the filters keep at most this share of the sample's row groups, or if
these have at most this :func:`~splitlib.statistics.row_groups.overlap`."""
# Deadline for reading one footer, in seconds.
FOOTER_SECONDS: Final = 15.0

Rows = Sequence[Sequence[GroupRow]]
"""Footer statistics of one file: for each column, the statistics of each row group."""
ReadFooters = Callable[[Sequence[pa.Field], pa.RecordBatch], list[Rows | None]]
"""Function that reads the footer statistics of some columns for a batch of files, as in
``FILE_SCHEMA``. The result has None for each file whose footer could not be read."""


def read_rows(
    table: Table, columns: Sequence[pa.Field], config: SplitConfig, file: StoredFile
) -> Rows | None:
    """Read column statistics from a file's footer, or return None if that fails."""
    try:
        return rows_of_groups(parse_footer(table.read_footer(file, config)), columns)
    except Exception:  # a damaged footer or the connector's file access may raise any error
        _log.debug("The footer of %s could not be read.", file.path, exc_info=True)
        return None


class Learned(NamedTuple):
    """The result of :func:`learn`: the files' statistics, from this call or an earlier one."""

    groups: FileGroups
    read: npt.NDArray[np.intp]
    """Indexes of the files whose footers were read. The other files already had statistics."""
    old: pa.BooleanArray
    """Mask of the read footers whose files are old enough for their statistics to be kept. See
    :meth:`StatisticsStore.add`."""


def learn(
    table: Table,
    columns: pa.Schema,
    files: pa.RecordBatch,
    known: KnownStatistics,
    config: SplitConfig,
    calls: BoundedCalls,
    by_job: ReadFooters | None = None,
) -> Learned:
    """Return the statistics of files. Footers are read for files that have no statistics yet.

    Files whose footers cannot be read get no statistics.

    Args:
        table: The table.
        columns: At least one of the table's :func:`learnable_columns`.
        files: Files, with the columns of :data:`splitlib.model.FILE_SCHEMA`.
        known: The table's statistics so far. New statistics are added to this object.
        config: Settings.
        calls: Worker threads that read the footers in parallel.
        by_job: Function that reads footers first. The threads then read the footers for which it
            returned None.
    """
    before = known.get(columns, files)
    missing = before.unknown
    unread = files.take(pa.array(missing))
    read: list[Rows | None] = [None] * unread.num_rows
    if by_job is not None:
        table.refuse_outside(unread["path"].to_pylist(), config)
        read = by_job(list(columns), unread)
    tasks = {
        row: calls.submit(
            partial(read_rows, table, list(columns), config, stored_file(unread, row)),
            FOOTER_SECONDS,
        )
        for row, rows in enumerate(read)
        if rows is None
    }
    for row, task in tasks.items():
        try:
            read[row] = calls.result(task)
        except SourceUnavailable:
            calls.check_deadline()
            calls.abandon(task)
    found = arrays(columns, read)
    old = known.add(columns, unread, found)
    return Learned(before.replaced(missing, found), missing, old)


class Sample(NamedTuple):
    """Statistics of a few of a table's files, read from footers before the filters arrive."""

    statistics: KnownStatistics
    """The table's statistics. They contain the sample, so its footers are not read again."""
    groups: FileGroups
    """Row groups of the sampled files."""
    footers_read: int
    """Number of footers read. The other files already had statistics."""


def sample(table: Table, columns: pa.Schema, files: pa.RecordBatch, config: SplitConfig) -> Sample:
    """Read the footer statistics of a few files. See :func:`learn` for the arguments."""
    known = KnownStatistics(table, config)
    # The enumeration as a whole has no deadline here, because each footer has its own deadline.
    endless = replace(config, enumeration_deadline_seconds=0)
    with BoundedCalls(endless, Future()) as calls:
        learned = learn(table, columns, files, known, config, calls)
    return Sample(known, learned.groups, len(learned.read))


def stored_file(files: pa.RecordBatch, row: int) -> StoredFile:
    """Return the file at index ``row`` of ``files``."""
    return StoredFile(*(files[name][row].as_py() for name in ("path", "size", "modified")))


def arrays(columns: pa.Schema, read: Sequence[Rows | None]) -> Mapping[str, pa.ListArray]:
    """Convert footer statistics to Arrow arrays for :attr:`FileGroups.columns`, one per column.

    Args:
        columns: The columns of the statistics.
        read: Statistics of each file; None for a file without statistics.
    """
    return {
        column.name.lower(): groups_array(
            [None if rows is None else rows[i] for rows in read], column.type
        )
        for i, column in enumerate(columns)
    }
