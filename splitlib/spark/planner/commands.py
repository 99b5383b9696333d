"""Commands, planned before they run: MERGE, UPDATE, DELETE, INSERT and CREATE TABLE AS.

What a command reads is a query like any other. What it changes is a table of which the rows matter
that meet its condition: what joins in it imply for that table is added to it, and holds of each of
these rows anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark.sql import SparkSession

from splitlib.config import SplitConfig
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.dataframes import analyzed_plan
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.scala import each
from splitlib.spark.jvm.sql_parser import parsed_expression, parsed_plan
from splitlib.spark.logical_plan import Node, Path
from splitlib.spark.named_tables.placeholders import NamedTable
from splitlib.spark.plan_report import PlanReport
from splitlib.spark.planner.optimize import plan, target_condition
from splitlib.spark.session import settings_of

_WITH_QUERY: Final = frozenset(
    {"InsertIntoStatement", "CreateTableAsSelect", "ReplaceTableAsSelect"}
)
_NOT_COMPUTED: Final = (
    "the source of the MERGE is too large, or of unknown size, to be computed once for its keys."
)
_READS_ALL: Final = "WHEN NOT MATCHED BY SOURCE needs every row of it."


@dataclass(frozen=True, slots=True, eq=False)
class PlannedCommand:
    """A command that has not run."""

    plan: Any
    """What is to run in its place, an unresolved plan; None if nothing is to be changed of it."""
    report: PlanReport


def planned_command(
    spark: SparkSession, text: str, named: Mapping[str, NamedTable]
) -> PlannedCommand | None:
    """What to run for a statement; None if it is none of those that read something else.

    Where it is not understood it is left as it is, and Spark says what is wrong with it.

    Args:
        spark: Where it is to run.
        text: One statement.
        named: As for :func:`splitlib.spark.planner.optimize.plan`.
    """
    if internals_unavailable(spark) is not None:
        return None
    parsed = parsed_plan(spark, text)
    if parsed is None:
        return None
    catalyst = Catalyst(spark)
    try:
        match catalyst.kind(parsed):
            case "MergeIntoTable":
                return _merge(catalyst, parsed)
            case "DeleteFromTable":
                return _of_condition(catalyst, parsed, parsed.condition())
            case "UpdateTable" if parsed.condition().isDefined():
                return _of_condition(catalyst, parsed, parsed.condition().get())
            case kind if kind in _WITH_QUERY:
                return _of_query(catalyst, parsed, parsed.query(), named)
            case "UnresolvedWith" if catalyst.kind(parsed.child()) in _WITH_QUERY:
                inner = parsed.child()
                query = catalyst.with_named_arguments(parsed, {"child": inner.query()})
                return _of_query(catalyst, inner, query, named)
    except JVM_ERRORS as error:
        message = str(error).partition("\n")[0]
        return PlannedCommand(None, PlanReport(reasons=(message,)))
    return None


def _of_query(
    catalyst: Catalyst, command: Any, query: Any, named: Mapping[str, NamedTable]
) -> PlannedCommand:
    """A command that writes what a query gives."""
    planned, report = _planned(catalyst, query, named)
    if planned is None:
        return PlannedCommand(None, report)
    return PlannedCommand(catalyst.with_named_arguments(command, {"query": planned}), report)


def _of_condition(catalyst: Catalyst, command: Any, condition: Any) -> PlannedCommand:
    """A command that changes the rows of a table that meet a condition."""
    table = command.table()
    rows = catalyst.filtered(table, condition)
    implied, report = _implied(catalyst, rows, table)
    if implied is None:
        return PlannedCommand(None, report)
    both = catalyst.all_of([condition, parsed_expression(catalyst.spark, implied)])
    if catalyst.kind(command) == "UpdateTable":
        both = catalyst.scala.some(both)
    return PlannedCommand(catalyst.with_named_arguments(command, {"condition": both}), report)


def _merge(catalyst: Catalyst, command: Any) -> PlannedCommand:
    """MERGE: its source is a query, and each pair of rows meets its condition."""
    target, condition = command.targetTable(), command.mergeCondition()
    planned, of_source = _planned(catalyst, command.sourceTable(), {})
    new = {} if planned is None else {"sourceTable": planned}
    source = _computed(catalyst, new.get("sourceTable", command.sourceTable()))
    if source is None:
        implied, of_target = None, PlanReport(reasons=(_NOT_COMPUTED,))
    else:
        implied, of_target = _implied(catalyst, catalyst.joined(target, source, condition), target)
    if implied is not None:
        both = catalyst.all_of([condition, parsed_expression(catalyst.spark, implied)])
        new |= {"sourceTable": source, "mergeCondition": both}
        if not command.notMatchedBySourceActions().isEmpty():
            scans = tuple(scan.because(_READS_ALL) for scan in of_target.scans)
            of_target = replace(of_target, scans=scans)
    report = replace(
        of_target,
        scans=(*of_source.scans, *of_target.scans),
        seconds=of_source.seconds + of_target.seconds,
        catalog_requests=of_source.catalog_requests + of_target.catalog_requests,
        storage_requests=of_source.storage_requests + of_target.storage_requests,
    )
    return PlannedCommand(catalyst.with_named_arguments(command, new) if new else None, report)


def _planned(
    catalyst: Catalyst, query: Any, named: Mapping[str, NamedTable]
) -> tuple[Any, PlanReport]:
    """A query as :func:`plan` has it; None if it stays as it is."""
    df = catalyst.dataframe(query)
    planned, report = plan(df, named)
    return None if planned is df else analyzed_plan(planned), report


def _computed(catalyst: Catalyst, source: Any) -> Any:
    """The source of a MERGE with its rows computed now, and kept by the executors.

    A row that came into it after its keys were collected would not find its partner in the
    target, and be inserted beside it. None if it is too large for that.
    """
    analyzed = catalyst.analyzed(catalyst.dataframe(source))
    if catalyst.kind(analyzed) != "SubqueryAlias":  # by which the condition names its columns
        return None
    rows = analyzed.child()
    limit = SplitConfig.resolve(spark_conf=settings_of(catalyst.spark)).planner_dimension_bytes
    leaves = catalyst.leaves(catalyst.optimized(rows))
    if sum(catalyst.size_of(leaf) for leaf in leaves) > limit:
        return None
    kept = analyzed_plan(catalyst.dataframe(rows).localCheckpoint())
    return catalyst.with_named_arguments(analyzed, {"child": kept})


def _implied(catalyst: Catalyst, query: Any, target: Any) -> tuple[str | None, PlanReport]:
    """What a query implies for the table that its first child reads."""
    df = catalyst.dataframe(query)
    leaf = _leaf_below(catalyst.tree(catalyst.analyzed(df)).children[0])
    if leaf is None:
        return None, PlanReport(reasons=("what it changes is no table.",))
    return target_condition(df, leaf, _qualifier(catalyst, target))


def _leaf_below(node: Node) -> Path | None:
    while len(node.children) == 1:
        (node,) = node.children
    return node.path if node.is_leaf else None


def _qualifier(catalyst: Catalyst, table: Any) -> list[str]:
    """What the columns of a table are qualified by in the command that names it."""
    if catalyst.kind(table) == "SubqueryAlias":
        return [str(table.alias())]
    return [str(part) for part in each(table.multipartIdentifier())]
