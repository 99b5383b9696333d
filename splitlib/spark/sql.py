"""``splitlib.sql``, ``optimize``, ``explain`` and ``replan``: prune the scans of a query.

The query inside a MERGE, UPDATE, DELETE, INSERT or CREATE TABLE AS is planned like any other query,
before the command runs. In MERGE, UPDATE and DELETE, the joins in the condition also imply a filter
that every changed row satisfies. It is added to the condition, so Spark reads less of the table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from weakref import WeakSet

from pyspark.sql import DataFrame, SparkSession

from splitlib.config import SplitConfig
from splitlib.errors import ConfigError, LocationNotAllowed, MissingPartition, TooManyPartitions
from splitlib.redaction import get_logger
from splitlib.report import Count, Report, size_text
from splitlib.spark.allowed_scans import allowed_by, refuse_statement, refuse_written_query
from splitlib.spark.dimension import given_dataframe, kept_rows
from splitlib.spark.jvm.active_session import in_its_session, interruptibly
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.gateway import analyzed_plan, dataframe_of_plan
from splitlib.spark.jvm.pinned_relation import planned_files
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.spark_handles import LogicalPlan
from splitlib.spark.jvm.sql_parser import ParsedCommand
from splitlib.spark.logical_plan import Node, Path
from splitlib.spark.named_tables import NamedTable, named_tables
from splitlib.spark.planner.optimize import (
    NO_JOIN,
    NO_TABLE,
    left_to_spark,
    plan,
    target_condition,
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
    settings_of,
)
from splitlib.telemetry import traced

_TAKES_NONE: Final = "the table to change does not accept conditions."
_READS_METADATA: Final = (
    "the MERGE reads columns of its source, such as metadata columns, that are not available after "
    "its rows are computed once for their keys."
)
_NOTHING_MORE: Final = tuple((with_remedy(reason),) for reason in (NO_JOIN, NO_TABLE))
_READS_ALL: Final = "WHEN NOT MATCHED BY SOURCE needs every row of the table."


@dataclass(frozen=True, slots=True, eq=False)
class PlannedCommand:
    """A command that was planned but has not run."""

    plan: LogicalPlan | None
    """Unresolved plan to run instead of the command; None if the command stays unchanged."""
    report: Report
    """Report on the planning of the command."""


def planned_command(
    spark: SparkSession, text: str, named: Mapping[str, NamedTable]
) -> PlannedCommand | None:
    """Plan a command, or return None if the statement is not a command that splitlib can plan.

    If planning raises another error, the command stays unchanged, so that Spark reports the error.

    Args:
        spark: Session in which the statement runs.
        text: One SQL statement.
        named: Tables of named catalogs in the statement, by the root path of their placeholder
            scans.

    Raises:
        SplitlibError: in the same cases as :func:`splitlib.spark.planner.optimize.plan`.
    """
    if internals_unavailable(spark) is not None:
        return None
    catalyst = Catalyst(spark)
    try:
        command = ParsedCommand.of(catalyst, text)
        if command is None or not (named or _config(spark).dynamic_filtering_enabled):
            return None
        match command.kind:
            case "query":
                return _of_query(catalyst, command, named)
            case "change":
                return _of_condition(catalyst, command)
            case "merge":
                return _of_merge(catalyst, command, named)
    except (LocationNotAllowed, TooManyPartitions, MissingPartition):
        raise
    except Exception as error:
        if named:  # Spark cannot read the placeholders of these tables
            raise
        return PlannedCommand(None, left_to_spark(error))


def _of_query(
    catalyst: Catalyst, command: ParsedCommand, named: Mapping[str, NamedTable]
) -> PlannedCommand:
    planned, report = _planned(catalyst, command.query, named)
    return PlannedCommand(None if planned is None else command.with_query(planned), report)


def _of_condition(catalyst: Catalyst, command: ParsedCommand) -> PlannedCommand:
    rows = command.within(catalyst.plans.filtered(command.target, command.condition))
    implied, report = _implied(catalyst, rows, command)
    if implied is None:
        return PlannedCommand(None, report)
    return PlannedCommand(command.with_also(implied).plan, report)


def _of_merge(
    catalyst: Catalyst, command: ParsedCommand, named: Mapping[str, NamedTable]
) -> PlannedCommand:
    planned, of_source = _planned(catalyst, command.source, named)
    new = command if planned is None else command.with_source(planned)
    implied, of_target = _implied_by_source(catalyst, new)
    if implied is not None:
        new = implied
        if command.changes_rows_without_partner:
            scans = tuple(scan.because(_READS_ALL) for scan in of_target.scans)
            of_target = replace(of_target, scans=scans)
    report = replace(
        of_target,
        scans=(*of_source.scans, *of_target.scans),
        seconds=of_source.seconds + of_target.seconds,
        catalog_requests=of_source.catalog_requests + of_target.catalog_requests,
        storage_requests=of_source.storage_requests + of_target.storage_requests,
    )
    return PlannedCommand(None if new is command else new.plan, report)


def _implied_by_source(
    catalyst: Catalyst, merge: ParsedCommand
) -> tuple[ParsedCommand | None, Report]:
    """Return a MERGE with a filter on its target that follows from the source, and a report.

    If there is no such filter, the first result is None and the report contains the reason.
    """
    leaves = catalyst.plans.leaves(
        catalyst.execution.analyzed(catalyst.execution.dataframe(merge.target))
    )
    if len(leaves) != 1 or catalyst.relations.source_of(leaves[0]) is None:
        return None, Report(reasons=(_TAKES_NONE,))
    source = _computed(catalyst, merge.source)
    if isinstance(source, str):
        return None, Report(reasons=(source,))
    pairs = merge.within(catalyst.plans.joined(merge.target, source, merge.condition))
    implied, report = _implied(catalyst, pairs, merge)
    if implied is None:
        return None, report
    new = merge.with_source(source).with_also(implied)
    if not catalyst.execution.can_be_analyzed(new.plan):
        return None, replace(report, scans=(), reasons=(_READS_METADATA,))
    return new, report


def _planned(
    catalyst: Catalyst, query: LogicalPlan, named: Mapping[str, NamedTable]
) -> tuple[LogicalPlan | None, Report]:
    """Plan a query. Return its new analyzed plan (None if it is unchanged) and the report."""
    df = catalyst.execution.dataframe(query)
    planned, report = plan(df, named)
    return None if planned is df else analyzed_plan(planned), report


def _computed(catalyst: Catalyst, source: LogicalPlan) -> LogicalPlan | str:
    """Compute the source rows of a MERGE now, and return a plan that reads these rows.

    Without this, a row could appear in the source after the keys are collected. Its match could be
    in a pruned partition of the target, so the MERGE would insert the row as a duplicate. Return
    the reason if the source is too large to compute.
    """
    analyzed = catalyst.execution.analyzed(catalyst.execution.dataframe(source))
    # The source's alias must stay, because the MERGE condition qualifies the source's columns with
    # it. Without an alias, the condition uses the names of the source's tables.
    path = (0,) if catalyst.plans.kind(analyzed) == "SubqueryAlias" else ()
    rows = catalyst.plans.node(analyzed, path)
    leaves = catalyst.plans.leaves(catalyst.execution.optimized(rows))
    limit = _config(catalyst.spark).planner_dimension_bytes
    size = sum(catalyst.plans.size_of(leaf) for leaf in leaves)
    if size >= catalyst.execution.unknown_size():
        return "the source of the MERGE reads a table of unknown size."
    if size > limit:
        most = f"planner_dimension_bytes ({size_text(limit)})"
        return f"the source of the MERGE reads {size_text(size)}, more than {most}."
    kept = analyzed_plan(kept_rows(catalyst.execution.dataframe(rows), is_opaque=True))
    if not path:
        kept = catalyst.plans.qualified_like(kept, catalyst.plans.output(rows))
    return catalyst.plans.replaced(analyzed, {path: kept})


def _config(spark: SparkSession) -> SplitConfig:
    return SplitConfig.resolve(spark_conf=settings_of(spark))


def _implied(
    catalyst: Catalyst, query: LogicalPlan, command: ParsedCommand
) -> tuple[str | None, Report]:
    """Return the SQL filter on the table to change that the joins of ``query`` imply, and a report.

    The table to change is the first child of the query. If there is no such filter, the first
    result is None and the report contains the reason.
    """
    df = catalyst.execution.dataframe(query)
    leaf = _leaf_below(catalyst.plans.tree(catalyst.execution.analyzed(df)).children[0])
    if leaf is None:
        return None, Report(reasons=(_TAKES_NONE,))
    return target_condition(df, leaf, command.qualifier)


def _leaf_below(node: Node) -> Path | None:
    while len(node.children) == 1:
        (node,) = node.children
    return node.path if node.is_leaf else None


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
    that name.

    Raises:
        SplitlibError: if a table of a named catalog cannot be read, and in the same cases as
            :func:`optimize`.
        ConfigError: if ``allowed_locations`` is set on Spark Connect and the text does not begin
            with SELECT or VALUES, because splitlib cannot determine there which tables a command
            reads.
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
            # A command with parameters is not planned, because splitlib would have to bind the
            # parameters in each part of it.
            command = None if has_parameters else planned_command(spark, text, tables)
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

    remember(planned, report, None if is_command(df) else again)
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

    splitlib plans a DataFrame once. The partitions and files that it reads, and the rows of its
    small dimensions, are fixed at that time.

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
        ConfigError: if ``df`` was not planned by splitlib or is the result of a command, or if the
            session has changed so that the query could have a different result.
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
    # The plan of a loaded table also contains the table's own relation, which is never read.
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
