"""The latest partition: who asks for the greatest values of a partition column reads the last.

``max`` of a partition column is that of the last partition that has a row which the query's own
conditions keep: partitions are looked at from the last one backwards until there is one, and that
row then stands for the table, of which the query needs no other. For ``ORDER BY`` a partition
column with a ``LIMIT``, it is so many partitions as have so many rows. ``min`` and ascending order
begin at the other end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from splitlib.enumeration.report import ScanReport
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import has_range
from splitlib.hive.partition_values import is_char, is_collated, parse
from splitlib.spark.jvm.active_session import interruptibly
from splitlib.spark.jvm.dataframes import analyzed_plan, internal_rows
from splitlib.spark.logical_plan import Expression, Node, catalyst_object
from splitlib.spark.plan_report import FilterUse, ScanPruning
from splitlib.spark.planner.join_graph import partition_conditions
from splitlib.spark.planner.lineage import lineages_of
from splitlib.spark.planner.materializable import Leaves, Materializable
from splitlib.spark.planner.materialize import shown
from splitlib.spark.planner.prune import counted
from splitlib.spark.planner.query import Query
from splitlib.spark.planner.scan_sites.prunable import PrunableScan
from splitlib.spark.planner.scan_sites.pruned_site import PrunedSite
from splitlib.spark.planner.scan_sites.scan_site import ScanSite
from splitlib.spark.sql_text import quoted

_FUNCTIONS: Final = ("Max", "Min")
# So many values are looked at in one go; where these have too few rows, Spark looks on alone.
_VALUES: Final = (1, 1, 4, 16)
# To count more rows beforehand, so as to read less, may take longer than to read more.
_MANY_ROWS: Final = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Extreme:
    """A table of which the query needs only the rows with the greatest or least values."""

    table: Materializable
    column: int
    """The id of the partition column that these are values of."""
    is_greatest: bool
    rows: int | None
    """How many it needs; None = the value alone."""
    nulls_first: bool = False
    """Whether null goes before all values."""


def asks_for_extremes(tree: Node) -> bool:
    """Whether a plan has a ``max`` or ``min`` of all its rows, or an order of which it takes a few.

    Of which columns these are is not looked at.
    """
    return any(_is_of_all_rows(node) or _ordered(node) is not None for node in tree.walk())


def extremes(root: Node, partition_columns: frozenset[int], leaves: Leaves) -> Iterator[Extreme]:
    """What an optimized plan asks for.

    Args:
        root: The plan.
        partition_columns: The ids of columns that the values of partitions are known of.
        leaves: Of the plan.
    """
    for node in root.walk():
        ordered = _ordered(node)
        if ordered is not None:
            yield from _of_order(node, ordered, partition_columns, leaves)
        elif _is_of_all_rows(node):
            yield from _of_aggregate(node, partition_columns, leaves)


def _is_of_all_rows(node: Node) -> bool:
    """Whether it is an aggregate without groups that asks for a greatest or least value."""
    if node.kind != "Aggregate" or node.expressions("groupingExpressions"):
        return False
    outputs = node.expressions("aggregateExpressions")
    return any(e.kind in _FUNCTIONS for output in outputs for e in output.walk())


def _ordered(node: Node) -> Node | None:
    """The order of which a node takes the first rows; None if it does not."""
    if node.kind != "GlobalLimit" or node.children[0].kind != "LocalLimit":
        return None
    (below,) = node.children[0].children
    while below.kind == "Project":
        (below,) = below.children
    return below if below.kind == "Sort" and below.fields["global"] is True else None


def _of_aggregate(
    aggregate: Node, partition_columns: frozenset[int], leaves: Leaves
) -> Iterator[Extreme]:
    (below,) = aggregate.children
    table = _only_filtered(below, leaves)
    lineages = lineages_of(below, partition_columns)
    asked = set()
    for output in aggregate.expressions("aggregateExpressions"):
        call = output.children[0] if output.kind == "Alias" else output
        function = call.children[0] if len(call.children) == 1 else call  # else with a FILTER
        if call.kind != "AggregateExpression" or function.kind not in _FUNCTIONS:
            return
        columns = {lineage.column for lineage in lineages.of(function.children[0])}
        asked.add((columns.pop() if len(columns) == 1 else None, function.kind))
    column, name = asked.pop() if len(asked) == 1 else (None, "")
    if table is not None and column is not None:
        yield Extreme(table, column, is_greatest=name == "Max", rows=None)


def _of_order(
    limit: Node, order: Node, partition_columns: frozenset[int], leaves: Leaves
) -> Iterator[Extreme]:
    (below,) = order.children
    table = _only_filtered(below, leaves)
    first = order.expressions("order")[0]
    lineages = lineages_of(below, partition_columns).of(first.children[0])
    rows = _number(limit.expressions("limitExpr")[0])
    if table is None or len(lineages) != 1 or lineages[0].column is None or not rows:
        return
    yield Extreme(
        table,
        lineages[0].column,
        is_greatest=catalyst_object(first.fields["direction"]) == "Descending",
        rows=rows,
        nulls_first=catalyst_object(first.fields["nullOrdering"]) == "NullsFirst",
    )


def _number(limit: Expression) -> int:
    """How many rows a limit lets through; 0 if they are not few."""
    rows = int(limit.fields["value"]) if limit.kind == "Literal" else 0
    return rows if rows <= _MANY_ROWS else 0


def _only_filtered(node: Node, leaves: Leaves) -> Materializable | None:
    """The leaf below, if one filter right above it is all that drops rows, and reads no other."""
    table = leaves.below(node)
    while node.kind == "Project":
        (node,) = node.children
    if table is None or node is not table.top or table.top.subqueries:
        return None
    return table


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """What takes the place of a table."""

    extreme: Extreme
    node: Any
    """A leaf of at most one row, or a scan of fewer partitions."""
    report: ScanPruning


def with_latest_rows(query: Query, executor: Executor) -> tuple[Query, tuple[ScanPruning, ...]]:
    """The query, which reads less of tables whose last or first rows are all it needs; and reports.

    Args:
        query: The query.
        executor: Where the rows are looked for, several at a time.
    """
    if not asks_for_extremes(query.optimized_tree):
        return query, ()
    leaves = Leaves(query.optimized_tree, query.analyzed_tree)
    searches = []
    for extreme in extremes(query.optimized_tree, query.partition_columns, leaves):
        scan = query.scan_of(extreme.table.leaf)
        if isinstance(scan, PrunableScan) and scan.paths == [extreme.table.place]:
            searches.append(_Search(query, extreme, scan))
    found = [one for one in executor.map(_Search.found, searches) if one is not None]
    if not found:
        return query, ()
    instead = query.with_leaves(
        {one.extreme.table.leaf.path: one.node for one in found},
        {one.extreme.table.place: one.node for one in found},
    )
    return instead, tuple(one.report for one in found)


@dataclass(slots=True, eq=False)
class _Search:
    """The search for the rows that one table is asked for."""

    query: Query
    extreme: Extreme
    scan: PrunableScan
    reports: list[ScanReport] = field(default_factory=list)
    """Of the partitions that were looked at."""
    started: float = field(default_factory=time.perf_counter)

    @property
    def column(self) -> str:
        """The name of the partition column."""
        return self.scan.names[self.extreme.column]

    def found(self) -> _Found | None:
        """What takes the table's place; None if Spark has to look for it."""
        table, catalyst = self.extreme.table, self.query.catalyst
        top = catalyst.node(self.query.optimized, table.top.path)
        if not catalyst.is_deterministic(top):
            return None  # what is kept now may not be kept again
        conditions = partition_conditions(self.query.optimized_tree, self.query.partition_columns)
        own = tuple(c for c in conditions if c.lineage.leaf.path == table.leaf.path)
        site = PrunedSite(scan=self.scan, site=ScanSite(table.leaf, conditions=own))
        _, static = site.with_conditions(self.query.optimized).needed
        values = self._values(static)
        if values is None or len(values) <= self.scan.config.planner_small_fact_partitions:
            return None
        if self.extreme.rows is None:
            return self._row(top, values, static)
        return self._rows(top, values, static, self.extreme.rows)

    def _values(self, static: Sequence[Any]) -> pa.Array | None:
        """The values of the partitions that conditions leave, in order; None if it is not known."""
        key = self.scan.table.metadata.partition_schema.field(self.column)
        if not has_range(key.type) or is_char(key) or is_collated(key):
            return None  # Spark's order is another
        kept = self.scan.kept_values((), static, [self.column])
        typed = None if kept is None else parse(kept[self.column], key)
        if typed is None or typed.undecided is not None:
            return None
        values = pc.unique(typed.values)
        if self.extreme.rows is not None and self.extreme.nulls_first and values.null_count:
            return None
        values = values.drop_null()
        order = "descending" if self.extreme.is_greatest else "ascending"
        return values.take(pc.sort_indices(values, sort_keys=[("", order)]))

    def _row(self, top: Any, values: pa.Array, static: Sequence[Any]) -> _Found | None:
        """A row with the value, or none if there is no value."""
        table, catalyst = self.extreme.table, self.query.catalyst
        start = 0
        for number in _VALUES:
            scan = self._scan(values[start : start + number], static)
            rows = catalyst.dataframe(self._kept(top, scan))
            if number > 1:
                key = F.col(quoted(self.column))
                rows = rows.orderBy(key.desc() if self.extreme.is_greatest else key.asc())
            plan = analyzed_plan(rows.limit(1))
            columns = list(shown(catalyst, plan, table.leaf, table.read))
            one = catalyst.dataframe(catalyst.projected(plan, columns))
            row = interruptibly(catalyst.spark, partial(internal_rows, one))
            start += number
            if len(row) or start >= len(values):
                output = catalyst.node(self.query.optimized, table.leaf.path).output()
                return self._found(catalyst.local_relation(output, row))
        return None

    def _rows(
        self, top: Any, values: pa.Array, static: Sequence[Any], wanted: int
    ) -> _Found | None:
        """A scan of the partitions that have the first rows; None if that may be all of them."""
        counted = start = 0
        for number in _VALUES:
            scan = self._scan(values[start : start + number], static)
            rows = self.query.catalyst.dataframe(self._kept(top, scan))
            some = rows.limit(wanted - counted)
            counted += interruptibly(some.sparkSession, some.count)
            start += number
            if start >= len(values):
                return None
            if counted >= wanted:
                if len(self.reports) > 1:
                    self.reports.clear()  # all that were looked at are what is read
                    scan = self._scan(values[:start], static)
                return self._found(scan)
        return None

    def _kept(self, top: Any, scan: Any) -> Any:
        """The rows of a scan of some partitions that the query keeps."""
        table = self.extreme.table
        inside = table.leaf.path[len(table.top.path) :]
        return self.query.catalyst.replaced(top, {inside: scan})

    def _scan(self, values: pa.Array, static: Sequence[Any]) -> Any:
        """The scan of some partitions."""
        keys = DynamicFilteringData.from_arrow(pa.table({self.column: values}))
        node, report = self.scan.pruned([keys], static)
        self.reports.append(report)
        return node

    def _found(self, node: Any) -> _Found:
        which = "last" if self.extreme.is_greatest else "first"
        wanted = self.extreme.rows
        told = f"the {which} one with a row" if wanted is None else f"the {which} {wanted:,} rows"
        seconds = time.perf_counter() - self.started
        used = FilterUse((self.column,), told, 0, seconds)
        report = ScanPruning(self.scan.name, filters=(used,))
        return _Found(self.extreme, node, counted(report, self.scan, self.reports))
