"""The report on a query: what the planner did with it, for people and for machines."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from html import escape
from textwrap import shorten
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class FilterUse:
    """Keys that reached one scan.

    Attributes:
        fields: The columns of the keys.
        description: The keys in a few words.
        nbytes: Size of the keys.
        seconds: To collect them; shared by all scans that use them.
    """

    fields: tuple[str, ...]
    description: str
    nbytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A Bloom filter of the keys of a smaller table, tried on rows of a scan.

    Attributes:
        columns: Of the scan, which the smaller table is joined by.
        nbytes: Size of the filter.
        rows_sampled: Rows of the scan that were tested; 0 = there are too many keys for a filter.
        rows_kept: How many of these it keeps.
        is_used: Whether the scan drops what it does not keep; not if it keeps too many.
        seconds: To read the keys and the sample.
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
    """What became of one scan.

    Attributes:
        table: Name of the table.
        filters: The keys that reached it.
        partitions_total: None = not known, as the partitions that the keys say were asked for by
            name, or not asked for, as nothing is read.
        partitions_kept: How many are read; None = it was not pruned.
        files: Left to be read; None = Spark finds out when it runs, or the table's source does.
        nbytes: Of these files; None as there.
        files_total: None = not known, as what does not matter is not listed.
        nbytes_total: Of all files; None as there.
        condition: The keys as they were handed to whoever reads the table, where that is not
            splitlib; None = they were not.
        strip: In the catalog's order, a character per partition (or per run of them, where there
            are many): ``#`` where one is kept, ``.`` where none is.
        asked_for: How partitions were asked for if not for all of them, as in
            :attr:`splitlib.ScanReport.asked_for`.
        row_filter: What it leaves out of the rows that are read; None = nothing was tried.
        reasons: Why joins on it do not prune, or why it is left to Spark.
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
        """Whether Spark is given fewer partitions than there are, or a condition to find them."""
        return self.partitions_kept is not None or self.condition is not None

    def because(self, reason: str, *, if_first: bool = False) -> Self:
        """The same with one more reason; ``if_first``: only where there is none yet."""
        if if_first and self.reasons:
            return self
        return replace(self, reasons=(*self.reasons, reason))


@dataclass(frozen=True, slots=True)
class PlanReport:
    """Explains one call of :func:`splitlib.optimize`.

    Attributes:
        scans: What became of each scan.
        reasons: Why the query as a whole is left to Spark.
        seconds: Spent on planning, the collection of keys included.
        catalog_requests: To the session's catalog, for names and details of partitions.
        storage_requests: Requests by which directories of the session's tables were listed: one for
            each, or on S3 one for each page that tells the files of many.
        listed_later: Tables whose files Spark lists when the query runs. Those of all others are
            fixed, if the query is not left to Spark as a whole.
    """

    scans: tuple[ScanPruning, ...] = ()
    reasons: tuple[str, ...] = ()
    seconds: float = 0.0
    catalog_requests: int = 0
    storage_requests: int = 0
    listed_later: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"splitlib plan ({self.seconds:.2f} s)"]
        blocks = [[f"left to Spark: {reason}"] for reason in self.reasons]
        blocks += [_block(scan) for scan in self.scans]
        if self.listed_later:
            blocks.append([f"files listed when it runs: {', '.join(self.listed_later)}"])
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
            parts.append(f"<div>files listed when it runs: {names}</div>")
        return f"<div>{''.join(parts)}</div>"


def strip(kept: list[bool], width: int = 120) -> str:
    """A picture of which partitions are kept; see :attr:`ScanPruning.strip`."""
    size = max(1, -(-len(kept) // width))
    pieces = [kept[i : i + size] for i in range(0, len(kept), size)]
    return "".join("#" if any(piece) else "." for piece in pieces)


def _block(scan: ScanPruning) -> list[str]:
    lines = []
    for used in scan.filters:
        text = f"filter {', '.join(used.fields)}: {used.description}"
        lines.append(f"{text} ({used.nbytes:,} bytes, {used.seconds:.2f} s)")
    if scan.asked_for:
        lines.append(f"partitions {scan.partitions_kept or 0:,}, asked for {scan.asked_for}")
    elif scan.partitions_kept == 0 and scan.partitions_total is None:
        lines.append("not read: the result does not depend on its rows")
    elif scan.partitions_kept is not None:
        lines.append(f"partitions {scan.partitions_kept:,} of {scan.partitions_total:,}")
    elif scan.partitions_total is not None:
        lines.append(f"all {scan.partitions_total:,} partitions")
    if scan.condition is not None:
        lines.append(f"handed over: {shorten(scan.condition, 200, placeholder=' …')}")
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
    """Partitions side by side; nothing is loaded from elsewhere to show it."""
    if not kept:
        return ""
    cells = "".join(
        f'<rect x="{i * 5}" width="4" height="14" fill="{"#2a7" if c == "#" else "#ddd"}"/>'
        for i, c in enumerate(kept)
    )
    return (
        f'<svg width="{len(kept) * 5}" height="14" role="img">'
        f"<title>partitions that are read are green</title>{cells}</svg>"
    )
