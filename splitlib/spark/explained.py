"""What became of the DataFrames that splitlib has made, kept for as long as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from splitlib.errors import ConfigError
from splitlib.spark.given import given_dataframe

if TYPE_CHECKING:
    from splitlib.report import ScanReport
    from splitlib.spark.planner.report import PlanReport

_reports: WeakKeyDictionary[DataFrame, ScanReport | PlanReport] = WeakKeyDictionary()
_plan_again: WeakKeyDictionary[DataFrame, Callable[[DataFrame], DataFrame]] = WeakKeyDictionary()


def remember(
    df: DataFrame,
    report: ScanReport | PlanReport,
    plan_again: Callable[[DataFrame], DataFrame] | None = None,
) -> None:
    """Let :func:`explain` return ``report`` for ``df``, and :func:`replan` call ``plan_again``.

    Args:
        df: What was planned.
        report: How.
        plan_again: Plans the same, given ``df``, which it must not hold: it would be kept for ever.
    """
    _reports[df] = report
    if plan_again is not None:
        _plan_again.setdefault(df, plan_again)


def replan(df: DataFrame) -> DataFrame:
    """The same query planned again, on the tables as they are now.

    A DataFrame of splitlib's is planned once: which partitions and files it reads, and the rows of
    the small dimensions in it, are those of the time when it was made. What :func:`splitlib.sql`
    returned is analyzed again as well, so that names and the session's time zone mean what they
    mean now; what :func:`splitlib.optimize` or :meth:`splitlib.spark.reader.TableReader.load`
    returned keeps the DataFrames that it was made of.

    Args:
        df: What one of these has returned. What was made of that by further steps is made anew by
            the same steps.

    Raises:
        ConfigError: for any other DataFrame, and for the result of a command.
        SplitlibError: as what made ``df``.
    """
    if df not in _plan_again:
        raise ConfigError(
            "This DataFrame is no query that splitlib has planned.",
            hint="give replan what splitlib.optimize, splitlib.sql or load() returned, and "
            "repeat the steps that followed.",
        )
    return _plan_again[df](df)


def explain(df: DataFrame) -> Any:
    """What was pruned, by which filter, and why another was not used: ``str()`` it.

    Of what :meth:`splitlib.spark.reader.TableReader.load` returned, a
    :class:`~splitlib.report.ScanReport` says how its files were selected. Of what
    :func:`splitlib.optimize` or :func:`splitlib.sql` returned, a
    :class:`~splitlib.spark.planner.report.PlanReport` says which scans were pruned; and of any
    other DataFrame, what :func:`splitlib.optimize` would do with it, for which the keys of its
    dimensions are collected.
    """
    df = given_dataframe(df)
    if df in _reports:
        return _reports[df]
    from splitlib.spark.planner.optimize import plan

    return plan(df)[1]
