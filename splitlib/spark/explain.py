"""``splitlib.explain`` and ``splitlib.replan``: report on a planned query, or plan it again."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from pyspark.sql import DataFrame

from splitlib.errors import ConfigError
from splitlib.report import Count, Report
from splitlib.spark.arguments import given_dataframe
from splitlib.spark.jvm.active_session import in_its_session
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.gateway import analyzed_plan
from splitlib.spark.jvm.pinned_relation import planned_files
from splitlib.spark.planner.optimize import plan
from splitlib.spark.session import plan_again_by, reports


@in_its_session
def replan(df: DataFrame) -> DataFrame:
    """Plan a query again, to read the current partitions and files of its tables.

    splitlib plans a DataFrame once. The partitions and files that it reads, and the rows of its
    small dimensions, are fixed at that time.

    A result of :func:`splitlib.sql` is analyzed again from its text. The session must not have
    changed: the current catalog and database, the temporary views, functions and variables that
    the query names, and settings that affect its result. The conditions of a
    :class:`splitlib.spark.read.reader.TableReader` are checked in the same way. A result of
    :func:`splitlib.optimize` or :meth:`splitlib.spark.read.reader.TableReader.load` is planned
    again from the same input DataFrames.

    Args:
        df: A DataFrame returned by one of these functions. If you derived other DataFrames from
            ``df``, derive them again from the result.

    Raises:
        ConfigError: if ``df`` was not planned by splitlib or is the result of a command, or if the
            session has changed so that the query would have another meaning.
        SplitlibError: as the function that returned ``df``.
    """
    if df not in plan_again_by:
        raise ConfigError(
            "This DataFrame was not planned by splitlib.",
            hint="call replan on the result of splitlib.optimize, splitlib.sql or load(), and "
            "repeat the steps that followed.",
        )
    return plan_again_by[df](df)


@in_its_session
def explain(df: DataFrame) -> Report:
    """Return a report on the pruned partitions and files, and on why scans were not pruned.

    ``str()`` formats the report. Its contents depend on the DataFrame:

    - Result of :meth:`splitlib.spark.read.reader.TableReader.load`: the table and its files.
    - Result of :func:`splitlib.optimize` or :func:`splitlib.sql`: the scans of the query.
    - Any other DataFrame: the scans that :func:`splitlib.optimize` would prune. To find them, this
      call collects the keys of the dimensions.

    Some tables are pruned by a condition instead of a list of files. This call plans their scans,
    to report the number of matching files if the data source provides it. After a command the
    files are not counted, because the command has already changed the table.
    """
    df = given_dataframe(df)
    report = reports.get(df)
    if report is None:
        df, report = plan(df)
    elif df not in plan_again_by:  # the result of a command
        return report
    return _with_files(df, report) if any(scan.condition for scan in report.scans) else report


def _with_files(df: DataFrame, report: Report) -> Report:
    """Add file counts to the report, for the tables that are pruned by a condition.

    Each of these tables is planned twice, with its condition and without.
    """
    catalyst = Catalyst(df.sparkSession)
    leaves = catalyst.plans.distinct(catalyst.plans.all_leaves(analyzed_plan(df)))
    by_name = defaultdict(list)
    for leaf in leaves:
        if catalyst.relations.source_of(leaf) is not None:
            by_name[catalyst.relations.name_of(leaf)].append(leaf)
    scans = []
    for scan in report.scans:
        named = by_name[scan.table]
        # Several leaves have the same name if a query reads two snapshots of one table.
        if scan.condition is None or len(named) != 1:
            scans.append(scan)
            continue
        table = catalyst.execution.dataframe(named[0])
        left = planned_files(catalyst, table.where(scan.condition))
        whole = planned_files(catalyst, table)
        scans.append(
            replace(
                scan,
                files=Count(left.files, whole.files),
                nbytes=Count(left.nbytes, whole.nbytes),
            )
        )
    return replace(report, scans=tuple(scans))
