"""The query to plan: its plans, information that only Spark has, and functions to rewrite it."""

from __future__ import annotations

import os
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple, Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from splitlib.config import ENV_PREFIX, SplitConfig
from splitlib.errors import ConfigError
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.file_index import pinned_roots, some_files_of
from splitlib.spark.jvm.gateway import JVM_ERRORS, analyzed_plan, have_same_schema, ran_a_command
from splitlib.spark.jvm.hadoop import read_footer
from splitlib.spark.jvm.java_handles import Seq
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.spark_handles import CatalystAttribute, LogicalPlan
from splitlib.spark.logical_plan import Expression, Node, Path
from splitlib.spark.planner.eligibility import TypeNames
from splitlib.spark.planner.exposed import exposed_part, shows_all_columns
from splitlib.spark.planner.lineage import RELATIONS, TABLES, leaf_ids
from splitlib.spark.planner.materializable import SourceLeaf, columns_of
from splitlib.spark.planner.scan_sites.planned_scan import Scan
from splitlib.spark.planner.scan_sites.prunable import PrunableScans
from splitlib.spark.session import settings_of

# Maximum number of files whose footers are read to count the rows of a table.
_FEW_FILES: Final = 4
# Leaves with rows in memory, on which the optimizer evaluates expressions.
_COMPUTED: Final = frozenset({"LocalRelation", "OneRowRelation"})


def rewritten_query(
    catalyst: Catalyst,
    df: DataFrame,
    analyzed: LogicalPlan,
    new: Mapping[Path, LogicalPlan],
    narrowed: Mapping[Path, LogicalPlan] | None = None,
    replaced: Mapping[Path, LogicalPlan] | None = None,
) -> DataFrame:
    """Return a DataFrame that runs a query with some plan nodes replaced.

    Spark searches plans for relations, for example before it overwrites a table. So the original
    relations stay in the plan, but are not read. A cached result in ``analyzed`` also hides the
    relations below it.

    Args:
        catalyst: Access to the session's Catalyst plans.
        df: The query.
        analyzed: Analyzed plan of the query, in which cached results may replace parts of the plan.
        new: New nodes by path, which do not contain the original relation.
        narrowed: New nodes by path, which contain the original relation.
        replaced: Nodes by path that have already replaced original relations in ``analyzed``.
    """
    # Spark does not search subqueries for relations, so add the relations outside of subqueries.
    narrowed, replaced = narrowed or {}, replaced or {}
    places = [
        path for path in (*new, *replaced) if path not in narrowed and min(path, default=0) >= 0
    ]
    if places:
        node = {**replaced, **new}[places[0]]
        new = {**new, places[0]: catalyst.plans.beside(node, _relations(catalyst, df))}
    elif new or narrowed:
        leaves = catalyst.plans.leaves(analyzed)
        if any(catalyst.plans.kind(leaf) == "InMemoryRelation" for leaf in leaves):
            nodes = catalyst.plans.tree(analyzed).walk()
            cached = [n.path for n in nodes if n.kind == "InMemoryRelation"]
            # A result of this module may have the leaf in a join that is not a part of the tree.
            for path in [path for path in cached if min(path, default=0) >= 0][:1]:
                node = catalyst.plans.node(analyzed, path)
                new = {**new, path: catalyst.plans.beside(node, _relations(catalyst, df))}
    return catalyst.execution.dataframe(catalyst.plans.replaced(analyzed, {**new, **narrowed}))


def refresh(df: DataFrame) -> None:
    """Make Spark list the files of all relations in a query again.

    Raises:
        ConfigError: if the query reads a fixed list of files, which cannot be listed again.
    """
    if internals_unavailable(df.sparkSession) is not None:
        # This needs Spark's internals. Spark Connect does not need it, because it analyzes a query
        # each time it runs.
        return
    catalyst = Catalyst(df.sparkSession)
    plan = analyzed_plan(df)
    nodes = catalyst.plans.tree(plan).walk()
    leaves = [catalyst.plans.node(plan, n.path) for n in nodes if n.kind == "LogicalRelation"]
    if any(catalyst.relations.is_pinned(leaf) for leaf in leaves):
        raise ConfigError(
            "The query reads a fixed list of files, which load() selected.",
            hint="call replan on the result of load(), and repeat the steps that followed.",
        )
    for leaf in leaves:
        catalyst.relations.refresh(leaf)


