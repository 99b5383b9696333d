"""Count partitions, files and requests of one enumeration, and create its report."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import groupby
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.checks import Mismatch
from splitlib.config import SplitConfig
from splitlib.enumeration.splitting import SelectedFiles
from splitlib.filtering.predicate import Predicate
from splitlib.hive.partition_values import name_of
from splitlib.model import FileBatch, PartitionBatch
from splitlib.redaction import get_logger, redact
from splitlib.report import MISTAKE, Count, FilterUse, PartitionRange, Report, ScanMetrics
from splitlib.table import Table

_MOST_CELLS: Final = 120
_Place = tuple[PartitionBatch, int]


class _Cell(NamedTuple):
    """A run of consecutive partitions. Its fields correspond to :class:`PartitionRange`."""

    first: _Place
    last: _Place
    read: int
    total: int

    def joined(self, other: _Cell) -> _Cell:
        """Return one cell with the partitions of this cell and the next one, ``other``."""
        known = [cell for cell in (self, other) if cell.read] or [self, other]
        read, total = self.read + other.read, self.total + other.total
        return _Cell(known[0].first, known[-1].last, read, total)


class PartitionRanges:
    """Records which partitions are read, as a bounded number of cells (runs of partitions)."""

    def __init__(self) -> None:
        self._cells: list[_Cell] = []
        self._width = 1
        """Maximum number of partitions in a cell."""

    def add(self, partitions: PartitionBatch, mask: pa.BooleanArray) -> None:
        """Add the catalog's next partitions. ``mask`` is true for each one that is read."""
        while len(self._cells) + -(-len(mask) // self._width) > _MOST_CELLS:
            self._width *= 2
            cells, self._cells = self._cells, []
            self._append(cells)
        self._append(self._cells_of(partitions, mask))

    def found(self) -> tuple[PartitionRange, ...]:
        """Return all partitions in order, as alternating ranges of read and skipped partitions."""
        ranges = []
        for _, cells in groupby(self._cells, lambda cell: cell.read > 0):
            one = reduce(_Cell.joined, cells)
            first, last = (redact(name_of(*place)) for place in (one.first, one.last))
            ranges.append(PartitionRange(first, last, one.read, one.total))
        return tuple(ranges)

    def _append(self, cells: Iterable[_Cell]) -> None:
        """Append cells. Join adjacent cells that together have at most ``_width`` partitions."""
        for cell in cells:
            if self._cells and self._cells[-1].total + cell.total <= self._width:
                self._cells[-1] = self._cells[-1].joined(cell)
            else:
                self._cells.append(cell)

    def _cells_of(self, partitions: PartitionBatch, mask: pa.BooleanArray) -> Iterator[_Cell]:
        kept = mask.to_numpy(zero_copy_only=False)
        bounds, counts = [], []
        for start in range(0, len(kept), self._width):
            part = kept[start : start + self._width]
            read = np.flatnonzero(part)
            ends = (read[0], read[-1]) if len(read) else (0, len(part) - 1)
            bounds += [start + end for end in ends]
            counts.append((len(read), len(part)))
        # These rows are copied, because a slice would keep the whole batch in memory.
        named = partitions.take(pa.array(bounds, pa.int64()))
        for number, (some, total) in enumerate(counts):
            yield _Cell((named, 2 * number), (named, 2 * number + 1), some, total)


_log = get_logger(__name__)
# Fraction of a listing page to fill if partitions have different numbers of files.
_FILL = 0.95


@dataclass(slots=True)
class FooterUse:
    """How one enumeration used file footers, for the report."""

    columns: set[str] = field(default_factory=set)
    """Columns whose footer statistics the filters were checked against, in lower case."""
    reason: str | None = None
    """Reason why some footers were not read; None if all were read."""


class ScanTally:
    """Counts and notes for the report of one enumeration. Thread-safe."""

    def __init__(self) -> None:
        self.footers = FooterUse()
        """The use of footers. Only the enumerating thread changes it."""
        self.late_filters = 0
        """Number of announced filters that had not arrived when the enumeration started."""
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._seconds: dict[str, float] = {}
        self._files_dropped: dict[str, int] = {}
        self._dropped: dict[tuple[FilterUse, int], int] = {}
        self._undecided: dict[str, int] = {}
        self._gone = False
        self._asked_for: dict[str, int] = {}
        self._partitions_listed = 0
        # Unlike the count files_listed, this changes under the same lock as _partitions_listed. So
        # the average of both is always right.
        self._files_in_listed = 0
        self._listed_together = 0
        self._ranges = 0
        self._listed_alone = 0
        self._made_again = 0
        self._files_expected = 0.0
        self._files_of_one: tuple[int, int] | None = None
        self._mismatches: dict[Mismatch, None] = {}
        self._ranges_read = PartitionRanges()

    @property
    def partitions_were_dropped(self) -> bool:
        """Whether the table may have lost partitions: some after the listing, or all before it."""
        with self._lock:
            return self._gone or not self._counts.get("partitions_total")

    def gone(self) -> None:
        """Note that partitions were dropped from the table after they were listed."""
        with self._lock:
            self._gone = True

    def metrics(self) -> ScanMetrics:
        """Return the counts so far."""
        with self._lock:
            return ScanMetrics(
                **self._counts,
                seconds=MappingProxyType(dict(self._seconds)),
                files_dropped=MappingProxyType(dict(self._files_dropped)),
            )

    def count(self, **counts: int) -> None:
        """Add ``counts`` to the fields of the same name in :class:`splitlib.ScanMetrics`."""
        with self._lock:
            for name, number in counts.items():
                self._counts[name] = self._counts.get(name, 0) + number

    def partitions(self, batch: PartitionBatch) -> None:
        """Count a batch's partitions, requests and manifests."""
        manifests = batch.manifests
        if manifests.total:
            self.count(manifests_total=manifests.total, manifests_opened=manifests.opened)
            self.count(files_total=manifests.files_total)
            self.dropped(manifests=manifests.files_skipped)
        with self._lock:
            self._asked_for[batch.asked_for] = self._asked_for.get(batch.asked_for, 0) + 1
        self.details(batch, partitions_total=len(batch))

    def details(self, batch: PartitionBatch, **counts: int) -> None:
        """Count a batch's requests, and record the average number of files per partition.

        Only the first such average that the catalog reports is used.
        """
        with self._lock:
            self._files_expected = self._files_expected or batch.files_each
        took = batch.requests
        self.count(metastore_requests=took.catalog, storage_requests=took.storage, **counts)

    def files(self, batch: FileBatch) -> None:
        """Count a batch's files and requests."""
        took, number = batch.requests, len(batch)
        self.count(
            metastore_requests=took.catalog, storage_requests=took.storage, files_listed=number
        )

    def listed(self, files: Sequence[int], *, together: bool) -> None:
        """Count listed partitions.

        Args:
            files: Number of files in each partition.
            together: Whether one listing page can cover several partitions.
        """
        with self._lock:
            self._partitions_listed += len(files)
            self._files_in_listed += sum(files)
            if together and len(files) > 1:
                self._listed_together += len(files)
                self._ranges += 1
            elif together:
                self._listed_alone += 1
            least, most = self._files_of_one or (files[0], files[0])
            self._files_of_one = min(least, *files), max(most, *files)

    def files_each(self) -> float:
        """Return the average number of files per partition; 0 means that it is not known yet.

        If partitions have different numbers of files, the result is a little above the average, so
        that groups of partitions rarely exceed a page.
        """
        with self._lock:
            if self._files_of_one is None:
                return self._files_expected / _FILL
            mean = max(1.0, self._files_in_listed / self._partitions_listed)
            least, most = self._files_of_one
            return mean if least == most else mean / _FILL

    def dropped(self, **files: int) -> None:
        """Count dropped files by the stage that dropped them."""
        with self._lock:
            for stage, number in files.items():
                self._files_dropped[stage] = self._files_dropped.get(stage, 0) + (number or 0)

    def dropped_late(self, files: int) -> None:
        """Count files that were listed, and then dropped by a filter that arrived later."""
        if files:
            self.dropped(late_filters=files)

    def selected(self, files: SelectedFiles) -> None:
        """Count files that are returned."""
        size = pc.sum(files.files.files["size"]).as_py()
        self.count(files_selected=len(files.files), bytes_selected=size)

    def withdrawn(self, files: SelectedFiles) -> None:
        """Count files that a filter dropped after they were counted by :meth:`selected`."""
        if not len(files.files):
            return
        groups = 0
        if files.places is not None:
            groups = pc.sum(pc.list_value_length(files.places), min_count=0).as_py()
        size = pc.sum(files.files.files["size"]).as_py()
        self.count(files_selected=-len(files.files), bytes_selected=-size)
        self.count(row_groups_matched=-groups)
        self.dropped_late(len(files.files))

    def warn(self, table: str, mismatches: Iterable[Mismatch]) -> None:
        """Log each mismatch once, with the table's name, and record it for the report."""
        with self._lock:
            for mismatch in [m for m in mismatches if m not in self._mismatches]:
                _log.warning("A filter of table %s prunes nothing: %s", table, mismatch)
                self._mismatches[mismatch] = None

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the duration of the ``with`` block to the seconds of ``stage``."""
        started = time.perf_counter()
        try:
            yield
        finally:
            with self._lock:
                spent = time.perf_counter() - started
                self._seconds[stage] = self._seconds.get(stage, 0.0) + spent

    def match(
        self, partitions: PartitionBatch, predicate: Predicate, before: Predicate | None = None
    ) -> pa.BooleanArray:
        """Match partitions with a predicate, and count the partitions that each filter drops.

        If an earlier predicate is passed as ``before``, only filters added since then are counted.
        """
        if not predicate.keys:
            mask = pa.repeat(not predicate.matches_nothing, len(partitions))
            if before is None:
                self._ranges_read.add(partitions, mask)
            return mask
        with self.timed("match"):
            matches = predicate.match_each(partitions)
        with self._lock:
            if before is None:
                self._ranges_read.add(partitions, matches.together)
            known = () if before is None else _numbered(before.filters)
            for used, mask in zip(_numbered(predicate.filters), matches.each, strict=True):
                if used not in known:
                    dropped = len(mask) - pc.sum(mask, min_count=0).as_py()
                    self._dropped[used] = self._dropped.get(used, 0) + dropped
            for key, number in matches.undecided.items() if before is None else ():
                self._undecided[key] = self._undecided.get(key, 0) + number
        return matches.together

    def warn_of_undecided(self) -> None:
        """Log a warning for each partition key with values that cannot be parsed."""
        with self._lock:
            for key in self._undecided:
                _log.warning(
                    "Some values of partition key %s do not have its type. Their partitions are "
                    "kept.",
                    key,
                )

    def made_again(self, requests: int) -> None:
        """Count storage requests that failed and were retried."""
        with self._lock:
            self._made_again += requests
        self.count(storage_requests=requests)

    def _how_listed(self) -> list[str]:
        notes = []
        if together := self._listed_together:
            notes.append(
                f"{together} neighbouring partitions were listed together, in {self._ranges} groups"
            )
        if alone := self._listed_alone:
            notes.append(f"{alone} partitions were listed one by one")
        if again := self._made_again:
            notes.append(f"{again} requests to the storage failed and were retried")
        return notes

    def report(self, table: Table, predicate: Predicate, config: SplitConfig) -> Report:
        """Return a report of the enumeration so far."""
        notes = [
            f"{number} values of {key} do not have its type; their partitions were kept. Drop or "
            "rename these partitions."
            for key, number in self._undecided.copy().items()
        ]
        notes += [f"{MISTAKE}{mismatch}" for mismatch in self._mismatches.copy()]
        notes += self._how_listed()
        if opening := sum(table.metadata.requests):
            notes.append(f"{opening} requests loaded the snapshot when the table was opened")
        if self.late_filters:
            notes.append(
                f"announced filters that did not arrive within {config.filter_wait_seconds:g} "
                f"seconds (filter_wait_seconds): {self.late_filters}. They prune only what was not "
                "yet returned when they arrived. Raise this limit to wait for them."
            )
        if not config.dynamic_filtering_enabled:
            notes.append(
                "dynamic filtering is switched off. Set dynamic_filtering_enabled to true."
            )
        metrics, asked_for = self.metrics(), self._plan()
        listed, groups, by_footers = metrics.files_total, Count(), self._dropped_by_footers
        if by_footers is not None:
            late = metrics.files_dropped.get("late_filters", 0)
            listed = listed or metrics.files_selected + by_footers + late
            groups = Count(metrics.row_groups_matched, metrics.row_groups_total)
        return Report(
            table=redact(table.name),
            filters=tuple(
                self._with_footers(
                    replace(used[0], partitions_dropped=self._dropped.get(used, 0)), predicate
                )
                for used in _numbered(predicate.filters)
            ),
            partitions=Count(
                metrics.partitions_matched, None if asked_for else metrics.partitions_total
            ),
            files=Count(metrics.files_selected, listed or None),
            row_groups=groups,
            nbytes=Count(metrics.bytes_selected),
            notes=tuple(map(redact, notes)),
            asked_for=asked_for,
            ranges=() if asked_for else self._ranges_read.found(),
            catalog_requests=metrics.metastore_requests,
            storage_requests=metrics.storage_requests,
            connector=table.connector_name,
            partition_keys=table.partition_keys,
            metrics=metrics,
        )

    @property
    def _dropped_by_footers(self) -> int | None:
        """Number of files dropped by their footers; None if footers did not help."""
        dropped = self._files_dropped.get("footers", 0)
        helped = self.footers.columns and (dropped or self.footers.reason is None)
        return dropped if helped else None

    def _with_footers(self, used: FilterUse, predicate: Predicate) -> FilterUse:
        """Return a copy of ``used`` that includes the columns whose footer statistics were used."""
        learned = predicate.of_learned
        names = [f for f in used.fields if learned is not None and f.lower() in learned.keys]
        if not names:
            return used
        compared: tuple[str, ...] = ()
        if self._dropped_by_footers is not None:
            compared = tuple(name for name in names if name.lower() in self.footers.columns)
        why = [used.unused_because] if used.unused_because else []
        if self.footers.reason is not None:
            why.append(f"{', '.join(names)}: {self.footers.reason}")
        dropped = used.partitions_dropped if used.used_fields else None
        return replace(
            used,
            used_fields=(*used.used_fields, *compared),
            unused_because=" ".join(why) or None,
            partitions_dropped=dropped,
        )

    def _plan(self) -> str:
        """Return how partitions were requested, such as "by name", or '' if all were listed."""
        with self._lock:
            requested = dict(self._asked_for)
        words = []
        if requested.get("names"):
            words.append("by name")
        if prefixes := requested.get("prefix"):
            words.append(
                f"by the start of their names: {prefixes} prefix{'es' if prefixes > 1 else ''}"
            )
        return " and ".join(words)


def _numbered(filters: Iterable[FilterUse]) -> list[tuple[FilterUse, int]]:
    """Return each filter with the number of equal ones before it, because two may look the same."""
    seen: Counter[FilterUse] = Counter()
    found = []
    for used in filters:
        found.append((used, seen[used]))
        seen[used] += 1
    return found
