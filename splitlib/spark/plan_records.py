"""What became of the DataFrames that splitlib has made, kept for as long as they are."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from splitlib.enumeration.report import ScanReport
from splitlib.spark.plan_report import PlanReport

reports: WeakKeyDictionary[DataFrame, ScanReport | PlanReport] = WeakKeyDictionary()
plan_again_by: WeakKeyDictionary[DataFrame, Callable[[DataFrame], DataFrame]] = WeakKeyDictionary()


def remember(
    df: DataFrame,
    report: ScanReport | PlanReport,
    plan_again: Callable[[DataFrame], DataFrame] | None = None,
) -> None:
    """Keep what :func:`splitlib.explain` is to return and :func:`splitlib.replan` to call.

    Args:
        df: What was planned.
        report: How.
        plan_again: Plans the same, given ``df``, which it must not hold: it would be kept for ever.
    """
    reports[df] = report
    if plan_again is not None:
        plan_again_by.setdefault(df, plan_again)
