"""Facts from splitlib's report on a planned query."""

from __future__ import annotations

from pyspark.sql import DataFrame

import splitlib
from splitlib.spark.plan_report import PlanReport


def explained(df: DataFrame) -> PlanReport:
    """Return the report of a DataFrame that :func:`splitlib.sql` returned."""
    report = splitlib.explain(df)
    assert isinstance(report, PlanReport)
    return report


def is_pruned(report: PlanReport) -> bool:
    """Return whether any scan reads fewer partitions than its table has."""
    return any(
        scan.partitions_kept is not None
        and scan.partitions_total is not None
        and scan.partitions_kept < scan.partitions_total
        for scan in report.scans
    )


def reasons_not_to_prune(report: PlanReport) -> tuple[str, ...]:
    """Return the reasons why the query and its scans are not pruned, each once."""
    told = [f"{scan.table}: {reason}" for scan in report.scans for reason in scan.reasons]
    return tuple(dict.fromkeys([*report.reasons, *told]))
