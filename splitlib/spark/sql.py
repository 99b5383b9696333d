"""``splitlib.sql``, ``optimize``, ``explain`` and ``replan``: prune the scans of a query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import ExitStack
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Final
from weakref import WeakSet

from pyspark.sql import DataFrame, SparkSession

from splitlib.errors import ConfigError
from splitlib.redaction import get_logger
from splitlib.report import Count, Report
from splitlib.spark.allowed_scans import (
    allowed_by,
    is_query,
    may_be_script,
    refuse_statement,
    refuse_written_query,
)
from splitlib.spark.commands import planned_command, report_on_statement
from splitlib.spark.dimension import given_dataframe
from splitlib.spark.jvm.active_session import in_its_session, interruptibly
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.gateway import analyzed_plan, dataframe_of_plan
from splitlib.spark.jvm.pinned_relation import planned_files
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.named_tables import named_tables
from splitlib.spark.planner.optimize import (
    NO_JOIN,
    NO_TABLE,
    plan,
)
from splitlib.spark.planner.query import is_command, refresh
from splitlib.spark.planner.remedies import advised, with_remedy
from splitlib.spark.session import (
    SessionState,
    plan_again_by,
    refuse_other_than_query,
    remember,
    reports,
    reports_of_scans,
)
from splitlib.telemetry import traced

_NOTHING_MORE: Final = tuple((with_remedy(reason),) for reason in (NO_JOIN, NO_TABLE))


_log = get_logger(__name__)
_warned: WeakSet[SparkSession] = WeakSet()
"""Sessions for which the warning that splitlib does not optimize their queries was logged."""


@in_its_session
@traced("optimize")
def optimize(df: DataFrame) -> DataFrame:
    """Return a DataFrame with the same rows that reads only partitions that its joins can match.

    This call collects the join keys from the dimensions (the small sides of the joins), and lists
    the matching partitions. If nothing can be pruned, it returns ``df`` itself.
    :func:`splitlib.explain` reports the pruned scans, and why other scans were not pruned. Spark's
    own errors are raised unchanged. In tables of the session's catalogs, partitions whose directory
    does not exist are skipped, as in Spark, unless ``missing_partition`` is set.

    The query is planned once. Use :func:`splitlib.replan` to plan it again.

    Raises:
        TooManyPartitions: if a pruned table has more than ``max_partitions`` matching partitions.
        MissingPartition: if a partition's directory does not exist and ``missing_partition`` is
            set to ``error``.
        LocationNotAllowed: if the query would read outside of ``allowed_locations``.
        InvalidFilter: if ``df`` is not a DataFrame of Spark.
        ConfigError: if the session is stopped, or ``allowed_locations`` is malformed or misspelt.
    """
    df = given_dataframe(df)
    warn_without_effect(df.sparkSession, "optimize")
    planned, report = plan(df)
    is_new = planned is not df
    remember(planned, report, (lambda _: _again(df)) if is_new else _again, is_new=is_new)
    return planned


@in_its_session
@traced("sql")
def sql(spark: SparkSession, query: str, *args: Any, **kwargs: Any) -> DataFrame:
    """Run ``spark.sql(query, …)`` with :func:`optimize` applied to the query.

    Commands run during this call. The queries in MERGE, UPDATE, DELETE, INSERT and CREATE TABLE AS
    are optimized before the command runs. The table to change is pruned to the matching partitions.

    The query can also use tables of named splitlib catalogs, such as ``lake.db.t``. For this,
    ``spark.splitlib.catalog.lake.*`` must define ``lake``, and Spark must not have a catalog of
    that name. Over Spark Connect, such tables are refused.

    Raises:
        SplitlibError: if a table of a named catalog cannot be read, and in the same cases as
            :func:`optimize`.
        ConfigError: if ``spark`` is not a session or ``query`` is not a text; or if
            ``allowed_locations`` is set on Spark Connect and the text does not begin with SELECT or
            VALUES, because splitlib cannot determine there which tables a command reads.
    """
    refuse_other_than_query(spark, query)
    warn_without_effect(spark, "sql")
    args = tuple(map(_copied, args))
    kwargs = {name: _copied(value) for name, value in kwargs.items()}
    state = SessionState.of(spark, query)
    with ExitStack() as opened:
        has_parameters = bool(args or kwargs)
        named = named_tables(spark, query, opened, has_parameters=has_parameters)
        with named as (text, tables):
            allowed = allowed_by(spark)
            refuse_statement(spark, text, allowed, has_parameters=has_parameters)
            is_planned = not (has_parameters or is_query(text))
            command = planned_command(spark, text, tables) if is_planned else None
            if command is None or command.plan is None:
                refuse_written_query(spark, text, allowed)
            if command is not None and command.plan is not None:
                df = interruptibly(spark, partial(dataframe_of_plan, spark, command.plan))
            else:
                df = spark.sql(text, *args, **kwargs)
        if command is not None:
            remember(df, advised(command.report))
            return df
        planned, report = plan(df, tables)

    def again(_: DataFrame) -> DataFrame:
        state.check(spark, query)
        return sql(spark, query, *args, **kwargs)

    if not is_query(text):
        report = report_on_statement(spark, text, report)
    # Spark does not mark the results of scripts and of EXECUTE IMMEDIATE as those of commands.
    can_repeat = not is_command(df) and not may_be_script(spark, text)
    remember(planned, report, again if can_repeat else None)
    return planned


def warn_without_effect(spark: SparkSession, function: str) -> None:
    """Warn once per session if ``function`` cannot prune there, and name functions that can."""
    reason = internals_unavailable(spark)
    if reason is not None and spark not in _warned:
        _warned.add(spark)
        _log.warning(
            "splitlib.%s runs queries unchanged in this session: %s. "
            "splitlib.read(spark).table(…).filtered_by(…) and splitlib.condition prune there.",
            function,
            reason,
        )


def _copied(value: Any) -> Any:
    """Copy a mutable parameter, so that changes by the caller do not affect ``replan``."""
    return copy(value) if isinstance(value, (dict, list)) else value


def _again(df: DataFrame) -> DataFrame:
    """Make Spark list the directories of ``df`` again, then optimize it again."""
    refresh(df)
    return optimize(df)


@in_its_session
def replan(df: DataFrame) -> DataFrame:
    """Plan a query again, to read the current partitions and files of its tables.

    splitlib plans a DataFrame once. After that, it always reads the same partitions and files, and
    uses the same rows of its small dimensions.

    A result of :func:`splitlib.sql` is analyzed again from its text. In the session, nothing that
    affects the query may have changed: the current catalog and database, the temporary views,
    functions and variables that the query names, and settings that affect its result. This is also
    checked for the conditions of a :class:`splitlib.spark.read.reader.TableReader`. A result of
    :func:`splitlib.optimize` or :meth:`splitlib.spark.read.reader.TableReader.load` is planned
    again from the same input DataFrames.

    Args:
        df: A DataFrame returned by one of these functions. If you derived other DataFrames from
            ``df``, derive them again from the result.

    Raises:
        ConfigError: if ``df`` was not planned by splitlib or is the result of a command, of a
            script or of ``EXECUTE IMMEDIATE``, or if the session has changed so that the query
            could have a different result.
        InvalidFilter: if ``df`` is not a DataFrame of Spark.
        SplitlibError: in the same cases as the function that returned ``df``.
    """
    if given_dataframe(df) not in plan_again_by:
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

    - For a result of :meth:`splitlib.spark.read.reader.TableReader.load`: the table and its files.
    - For a result of :func:`splitlib.optimize` or :func:`splitlib.sql`: the scans of the query.
    - For a DataFrame derived from such results, as by ``load().join(…)``: their scans, without
      planning them again.
    - For any other DataFrame, and for other joined tables: the scans that
      :func:`splitlib.optimize` would prune. To find them, this call collects the keys of the
      dimensions.

    Some tables are pruned by a condition instead of a list of files. This call plans their scans,
    to report the number of matching files if the data source provides it. After a command, these
    files are not counted, because the command has already changed the table.

    Raises:
        InvalidFilter: if ``df`` is not a DataFrame of Spark.
        SplitlibError: for a DataFrame that is not planned yet, in the same cases as
            :func:`optimize`.
    """
    df = given_dataframe(df)
    report = reports.get(df)
    if report is None:
        known = reports_of_scans(df)
        df, report = plan(df, planned=known)
        report = _with_planned(report, known.values())
    elif df not in plan_again_by:  # df is the result of a command
        return report
    return _with_files(df, report) if any(scan.condition for scan in report.scans) else report


def _with_planned(report: Report, planned: Iterable[Report]) -> Report:
    """Add the scans of queries that were planned earlier to the report on the rest of a query."""
    known = {id(one): one for one in planned}.values()
    scans = [scan for one in known for scan in (one.scans or (one,))]
    if not scans:
        return report
    # The plan of a loaded table also contains the table's own relation, which is never read. Its
    # scan is left out of the report.
    names = {scan.table for scan in scans}
    scans += [scan for scan in report.scans if scan.table not in names or not scan.is_unread]
    notes = dict.fromkeys(note for one in (*known, report) if not one.table for note in one.notes)
    # These reasons only say that nothing else can be pruned. They are omitted, because the report
    # already has scans.
    reasons = () if report.reasons in _NOTHING_MORE else report.reasons
    return replace(report, scans=tuple(scans), reasons=reasons, notes=tuple(notes))


def _with_files(df: DataFrame, report: Report) -> Report:
    """Return the report with file counts for the tables that are pruned by a condition.

    Spark plans each of these tables twice, with the condition and without it.
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
        # If a query reads two snapshots of one table, two leaves have the same name. Then the leaf
        # of this scan is unknown, and its files are not counted.
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
