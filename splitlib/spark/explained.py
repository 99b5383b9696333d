"""What became of the DataFrames that splitlib has made, kept for as long as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

if TYPE_CHECKING:
    from splitlib.report import ScanReport
    from splitlib.spark.planner.report import PlanReport

_reports: WeakKeyDictionary[DataFrame, ScanReport | PlanReport] = WeakKeyDictionary()


def remember(df: DataFrame, report: ScanReport | PlanReport) -> None:
    """Let :func:`explain` return ``report`` for ``df``."""
    _reports[df] = report


def explain(df: DataFrame) -> Any:
    """What was pruned, by which filter, and why another was not used: ``str()`` it.

    Of what :meth:`splitlib.spark.reader.TableReader.load` returned, a
    :class:`~splitlib.report.ScanReport` says how its files were selected. Of what
    :func:`splitlib.optimize` or :func:`splitlib.sql` returned, a
    :class:`~splitlib.spark.planner.report.PlanReport` says which scans were pruned; and of any
    other DataFrame, what :func:`splitlib.optimize` would do with it, for which the keys of its
    dimensions are collected.
    """
    if df in _reports:
        return _reports[df]
    from splitlib.spark.planner.optimize import plan

    return plan(df)[1]
