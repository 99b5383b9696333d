"""Read only the last partitions if a query needs the greatest values of a partition column.

``max`` of a partition column is the value of the last partition with a row that meets the query's
conditions. Partitions are read from the last one backwards until such a row is found. This row
then replaces the table in the plan. If a query sorts by a partition column and has a ``LIMIT``, the
scan reads only the last partitions that together have enough rows. For ``min`` and ascending order,
partitions are read from the first one forwards.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import has_range
from splitlib.hive.partition_values import is_ambiguous, is_char, parse
from splitlib.redaction import get_logger
from splitlib.report import FilterUse, Report
from splitlib.spark.conversion import quoted
from splitlib.spark.jvm.active_session import interruptibly
from splitlib.spark.jvm.gateway import JVM_ERRORS, analyzed_plan, internal_rows
from splitlib.spark.jvm.spark_handles import LogicalPlan
from splitlib.spark.logical_plan import Expression, Node, Path, catalyst_object
from splitlib.spark.planner.eligibility import ScanSite
from splitlib.spark.planner.join_graph import partition_conditions
from splitlib.spark.planner.lineage import lineages_of
from splitlib.spark.planner.materializable import Leaves, Materializable
from splitlib.spark.planner.materialize import shown
from splitlib.spark.planner.query import Query
from splitlib.spark.planner.scan_sites.pruned_site import ListedScan, PrunedSite

_log = get_logger(__name__)

_FUNCTIONS: Final = ("Max", "Min")
# Number of partition values per attempt. If all attempts find too few rows, Spark reads the table.
_VALUES: Final = (1, 1, 4, 16)
# Maximum LIMIT. Counting more rows during planning may take longer than it saves.
_MANY_ROWS: Final = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Extreme:
    """A table from which the query needs only rows with the greatest or least partition values."""

    table: Materializable
    column: int
    """Id of the partition column with these values."""
    is_greatest: bool
    """Whether the query needs the greatest values. If False, it needs the least values."""
    rows: int | None
    """Number of rows that the query needs, or None if it needs only the partition value."""
    nulls_first: bool = False
    """Whether the query sorts nulls before all values."""


def needs_extremes(tree: Node) -> bool:
    """Return whether a plan has ``max`` or ``min`` without groups, or ``ORDER BY`` with a limit.

    The columns need not be partition columns.
    """
    return any(_is_of_all_rows(node) or _ordered(node) is not None for node in tree.walk())


def extremes(root: Node, partition_columns: frozenset[int], leaves: Leaves) -> Iterator[Extreme]:
    """Yield the tables from which an optimized plan needs only the greatest or least values."""
    for node in root.walk():
        ordered = _ordered(node)
        if ordered is not None:
            yield from _of_order(node, ordered, partition_columns, leaves)
        elif _is_of_all_rows(node):
            yield from _of_aggregate(node, partition_columns, leaves)


def _is_of_all_rows(node: Node) -> bool:
    """Return whether a node is an aggregate without groups that computes a ``max`` or ``min``."""
    if node.kind != "Aggregate" or node.expressions("groupingExpressions"):
        return False
    outputs = node.expressions("aggregateExpressions")
    return any(e.kind in _FUNCTIONS for output in outputs for e in output.walk())


def _ordered(node: Node) -> Node | None:
    """Return the global sort that a limit node applies to, or None for other nodes."""
    if node.kind != "GlobalLimit" or node.children[0].kind != "LocalLimit":
        return None
    below = node.children[0].children[0].below("Project")
    return below if below.kind == "Sort" and below.fields["global"] is True else None


def _of_aggregate(
    aggregate: Node, partition_columns: frozenset[int], leaves: Leaves
) -> Iterator[Extreme]:
    (below,) = aggregate.children
    table = _only_filtered(below, leaves)
    lineages = lineages_of(below, partition_columns)
    requested = set()
    for output in aggregate.expressions("aggregateExpressions"):
        call = output.children[0] if output.kind == "Alias" else output
        # An aggregate call with a FILTER clause has two children, and is not supported.
        function = call.children[0] if len(call.children) == 1 else call
        if call.kind != "AggregateExpression" or function.kind not in _FUNCTIONS:
            return
        columns = {lineage.column for lineage in lineages.of(function.children[0])}
        requested.add((columns.pop() if len(columns) == 1 else None, function.kind))
    column, name = requested.pop() if len(requested) == 1 else (None, "")
    if table is None or column is None:
        return
    # If the optimizer has dropped other functions of the aggregate, a later condition may still
    # read them, and they need every row.
    if not leaves.exposed.has_lost_function(table.place):
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
    """Return the number of rows of a limit, or 0 if the limit is too large or not a literal."""
    rows = int(limit.fields["value"]) if limit.kind == "Literal" else 0
    return rows if rows <= _MANY_ROWS else 0


def _only_filtered(node: Node, leaves: Leaves) -> Materializable | None:
    """Return the leaf below projections and at most one filter, or None for other nodes."""
    table = leaves.below(node)
    node = node.below("Project")
    if table is None or node is not table.top or table.top.subqueries:
        return None
    return table


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """The plan node that replaces a table, with a report."""

    extreme: Extreme
    node: LogicalPlan
    """New plan node: a leaf with at most one row, or a scan of fewer partitions."""
    report: Report
    """Report on the table, with the partitions that were read."""


def with_latest_rows(
    query: Query, executor: Executor
) -> tuple[Query, tuple[Report, ...], tuple[Path, ...]]:
    """Replace the tables from which the query needs only the last or first rows.

    Returns:
        The query (unchanged if there is no such table), a report for each replaced table, and the
        paths in the analyzed plan of the tables that one row replaces.
    """
    if not needs_extremes(query.optimized_tree):
        return query, (), ()
    leaves = Leaves(query.optimized_tree, query.analyzed_tree)
    searches = []
    columns = query.partition_columns
    conditions = list(partition_conditions(query.optimized_tree, columns))
    for extreme in extremes(query.optimized_tree, columns, leaves):
        scan = query.scan_of(extreme.table.leaf)
        if scan is not None and scan.is_listed and scan.paths == [extreme.table.place]:
            leaf = extreme.table.leaf
            own = tuple(c for c in conditions if c.lineage.leaf.path == leaf.path)
            site = scan.at(ScanSite(leaf, conditions=own), query.optimized)
            searches.append(_Search(query, extreme, site, site.scan))
    found = [one for one in executor.map(_Search.found, searches) if one is not None]
    if not found:
        return query, (), ()
    instead = query.with_leaves(
        {one.extreme.table.leaf.path: one.node for one in found},
        {one.extreme.table.place: one.node for one in found},
    )
    rows = tuple(one.extreme.table.place for one in found if one.extreme.rows is None)
    return instead, tuple(one.report for one in found), rows


def sealed(df: DataFrame, analyzed: Node, places: Iterable[Path]) -> DataFrame:
    """Return the planned query so that later conditions cannot call functions of one row.

    Spark allows functions directly above an aggregate, as in HAVING. They would need the rows that
    are not read. Above a projection, Spark raises an error.

    Args:
        df: The planned query.
        analyzed: The analyzed plan of the query.
        places: Paths of the tables in this plan that one row replaces.
    """
    top = analyzed.below("Filter")
    inner = [node.path for node in analyzed.walk() if node.kind == "Aggregate" and node is not top]
    is_below = any(
        path[: len(top.path)] == top.path
        and min(path, default=0) >= 0
        and all(path[: len(other)] != other for other in inner)
        for path in places
    )
    return df.select("*") if top.kind == "Aggregate" and is_below else df


@dataclass(slots=True, eq=False)
class _Search:
    """Search for the rows that the query needs from one table."""

    query: Query
    extreme: Extreme
    site: PrunedSite
    """The position in the plan that reads the table."""
    scan: ListedScan
    reports: list[Report] = field(default_factory=list)
    """Reports on the partitions that were read."""
    started: float = field(default_factory=time.perf_counter)

    @property
    def column(self) -> str:
        """Name of the partition column."""
        return self.scan.names[self.extreme.column]

    def found(self) -> _Found | None:
        """Return the replacement for the table, or None if Spark has to read the table."""
        try:
            return self._searched()
        except JVM_ERRORS:
            # Let Spark read the table. The filter may raise an error here for a row on which the
            # query itself never evaluates it.
            _log.debug("The last or first rows of a table could not be found.", exc_info=True)
            return None

    def _searched(self) -> _Found | None:
        table, catalyst = self.extreme.table, self.query.catalyst
        top = catalyst.plans.node(self.query.optimized, table.top.path)
        if not catalyst.plans.is_deterministic(top):
            return None  # the filter may keep different rows each time it runs
        self.site = self.site.with_conditions(self.query.optimized)
        values = self._values()
        if values is None or len(values) <= self.scan.config.planner_small_fact_partitions:
            return None
        if self.extreme.rows is None:
            return self._row(top, values)
        return self._rows(top, values, self.extreme.rows)

    def _values(self) -> pa.Array | None:
        """Return the column's sorted values in the partitions that meet the conditions.

        Return None if the values or their order in Spark are uncertain, or if the query may need
        rows with a null.
        """
        keys = self.scan.table.metadata.partition_schema
        if self.column not in keys.names:
            # A table of a named catalog may also be pruned by statistics of a data column. Then the
            # values of the column are unknown.
            return None
        key = keys.field(self.column)
        if not has_range(key.type) or is_char(key) or is_ambiguous(key):
            return None  # Spark sorts these values in a different order
        kept = self.scan.kept_values(self.site.needed, [self.column])
        typed = None if kept is None else parse(kept[self.column], key)
        if typed is None or typed.undecided is not None:
            return None
        values = pc.unique(typed.values)
        if self.extreme.rows is not None and self.extreme.nulls_first and values.null_count:
            return None
        values = values.drop_null()
        order = "descending" if self.extreme.is_greatest else "ascending"
        return values.take(pc.sort_indices(values, sort_keys=[("", order)]))

    def _row(self, top: LogicalPlan, values: pa.Array) -> _Found | None:
        """Return a leaf with one row that has the greatest or least value.

        The leaf is empty if the table has no matching row. Return None if the search stops before
        it finds a matching row.
        """
        table, catalyst = self.extreme.table, self.query.catalyst
        start = 0
        for number in _VALUES:
            scan = self._scan(values[start : start + number])
            rows = catalyst.execution.dataframe(self._kept(top, scan))
            if number > 1:
                key = F.col(quoted(self.column))
                rows = rows.orderBy(key.desc() if self.extreme.is_greatest else key.asc())
            plan = analyzed_plan(rows.limit(1))
            columns = list(shown(catalyst, plan, table.leaf, table.read))
            one = catalyst.execution.dataframe(catalyst.plans.projected(plan, columns))
            row = interruptibly(catalyst.spark, partial(internal_rows, one))
            start += number
            if len(row) or start >= len(values):
                output = catalyst.plans.node(self.query.optimized, table.leaf.path).output()
                return self._found(catalyst.plans.local_relation(output, row))
        return None

    def _rows(self, top: LogicalPlan, values: pa.Array, wanted: int) -> _Found | None:
        """Return a scan of the first partitions in ``values`` that together have ``wanted`` rows.

        Return None if all partitions may be needed, or if the search stops before it finds enough
        rows.
        """
        counted = start = 0
        for number in _VALUES:
            scan = self._scan(values[start : start + number])
            rows = self.query.catalyst.execution.dataframe(self._kept(top, scan))
            some = rows.limit(wanted - counted)
            counted += interruptibly(some.sparkSession, some.count)
            start += number
            if start >= len(values):
                return None
            if counted >= wanted:
                if len(self.reports) > 1:
                    self.reports.clear()  # the next scan reports on all partitions
                    scan = self._scan(values[:start])
                return self._found(scan)
        return None

    def _kept(self, top: LogicalPlan, scan: LogicalPlan) -> LogicalPlan:
        """Return a plan of the rows of ``scan`` that meet the query's conditions."""
        table = self.extreme.table
        inside = table.leaf.path[len(table.top.path) :]
        return self.query.catalyst.plans.replaced(top, {inside: scan})

    def _scan(self, values: pa.Array) -> LogicalPlan:
        """Return a scan of the partitions with these values, and add its report to ``reports``."""
        keys = DynamicFilteringData.from_arrow(pa.table({self.column: values}))
        node, report = self.scan.pruned(replace(self.site, data=(keys,)).needed)
        self.reports.append(report)
        return node

    def _found(self, node: LogicalPlan) -> _Found:
        which = "last" if self.extreme.is_greatest else "first"
        wanted = self.extreme.rows
        description = (
            f"the {which} partition with a row"
            if wanted is None
            else f"the {which} {wanted:,} rows"
        )
        seconds = time.perf_counter() - self.started
        used = FilterUse((self.column,), description, seconds=seconds)
        report = Report(self.scan.name, filters=(used,))
        return _Found(self.extreme, node, self.scan.counted(report, self.reports))
