"""``splitlib.explain`` and ``splitlib.replan``: what was planned, and the same planned again."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from splitlib.errors import ConfigError
from splitlib.spark.arguments import given_dataframe
from splitlib.spark.plan_records import plan_again_by, reports
from splitlib.spark.planner.optimize import plan


def replan(df: DataFrame) -> DataFrame:
    """The same query planned again, on the tables as they are now.

    A DataFrame of splitlib's is planned once: which partitions and files it reads, and the rows of
    the small dimensions in it, are those of the time when it was made. What :func:`splitlib.sql`
    returned is analyzed again as well, so that names and the session's time zone mean what they
    mean now; what :func:`splitlib.optimize` or :meth:`splitlib.spark.read.reader.TableReader.load`
    returned keeps the DataFrames that it was made of.

    Args:
        df: What one of these has returned. What was made of that by further steps is made anew by
            the same steps.

    Raises:
        ConfigError: for any other DataFrame, and for the result of a command.
        SplitlibError: as what made ``df``.
    """
    if df not in plan_again_by:
        raise ConfigError(
            "This DataFrame is no query that splitlib has planned.",
            hint="give replan what splitlib.optimize, splitlib.sql or load() returned, and "
            "repeat the steps that followed.",
        )
    return plan_again_by[df](df)


def explain(df: DataFrame) -> Any:
    """What was pruned, by which filter, and why another was not used: ``str()`` it.

    Of what :meth:`splitlib.spark.read.reader.TableReader.load` returned, a
    :class:`~splitlib.enumeration.report.ScanReport` says how its files were selected. Of what
    :func:`splitlib.optimize` or :func:`splitlib.sql` returned, a
    :class:`~splitlib.spark.plan_report.PlanReport` says which scans were pruned; and of any
    other DataFrame, what :func:`splitlib.optimize` would do with it, for which the keys of its
    dimensions are collected.
    """
    df = given_dataframe(df)
    if df in reports:
        return reports[df]
    return plan(df)[1]
