"""Facts from splitlib's report on a planned query."""

from __future__ import annotations

from splitlib.report import Report


def is_pruned(report: Report) -> bool:
    """Return whether any scan reads fewer partitions than its table has."""
    return any(
        scan.partitions.matched is not None
        and scan.partitions.total is not None
        and scan.partitions.matched < scan.partitions.total
        for scan in report.scans
    )


def reasons_not_to_prune(report: Report) -> tuple[str, ...]:
    """Return the reasons why the query and its scans are not pruned, each once."""
    told = [f"{scan.table}: {reason}" for scan in report.scans for reason in scan.reasons]
    return tuple(dict.fromkeys([*report.reasons, *told]))
