"""Metrics and report of one enumeration: what each filter pruned, as text, HTML and JSON values."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.config import SplitConfig
from splitlib.filtering.mismatches import Mismatch
from splitlib.filtering.predicate import AppliedFilter, Predicate
from splitlib.model import FileBatch, Manifests, PartitionBatch
from splitlib.redaction import get_logger, redact
from splitlib.table import Table

_log = get_logger(__name__)
# Fraction of a listing page to fill when partitions have different numbers of files.
_FILL = 0.95


@dataclass(frozen=True, slots=True)
class ScanMetrics:
    """Counts of one enumeration at one moment. Immutable.

    Attributes:
        partitions_total: Number of partitions that the catalog returned. These are all partitions
            of the table, unless they were requested by name; see
            :attr:`splitlib.ScanReport.asked_for`.
        partitions_matched: Number of partitions that match all filters. Filters that arrived after
            a partition's files were returned do not count.
        files_listed: Number of data files in the listed partitions.
        files_selected: Number of files returned. Empty files are not returned.
        splits: Number of splits made of the returned files.
        bytes_selected: Total size of the returned files, in bytes.
        metastore_requests: Number of requests to the catalog while enumerating.
        storage_requests: Number of pages of directory listings, including retries, plus the
            number of manifests read.
        manifests_total: Number of manifests of the snapshot, for catalogs that have manifests.
        manifests_opened: Number of manifests opened because they may contain a matching file.
        files_total: Number of files in all manifests; 0 without manifests.
        files_dropped: Number of files dropped by each stage: ``manifests``, ``partitions``,
            ``statistics``. Empty if the catalog has neither manifests nor file statistics.
        seconds: Duration of each stage, in seconds: ``list_partitions``, ``match``,
            ``load_details``, ``list_files`` (sum of all threads), and ``wait`` for filters.
    """

    partitions_total: int = 0
    partitions_matched: int = 0
    files_listed: int = 0
    files_selected: int = 0
    splits: int = 0
    bytes_selected: int = 0
    metastore_requests: int = 0
    storage_requests: int = 0
    manifests_total: int = 0
    manifests_opened: int = 0
    files_total: int = 0
    files_dropped: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    seconds: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def to_dict(self) -> dict[str, int | dict[str, int] | dict[str, float]]:
        """Return the counts as plain values for JSON."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {k: dict(v) if isinstance(v, Mapping) else v for k, v in values.items()}


@dataclass(frozen=True, slots=True)
class FilterReport:
    """One filter, and how many partitions this filter alone would drop.

    Attributes:
        filter: The filter, and which of its columns were used.
        partitions_dropped: Number of partitions that this filter alone would drop.
    """

    filter: AppliedFilter
    partitions_dropped: int

    def __str__(self) -> str:
        used = self.filter
        head = f"{', '.join(used.fields)}: {used.description}"
        if used.nbytes:
            head += f" ({_size(used.nbytes)})"
        if not used.used_fields:
            return f"{head} - not used: {used.unused_because}"
        line = f"{head} - drops {self.partitions_dropped:,} partitions"
        return f"{line} (partly unused: {used.unused_because})" if used.unused_because else line


