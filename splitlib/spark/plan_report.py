"""The report on a planned query as text, HTML and JSON, and the report of each DataFrame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from html import escape
from textwrap import shorten
from typing import Any, Self
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from splitlib.enumeration.report import ScanReport

plan_again_by: WeakKeyDictionary[DataFrame, Callable[[DataFrame], DataFrame]] = WeakKeyDictionary()
"""Function that plans a DataFrame again, for each planned DataFrame. Results of commands are
missing."""


@dataclass(frozen=True, slots=True)
class FilterUse:
    """Join keys that were used on one scan.

    Attributes:
        fields: Columns of the scan that the keys are compared with.
        description: Short description of the keys.
        nbytes: Size of the keys, in bytes.
        seconds: Time to collect the keys, shared by all scans that use them.
    """

    fields: tuple[str, ...]
    description: str
    nbytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A Bloom filter of the keys of a smaller table, tested on rows of a scan.

    Attributes:
        columns: Columns of the scan that the join compares with the smaller table.
        nbytes: Size of the filter, in bytes.
        rows_sampled: Number of rows that were tested; 0 if there are too many keys for a filter.
        rows_kept: Number of tested rows that the filter keeps.
        is_used: Whether the scan uses the filter; false if the filter keeps too many rows.
        seconds: Time to read the keys and the sample.
    """

    columns: tuple[str, ...]
    nbytes: int
    rows_sampled: int
    rows_kept: int
    is_used: bool
    seconds: float

    def __str__(self) -> str:
        sample = f"{self.rows_kept:,} of {self.rows_sampled:,} sampled rows"
        if self.is_used:
            text = f"keeps {sample}"
        else:
            text = f"not used, keeps {sample}" if self.rows_sampled else "not used, too many keys"
        on = ", ".join(self.columns)
        return f"Bloom filter {on}: {text} ({self.nbytes:,} bytes, {self.seconds:.2f} s)"


@dataclass(frozen=True, slots=True)
class ScanPruning:
    """The result of planning one scan.

    Attributes:
        table: Name of the table.
        filters: Join keys that were used on the scan.
        partitions_total: Number of partitions of the table; None if unknown, because only some
            partitions were requested or because the query does not read the scan.
        partitions_kept: Number of partitions to read; None if the scan was not pruned.
        files: Number of files to read; None if Spark or the data source selects them at run time.
        nbytes: Total size of the files to read, in bytes; None if unknown.
        files_total: Number of files of the table; None if unknown, as pruned partitions are not
            listed.
        nbytes_total: Total size of the files of the table, in bytes; None if unknown.
        condition: Join keys as an SQL condition, for a table that splitlib does not list; None if
            there is no condition.
        strip: Picture of the partitions in catalog order: ``#`` for a kept partition, ``.`` for a
            pruned one. If there are many partitions, one character stands for several, and is
            ``#`` if any of them is kept.
        asked_for: Description of the request for partitions, as in
            :attr:`splitlib.ScanReport.asked_for`; empty if all partitions were requested.
        row_filter: Bloom filter on the rows of the scan; None if none was built.
        reasons: Reasons why joins do not prune the scan, or why splitlib leaves it to Spark.
    """

    table: str
    filters: tuple[FilterUse, ...] = ()
    partitions_total: int | None = None
    partitions_kept: int | None = None
    files: int | None = None
    nbytes: int | None = None
    files_total: int | None = None
    nbytes_total: int | None = None
    condition: str | None = None
    strip: str = ""
    asked_for: str = ""
    row_filter: RowFilter | None = None
    reasons: tuple[str, ...] = ()

    @property
    def is_pruned(self) -> bool:
        """Whether the scan was pruned, by a list of partitions or by a condition."""
        return self.partitions_kept is not None or self.condition is not None

    def because(self, reason: str, *, if_first: bool = False) -> Self:
        """Return the report with one more reason; with ``if_first``, only if there is none yet."""
        if if_first and self.reasons:
            return self
        return replace(self, reasons=(*self.reasons, reason))


