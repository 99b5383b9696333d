"""Drop Parquet files and row groups by their footer statistics, if this saves more than it costs.

Footers are read only for tables whose catalog has no file statistics, and for filters on columns
that are not partition keys. A sample of footers is read first. If the filters drop few of the
sample's row groups, and all row groups have nearly the same bounds, no more footers are read.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.config import SplitConfig
from splitlib.enumeration.footer_reads import (
    FOOTER_SECONDS,
    MOST_KEPT,
    SAMPLED_FILES,
    Rows,
    Sample,
    arrays,
    read_rows,
    stored_file,
)
from splitlib.enumeration.splitting import SelectedFiles
from splitlib.enumeration.tally import ScanTally, still_selected
from splitlib.errors import SourceUnavailable
from splitlib.filtering.predicate import Predicate
from splitlib.model import ReadFormat, TableMetadata
from splitlib.redaction import get_logger
from splitlib.remote.calls import BoundedCalls, Task
from splitlib.statistics.footers import learnable
from splitlib.statistics.known import KnownStatistics, valid_now
from splitlib.statistics.row_groups import FileGroups, MatchedGroups, overlap
from splitlib.table import Table

_log = get_logger(__name__)
# Reading stops after FIRST_FOOTERS footers, plus FOOTERS_PER_FILE for each file that was dropped.
FIRST_FOOTERS: Final = 64
FOOTERS_PER_FILE: Final = 8
# Maximum number of files whose footers are requested together. While fewer than IN_PROGRESS footer
# reads are running, more are started.
FILES_TOGETHER: Final = 128
IN_PROGRESS: Final = 256
_MOST_COLUMNS: Final = 16
# Keys in Spark's column metadata that make footer bounds unusable: defaults and field ids.
_OF_COLUMNS: Final = frozenset({"CURRENT_DEFAULT", "EXISTS_DEFAULT", "parquet.field.id"})


def learnable_columns(metadata: TableMetadata, config: SplitConfig) -> pa.Schema:
    """Return the table's data columns whose statistics can be read from footers.

    The result is empty if the catalog already has file statistics.
    """
    if metadata.has_statistics or not config.learn_statistics or not _is_read(metadata.read_format):
        return pa.schema([])
    others = {*_with_spark_metadata(metadata.spark_schema), *metadata.partition_keys}
    # Pass partition keys to `learnable`, too. It then leaves out a data column whose name differs
    # from that of a partition key only in case.
    return pa.schema([c for c in learnable(metadata.schema) if c.name not in others])


@lru_cache(maxsize=64)
def _with_spark_metadata(schema: str | None) -> frozenset[str]:
    """Return the names of the columns with a default or a field id, from Spark's JSON schema."""
    fields = [] if schema is None else json.loads(schema)["fields"]
    return frozenset(f["name"] for f in fields if _OF_COLUMNS & (f.get("metadata") or {}).keys())


def _is_read(form: ReadFormat) -> bool:
    return form.name == "parquet" and form.columns == "name"


@dataclass(slots=True)
class _Pending:
    """A group of selected files that waits until the files' footers have been read."""

    selected: SelectedFiles
    predicate: Predicate
    """A predicate that the files match. Files are matched again if it is out of date."""
    columns: pa.Schema
    """The columns whose footer statistics the filters are checked against; may be empty."""
    known: FileGroups
    missing: list[int]
    """Indexes of the files without statistics so far."""
    read: dict[int, Rows | None] = field(default_factory=dict)
    """Statistics read from footers, by file index."""
    tasks: dict[int, Task[Rows | None]] = field(default_factory=dict)
    """Running footer reads, by file index."""


