"""The report that ``explain`` returns: which partitions and files are read, and why not fewer.

A report on a query contains a report on each of its scans. :meth:`Report.__str__` and
:meth:`Report._repr_html_` show the same lines, so text and HTML use the same words and units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

from splitlib import page

_KEPT: Final = "█"
_DROPPED: Final = "·"
_NAMED: Final = 8
"""Maximum number of partition ranges that the HTML report names below the bar."""
MISTAKE: Final = "a filter prunes nothing: "
"""First words of a note about a filter whose column name or type does not fit the table."""


@dataclass(frozen=True, slots=True)
class ScanMetrics:
    """Counts of one enumeration, as they were when the object was created.

    Attributes:
        partitions_total: Number of partitions that the catalog returned. These are all partitions
            of the table, unless they were requested by name; see
            :attr:`splitlib.Report.asked_for`.
        partitions_matched: Number of partitions that match all filters. A partition whose files
            were already returned still counts if a later filter excludes it.
        files_listed: Number of data files in the listed partitions.
        files_selected: Number of files returned. Empty files are not returned.
        splits: Number of splits made from the returned files.
        bytes_selected: Total size of the returned files, in bytes.
        metastore_requests: Number of requests to the catalog while enumerating.
        storage_requests: Number of pages of directory listings, including retries, plus the
            number of manifests read.
        manifests_total: Number of manifests of the snapshot, for catalogs that have manifests.
        manifests_opened: Number of manifests opened because they may contain a matching file.
        files_total: Number of files in all manifests; 0 without manifests.
        files_dropped: Number of files dropped by each stage: ``manifests``, ``partitions``,
            ``statistics``, ``footers``, and ``late_filters``, which arrived after the listing.
        footers_read: Number of Parquet footers read.
        row_groups_matched: Number of row groups that may have a matching row, out of
            ``row_groups_total``.
        row_groups_total: Number of row groups whose statistics are known from footers.
        files_not_compared: Number of listed files whose row groups are unknown, so not counted.
        seconds: Duration of each stage, in seconds: ``list_partitions``, ``match``,
            ``load_details``, ``list_files`` (sum of all threads), ``read_footers``, and ``wait``
            for filters.
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
    footers_read: int = 0
    row_groups_matched: int = 0
    row_groups_total: int = 0
    files_not_compared: int = 0
    seconds: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as a dict of plain values, for JSON."""
        values: dict[str, Any] = _plain(self)
        return values


class Count(NamedTuple):
    """Number of items that are read, out of a total.

    Attributes:
        matched: Number of items that are read; None if unknown.
        total: Number of items that exist; None if unknown.
    """

    matched: int | None = None
    total: int | None = None


class PartitionRange(NamedTuple):
    """A range of adjacent partitions in catalog order.

    Attributes:
        first: Name of the first partition that is read. If none is read, the range's first one.
        last: Name of the last partition that is read. If none is read, the range's last one.
        read: Number of partitions that are read. It includes partitions that only a later filter
            has dropped, because each partition is counted once, when it is listed.
        total: Number of partitions in the range.
    """

    first: str
    last: str
    read: int
    total: int

    def __str__(self) -> str:
        names = self.first if self.first == self.last else f"{self.first} … {self.last}"
        return f"{names} ({_count(Count(self.read, self.total))})" if self.total > 1 else names


@dataclass(frozen=True, slots=True)
class FilterUse:
    """One filter, and how a scan uses it.

    Attributes:
        fields: Fields of the filter.
        description: Short description of the filter.
        nbytes: Size of the filter's values, in bytes.
        seconds: Time to collect the values, shared by all scans that use them; None if unknown.
        used_fields: Table columns that the filter prunes on; empty if it does not prune the table,
            or if it compares expressions.
        unused_because: Why the filter, or a part of it, is not used; None if all of it is used.
        partitions_dropped: Number of partitions that this filter alone would drop; None if unknown.
        rows: For a filter that is tested on rows: number of rows that it keeps in a sample.
        row_groups: For keys of a data column: number of row groups, in a sample of files, that may
            contain the keys.
    """

    fields: tuple[str, ...]
    description: str
    nbytes: int = 0
    seconds: float | None = None
    used_fields: tuple[str, ...] = ()
    unused_because: str | None = None
    partitions_dropped: int | None = None
    rows: Count = Count()
    row_groups: Count = Count()

    @property
    def is_used(self) -> bool:
        """Whether the scan uses at least a part of the filter."""
        return self.unused_because is None or bool(self.used_fields)

    def __str__(self) -> str:
        return self._text("partitions")

    def _text(self, partitions: str) -> str:
        """Return the filter as text. ``partitions`` follows the number of dropped partitions."""
        cost = [size_text(self.nbytes)] if self.nbytes else []
        cost += [] if self.seconds is None else [_seconds(self.seconds)]
        fields = f" {', '.join(self.fields)}" if self.fields else ""
        text = f"filter{fields}: {self.description}"
        text += f" ({', '.join(cost)})" if cost else ""
        if not self.is_used:
            text += f" - not used: {self.unused_because}"
        elif self.partitions_dropped is not None:
            text += f" - drops {self.partitions_dropped:,} {partitions}"
        if self.rows.total:
            text += f" - keeps {_count(self.rows)} sampled rows"
        if self.row_groups.total:
            text += f" - keeps {_count(self.row_groups)} sampled row groups"
        partly = self.is_used and self.unused_because
        return f"{text} (partly unused: {self.unused_because})" if partly else text


@dataclass(frozen=True, slots=True)
class Report:
    """Explains which partitions and files are read, and why not fewer.

    :func:`splitlib.explain`, :meth:`splitlib.DynamicFileEnumerator.explain` and ``explain()`` of a
    condition return it. ``str()`` formats it as text, and a notebook shows it as HTML.

    Attributes:
        table: Name of the table; empty for a report on a query or a condition.
        filters: Filters on the table, and how they were used.
        partitions: Number of partitions to read; unknown if joins do not prune the scan. The
            total is unknown if only some partitions were requested.
        without_joins: Number of partitions that the query's conditions keep, if joins do not prune
            the scan. Unknown for other scans, and if Spark evaluates the conditions.
        files: Number of files to read; unknown if Spark or the data source selects them at run
            time.
        nbytes: Total size of the files to read, in bytes.
        reasons: Reasons why joins do not prune the scan, or why splitlib leaves the query to Spark.
        notes: Other facts, one sentence each.
        condition: SQL condition with the join keys, for a table that splitlib does not list; None
            if there is no condition.
        asked_for: How partitions were requested, such as ``by name``; empty if all partitions
            were requested.
        scans: Reports on the scans of a query.
        catalog_requests: Number of requests to the catalog.
        storage_requests: Number of requests to the storage: one per directory or manifest, or on
            S3 one per page of a listing that covers many directories.
        seconds: Time to plan a query, including the collection of keys; 0 for a table.
        connector: Name of the connector that enumerated the table; empty for a scan in a query.
        partition_keys: Names of the partition columns, if there is a connector.
        metrics: All counts of the enumeration; zeros if there is no connector.
        row_groups: Number of row groups that may match, out of those whose statistics are known
            from Parquet footers.
        ranges: All partitions in catalog order, as ranges that are read and ranges that are not;
            at most 120. Empty if only some partitions were requested.
    """

    table: str = ""
    filters: tuple[FilterUse, ...] = ()
    partitions: Count = Count()
    files: Count = Count()
    nbytes: Count = Count()
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    condition: str | None = None
    asked_for: str = ""
    scans: tuple[Report, ...] = ()
    catalog_requests: int = 0
    storage_requests: int = 0
    seconds: float = 0.0
    connector: str = ""
    partition_keys: tuple[str, ...] = ()
    metrics: ScanMetrics = ScanMetrics()
    row_groups: Count = Count()
    ranges: tuple[PartitionRange, ...] = ()
    without_joins: int | None = None

    @property
    def is_pruned(self) -> bool:
        """Whether the scan was pruned, by a list of partitions or by a condition."""
        return self.partitions.matched is not None or self.condition is not None

    @property
    def is_unread(self) -> bool:
        """Whether Spark does not read the scan, because the result does not depend on its rows."""
        return self.partitions == (0, None) and not self.asked_for

    def because(self, reason: str, *, if_first: bool = False) -> Self:
        """Return a copy of the report with one more reason.

        With ``if_first``, return the report unchanged if it already has a reason.
        """
        if if_first and self.reasons:
            return self
        return replace(self, reasons=(*self.reasons, reason))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as dictionaries, lists and plain values, for JSON."""
        metrics = self.metrics.to_dict() if self.connector else {}
        scans = [scan.to_dict() for scan in self.scans]
        return {**_plain(replace(self, scans=())), "scans": scans, "metrics": metrics}

    def __str__(self) -> str:
        return "\n".join(self._tree())

    def to_html(self) -> str:
        """Return the report as a standalone HTML page."""
        return page.document(self._title(), self._repr_html_())

    def _repr_html_(self) -> str:
        return page.widget(self._html())

    def _html(self) -> str:
        """Return the report as HTML: bars that show how much is read, with reasons beside them."""
        partitions, files = list(self._partitions()), list(self._files())
        others = [line for line in self._lines() if line not in (*partitions, *files)]
        read = page.paragraphs(partitions) + self._strip()
        read += page.paragraphs(files) + _bar("files", self.files)
        if groups := _bar("row groups", self.row_groups):
            read += page.ends("row groups", "") + groups
        scans = [scan._html() for scan in self.scans]
        both = page.beside(read, page.items(others))
        return page.section(self._title(), both, *scans)

    def _tree(self) -> list[str]:
        """Return the report as lines of a text tree. A query's scans are its branches."""
        lines = [self._title()]
        branches = [*([line] for line in self._lines()), *(scan._tree() for scan in self.scans)]
        for branch in branches:
            last = branch is branches[-1]
            lines.append(f"{'└─' if last else '├─'} {branch[0]}")
            lines += [f"{'  ' if last else '│ '} {line}" for line in branch[1:]]
        return lines

    def _title(self) -> str:
        if self.connector:
            keys = ", ".join(self.partition_keys) or "unpartitioned"
            return f"{self.connector}: {self.table} ({keys})"
        title = self.table or ("query" if self.condition is None else "condition")
        return f"{title} ({_seconds(self.seconds)})" if self.seconds else title

    def _lines(self) -> Iterator[str]:
        # A filter that prunes nothing is most likely the caller's mistake, so it comes first.
        mistakes = tuple(note for note in self.notes if note.startswith(MISTAKE))
        yield from mistakes
        total, of = self.partitions.total, "partitions"
        if self.asked_for:
            total, of = self.metrics.partitions_total, "returned partitions"
        for use in self.filters:
            # Partitions that were never requested are not counted as dropped.
            is_counted = not self.asked_for or use.partitions_dropped
            shown = use if is_counted else replace(use, partitions_dropped=None)
            yield shown._text(f"of {total:,} {of}" if total else of)
        if self.connector and not self.filters:
            yield "no filter"
        yield from self._partitions()
        if self.condition is not None:
            added = "added condition" if self.table else "condition"
            yield f"{added}: {self.condition[:200]}{' …' if len(self.condition) > 200 else ''}"
        yield from self._files()
        if self.connector or self.catalog_requests or self.storage_requests:
            of_storage = f"storage requests {self.storage_requests:,}"
            yield f"catalog requests {self.catalog_requests:,}, {of_storage}"
        failed = "not pruned further" if self.is_pruned else "not pruned"
        failed = failed if self.table else "left to Spark"
        yield from (f"{failed}: {reason}" for reason in self.reasons)
        yield from (f"note: {note}" for note in self.notes if note not in mistakes)

    def _partitions(self) -> Iterator[str]:
        matched, total = self.partitions
        if self.asked_for:
            # The table's number of partitions is unknown here, so do not write "of TOTAL".
            more = self.metrics.partitions_total - (matched or 0)
            others = f"; {more:,} others were returned too" if more > 0 else ""
            how = f"requested {self.asked_for}, so the number of all partitions is unknown"
            yield f"partitions {matched or 0:,} ({how}{others})"
        elif self.is_unread:
            yield "not read: the result does not depend on its rows"
        elif matched is not None:
            yield f"partitions {_count(self.partitions)}"
        elif self.without_joins is not None:
            by = " by the conditions of the query" if self.without_joins != total else ""
            read = _count(Count(self.without_joins, total))
            yield f"partitions {read}{by}: joins leave out none"
        elif total is not None:
            by = "by the conditions of the query: joins leave out none"
            yield f"partitions {total:,} or fewer {by}"
        if opened := self.metrics.manifests_total:
            yield f"manifests opened {_count(Count(self.metrics.manifests_opened, opened))}"

    def _files(self) -> Iterator[str]:
        sizes = () if self.nbytes.matched is None else self.nbytes
        size = " of ".join(size_text(part) for part in sizes if part is not None)
        dropped = [f"{n:,} by {stage}" for stage, n in self.metrics.files_dropped.items() if n]
        if self.files.matched is not None:
            groups = f", row groups {_count(self.row_groups)}" if self.row_groups.total else ""
            more = f"; files not compared: {n:,}" if (n := self.metrics.files_not_compared) else ""
            groups += f" (from footers{more})" if groups else ""
            line = f"files {_count(self.files)}{groups}{f', {size}' if size else ''}"
            yield f"{line} (dropped: {', '.join(dropped).replace('_', ' ')})" if dropped else line
        elif size:
            yield f"bytes {size}"

    def _strip(self) -> str:
        """Return the partitions as an HTML bar. The names of its ends and read ranges are below."""
        if not self.ranges:
            alone = Count(self.without_joins, self.partitions.total)
            return _bar("partitions", alone if self.partitions.matched is None else self.partitions)
        strip = page.bar("partitions", [(r.total, r.read > 0, str(r)) for r in self.ranges])
        read = [str(r) for r in self.ranges if r.read]
        more = [f"and {len(read) - _NAMED:,} more"] if len(read) > _NAMED else []
        ends = page.ends(self.ranges[0].first, self.ranges[-1].last)
        return strip + ends + page.names([*read[:_NAMED], *more])