@dataclass(frozen=True, slots=True)
class PlanReport:
    """Report on one call of :func:`splitlib.optimize`.

    Attributes:
        scans: Report on each scan.
        reasons: Reasons why splitlib leaves the whole query to Spark.
        seconds: Time for planning, including the collection of keys.
        catalog_requests: Number of requests to the session's catalog for names and details of
            partitions.
        storage_requests: Number of requests to list directories of the session's tables: one per
            directory, or on S3 one per page of a listing that covers many directories.
        listed_later: Names of tables whose files Spark lists when the query runs. The files of all
            other tables are fixed, unless the whole query is left to Spark.
    """

    scans: tuple[ScanPruning, ...] = ()
    reasons: tuple[str, ...] = ()
    seconds: float = 0.0
    catalog_requests: int = 0
    storage_requests: int = 0
    listed_later: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as dictionaries, lists and plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"splitlib plan ({self.seconds:.2f} s)"]
        blocks = [[f"left to Spark: {reason}"] for reason in self.reasons]
        blocks += [_block(scan) for scan in self.scans]
        if self.listed_later:
            blocks.append([f"files listed at run time: {', '.join(self.listed_later)}"])
        for i, block in enumerate(blocks):
            last = i == len(blocks) - 1
            lines.append(f"{'└─' if last else '├─'} {block[0]}")
            lines += [f"{'  ' if last else '│ '} {line}" for line in block[1:]]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        parts = [f"<b>splitlib plan</b> ({self.seconds:.2f} s)"]
        parts += [f"<div>left to Spark: {escape(reason)}</div>" for reason in self.reasons]
        for scan in self.scans:
            head, *rest = _block(scan)
            items = "".join(f"<li>{escape(line.lstrip('├└─ '))}</li>" for line in rest)
            parts.append(f"<div>{escape(head)}{_picture(scan.strip)}<ul>{items}</ul></div>")
        if self.listed_later:
            names = escape(", ".join(self.listed_later))
            parts.append(f"<div>files listed at run time: {names}</div>")
        return f"<div>{''.join(parts)}</div>"


def strip(kept: list[bool], width: int = 120) -> str:
    """Return a picture of the kept partitions; see :attr:`ScanPruning.strip`."""
    size = max(1, -(-len(kept) // width))
    pieces = [kept[i : i + size] for i in range(0, len(kept), size)]
    return "".join("#" if any(piece) else "." for piece in pieces)


def _block(scan: ScanPruning) -> list[str]:
    lines = []
    for used in scan.filters:
        text = f"filter {', '.join(used.fields)}: {used.description}"
        lines.append(f"{text} ({used.nbytes:,} bytes, {used.seconds:.2f} s)")
    if scan.asked_for:
        lines.append(f"partitions {scan.partitions_kept or 0:,}, requested {scan.asked_for}")
    elif scan.partitions_kept == 0 and scan.partitions_total is None:
        lines.append("not read: the result does not depend on its rows")
    elif scan.partitions_kept is not None:
        lines.append(f"partitions {scan.partitions_kept:,} of {scan.partitions_total:,}")
    elif scan.partitions_total is not None:
        lines.append(f"all {scan.partitions_total:,} partitions")
    if scan.condition is not None:
        lines.append(f"added condition: {shorten(scan.condition, 200, placeholder=' …')}")
    if scan.files is not None:
        of_files = "" if scan.files_total is None else f" of {scan.files_total:,}"
        skipped = ""
        if scan.nbytes is not None and scan.nbytes_total is not None:
            skipped = f", {scan.nbytes_total - scan.nbytes:,} bytes skipped"
        lines.append(f"files {scan.files:,}{of_files}, {scan.nbytes or 0:,} bytes{skipped}")
    elif scan.nbytes is not None and scan.nbytes_total is not None:
        lines.append(f"{scan.nbytes:,} of {scan.nbytes_total:,} bytes")
    lines += [] if scan.row_filter is None else [str(scan.row_filter)]
    lines += [f"not pruned: {reason}" for reason in scan.reasons]
    tree = [f"{'└─' if i == len(lines) - 1 else '├─'} {line}" for i, line in enumerate(lines)]
    return [scan.table, *tree]


def _picture(kept: str) -> str:
    """Return the kept partitions as an inline SVG picture without external resources."""
    if not kept:
        return ""
    cells = "".join(
        f'<rect x="{i * 5}" width="4" height="14" fill="{"#2a7" if c == "#" else "#ddd"}"/>'
        for i, c in enumerate(kept)
    )
    return (
        f'<svg width="{len(kept) * 5}" height="14" role="img">'
        f"<title>green: partitions that are read</title>{cells}</svg>"
    )


reports: WeakKeyDictionary[DataFrame, ScanReport | PlanReport] = WeakKeyDictionary()
"""Report of each planned DataFrame."""


def remember(
    df: DataFrame,
    report: ScanReport | PlanReport,
    plan_again: Callable[[DataFrame], DataFrame] | None = None,
) -> None:
    """Keep the report for :func:`splitlib.explain` and the function for :func:`splitlib.replan`.

    Args:
        df: The planned DataFrame.
        report: Report on its planning.
        plan_again: Function that plans the same query again and receives ``df``; None if the query
            cannot be planned again. The function must not hold a reference to ``df``, which would
            keep both in memory forever.
    """
    reports[df] = report
    if plan_again is not None:
        plan_again_by.setdefault(df, plan_again)