class FooterStage:
    """The last stage of an enumeration: drops files and row groups by their footer statistics.

    Args:
        table: The table.
        config: Settings.
        predicate: Function that returns the conjunction of the filters received so far.
        tally: Counts footers, files and row groups.
        sample: Statistics of a sample of files. Pass it if it has shown that reading the other
            files' footers saves work. If it is None, this stage reads a sample itself.
    """

    def __init__(
        self,
        table: Table,
        config: SplitConfig,
        predicate: Callable[[], Predicate],
        tally: ScanTally,
        sample: Sample | None = None,
    ) -> None:
        self._table = table
        self._config = config
        self._predicate = predicate
        self._tally = tally
        self._use = tally.footers
        self._opened = sample.statistics if sample else None
        """Statistics of the table's files; None until a filter needs them."""
        self._reads: bool | None = True if sample else None
        """Whether to read more footers; None until the sample has been read."""
        self._is_slow = False
        """Whether a footer was not read within :data:`FOOTER_SECONDS`."""
        self._waiting: deque[_Pending] = deque()
        self._running: deque[_Pending] = deque()
        """Groups of files whose footers are being read, or do not have to be read."""
        self._in_progress = 0
        """Number of running footer reads."""
        self._done = 0
        """Number of footers read for the groups of files that have left this stage."""
        self._saved = 0.0
        """Number of files dropped after their footers were read. If only some row groups of a file
        were dropped, the file counts as a fraction."""

    def apply(
        self, selections: Iterable[SelectedFiles], calls: BoundedCalls
    ) -> Iterator[SelectedFiles]:
        """Yield the selected files that may match, in the order of ``selections``."""
        # The predicate is read before the files are selected, so the files match at least it.
        predicate = self._predicate()
        for selected in selections:
            self._waiting.extend(self._pending(selected, predicate))
            yield from self._drain(calls, end=False)
            predicate = self._predicate()
        yield from self._drain(calls, end=True)
        if self._opened is not None:
            self._opened.save()

    @property
    def _statistics(self) -> KnownStatistics:
        if self._opened is None:
            self._opened = KnownStatistics(self._table, self._config)
        return self._opened

    def _pending(self, selected: SelectedFiles, predicate: Predicate) -> Iterator[_Pending]:
        columns = self._columns(selected)
        if not len(columns):
            yield _Pending(selected, predicate, columns, FileGroups({}), [])
            return
        known = self._statistics.get(columns, selected.files.files)
        number, missing = len(selected.files), known.unknown
        if len(missing) <= FILES_TOGETHER:
            yield _Pending(selected, predicate, columns, known, missing.tolist())
            return
        for start in range(0, number, FILES_TOGETHER):
            rows = pa.array(range(start, min(start + FILES_TOGETHER, number)), pa.int64())
            files, part = selected.take(rows), known.take(rows)
            yield _Pending(files, predicate, columns, part, part.unknown.tolist())

    def _columns(self, selected: SelectedFiles) -> pa.Schema:
        """Return the columns whose footer statistics the filters are checked against."""
        predicate = self._predicate().of_learned
        if predicate is None or not _is_read(selected.files.read_format):
            return pa.schema([])
        columns = learnable_columns(self._table.metadata, self._config)
        wanted = [column for column in columns if column.name.lower() in predicate.keys]
        return pa.schema(wanted[:_MOST_COLUMNS])

    def _drain(self, calls: BoundedCalls, *, end: bool) -> Iterator[SelectedFiles]:
        """Yield the files whose footers have been checked. With ``end``, wait for all footers."""
        if self._reads is None:
            missing = sum(len(pending.missing) for pending in self._waiting)
            if missing >= (1 if end else SAMPLED_FILES):
                self._decide(calls)
        while True:
            self._begin(calls)
            if not self._running:
                return
            waits = len(self._running[0].tasks) and self._in_progress < IN_PROGRESS
            if waits and not end:
                return  # Before waiting for these footers, let more reads be started.
            yield from self._finish(self._running.popleft(), calls)

    def _decide(self, calls: BoundedCalls) -> None:
        """Read the footers of a sample, and decide whether to read the other files' footers."""
        missing = [(pending, row) for pending in self._waiting for row in pending.missing]
        step = max(1.0, len(missing) / SAMPLED_FILES)
        sample = [missing[int(i * step)] for i in range(min(SAMPLED_FILES, len(missing)))]
        for pending, row in sample:
            self._submit(pending, row, calls)
        for pending, row in sample:
            pending.read[row] = self._result(pending.tasks.pop(row), calls)
        if self._is_slow:
            return  # `_result` has ended the reading of footers
        columns = sample[0][0].columns
        alike = [(p, row) for p, row in sample if p.columns == columns]
        groups = FileGroups(arrays(columns, [p.read[row] for p, row in alike]))
        predicate = self._predicate().of_learned
        assert predicate is not None
        matched = groups.match(predicate)
        total = int(matched.total.sum())
        kept = int(matched.matched.sum()) / total if total else 1.0
        self._reads = bool(
            matched.known.any() and (kept <= MOST_KEPT or overlap(groups) <= MOST_KEPT)
        )
        if not self._reads:
            sampled = f"{len(sample)} file{'s were' if len(sample) > 1 else ' was'} sampled"
            why = "most row groups have nearly all of its values"
            advice = "Sort the table by this column when it is written."
            if not matched.known.any():
                why = "footers could not be read"
                advice = "Check that the driver may read the files, and that they are Parquet."
            self._use.reason = self._use.reason or f"{why} ({sampled}). {advice}"

    def _begin(self, calls: BoundedCalls) -> None:
        """Start reading missing footers, unless the footers so far have dropped too few files."""
        while self._waiting and self._in_progress < IN_PROGRESS:
            pending = self._waiting[0]
            if pending.missing and self._reads is None:
                return  # wait until the sample is complete
            self._running.append(self._waiting.popleft())
            unread = [row for row in pending.missing if row not in pending.read]
            if unread and self._reads and self._done >= self._limit:
                self._reads = False
                self._use.reason = (
                    f"{self._done:,} footers excluded few files. Sort the table by this column "
                    "when it is written."
                )
            for row in unread if self._reads else ():
                self._submit(pending, row, calls)

    @property
    def _limit(self) -> int:
        return FIRST_FOOTERS + FOOTERS_PER_FILE * int(self._saved)

    def _submit(self, pending: _Pending, row: int, calls: BoundedCalls) -> None:
        columns = list(pending.columns)
        file = stored_file(pending.selected.files.files, row)
        work = partial(read_rows, self._table, columns, self._config, file)
        pending.tasks[row] = calls.submit(work, FOOTER_SECONDS)
        self._in_progress += 1
        self._tally.count(storage_requests=1, footers_read=1)

    def _result(self, task: Task[Rows | None], calls: BoundedCalls) -> Rows | None:
        self._in_progress -= 1
        # If the storage is slow, cancel reads that have not started, instead of waiting for each.
        if self._is_slow and task.outcome.cancel():
            return None
        try:
            with self._tally.timed("read_footers"):
                return calls.result(task)
        except SourceUnavailable:
            calls.check_deadline()
            calls.abandon(task)
            _log.debug("A footer was not read within %g seconds.", FOOTER_SECONDS)
            self._reads, self._is_slow = False, True
            self._use.reason = (
                "the storage is too slow to read footers in a query. Call splitlib.analyze, which "
                "reads them once."
            )
            return None

    def _finish(self, pending: _Pending, calls: BoundedCalls) -> Iterator[SelectedFiles]:
        """Wait for the footers of ``pending``, and yield the files that may match."""
        for row, task in pending.tasks.items():
            pending.read[row] = self._result(task, calls)
        self._done += len(pending.read)
        predicate = self._predicate()
        selected = self._without_dropped(pending, predicate)
        if predicate is not pending.predicate:  # a filter arrived meanwhile
            [mask] = still_selected([selected], predicate, self._tally)
            selected = selected.take(pc.indices_nonzero(mask))
        if len(selected.files):
            yield selected

    def _without_dropped(self, pending: _Pending, predicate: Predicate) -> SelectedFiles:
        """Return the files that, by their footer statistics, may contain matching rows."""
        selected, groups = pending.selected, self._groups(pending)
        if predicate.of_learned is None or not groups.columns:
            return selected
        with self._tally.timed("match"):
            matched = groups.match(predicate.of_learned)
        read, files = list(pending.read), selected.files.files
        fresh = self._statistics.read_now
        valid, listings = valid_now(self._table, files, groups, matched, fresh, self._config)
        self._tally.count(storage_requests=listings)
        now = matched if valid is groups else valid.match(predicate.of_learned)
        # Files that only outdated statistics would drop are kept. Their row groups do not count.
        total = np.where(now.keeps & ~matched.keeps, 0, matched.total)
        self._count(replace(matched, keeps=now.keeps, total=total), read)
        if not matched.known.any():
            return selected
        self._use.columns |= groups.columns.keys()
        selected = replace(selected, learned=valid, places=now.places_of_each())
        return selected.take(pa.array(np.flatnonzero(now.keeps)))

    def _groups(self, pending: _Pending) -> FileGroups:
        """Return the row groups of the files, and keep the statistics that were just read."""
        rows = sorted(pending.read)
        if not rows:
            return pending.known
        found = arrays(pending.columns, [pending.read[row] for row in rows])
        files = pending.selected.files.files
        self._statistics.add(pending.columns, files.take(pa.array(rows, pa.int64())), found)
        return pending.known.replaced(np.array(rows), found)

    def _count(self, matched: MatchedGroups, read: Sequence[int]) -> None:
        """Count row groups and dropped files, for the report and for :attr:`_limit`."""
        total, matching = matched.total, matched.matched
        shares = np.divide(matching, total, where=total > 0, out=(matched.keeps).astype(float))
        self._saved += len(read) - float(shares[list(read)].sum())
        counts = {"row_groups_total": total, "row_groups_matched": matching}
        self._tally.count(**{name: int(number.sum()) for name, number in counts.items()})
        if matched.known.any():
            self._tally.dropped(footers=int((~matched.keeps).sum()))
