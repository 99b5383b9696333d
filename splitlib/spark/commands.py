"""Plan the commands that ``splitlib.sql`` runs.

The query inside a MERGE, UPDATE, DELETE, INSERT or CREATE TABLE AS is planned like any other query,
before the command runs. In MERGE, UPDATE and DELETE, the joins in the condition also imply a filter
that every changed row satisfies. It is added to the condition, so Spark reads less of the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import SparkSession

from splitlib.config import SplitConfig
from splitlib.errors import LocationNotAllowed, MissingPartition, TooManyPartitions
from splitlib.report import Report, size_text
from splitlib.spark.allowed_scans import may_be_script
from splitlib.spark.dimension import kept_rows
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.gateway import analyzed_plan
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.spark_handles import LogicalPlan
from splitlib.spark.jvm.sql_parser import ParsedCommand
from splitlib.spark.logical_plan import Node, Path
from splitlib.spark.named_tables import NamedTable
from splitlib.spark.planner.optimize import (
    COMMAND,
    NO_JOIN,
    left_to_spark,
    plan,
    target_condition,
)
from splitlib.spark.planner.remedies import with_remedy
from splitlib.spark.session import settings_of

_TAKES_NONE: Final = "the table to change does not accept conditions."
_READS_METADATA: Final = (
    "the MERGE reads columns of its source, such as metadata columns, that are not available after "
    "its rows are computed once for their keys."
)
_READS_ALL: Final = "WHEN NOT MATCHED BY SOURCE needs every row of the table."
_WITH_PARAMETERS: Final = "splitlib does not plan commands with parameters."
_OTHER_COMMAND: Final = "splitlib does not plan this command."


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

    If planning fails with an error that is not listed below, the command stays unchanged, so that
    Spark reports the error. A command with tables of named catalogs raises every error.

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


def report_on_statement(spark: SparkSession, text: str, report: Report) -> Report:
    """Return the report on a statement that was not planned as a command.

    After a command, ``report`` describes only the command's result, which reads no table. Its
    reason is replaced by the reason why the command was not planned.
    """
    # A script returns the rows of its last query, and ``report`` describes only this query.
    is_script = report.reasons == (with_remedy(NO_JOIN),) and may_be_script(spark, text)
    if not is_script and report.reasons != (with_remedy(COMMAND),):
        return report
    # The parts of a command are planned one by one, and each may contain parameters. So only
    # commands without parameters are planned.
    is_known = ParsedCommand.of(Catalyst(spark), text) is not None
    reason = _WITH_PARAMETERS if is_known else _OTHER_COMMAND
    return replace(report, reasons=(with_remedy(reason),))


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
    """Return the SQL filter that the joins of ``query`` imply for the changed table, and a report.

    The changed table is the first child of the query. If there is no such filter, the first result
    is None and the report contains the reason.
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
