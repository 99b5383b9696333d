"""Read the footer statistics of all files in a table, and keep them for later queries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.checks import column_named, is_of_spark
from splitlib.config import SplitConfig
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.enumeration.footer_reads import Learned, ReadFooters, learn
from splitlib.enumeration.learning import learnable_columns
from splitlib.errors import InvalidFilter, UnsupportedTable
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.predicate import PartitionFilter
from splitlib.remote.calls import BoundedCalls
from splitlib.statistics.known import KnownStatistics
from splitlib.table import Table

# Maximum number of files whose footers are read together: by the driver, and by one Spark job.
FILES_TOGETHER = 512
_FILES_OF_JOB = 50_000
# Number of files that the driver handles itself before it uses jobs, which take time to start.
FILES_OF_DRIVER = 4_096
# Number of footers after which the new statistics are saved.
FILES_SAVED = 20_000


@dataclass(frozen=True, slots=True)
class Analysis:
    """The result of :func:`analyze_table`, as counts.

    Attributes:
        columns: The columns whose statistics were read from footers.
        files: Number of files in the table, or in the partitions that the filters keep.
        learned: Number of files that have statistics after the analysis.
        young: Number of files that were written a moment ago. Their statistics are not kept,
            because such a file could still be replaced by one with the same size and modification
            time.
        footers_read: Number of footers read. The other files already had statistics.
        row_groups: Number of row groups in the ``learned`` files.
        seconds: Duration in seconds.
        undated: Number of files without a modification time. Their statistics are never kept.
        saved: Whether all statistics that were read were written to ``statistics_location``. True
            also if it is not set. If False, the log has the error.
    """

    columns: tuple[str, ...]
    files: int = 0
    learned: int = 0
    young: int = 0
    footers_read: int = 0
    row_groups: int = 0
    seconds: float = 0.0
    undated: int = 0
    saved: bool = True

    def __str__(self) -> str:
        more = f"; analyze {self.young:,} new files again in a moment" if self.young else ""
        if self.undated:
            undated = f"{self.undated:,} files without a modification time"
            more += f"; nothing is kept of {undated}"
        if not self.saved:
            more += "; not saved in statistics_location, see the log"
        return (
            f"statistics of {', '.join(self.columns)}: {self.learned:,} of {self.files:,} files, "
            f"{self.row_groups:,} row groups ({self.footers_read:,} footers read in "
            f"{self.seconds:.1f} s){more}"
        )


def analyze_table(
    table: Table,
    columns: Iterable[str] | None = None,
    filters: Sequence[PartitionFilter | DynamicFilteringData] = (),
    config: SplitConfig | None = None,
    progress: Callable[[Analysis], object] = lambda so_far: None,
    by_job: ReadFooters | None = None,
) -> Analysis:
    """Read the footers of all files in a table, and keep their statistics.

    The statistics are kept in memory, and in ``statistics_location`` if it is set.

    Args:
        table: The table.
        columns: Column names. By default, all columns whose footer statistics can be trusted.
        filters: Filters on partition keys. Files in other partitions are left out.
        config: Settings. By default, they are taken from environment variables.
        progress: Function that is called regularly with the counts so far.
        by_job: Function that reads the footers of a large table in a Spark job. By default, this
            process reads all footers.

    Raises:
        UnsupportedTable: if footers have no usable statistics for the table or a requested column,
            or no footer can be read.
        InvalidFilter: if a column does not exist, or a filter is not on partition keys.
        SplitlibError: see :meth:`splitlib.DynamicFileEnumerator.enumerate_splits`.
    """
    config = config or SplitConfig.resolve()
    wanted = _wanted(table, columns, config)
    refuse_data_columns(table, [name for data in filters for name in data.fields])
    enumerator = DynamicFileEnumerator(table, config, static=filters)
    known, found = KnownStatistics(table, config), Analysis(tuple(wanted.names))
    started, saved = time.perf_counter(), 0
    with BoundedCalls(config, Future()) as calls:
        listed = (selected.files.files for selected in enumerator.select_files())
        for files, is_large in _pieces(listed, has_jobs=by_job is not None):
            job = by_job if is_large else None
            known.add_listed(files)
            learned = learn(table, wanted, files, known, config, calls, job)
            found = replace(_plus(found, files, learned), seconds=time.perf_counter() - started)
            progress(found)
            if found.footers_read - saved >= FILES_SAVED:
                found = replace(found, saved=known.save(has_ended=False) and found.saved)
                saved = found.footers_read
    is_saved = known.save(is_whole=not filters)
    _refuse_unread(table, found)
    return replace(found, saved=is_saved and found.saved)


def _plus(found: Analysis, files: pa.RecordBatch, learned: Learned) -> Analysis:
    """Add the counts of more files."""
    lists = learned.groups.columns[found.columns[0].lower()]
    is_lost = np.zeros(len(lists), np.bool_)
    is_lost[learned.read[pc.invert(learned.old).to_numpy(zero_copy_only=False)]] = True
    is_dated = files["modified"].to_numpy() > 0
    kept, young, undated = (
        lists.filter(pa.array(mask)).drop_null()
        for mask in (~is_lost, is_lost & is_dated, is_lost & ~is_dated)
    )
    return replace(
        found,
        files=found.files + files.num_rows,
        learned=found.learned + len(kept),
        young=found.young + len(young),
        footers_read=found.footers_read + len(learned.read),
        row_groups=found.row_groups + len(kept.flatten()),
        undated=found.undated + len(undated),
    )


def _refuse_unread(table: Table, found: Analysis) -> None:
    if found.footers_read and not (found.learned or found.young or found.undated):
        raise UnsupportedTable(
            f"None of {found.footers_read:,} footers could be read.",
            hint="set the log level of splitlib to DEBUG for the causes. Tables of Spark's catalog "
            "cannot be analyzed over Spark Connect: use a classic session.",
            connector=table.connector_name,
            table=table.name,
        )


def refuse_data_columns(table: Table, names: Iterable[str]) -> None:
    """Check that a filter's columns are partition keys.

    Raises:
        InvalidFilter: if a column is not a partition key.
    """
    keys = {key.lower() for key in table.partition_keys}
    others = dict.fromkeys(name for name in names if name.lower() not in keys)
    if others:
        raise InvalidFilter(
            f"{', '.join(others)} cannot select files to analyze: only partition keys can do this.",
            hint=f"the partition keys are {', '.join(table.partition_keys) or 'none'}.",
        )


def _wanted(table: Table, columns: Iterable[str] | None, config: SplitConfig) -> pa.Schema:
    possible = learnable_columns(table.metadata, config)
    context = {"connector": table.connector_name, "table": table.name}
    if not len(possible):
        why = "the table has no Parquet files with columns found by name"
        hint = "rewrite the table as Parquet, or do without statistics."
        if table.metadata.has_statistics:
            why = "the catalog has statistics of its files"
            hint = "filters use these statistics already."
        if not config.learn_statistics:
            why, hint = "learn_statistics is off", "set learn_statistics to true."
        raise UnsupportedTable(f"There are no statistics to read: {why}.", hint=hint, **context)
    if columns is None:
        return possible
    is_one = isinstance(columns, str) or not isinstance(columns, Iterable) or is_of_spark(columns)
    given: Iterable[Any] = [columns] if is_one else columns
    names = dict.fromkeys(column_named(name, table.schema.names) for name in given)
    if not names:
        raise InvalidFilter("No column is named.", hint="omit columns to analyze all of them.")
    for name in names:
        if name not in possible.names:
            raise UnsupportedTable(
                f"Footers have no statistics of {name!r} that can be trusted.",
                hint=f"columns with statistics are {', '.join(possible.names)}.",
                **context,
            )
    return pa.schema([possible.field(name) for name in names])


def _pieces(
    listed: Iterable[pa.RecordBatch], *, has_jobs: bool
) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """Yield batches of listed files, each with a flag: whether a job should read their footers.

    Args:
        listed: Batches of files.
        has_jobs: Whether jobs can read footers.
    """
    seen, waiting, number = 0, [], 0
    for files in listed:
        for start in range(0, files.num_rows, FILES_TOGETHER):
            piece = files.slice(start, FILES_TOGETHER)
            if not has_jobs or seen < FILES_OF_DRIVER:
                seen += piece.num_rows
                yield piece, False
                continue
            waiting.append(piece)
            number += piece.num_rows
            if number >= _FILES_OF_JOB:
                yield _together(waiting), True
                waiting, number = [], 0
    if waiting:
        yield _together(waiting), True


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    # pa.concat_batches requires pyarrow 19.
    (batch,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return batch
