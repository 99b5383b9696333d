"""The report of each planned DataFrame, and how to plan it again."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from splitlib.report import Report

plan_again_by: WeakKeyDictionary[DataFrame, Callable[[DataFrame], DataFrame]] = WeakKeyDictionary()
"""Function that plans a DataFrame again, for each planned DataFrame. Results of commands are
missing."""
reports: WeakKeyDictionary[DataFrame, Report] = WeakKeyDictionary()
"""Report of each planned DataFrame."""


def remember(
    df: DataFrame,
    report: Report,
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