def config_of(spark: SparkSession) -> SplitConfig:
    """Return the session's settings. By default, missing directories are skipped as in Spark."""
    environ = {f"{ENV_PREFIX}MISSING_PARTITION": "skip", **os.environ}
    return SplitConfig.resolve(spark_conf=settings_of(spark), environ=environ)


def is_command(df: DataFrame) -> bool:
    """Return whether ``df`` may be the result of a command, which must not run twice."""
    return internals_unavailable(df.sparkSession) is not None or ran_a_command(df)


def _relations(catalyst: Catalyst, df: DataFrame) -> list[LogicalPlan]:
    """Return the distinct relations that a query reads outside of its subqueries."""
    plan = analyzed_plan(df)
    leaves = catalyst.plans.leaves(plan)
    relations = [leaf for leaf in leaves if catalyst.plans.kind(leaf) in RELATIONS]
    # Most plans have no pinned scan. This test of the whole plan needs fewer JVM calls than one of
    # each relation.
    if pinned_roots(catalyst.scala, plan):
        relations = [leaf for leaf in relations if not catalyst.relations.is_pinned(leaf)]
    return catalyst.plans.distinct(relations)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Query:
    """A query with its plans, and with information about them that only Spark has.

    Implements :class:`splitlib.spark.planner.decide.PlanFacts` for a Spark session.
    """

    df: DataFrame
    """The user's query."""
    catalyst: Catalyst
    """Access to the session's Catalyst plans."""
    config: SplitConfig
    """Settings of the session."""
    prunable: PrunableScans
    """The scans of the analyzed plan that can be pruned."""
    analyzed: LogicalPlan
    """The analyzed plan in the JVM."""
    analyzed_tree: Node
    """The analyzed plan as a tree of Python objects."""
    optimized: LogicalPlan
    """The optimized plan in the JVM."""
    optimized_tree: Node
    """The optimized plan as a tree of Python objects."""
    broadcast_threshold: int
    """Maximum size in bytes of a join side that Spark broadcasts."""
    unknown_size: int
    """Size in bytes that Spark assumes for relations of unknown size."""
    is_command: bool
    """Whether the query selects the rows that a command, such as MERGE, changes."""
    replaced_leaves: Mapping[Path, LogicalPlan] = field(default_factory=dict)
    """Leaves of the analyzed plan that have already replaced other leaves, by path."""
    pruned_bytes: Mapping[Path, int] = field(default_factory=dict)
    """Bytes that pruned scans read, by path in the optimized plan."""

    @property
    def scans(self) -> Sequence[Scan]:
        """The scans that can be pruned, in the order of the analyzed plan."""
        return tuple(self.prunable.by_columns.values())

    @property
    def scan_paths(self) -> Mapping[Scan, Collection[Path]]:
        """The scans that can be pruned, with their paths in the analyzed plan."""
        return {scan: scan.paths for scan in self.scans}

    @property
    def partition_columns(self) -> frozenset[int]:
        """The ids of the columns by which scans can be pruned."""
        return self.prunable.columns

    @property
    def deterministic(self) -> bool:
        """Whether the query returns the same rows each time it runs."""
        plans = self.catalyst.plans
        # The optimizer evaluates functions such as `reflect` on rows in memory. The optimized plan
        # then has constants in their place, but the next optimization has other constants.
        is_computed = any(leaf.kind in _COMPUTED for leaf in self.analyzed_tree.walk())
        return plans.is_deterministic(self.optimized) and (
            not is_computed or plans.is_deterministic(self.analyzed)
        )

    def has_schema_of(self, planned: DataFrame, *, nullability: bool) -> bool:
        """Return whether a DataFrame has the query's columns and types.

        The nullability may differ for constants: ``CAST('today' AS DATE)`` may be null, but its
        value in the analyzed plan may not.
        """
        if have_same_schema(planned, self.df, nullability=nullability):
            return True
        fixed = self.catalyst.execution.dataframe(self.analyzed)
        return have_same_schema(planned, fixed, nullability=nullability) and have_same_schema(
            planned, self.df, nullability=False
        )

    @property
    def dimension_bytes(self) -> int:
        """Maximum number of bytes to read for collecting the keys of a dimension."""
        return self.config.planner_dimension_bytes

    def scan_of(self, leaf: Node) -> Scan | None:
        """Return the prunable scan that a leaf reads, or None for any other node.

        The leaf may be in the analyzed or in the optimized plan.
        """
        return self.prunable.of_leaf(leaf)

    def is_listed(self, scan: Scan) -> bool:
        """Return whether splitlib prunes a scan by listing partitions, and not by a condition."""
        return scan.is_listed

    def places_of(self, scan: Scan) -> frozenset[str]:
        """Return the tables and directories that a scan reads."""
        return self.catalyst.relations.places_read_by(scan.leaf)

    def places_read_by(self, leaf: Node) -> frozenset[str]:
        """Return the tables and directories that a leaf of the optimized plan reads."""
        return self.catalyst.relations.places_read_by(
            self.catalyst.plans.node(self.optimized, leaf.path)
        )

    def size_of(self, leaf: Node, copied: Collection[Scan]) -> int | None:
        """Return the number of bytes that a leaf of the optimized plan reads; None if unknown.

        ``copied`` has the scans of the analyzed plan that the leaf may be a copy of.
        """
        if leaf.path in self.pruned_bytes:
            return self.pruned_bytes[leaf.path]
        scans = (self.scan_of(leaf), *copied)
        if any(scan is not None and scan.is_placeholder for scan in scans):
            return None  # Spark cannot execute the placeholder of a named catalog's table
        return self._size(self.catalyst.plans.node(self.optimized, leaf.path))

    def rows_of(self, leaf: Node) -> int | None:
        """Return the number of rows in the table that a leaf of the optimized plan reads.

        The number comes from Spark's statistics, or from footers if the table has only a few
        Parquet files. Return None if neither is available.
        """
        node = self.catalyst.plans.node(self.optimized, leaf.path)
        rows = self.catalyst.plans.rows_of(node)
        return self._rows_in_footers(node) if rows is None else rows

    def _rows_in_footers(self, node: LogicalPlan) -> int | None:
        catalyst = self.catalyst
        index = catalyst.relations.listed_index_of(node)
        if index is None or catalyst.relations.format_of(node)[0] != "parquet":
            return None
        files = some_files_of(catalyst.scala, index, _FEW_FILES + 1)
        if len(files) > _FEW_FILES:
            return None
        jvm, conf = catalyst.scala.jvm, catalyst.execution.hadoop_conf
        places = zip(files["path"].to_pylist(), files["size"].to_pylist(), strict=True)
        try:
            footers = [read_footer(jvm, conf, *place) for place in places]
        except (OSError, pa.ArrowException, *JVM_ERRORS):
            return None  # the footer cannot be read, for example because it is encrypted
        return sum(int(footer.metadata.num_rows) for footer in footers)

    def size_in_analyzed(self, leaf: Node) -> int | None:
        """Return the number of bytes that a leaf of the analyzed plan reads; None if unknown."""
        return self._size(self.catalyst.plans.node(self.analyzed, leaf.path))

    def type_of(self, expression: Expression) -> TypeNames:
        """Return the type of an expression of the optimized plan."""
        kind = self.catalyst.plans.expression_at(self.optimized, expression.place).dataType()
        return TypeNames(kind.typeName(), kind.catalogString())

    def broadcast_of(self, plan: LogicalPlan, node: Node) -> Hashable | None:
        """Return a hash that is equal for equal join sides, or None if the side is not broadcast.

        Args:
            plan: The optimized plan. Some dimensions may be replaced by their rows.
            node: A side of a join in the plan.
        """
        build_side = self.catalyst.plans.node(plan, node.path)
        if self.catalyst.plans.size_of(build_side) > self.broadcast_threshold:
            return None
        return self.catalyst.plans.semantic_hash(build_side)

    def optimized_with(self, new: Mapping[Path, LogicalPlan], part: Path = ()) -> Node:
        """Replace nodes of the analyzed plan by path, and return its part at a path, optimized."""
        plan = self.catalyst.plans.node(self.catalyst.plans.replaced(self.analyzed, new), part)
        return self.catalyst.plans.tree(self.catalyst.execution.optimized(plan))

    def with_leaves(
        self,
        optimized_leaves: Mapping[Path, LogicalPlan],
        analyzed_leaves: Mapping[Path, LogicalPlan],
    ) -> Self:
        """Return a copy of the query with new leaves for some scans, which are not pruned again."""
        catalyst = self.catalyst
        analyzed = catalyst.plans.replaced(self.analyzed, analyzed_leaves)
        optimized = catalyst.plans.replaced(self.optimized, optimized_leaves)
        return replace(
            self,
            prunable=self.prunable.without(analyzed_leaves.keys()),
            analyzed=analyzed,
            analyzed_tree=catalyst.plans.tree(analyzed),
            optimized=optimized,
            optimized_tree=catalyst.plans.tree(optimized),
            replaced_leaves={**self.replaced_leaves, **analyzed_leaves},
        )

    def with_equal_leaves(
        self,
        optimized_leaves: Mapping[Path, LogicalPlan],
        analyzed_leaves: Mapping[Path, LogicalPlan],
    ) -> Self:
        """Return a copy of the query with new leaves that have the columns of the old leaves."""
        replaced = partial(self.catalyst.plans.replaced, leaf_for_leaf=True)
        return replace(
            self,
            analyzed=replaced(self.analyzed, analyzed_leaves),
            optimized=replaced(self.optimized, optimized_leaves),
            replaced_leaves={**self.replaced_leaves, **analyzed_leaves},
        )

    def _size(self, node: LogicalPlan) -> int | None:
        size = self.catalyst.plans.size_of(node)
        return size if size < self.unknown_size else self.catalyst.execution.size_on_disk(node)