@dataclass(frozen=True, slots=True)
class ScanReport:
    """Explains what one enumeration pruned, and why.

    Attributes:
        table: Name of the table.
        connector: Name of the connector.
        partition_keys: Names of the partition columns.
        filters: How each filter was used, and what it dropped.
        metrics: Counts of the enumeration.
        notes: Other facts about the enumeration, one sentence each.
        asked_for: How partitions were requested, such as ``by name``; empty if all partitions
            were requested. If it is not empty, the table's number of partitions is unknown.
    """

    table: str
    connector: str
    partition_keys: tuple[str, ...]
    filters: tuple[FilterReport, ...]
    metrics: ScanMetrics
    notes: tuple[str, ...] = ()
    asked_for: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values for JSON."""
        return {
            "table": self.table,
            "connector": self.connector,
            "partition_keys": list(self.partition_keys),
            "filters": [
                {**asdict(f.filter), "partitions_dropped": f.partitions_dropped}
                for f in self.filters
            ],
            "metrics": self.metrics.to_dict(),
            "notes": list(self.notes),
            "asked_for": self.asked_for,
        }

    def __str__(self) -> str:
        m = self.metrics
        keys = ", ".join(self.partition_keys) or "unpartitioned"
        lines = [f"{self.connector}: {self.table} ({keys})"]
        lines += [f"├─ filter {f}" for f in self.filters] or ["├─ no filter"]
        lines += [f"├─ note: {note}" for note in self.notes]
        lines += [
            f"├─ partitions {self._kept()}",
            *self._manifest_lines(),
            f"├─ files {m.files_selected:,}, {_size(m.bytes_selected)}",
            f"└─ requests: {m.metastore_requests:,} to the catalog, "
            f"{m.storage_requests:,} to the storage",
        ]
        return "\n".join(lines)

    def _kept(self) -> str:
        m = self.metrics
        if not self.asked_for:
            return f"{m.partitions_matched:,} of {m.partitions_total:,}"
        # The table's number of partitions is unknown here, so do not write "of TOTAL".
        more = m.partitions_total - m.partitions_matched
        others = f" ({more:,} others were returned too)" if more else ""
        return f"{m.partitions_matched:,}, requested {self.asked_for}{others}"

    def _manifest_lines(self) -> list[str]:
        m = self.metrics
        if not m.manifests_total:
            return []
        dropped = [f"{n:,} by {stage}" for stage, n in m.files_dropped.items() if n]
        return [
            f"├─ manifests opened {m.manifests_opened:,} of {m.manifests_total:,}",
            f"├─ files {m.files_total:,}, dropped: {', '.join(dropped) or 'none'}",
        ]

    def _repr_html_(self) -> str:
        from html import escape  # imported here because only notebooks need it

        m = self.metrics
        kept = m.partitions_matched / m.partitions_total if m.partitions_total else 0.0
        # If any partition matched, show at least a thin bar.
        width = max(100 * kept, 0.5) if m.partitions_matched else 0.0
        items = "".join(f"<li>{escape(str(f))}</li>" for f in self.filters)
        bar = (
            '<div style="background:#ddd;width:480px;height:14px" title="partitions kept">'
            f'<div style="background:#2a7;width:{width:.2f}%;height:14px"></div></div>'
        )
        lines = [line.removeprefix("├─ ") for line in self._manifest_lines()]
        items += "".join(f"<li>{escape(line)}</li>" for line in lines)
        items += "".join(f"<li>note: {escape(note)}</li>" for note in self.notes)
        return (
            f"<div><b>{escape(self.connector)}: {escape(self.table)}</b>"
            # Without a total number of partitions, there is no bar.
            f"{'' if self.asked_for else bar}partitions {escape(self._kept())}, "
            f"{m.files_selected:,} files, {_size(m.bytes_selected)}<ul>{items}</ul></div>"
        )


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


class ScanTally:
    """Counts and notes of one enumeration. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._seconds: dict[str, float] = {}
        self._files_dropped: dict[str, int] = {}
        self._dropped: dict[AppliedFilter, int] = {}
        self._undecided: dict[str, int] = {}
        self._gone = 0
        self._asked_for: dict[str, int] = {}
        self._partitions_listed = 0
        self._listed_together = 0
        self._ranges = 0
        self._listed_alone = 0
        self._made_again = 0
        self._files_expected = 0.0
        self._files_of_one: tuple[int, int] | None = None
        self._mismatches: dict[Mismatch, None] = {}

    @property
    def partitions_have_gone(self) -> bool:
        """Whether partitions were dropped since they were listed, or none was listed at all."""
        with self._lock:
            return bool(self._gone) or not self._counts.get("partitions_total")

    def gone(self, partitions: int) -> None:
        """Count partitions that were dropped between their listing and their use."""
        with self._lock:
            self._gone += partitions

    def metrics(self) -> ScanMetrics:
        """Return the counts so far."""
        with self._lock:
            return ScanMetrics(
                **self._counts,
                seconds=MappingProxyType(dict(self._seconds)),
                files_dropped=MappingProxyType(dict(self._files_dropped)),
            )

    def count(self, **counts: int) -> None:
        """Add numbers to fields of :class:`splitlib.enumeration.report.ScanMetrics`."""
        with self._lock:
            for name, number in counts.items():
                self._counts[name] = self._counts.get(name, 0) + number

    def requested(self, batch: PartitionBatch | FileBatch) -> None:
        """Count the requests that a connector sent for a batch."""
        took = batch.requests
        self.count(metastore_requests=took.catalog, storage_requests=took.storage)

    def asked_for(self, batch: PartitionBatch) -> None:
        """Record how the partitions of a batch were requested."""
        with self._lock:
            self._asked_for[batch.asked_for] = self._asked_for.get(batch.asked_for, 0) + 1

    def expects(self, files_each: float) -> None:
        """Record how many files a partition has on average, according to the catalog.

        Only the first known number is used; 0 means unknown.
        """
        with self._lock:
            self._files_expected = self._files_expected or files_each

    def listed(self, files: Sequence[int], *, together: bool) -> None:
        """Count listed partitions.

        Args:
            files: Number of files of each partition.
            together: Whether one page of a listing can cover several partitions.
        """
        with self._lock:
            self._partitions_listed += len(files)
            if together and len(files) > 1:
                self._listed_together += len(files)
                self._ranges += 1
            elif together:
                self._listed_alone += 1
            least, most = self._files_of_one or (files[0], files[0])
            self._files_of_one = min(least, *files), max(most, *files)

    def files_each(self) -> float:
        """Return the average number of files of a partition; 0 means that it is not known yet.

        If partitions have different numbers of files, the result is a little above the average, so
        that groups of partitions rarely exceed a page.
        """
        with self._lock:
            if self._files_of_one is None:
                return self._files_expected / _FILL
            mean = max(1.0, self._counts.get("files_listed", 0) / self._partitions_listed)
            least, most = self._files_of_one
            return mean if least == most else mean / _FILL

    def opened(self, manifests: Manifests) -> None:
        """Count manifests, and the files of skipped manifests."""
        if manifests.total:
            self.count(manifests_total=manifests.total, manifests_opened=manifests.opened)
            self.count(files_total=manifests.files_total)
            self.dropped(manifests=manifests.files_skipped)

    def dropped(self, **files: int) -> None:
        """Count dropped files by the stage that dropped them."""
        with self._lock:
            for stage, number in files.items():
                self._files_dropped[stage] = self._files_dropped.get(stage, 0) + (number or 0)

    def warn(self, table: str, mismatches: Iterable[Mismatch]) -> None:
        """Log each mismatch once, with the name of the table, and record it for the report."""
        with self._lock:
            for mismatch in [m for m in mismatches if m not in self._mismatches]:
                _log.warning("A filter of table %s prunes nothing: %s", table, mismatch)
                self._mismatches[mismatch] = None

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the duration of the ``with`` block to a stage."""
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
        """Match partitions, and count those dropped by filters that are not in ``before``."""
        if not predicate.keys:
            return pa.repeat(not predicate.matches_nothing, len(partitions))
        with self.timed("match"):
            matches = predicate.match_each(partitions)
        with self._lock:
            for used, mask in zip(predicate.filters, matches.each, strict=True):
                if before is None or used not in before.filters:
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
                    "Some values of partition key %s do not parse; their partitions are kept.", key
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

    def report(self, table: Table, predicate: Predicate, config: SplitConfig) -> ScanReport:
        """Return a report of the enumeration so far."""
        notes = [
            f"{number} values of {key} do not have its type; their partitions were kept"
            for key, number in self._undecided.items()
        ]
        notes += [f"a filter prunes nothing: {mismatch}" for mismatch in self._mismatches]
        notes += self._how_listed()
        if not config.dynamic_filtering_enabled:
            notes.append("dynamic filtering is switched off")
        return ScanReport(
            table=redact(table.name),
            connector=table.connector_name,
            partition_keys=table.partition_keys,
            filters=tuple(
                FilterReport(used, self._dropped.get(used, 0)) for used in predicate.filters
            ),
            metrics=self.metrics(),
            asked_for=self._plan(),
            notes=tuple(map(redact, notes)),
        )

    def _plan(self) -> str:
        """Return how partitions were requested, in words; empty if all were."""
        with self._lock:
            asked = dict(self._asked_for)
        words = []
        if asked.get("names"):
            words.append("by name")
        if prefixes := asked.get("prefix"):
            words.append(
                f"by the start of their names: {prefixes} prefix{'es' if prefixes > 1 else ''}"
            )
        return " and ".join(words)
