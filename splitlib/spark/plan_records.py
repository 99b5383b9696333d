"""Reports on the DataFrames that splitlib has planned, kept as long as the DataFrames exist."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from splitlib.enumeration.report import ScanReport
from splitlib.spark.plan_report import PlanReport

reports: WeakKeyDictionary[DataFrame, ScanReport | PlanReport] = WeakKeyDictionary()
"""Report of each planned DataFrame."""
plan_again_by: WeakKeyDictionary[DataFrame, Callable[[DataFrame], DataFrame]] = WeakKeyDictionary()
"""Function that plans a DataFrame again, for each one that is not the result of a command."""


def remember(
    df: DataFrame,
    report: ScanReport | PlanReport,
    plan_again: Callable[[DataFrame], DataFrame] | None = None,
) -> None:
    """Keep the report for :func:`splitlib.explain` and the function for :func:`splitlib.replan`.

    Args:
        df: The planned DataFrame.
        report: Report on its planning.
        plan_again: Plan the same query again, given ``df``. The function must not reference ``df``:
            this would keep both in memory forever. None if the query cannot be planned again.
    """
    reports[df] = report
    if plan_again is not None:
        plan_again_by.setdefault(df, plan_again)
