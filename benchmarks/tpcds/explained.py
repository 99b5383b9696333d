"""What splitlib tells of a query that it has planned."""

from __future__ import annotations

from pyspark.sql import DataFrame

import splitlib
from splitlib.spark.plan_report import PlanReport


def explained(df: DataFrame) -> PlanReport:
    """The report of what :func:`splitlib.sql` returned."""
    report = splitlib.explain(df)
    assert isinstance(report, PlanReport)
    return report


def is_pruned(report: PlanReport) -> bool:
    """Whether partitions of any scan are left out."""
    return any(
        scan.partitions_kept is not None
        and scan.partitions_total is not None
        and scan.partitions_kept < scan.partitions_total
        for scan in report.scans
    )


def reasons_not_to_prune(report: PlanReport) -> tuple[str, ...]:
    """Of the query and of its scans, each once."""
    told = [f"{scan.table}: {reason}" for scan in report.scans for reason in scan.reasons]
    return tuple(dict.fromkeys([*report.reasons, *told]))
