"""``splitlib.explain`` and ``splitlib.replan``: what was planned, and the same planned again."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from splitlib.errors import ConfigError
from splitlib.spark.arguments import given_dataframe
from splitlib.spark.jvm.active_session import in_its_session
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.dataframes import analyzed_plan
from splitlib.spark.jvm.planned_files import planned_files
from splitlib.spark.plan_records import plan_again_by, reports
from splitlib.spark.plan_report import PlanReport
from splitlib.spark.planner.optimize import plan


@in_its_session
def replan(df: DataFrame) -> DataFrame:
    """The same query planned again, on the tables as they are now.

    A DataFrame of splitlib's is planned once: which partitions and files it reads, and the rows of
    the small dimensions in it, are those of the time when it was made. What :func:`splitlib.sql`
    returned is analyzed again as well, where names and literals mean what they meant: if the
    current catalog or database, a temporary view or a setting that counts is another now, it is
    refused. What :func:`splitlib.optimize` or :meth:`splitlib.spark.read.reader.TableReader.load`
    returned keeps the DataFrames that it was made of.

    Args:
        df: What one of these has returned. What was made of that by further steps is made anew by
            the same steps.

    Raises:
        ConfigError: for any other DataFrame, for the result of a command, and if the session has
            changed what names or literals mean.
        SplitlibError: as what made ``df``.
    """
    if df not in plan_again_by:
        raise ConfigError(
            "This DataFrame is no query that splitlib has planned.",
            hint="give replan what splitlib.optimize, splitlib.sql or load() returned, and "
            "repeat the steps that followed.",
        )
    return plan_again_by[df](df)


@in_its_session
def explain(df: DataFrame) -> Any:
    """What was pruned, by which filter, and why another was not used: ``str()`` it.

    Of what :meth:`splitlib.spark.read.reader.TableReader.load` returned, a
    :class:`~splitlib.enumeration.report.ScanReport` says how its files were selected. Of what
    :func:`splitlib.optimize` or :func:`splitlib.sql` returned, a
    :class:`~splitlib.spark.plan_report.PlanReport` says which scans were pruned; and of any
    other DataFrame, what :func:`splitlib.optimize` would do with it, for which the keys of its
    dimensions are collected. A table that others read by a condition of splitlib's is asked now
    which files that leaves, if its source tells; not after a command, which has changed the table.
    """
    df = given_dataframe(df)
    report = reports.get(df)
    if report is None:
        df, report = plan(df)
    elif df not in plan_again_by:  # the result of a command
        return report
    if isinstance(report, PlanReport) and any(scan.condition for scan in report.scans):
        return _with_files(df, report)
    return report


def _with_files(df: DataFrame, report: PlanReport) -> PlanReport:
    """The report with the files that tables read by others have, and those that are left of them.

    What they are is found out now, by planning each table's scan with its condition and without.
    """
    catalyst = Catalyst(df.sparkSession)
    leaves = catalyst.distinct(catalyst.all_leaves(analyzed_plan(df)))
    by_name = defaultdict(list)
    for leaf in leaves:
        if catalyst.source_of(leaf) is not None:
            by_name[catalyst.name_of(leaf)].append(leaf)
    scans = []
    for scan in report.scans:
        named = by_name[scan.table]
        if scan.condition is None or len(named) != 1:  # as of two snapshots of one table
            scans.append(scan)
            continue
        table = catalyst.dataframe(named[0])
        left = planned_files(catalyst, table.where(scan.condition))
        whole = planned_files(catalyst, table)
        scans.append(
            replace(
                scan,
                files=left.files,
                nbytes=left.nbytes,
                files_total=whole.files,
                nbytes_total=whole.nbytes,
            )
        )
    return replace(report, scans=tuple(scans))