class WideRead(NamedTuple):
    """A plan that reads an exposed table with all columns that later conditions may read."""

    top: LogicalPlan
    output: Seq[CatalystAttribute]
    unread: frozenset[int]
    """Positions of the table's columns that are not read."""


def wide_reads(query: Query, sources: Sequence[SourceLeaf]) -> dict[SourceLeaf, WideRead]:
    """Return plans that read the rows of exposed tables. Tables without such a plan are left out.

    The optimized plan has only the columns that the query reads, and conditions that the source
    evaluates are no longer in it. So the exposed part is optimized alone, which keeps its columns.
    """
    part = exposed_part(query.analyzed_tree)
    if not sources or part is None:
        return {}
    plans = query.catalyst.plans
    plan = query.catalyst.execution.optimized(plans.node(query.analyzed, part))
    nodes = {node.path: node for node in plans.tree(plan).walk()}
    is_whole = shows_all_columns(query.analyzed_tree, part)
    found = {}
    for one in sources:
        columns = columns_of(one.table)
        # No leaf has these columns if the optimizer has removed fields of structs, because this
        # changes the types.
        at = [n for n in nodes.values() if n.kind in TABLES and columns_of(n) <= columns]
        if len(at) != 1 or not at[0].path or not (is_whole or columns_of(at[0]) == columns):
            continue
        ids = leaf_ids(at[0])
        unread = [i for i, c in enumerate(one.table.columns) if c.attribute_id not in ids]
        if not all(one.table.columns[i].fields["nullable"] for i in unread):
            continue  # a column that is not nullable cannot be replaced by null
        above = nodes[at[0].path[:-1]]
        is_filter = above.kind == "Filter" and not above.subqueries
        top = plans.node(plan, above.path if is_filter else at[0].path)
        if plans.size_of(top) <= query.broadcast_threshold:
            output = plans.node(plan, at[0].path).output()
            found[one] = WideRead(top, output, frozenset(unread))
    return found