def respelled_report(report: Report, spelling: Callable[[str], str]) -> Report:
    """Return a copy of a report, with another spelling of settings in its sentences.

    Args:
        report: The report.
        spelling: Function that returns a sentence with the other spelling.
    """
    filters = (
        replace(
            use,
            description=spelling(use.description),
            unused_because=use.unused_because and spelling(use.unused_because),
        )
        for use in report.filters
    )
    return replace(
        report,
        filters=tuple(filters),
        reasons=tuple(map(spelling, report.reasons)),
        notes=tuple(map(spelling, report.notes)),
        scans=tuple(respelled_report(scan, spelling) for scan in report.scans),
    )


def strip(kept: Sequence[bool], width: int = 120) -> str:
    """Return a line with ``█`` for each kept partition and ``·`` for each pruned partition.

    With more than ``width`` partitions, each character stands for several partitions, and is ``█``
    if any of them is kept.
    """
    cells = min(width, len(kept))
    marked = {i * cells // len(kept) for i, is_kept in enumerate(kept) if is_kept}
    return "".join(_KEPT if cell in marked else _DROPPED for cell in range(cells))


def summary(report: Report) -> str:
    """Return a report as one log line: how much of each table is read, or why it is not pruned."""
    scans = "; ".join(map(_of_scan, report.scans))
    own = f"{report._title()}: {scans or 'no scan to prune'}" if not report.table else ""
    left = f", left to Spark: {' '.join(report.reasons)}" if report.reasons else ""
    return f"{own}{left}" if own else _of_scan(report)


def _of_scan(report: Report) -> str:
    failed = "not pruned further" if report.is_pruned else "not pruned"
    why = f"{failed}: {' '.join(report.reasons)}" if report.reasons else ""
    parts = [*report._partitions(), *report._files(), *([why] if why else [])]
    return f"{report.table}: {', '.join(parts) or 'pruned by a condition'}"


def size_text(nbytes: int) -> str:
    """Return a size as text, in the largest unit in which it is at least 1."""
    size = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s"


def _count(count: Count) -> str:
    return " of ".join(f"{number:,}" for number in count if number is not None)


def _bar(name: str, count: Count) -> str:
    """Return a count as an HTML bar, or an empty string if it is unknown."""
    matched, total = count
    if matched is None or not total:
        return ""
    rest = max(0, total - matched)
    label = f"{name} {_count(count)}"
    return page.bar(label, [(matched, True, label), (rest, False, f"{rest:,} not read")])


def _plain(value: Any) -> Any:
    """Convert a report's value to a JSON type."""
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Count | PartitionRange):
        return value._asdict()
    if isinstance(value, Mapping):
        return dict(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
