"""Report what each filter pruned, as text, HTML and JSON values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from splitlib.enumeration.metrics import ScanMetrics
from splitlib.filtering.predicate import AppliedFilter


@dataclass(frozen=True, slots=True)
class FilterReport:
    """One filter, and how many partitions it alone would drop.

    Attributes:
        filter: The filter, and how far it was used.
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
    """Explains one enumeration.

    Attributes:
        table: Name of the table.
        connector: Name of the connector.
        partition_keys: Names of the partition columns.
        filters: What each filter did.
        metrics: Counts of the enumeration.
        notes: Other facts worth knowing, one sentence each.
        asked_for: How partitions were requested, such as ``by name``, if the filters determine
            their names. The table's number of partitions is unknown then. Empty if all
            partitions were requested.
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
        # Partitions that were returned without matching do not show how many the table has.
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
        # Keep at least a sliver of the bar visible.
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
