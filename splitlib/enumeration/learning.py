"""Drop Parquet files and row groups by their footer statistics, if this saves more than it costs.

Footers are read only for tables whose catalog has no file statistics, and for filters on columns
that are not partition keys. A sample of files decides whether this is worthwhile. If the filters
drop few of the sample's row groups, and all row groups have nearly the same bounds, no more footers
are read.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

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
from splitlib.enumeration.late_filters import still_selected
from splitlib.enumeration.splitting import SelectedFiles, with_keys
from splitlib.enumeration.tally import ScanTally
from splitlib.errors import SourceUnavailable
from splitlib.filtering.predicate import Predicate
from splitlib.model import ReadFormat, TableMetadata
from splitlib.redaction import get_logger
from splitlib.remote.calls import BoundedCalls, Task
from splitlib.statistics.footers import learnable
from splitlib.statistics.known import KnownStatistics, valid_now
from splitlib.statistics.row_groups import FileGroups, Flags, MatchedGroups, has_bounds, overlap
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


@dataclass(slots=True, eq=False)
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
    requested: int = 0
    """Number of footer reads that count as running until these files are settled."""
    saved: float | None = None
    """Number of files dropped by the footers that were read. If only some row groups of a file were
    dropped, the file counts as a fraction. None until the files are handed out."""

    @property
    def unread(self) -> list[int]:
        """Indexes of the files whose footers were not requested yet."""
        return [row for row in self.missing if row not in self.read and row not in self.tasks]

    @property
    def is_ready(self) -> bool:
        """Whether no footer read is running."""
        return all(task.outcome.done() for task in self.tasks.values())

    @property
    def groups(self) -> FileGroups:
        """Row groups of the files, as far as they are known."""
        rows = sorted(self.read)
        if not rows:
            return self.known
        found = arrays(self.columns, [self.read[row] for row in rows])
        return self.known.replaced(np.array(rows), found)


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
        """Whether to read more footers; None until a sample has decided."""
        self._seen: list[_Pending] = []
        """Groups of files from which the sample is drawn, from the start of the enumeration."""
        self._is_slow = False
        """Whether a footer was not read within :data:`FOOTER_SECONDS`."""
        self._waiting: deque[_Pending] = deque()
        self._running: deque[_Pending] = deque()
        """Groups of files whose footers are being read, or do not have to be read."""
        # When a read ends depends on the threads, but the splits must not. So files are handed out
        # as soon as their footers have been read, but their reads count as running for longer.
        self._unsettled: deque[_Pending] = deque()
        """Groups of files whose footer reads count as running."""
        self._in_progress = 0
        """Number of footer reads that count as running."""
        self._done = 0
        """Number of footers read for the groups of files that were settled."""
        self._saved = 0.0
        """Sum of :attr:`_Pending.saved` of the groups of files that were settled."""

    def apply(
        self, selections: Iterable[SelectedFiles], calls: BoundedCalls
    ) -> Iterator[SelectedFiles]:
        """Yield the selected files that may match, in the order of ``selections``."""
        # The predicate is read before the files are selected, so the files match at least it.
        predicate = self._predicate()
        for selected in selections:
            pending = list(self._pending(selected, predicate))
            self._remember(pending)
            self._waiting.extend(pending)
            yield from self._drain(calls, end=False)
            predicate = self._predicate()
        yield from self._drain(calls, end=True)
        if self._reads is None and any(pending.read for pending in self._seen):
            self._decide(calls)  # all footers were read, and this sets the reason for the report
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
        self._statistics.add_listed(selected.files.files)
        known = self._statistics.get(columns, selected.files.files)
        known = with_keys(known, selected, self._predicate(), self._table.metadata)
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

    def _remember(self, pending: Sequence[_Pending]) -> None:
        """Keep the files of one selection for the sample."""
        columns = pending[0].columns
        if self._reads is not None or not len(columns):
            return
        if self._seen and self._seen[0].columns != columns:
            self._seen.clear()  # a filter of another column has arrived
        if self._may_read_all or any(one.missing for one in pending):
            self._seen += pending

    @property
    def _may_read_all(self) -> bool:
        """Whether so few files were seen that all of them belong to the sample."""
        return sum(len(pending.selected.files) for pending in self._seen) <= SAMPLED_FILES

    def _drain(self, calls: BoundedCalls, *, end: bool) -> Iterator[SelectedFiles]:
        """Yield the files whose footers have been checked. With ``end``, wait for all footers."""
        while True:
            self._begin(calls)
            is_awaited = end or self._is_full()
            if self._running and (is_awaited or self._running[0].is_ready):
                yield from self._finish(self._running.popleft(), calls)
            elif self._waiting:
                self._decide(calls)
            else:
                return  # Before waiting for these footers, let more reads be started.

    def _decide(self, calls: BoundedCalls) -> None:
        """Decide by a sample of files whether to read the other files' footers."""
        groups = self._sample(calls)
        self._seen.clear()
        if self._is_slow:
            return  # `_result` has ended the reading of footers
        predicate = self._predicate().of_learned
        assert predicate is not None
        matched = groups.match(predicate)
        total = int(matched.total.sum())
        kept = int(matched.matched.sum()) / total if total else 1.0
        self._reads = bool(
            matched.known.any() and (kept <= MOST_KEPT or overlap(groups) <= MOST_KEPT)
        )
        if not self._reads:
            files = len(matched.known)
            sampled = f"{files} file{'s were' if files > 1 else ' was'} sampled"
            why = "most row groups have nearly all of its values"
            advice = "Sort the table by this column when it is written."
            if not matched.known.any():
                why = "footers could not be read"
                advice = "Check that the driver may read the files, and that they are Parquet."
            elif not has_bounds(groups):
                why = "the files have no statistics of it"
                advice = "Write the files with statistics of this column, and timestamps as INT64."
            self._use.reason = self._use.reason or f"{why} ({sampled}). {advice}"

    def _sample(self, calls: BoundedCalls) -> FileGroups:
        """Return the row groups of a sample, which is spread evenly over the files seen so far.

        The files are divided into :data:`SAMPLED_FILES` equal parts, and one file of each part is
        taken. If possible, this is a file whose footer does not have to be read.
        """
        numbers = [len(pending.selected.files) for pending in self._seen]
        is_unread = np.zeros(sum(numbers), np.bool_)
        starts = np.cumsum([0, *numbers])
        for start, pending in zip(starts, self._seen, strict=False):
            is_unread[start + np.array(pending.unread, np.int64)] = True
        step = max(1.0, len(is_unread) / SAMPLED_FILES)
        ends = [int(part * step) for part in range(min(SAMPLED_FILES, len(is_unread)))]
        places = [a + int(is_unread[a:b].argmin()) for a, b in pairwise([*ends, len(is_unread)])]
        sample: dict[_Pending, list[int]] = {}
        for place in places:
            at = int(np.searchsorted(starts, place, side="right")) - 1
            sample.setdefault(self._seen[at], []).append(int(place - starts[at]))
            if is_unread[place]:
                self._submit(self._seen[at], int(place - starts[at]), calls)
        for pending, rows in sample.items():
            for row in rows:
                if row in pending.tasks:
                    pending.read[row] = self._result(pending.tasks.pop(row), calls)
        return FileGroups.concatenated(
            [pending.groups.take(pa.array(rows)) for pending, rows in sample.items()]
        )

    def _begin(self, calls: BoundedCalls) -> None:
        """Start reading missing footers, unless the footers so far have dropped too few files."""
        while self._waiting and not self._is_full():
            pending = self._waiting[0]
            unread = pending.unread
            if unread and self._reads is None and not self._may_read_all:
                return  # wait until the sample has decided
            self._running.append(self._waiting.popleft())
            if unread and self._reads and self._done >= self._limit:
                self._reads = False
                self._use.reason = (
                    f"{self._done:,} footers excluded few files. Sort the table by this column "
                    "when it is written."
                )
            for row in unread if self._reads is not False else ():
                self._submit(pending, row, calls)
            if pending.tasks or pending.read:
                pending.requested = len(pending.tasks)
                self._in_progress += pending.requested
                self._unsettled.append(pending)

    def _is_full(self) -> bool:
        """Return whether no more reads may be started. Settle files only if this changes it."""
        while self._in_progress >= IN_PROGRESS:
            oldest = self._unsettled[0]
            if oldest.saved is None:
                return True
            self._unsettled.popleft()
            self._in_progress -= oldest.requested
            self._done += len(oldest.read)
            self._saved += oldest.saved
        return False

    @property
    def _limit(self) -> int:
        return FIRST_FOOTERS + FOOTERS_PER_FILE * int(self._saved)

    def _submit(self, pending: _Pending, row: int, calls: BoundedCalls) -> None:
        columns = list(pending.columns)
        file = stored_file(pending.selected.files.files, row)
        work = partial(read_rows, self._table, columns, self._config, file)
        pending.tasks[row] = calls.submit(work, FOOTER_SECONDS)
        self._tally.count(storage_requests=1, footers_read=1)

    def _result(self, task: Task[Rows | None], calls: BoundedCalls) -> Rows | None:
        # If the storage is slow, cancel reads that have not started, instead of waiting for each.
        if self._is_slow and task.outcome.cancel():
            self._tally.count(storage_requests=-1, footers_read=-1)
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
        pending.tasks.clear()
        predicate = self._predicate()
        excluded = np.zeros(len(pending.selected.files), np.bool_)
        if predicate is not pending.predicate:  # a filter arrived meanwhile
            [mask] = still_selected([pending.selected], predicate, self._tally)
            excluded = ~mask.to_numpy(zero_copy_only=False)
            self._tally.dropped_late(int(excluded.sum()))
        selected = self._without_dropped(pending, predicate, excluded)
        if len(selected.files):
            yield selected

    def _without_dropped(
        self, pending: _Pending, predicate: Predicate, excluded: Flags
    ) -> SelectedFiles:
        """Return the files that, by their footer statistics, may contain matching rows.

        ``excluded`` is a mask of files that another filter drops.
        """
        selected, groups = pending.selected, pending.groups
        pending.saved = 0.0
        if predicate.of_learned is None or not groups.columns:
            if predicate.of_learned is not None and predicate.of_learned.matchers:
                self._tally.count(files_not_compared=len(selected.files))
            return _only(selected, ~excluded)
        with self._tally.timed("match"):
            matched = groups.match(predicate.of_learned)
        files = selected.files.files
        if pending.read:
            rows = pa.array(pending.read, pa.int64())
            found = groups.take(rows).columns
            self._statistics.add(pending.columns, files.take(rows), found)
        matched = replace(matched, keeps=matched.keeps | excluded)  # look up only the other files
        fresh = self._statistics.read_now
        valid, listings = valid_now(self._table, files, groups, matched, fresh, self._config)
        self._tally.count(storage_requests=listings)
        now = matched if valid is groups else valid.match(predicate.of_learned)
        # Files that only outdated statistics would drop are kept. Their row groups do not count.
        compared = matched.known & (matched.keeps | ~now.keeps)
        total = np.where(compared, matched.total, 0)
        counted = replace(matched, keeps=now.keeps, known=compared, total=total)
        self._count(pending, counted, excluded)
        if matched.known.any():
            self._use.columns |= groups.columns.keys()
            selected = replace(selected, learned=valid, places=now.places_of_each())
        return _only(selected, now.keeps & ~excluded)

    def _count(self, pending: _Pending, matched: MatchedGroups, excluded: Flags) -> None:
        """Count row groups and dropped files, for the report and for :attr:`_limit`."""
        total, matching = matched.total, matched.matched
        shares = np.divide(matching, total, where=total > 0, out=(matched.keeps).astype(float))
        pending.saved = len(pending.read) - float(shares[list(pending.read)].sum())
        self._tally.count(
            row_groups_total=int(total.sum()),
            row_groups_matched=int(matching[~excluded].sum()),
            files_not_compared=int((~matched.known).sum()),
        )
        if matched.known.any():
            self._tally.dropped(footers=int((~matched.keeps & ~excluded).sum()))


def _only(selected: SelectedFiles, mask: Flags) -> SelectedFiles:
    return selected if mask.all() else selected.take(pa.array(np.flatnonzero(mask)))
