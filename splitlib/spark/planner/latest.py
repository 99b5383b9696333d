"""The greatest or least value of a partition column: found in one partition, not in all.

``max`` of a partition column is that of the last partition that has a row which the query's own
conditions keep. Partitions are looked at from the last one backwards until there is one; that row
then stands for the table, of which the query needs no other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from splitlib.enumeration.report import ScanReport
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import has_range
from splitlib.hive.partition_values import is_char, is_collated, parse
from splitlib.spark.jvm.dataframes import analyzed_plan, internal_rows
from splitlib.spark.logical_plan import Node
from splitlib.spark.plan_report import FilterUse, ScanPruning
from splitlib.spark.planner.join_graph import partition_conditions
from splitlib.spark.planner.lineage import lineages_of
from splitlib.spark.planner.materializable import Leaves, Materializable
from splitlib.spark.planner.materialize import shown
from splitlib.spark.planner.query import Query
from splitlib.spark.planner.scan_sites.prunable import PrunableScan
from splitlib.spark.planner.scan_sites.pruned_site import PrunedSite
from splitlib.spark.planner.scan_sites.scan_site import ScanSite
from splitlib.spark.sql_text import quoted

_FUNCTIONS: Final = ("Max", "Min")
# So many values are looked at in one go; where none of all these has a row, Spark looks on alone.
_VALUES: Final = (1, 1, 4, 16)


def asks_for_extremes(tree: Node) -> bool:
    """Whether a plan has a ``max`` or ``min`` of all its rows."""
    return any(
        e.kind in _FUNCTIONS
        for node in tree.walk()
        if _is_of_all_rows(node)
        for output in node.expressions("aggregateExpressions")
        for e in output.walk()
    )


def _is_of_all_rows(node: Node) -> bool:
    return node.kind == "Aggregate" and not node.expressions("groupingExpressions")


@dataclass(frozen=True, slots=True, eq=False)
class Extreme:
    """A table of which the query needs only the greatest or least value of a partition column."""

    table: Materializable
    column: int
    """The id of the column."""
    is_greatest: bool


def extremes(root: Node, partition_columns: frozenset[int], leaves: Leaves) -> Iterator[Extreme]:
    """Those of an optimized plan.

    Args:
        root: The plan.
        partition_columns: The ids of columns that the values of partitions are known of.
        leaves: Of the plan.
    """
    for node in root.walk():
        asked = _asked(node, partition_columns) if _is_of_all_rows(node) else None
        table = None if asked is None else leaves.below(node.children[0])
        if asked is None or table is None or table.top.subqueries:
            continue
        below = node.children[0]
        while below.kind == "Project":
            (below,) = below.children
        if below is table.top:  # it is all that drops rows
            column, function = asked
            yield Extreme(table, column, is_greatest=function == "Max")


def _asked(aggregate: Node, partition_columns: frozenset[int]) -> tuple[int, str] | None:
    """A column and a function, if that is all that an aggregate asks for."""
    lineages = lineages_of(aggregate.children[0], partition_columns)
    found = set()
    for output in aggregate.expressions("aggregateExpressions"):
        call = output.children[0] if output.kind == "Alias" else output
        # beside the function may be a FILTER
        if call.kind != "AggregateExpression" or len(call.children) != 1:
            return None
        (function,) = call.children
        if function.kind not in _FUNCTIONS:
            return None
        columns = {lineage.column for lineage in lineages.of(function.children[0])}
        found.add((columns.pop() if len(columns) == 1 else None, function.kind))
    column, function_name = found.pop() if len(found) == 1 else (None, "")
    return None if column is None else (column, function_name)


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What stands for a table, and how it was found."""

    extreme: Extreme
    scan: PrunableScan
    rows: Any
    """A leaf of at most one row."""
    report: ScanPruning


def with_latest_rows(query: Query, executor: Executor) -> tuple[Query, tuple[ScanPruning, ...]]:
    """The query with a row in the place of each table of which it needs no other; and reports.

    Args:
        query: The query.
        executor: Where the rows are looked for, several at a time.
    """
    if not asks_for_extremes(query.optimized_tree):
        return query, ()
    leaves = Leaves(query.optimized_tree, query.analyzed_tree)
    asked = []
    for extreme in extremes(query.optimized_tree, query.partition_columns, leaves):
        scan = query.scan_of(extreme.table.leaf)
        if isinstance(scan, PrunableScan) and scan.paths == [extreme.table.place]:
            asked.append((extreme, scan))
    answers = executor.map(lambda one: _found(query, *one), asked)
    found = [answer for answer in answers if answer is not None]
    if not found:
        return query, ()
    return (
        query.with_rows(
            {one.extreme.table.leaf.path: one.rows for one in found},
            {one.extreme.table.place: one.rows for one in found},
        ),
        tuple(one.report for one in found),
    )


