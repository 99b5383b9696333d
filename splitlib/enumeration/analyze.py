"""Learn the statistics of a whole table at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.checks import column_named
from splitlib.config import SplitConfig
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.enumeration.learning import FOOTER_SECONDS, arrays, learnable_columns, read_rows
from splitlib.errors import InvalidFilter, SourceUnavailable, UnsupportedTable
from splitlib.filtering.data import DynamicFilteringData
from splitlib.remote.calls import BoundedCalls
from splitlib.statistics.known import KnownStatistics
from splitlib.storage import StoredFile
from splitlib.table import Table

_FILES_TOGETHER = 512
# Number of files whose statistics are saved together.
_FILES_SAVED = 20_000


@dataclass(frozen=True, slots=True)
class Analysis:
    """What was learned of a table.

    Attributes:
        columns: The columns whose statistics were learned.
        files: Number of files of the table, or of the partitions that filters keep.
        learned: Number of files whose statistics are known now.
        young: Number of files that were written a moment ago. Another file of the same size and
            time could still replace them, so their statistics are not kept.
        footers_read: Number of footers read; the others were known before.
        row_groups: Number of row groups in the known files.
        seconds: Duration in seconds.
    """

    columns: tuple[str, ...]
    files: int = 0
    learned: int = 0
    young: int = 0
    footers_read: int = 0
    row_groups: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        young = f"; analyze {self.young:,} new files again in a moment" if self.young else ""
        return (
            f"statistics of {', '.join(self.columns)}: {self.learned:,} of {self.files:,} files, "
            f"{self.row_groups:,} row groups ({self.footers_read:,} footers read in "
            f"{self.seconds:.1f} s){young}"
        )


def analyze_table(
    table: Table,
    columns: Iterable[str] | None = None,
    filters: Sequence[DynamicFilteringData] = (),
    config: SplitConfig | None = None,
    progress: Callable[[Analysis], object] = lambda so_far: None,
) -> Analysis:
    """Read the footers of all files of a table, and keep their statistics.

    They are kept in memory, and in ``statistics_location`` if it is set.

    Args:
        table: The table.
        columns: Names of columns; by default all columns with statistics that can be trusted.
        filters: Filters on partition keys. Files of other partitions are left out.
        config: Settings; by default those of the environment.
        progress: Function that is called with the counts so far.

    Raises:
        UnsupportedTable: if statistics of the table, or of a given column, cannot be learned.
        InvalidFilter: if a column does not exist, or a filter is not on partition keys.
        SplitlibError: see :meth:`splitlib.DynamicFileEnumerator.enumerate_splits`.
    """
    config = config or SplitConfig.resolve()
    wanted = _wanted(table, columns, config)
    enumerator = DynamicFileEnumerator(table, config)
    keys = {key.lower() for key in table.partition_keys}
    for data in filters:
        others = [name for name in data.fields if name.lower() not in keys]
        if others:
            raise InvalidFilter(
                f"{', '.join(others)} cannot select files to analyze.",
                hint=f"the partition keys are {', '.join(table.partition_keys) or 'none'}.",
            )
        enumerator.set_dynamic_filtering_data(data)
    known, found = KnownStatistics(table, config), Analysis(tuple(wanted.names))
    started, saved = time.perf_counter(), 0
    with BoundedCalls(config, Future()) as calls:
        for selected in enumerator.select_files():
            for files in _pieces(selected.files.files):
                learned, young, groups, read = _learn(table, wanted, files, known, config, calls)
                found = Analysis(
                    found.columns,
                    found.files + files.num_rows,
                    found.learned + learned,
                    found.young + young,
                    found.footers_read + read,
                    found.row_groups + groups,
                    time.perf_counter() - started,
                )
                progress(found)
            if found.footers_read - saved >= _FILES_SAVED:
                known.save()
                saved = found.footers_read
    known.save()
    return found


def _wanted(table: Table, columns: Iterable[str] | None, config: SplitConfig) -> pa.Schema:
    possible = learnable_columns(table.metadata, config)
    context = {"connector": table.connector_name, "table": table.name}
    if not len(possible):
        why = "it has no Parquet files with columns found by name"
        if table.metadata.has_statistics:
            why = "its catalog has statistics"
        if not config.learn_statistics:
            why = "learn_statistics is off"
        raise UnsupportedTable(f"There is nothing to learn: {why}.", **context)
    if columns is None:
        return possible
    names = dict.fromkeys(column_named(name, table.schema.names) for name in columns)
    for name in names:
        if name not in possible.names:
            raise UnsupportedTable(
                f"Footers have no statistics of {name!r} that can be trusted.",
                hint=f"columns with statistics are {', '.join(possible.names)}.",
                **context,
            )
    return pa.schema([possible.field(name) for name in names])


def _pieces(files: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, files.num_rows, _FILES_TOGETHER):
        yield files.slice(start, _FILES_TOGETHER)


def _learn(
    table: Table,
    columns: pa.Schema,
    files: pa.RecordBatch,
    known: KnownStatistics,
    config: SplitConfig,
    calls: BoundedCalls,
) -> tuple[int, int, int, int]:
    """Learn some files.

    Return the number of known files, of files too young to be kept, of the known files' row groups,
    and of footers read.
    """
    before = known.get(columns, files)
    unknown = [pc.is_null(lists) for lists in before.columns.values()]
    mask = np.logical_or.reduce([one.to_numpy(zero_copy_only=False) for one in unknown])
    missing = files.filter(pa.array(mask))
    columns_of = (missing[name].to_pylist() for name in ("path", "size", "modified"))
    rows = [StoredFile(*row) for row in zip(*columns_of, strict=True)]
    tasks = [
        calls.submit(partial(read_rows, table, list(columns), config, file), FOOTER_SECONDS)
        for file in rows
    ]
    read = []
    for task in tasks:
        try:
            read.append(calls.result(task))
        except SourceUnavailable:
            calls.check_deadline()
            read.append(None)
    groups = arrays(columns, read)
    old = known.add(columns, missing, groups)
    first = columns.names[0].lower()
    had, learned = before.columns[first].filter(pa.array(~mask)), groups[first].filter(old)
    count = sum(len(one.flatten()) for one in (had, learned))
    number = len(had) + len(learned) - learned.null_count
    return number, old.false_count, count, len(rows)