def _found(query: Query, extreme: Extreme, scan: PrunableScan) -> Found | None:
    """A row with the value; None if it has to be looked for by Spark."""
    started = time.perf_counter()
    table = extreme.table
    top = query.catalyst.node(query.optimized, table.top.path)
    if not query.catalyst.is_deterministic(top):
        return None  # the row may not be kept again
    conditions = partition_conditions(query.optimized_tree, query.partition_columns)
    own = tuple(c for c in conditions if c.lineage.leaf.path == table.leaf.path)
    site = PrunedSite(scan=scan, site=ScanSite(table.leaf, conditions=own))
    _, static = site.with_conditions(query.optimized).needed
    column = scan.names[extreme.column]
    values = _values(scan, static, column, is_greatest=extreme.is_greatest)
    if values is None or len(values) <= scan.config.planner_small_fact_partitions:
        return None
    output = query.catalyst.node(query.optimized, table.leaf.path).output()
    reports: list[ScanReport] = []
    start = 0
    for number in _VALUES:
        keys = DynamicFilteringData.from_arrow(pa.table({column: values[start : start + number]}))
        node, report = scan.pruned([keys], static)
        reports.append(report)
        inside = table.leaf.path[len(table.top.path) :]
        plan = query.catalyst.replaced(top, {inside: node})
        rows = _first_row(query, extreme, plan, column, is_only=number == 1)
        start += number
        if len(rows) or start >= len(values):
            leaf = query.catalyst.local_relation(output, rows)
            told = _told(scan, column, extreme, reports, time.perf_counter() - started)
            return Found(extreme, scan, leaf, told)
    return None


def _values(
    scan: PrunableScan, static: Sequence[Any], column: str, *, is_greatest: bool
) -> pa.Array | None:
    """The values of the partitions that conditions leave, as they are tried; None if not known."""
    field = scan.table.metadata.partition_schema.field(column)
    if not has_range(field.type) or is_char(field) or is_collated(field):
        return None  # Spark's order is another
    kept = scan.kept_values((), static, [column])
    typed = None if kept is None else parse(kept[column], field)
    if typed is None or typed.undecided is not None:
        return None
    values = pc.unique(typed.values.drop_null())
    order = "descending" if is_greatest else "ascending"
    return values.take(pc.sort_indices(values, sort_keys=[("", order)]))


def _first_row(query: Query, extreme: Extreme, plan: Any, column: str, *, is_only: bool) -> Any:
    """The row with the greatest or least value of some partitions, as an ``Array[InternalRow]``.

    Args:
        query: The query.
        extreme: What it asks for.
        plan: The rows of these partitions that the query keeps.
        column: Whose value is wanted.
        is_only: Whether the partitions have one value, so that any row will do.
    """
    catalyst, table = query.catalyst, extreme.table
    rows = catalyst.dataframe(plan)
    if not is_only:
        key = F.col(quoted(column))
        rows = rows.orderBy(key.desc() if extreme.is_greatest else key.asc())
    plan = analyzed_plan(rows.limit(1))
    columns = list(shown(catalyst, plan, table.leaf, table.read))
    return internal_rows(catalyst.dataframe(catalyst.projected(plan, columns)))


def _told(
    scan: PrunableScan, column: str, extreme: Extreme, reports: Sequence[ScanReport], seconds: float
) -> ScanPruning:
    wanted = "the last one with a row" if extreme.is_greatest else "the first one with a row"
    metrics = [report.metrics for report in reports]
    counts_files = scan.relation is None or scan.relation.names_files
    return ScanPruning(
        scan.name,
        filters=(FilterUse((column,), wanted, 0, seconds),),
        partitions_total=max(m.partitions_total for m in metrics),
        partitions_kept=sum(m.partitions_matched for m in metrics),
        files=sum(m.files_selected for m in metrics) if counts_files else None,
        nbytes=sum(m.bytes_selected for m in metrics) if counts_files else None,
    )
