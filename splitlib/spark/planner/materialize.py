"""Give each run of a query the same input: rows of small dimensions, and files of other tables.

A dimension (the small side of a join) runs once during planning. Its rows replace it in the plan.

Spark itself lists a partitioned table each time a query on the table runs. It lists an
unpartitioned table again after every INSERT in the session. So the scan of such a table is replaced
by a scan of the files that exist during planning. Pruned scans always read a fixed list of files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from itertools import compress

import pyarrow as pa
from pyspark.sql import DataFrame

from splitlib.config import SplitConfig
from splitlib.errors import LocationNotAllowed, MissingPartition, SplitlibError
from splitlib.redaction import get_logger
from splitlib.spark.allowed_scans import allowed_part
from splitlib.spark.determinism import why_not_deterministic
from splitlib.spark.dimension import kept_rows
from splitlib.spark.file_scan import canonical_paths
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.file_index import directories_of, files_in
from splitlib.spark.jvm.gateway import JVM_ERRORS, analyzed_plan, internal_rows
from splitlib.spark.jvm.java_handles import JavaArray
from splitlib.spark.jvm.pinned_relation import pinned_leaf
from splitlib.spark.jvm.spark_handles import CatalystExpression, InternalRow, LogicalPlan
from splitlib.spark.logical_plan import Node, Path
from splitlib.spark.planner.decide import copied_leaves
from splitlib.spark.planner.join_graph import Dimension
from splitlib.spark.planner.lineage import TABLES, leaf_ids
from splitlib.spark.planner.materializable import (
    Columns,
    Materializable,
    SourceLeaf,
    columns_of,
    inputs_of_joins,
    rdds_of,
    sampled_leaves,
    source_leaves,
)
from splitlib.spark.planner.prune import PrunedSites
from splitlib.spark.planner.query import Query, wide_reads
from splitlib.spark.planner.scan_sites.planned_scan import Scan, ScanOutcome, Site

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Materialized:
    """The rows of dimensions that ran during planning, and the plans in which they are used."""

    optimized: LogicalPlan
    """The optimized plan, with these rows in place of leaves."""
    leaves: Mapping[Path, LogicalPlan]
    """Leaves with these rows, by the path of the leaf to replace in the analyzed plan.

    The optimizer evaluates no expressions on them. A dimension that could not run has a leaf with a
    fixed list of files instead.
    """


def materialize(
    query: Query,
    dimensions: Iterable[Dimension],
    run_once: Iterable[Sequence[Materializable]],
    executor: Executor,
    sites: Collection[Path],
) -> Materialized:
    """Execute the leaves of dimensions with their filters, and replace these leaves by their rows.

    If Spark raises an error, the leaf stays in the plan with a fixed list of files, because the
    query itself may never evaluate the filter on it.

    Args:
        query: The query.
        dimensions: Dimensions whose keys are collected.
        run_once: Leaves to execute, one group after the other.
        executor: Executor that executes the leaves of a group in parallel.
        sites: Paths of the leaves that keys may prune. They are not executed.
    """
    computed = _checkpoints(query, dimensions)
    opaque = {ids: query.catalyst.execution.opaque(plan) for ids, plan in computed.items()}
    leaves = _by_path(query.analyzed_tree, opaque)
    known = _by_path(query.optimized_tree, computed)
    for source, (table, leaf) in _rows_of_sources(query, dimensions, executor, sites).items():
        leaves[source.table.path] = table
        known[source.leaf.path] = leaf
    optimized = query.catalyst.plans.replaced(query.optimized, known)
    done: set[Path] = set()
    for group in run_once:
        # If a leaf could not be replaced, leaves whose filters read it are not replaced either.
        ready = [one for one in group if one.read_by_subqueries <= done]
        rows = _rows_of(query.catalyst, optimized, ready, executor, query.config)
        done |= rows.keys()
        leaves |= {one.place: rows[one.leaf.path][1] for one in ready if one.leaf.path in rows}
        new = {path: local for path, (local, _) in rows.items()}
        optimized = query.catalyst.plans.replaced(optimized, new, leaf_for_leaf=True)
    failed = [one for group in run_once for one in group if one.leaf.path not in done]
    old = (query.catalyst.plans.node(optimized, one.leaf.path) for one in failed)
    fixed = zip(failed, executor.map(partial(_fixed_leaf, query.catalyst), old), strict=True)
    kept = {one: leaf for one, leaf in fixed if leaf is not None}
    leaves |= {one.place: leaf for one, leaf in kept.items()}
    optimized = query.catalyst.plans.replaced(
        optimized, {one.leaf.path: leaf for one, leaf in kept.items()}, leaf_for_leaf=True
    )
    return Materialized(optimized, leaves)


def checkpointed_inputs(query: Query, usable: Callable[[Node], bool]) -> dict[Path, LogicalPlan]:
    """Compute the join inputs that are not deterministic, and keep their rows.

    Return plans that read these rows, by path in the analyzed plan. If join inputs are nested, only
    the outermost one is computed. An input that raises an error is left out.

    Args:
        query: The query.
        usable: Function that returns whether an input is small enough and reads no scan to prune.
    """
    catalyst = query.catalyst
    found: dict[Path, LogicalPlan] = {}
    for node in inputs_of_joins(query.analyzed_tree):
        inside = any(node.path[: len(path)] == path for path in found)
        if inside or not usable(node):
            continue
        plan = catalyst.plans.node(query.analyzed, node.path)
        if (
            why_not_deterministic(catalyst.execution.dataframe(plan), trusts_foreign=False)
            is not None
        ):
            rows = allowed_part(catalyst, plan, query.config)
            try:
                found[node.path] = catalyst.execution.opaque(analyzed_plan(kept_rows(rows)))
            except JVM_ERRORS:
                _log.debug("An input of a join could not be computed.", exc_info=True)
    return found


def _checkpoints(
    query: Query, dimensions: Iterable[Dimension]
) -> dict[frozenset[int], LogicalPlan]:
    """Compute the RDDs that dimensions read, and keep their rows, because a rerun may change them.

    Return plans that read these rows, by column ids. RDDs without columns, and RDDs whose rows
    cannot change, are not computed.
    """
    catalyst = query.catalyst
    found: dict[frozenset[int], LogicalPlan] = {}
    for leaf in rdds_of(dimensions):
        ids = leaf_ids(leaf)
        node = catalyst.plans.node(query.optimized, leaf.path)
        if ids and ids not in found and not catalyst.plans.has_fixed_rows(node):
            found[ids] = analyzed_plan(kept_rows(catalyst.execution.dataframe(node)))
    return found


def _rows_of_sources(
    query: Query, dimensions: Iterable[Dimension], executor: Executor, sites: Collection[Path]
) -> dict[SourceLeaf, tuple[LogicalPlan, LogicalPlan]]:
    """Read the small tables of data sources that dimensions read, and keep their rows.

    Such a table may change between planning and reading. Return two plans for each table: one for
    the analyzed plan, with nulls in unread columns, and a leaf for the optimized plan. Tables that
    cannot be read are left out.
    """
    root, catalyst = query.optimized_tree, query.catalyst
    if not any(node.kind in TABLES for node in root.walk()):
        return {}
    if copied_leaves(query.analyzed_tree, root):
        return {}

    def fits(leaf: Node) -> bool:
        size = query.size_of(leaf, ())
        return size is not None and size <= query.broadcast_threshold

    plans, expressions = catalyst.plans, catalyst.expressions
    found = source_leaves(dimensions, root, query.analyzed_tree, sites, fits)
    tables = [plans.node(query.analyzed, one.table.path) for one in found]
    is_whole = map(catalyst.relations.leaves_conditions_to_spark, tables)
    sources = list(compress(found, is_whole))
    narrow = [one for one in sources if one.is_exposed and one.unread]
    wide = wide_reads(query, narrow)
    sources = [one for one in sources if one in wide or one not in narrow]
    tops = (
        wide[one].top if one in wide else plans.node(query.optimized, one.top.path)
        for one in sources
    )
    parts = [allowed_part(catalyst, top, query.config) for top in tops]
    kept: dict[SourceLeaf, tuple[LogicalPlan, LogicalPlan]] = {}
    for one, rows in zip(sources, executor.map(_rows_or_none, parts), strict=True):
        if rows is None:
            continue
        leaf, read = plans.node(query.optimized, one.leaf.path), wide.get(one)
        local = plans.local_relation(leaf.output() if read is None else read.output, rows)
        unread = one.unread if read is None else read.unread
        columns = [
            expressions.alias_like(expressions.null_like(column).child(), column)
            if i in unread
            else column
            for i, column in enumerate(plans.output(plans.node(query.analyzed, one.table.path)))
        ]
        table = plans.projected(catalyst.execution.opaque(local), columns)
        kept[one] = table, local if read is None else plans.projected(local, plans.output(leaf))
    return kept


def _by_path(root: Node, plans: Mapping[frozenset[int], LogicalPlan]) -> dict[Path, LogicalPlan]:
    """Return the plan that replaces each leaf, by path of the leaf.

    ``plans`` has the plans by column ids. A plan replaces the leaves with the same column ids.
    """
    leaves = ((node.path, leaf_ids(node)) for node in root.walk() if node.is_leaf)
    return {path: plans[ids] for path, ids in leaves if ids in plans}


def _rows_of(
    catalyst: Catalyst,
    optimized: LogicalPlan,
    group: Sequence[Materializable],
    executor: Executor,
    config: SplitConfig,
) -> dict[Path, tuple[LogicalPlan, LogicalPlan]]:
    """Execute a group of leaves with their filters, and return new leaves with the rows, by path.

    Each executed leaf gets two new leaves with the same attributes and rows. The optimizer
    evaluates expressions on the rows of the first, but not of the second. Plans with the same
    result are executed once, with the columns that the query reads from at least one of their
    leaves. If a plan raises an error, its leaves are left out.
    """
    equal: list[tuple[LogicalPlan, list[Materializable]]] = []
    for one in group:
        plan = catalyst.plans.node(optimized, one.top.path)
        same = next(
            (ones for other, ones in equal if catalyst.plans.same_result(plan, other)), None
        )
        if same is None:
            equal.append((plan, [one]))
        else:
            same.append(one)
    plans = (
        catalyst.plans.projected(plan, list(shown(catalyst, plan, ones[0].leaf, _read_in(ones))))
        for plan, ones in equal
    )
    # All plans are checked before the first one runs, because a check may raise an error.
    parts = [allowed_part(catalyst, plan, config) for plan in plans]
    rows = executor.map(_rows_or_none, parts)
    new: dict[Path, tuple[LogicalPlan, LogicalPlan]] = {}
    for (_, ones), found in zip(equal, rows, strict=True):
        if found is None:
            continue
        opaque = None
        for one in ones:
            output = catalyst.plans.node(optimized, one.leaf.path).output()
            local = catalyst.plans.local_relation(output, found)
            # All leaves with this result read the same RDD, so that Spark broadcasts it once.
            if opaque is None:
                opaque = catalyst.execution.opaque(local)
            else:
                opaque = catalyst.plans.with_named_arguments(opaque, {"output": output})
            new[one.leaf.path] = local, opaque
    return new


def _rows_or_none(part: DataFrame) -> JavaArray[InternalRow] | None:
    """Execute a part of the query, and return its rows, or None if Spark raises an error."""
    try:
        return internal_rows(part)
    except JVM_ERRORS:
        _log.debug("A dimension could not be executed during planning.", exc_info=True)
        return None


def _read_in(places: Iterable[Materializable]) -> frozenset[int]:
    """Return the positions of the columns that the query reads from at least one leaf."""
    return frozenset().union(*(place.read for place in places))


def shown(
    catalyst: Catalyst, plan: LogicalPlan, leaf: Node, read: frozenset[int]
) -> Iterator[CatalystExpression]:
    """Yield the columns of a leaf, with null in place of columns that the query does not read."""
    output = catalyst.plans.output(plan)
    nulls: dict[str, CatalystExpression] = {}
    for i, column in enumerate(leaf.columns):
        if i in read:
            yield output[i]
            continue
        kind = str(column.fields["dataType"])
        if kind not in nulls:
            # The null gets a new id, because the optimizer treats columns with equal ids as equal.
            nulls[kind] = catalyst.expressions.null_like(output[i])
        yield nulls[kind]


def with_fixed_files(
    query: Query, run_once: Iterable[Sequence[Materializable]], executor: Executor
) -> Query:
    """Give the unpartitioned tables of a query fixed lists of files, in both of its plans.

    The executor lists the files of several tables in parallel.

    Args:
        query: The query.
        run_once: Leaves that stay unchanged here, because they will be replaced by their rows.
        executor: Executor that lists the files.
    """
    plans = query.catalyst.plans
    executed = {columns_of(one.leaf) for group in run_once for one in group}
    analyzed = _unsampled(query.analyzed_tree)
    optimized = _unsampled(query.optimized_tree)
    # Leaves with the same attribute ids read the same table, so its files are listed only once.
    places = {columns: (query.optimized, path) for path, columns in optimized.items()}
    places |= {columns: (query.analyzed, path) for path, columns in analyzed.items()}
    old = {columns: plans.node(*at) for columns, at in places.items() if columns not in executed}
    fixed = executor.map(partial(_fixed_leaf, query.catalyst), old.values())
    new = {columns: leaf for columns, leaf in zip(old, fixed, strict=True) if leaf is not None}
    return query.with_equal_leaves(
        {path: new[columns] for path, columns in optimized.items() if columns in new},
        {path: new[columns] for path, columns in analyzed.items() if columns in new},
    )


def _unsampled(tree: Node) -> dict[Path, Columns]:
    """Return the columns of each ``LogicalRelation`` that is not sampled, by path.

    Leaves without columns are left out, because nothing shows which ones read the same files.
    """
    sampled = sampled_leaves(tree)
    leaves = (node for node in tree.walk() if node.kind == "LogicalRelation" and node.columns)
    return {leaf.path: columns_of(leaf) for leaf in leaves if leaf.path not in sampled}


def _fixed_leaf(catalyst: Catalyst, leaf: LogicalPlan) -> LogicalPlan | None:
    """Return a copy of a leaf with a fixed list of files, or None to keep the leaf unchanged.

    A leaf is kept if it is partitioned, if it does not read files, if it already reads a fixed list
    of files, or if such a list is not possible.
    """
    index = catalyst.relations.index_to_fix(leaf)
    if index is None:
        return None
    try:
        listing = files_in(catalyst.scala, directories_of(catalyst.scala, index))
        files = pa.Table.from_batches([listing.files])
        files = files.set_column(0, "path", canonical_paths(files["path"]))
        none, known = pa.table({}), listing.statuses if files.num_rows else None
        return pinned_leaf(catalyst, leaf, files, none, None, known, keeps_entry=True)
    except (RuntimeError, *JVM_ERRORS):  # Spark lists the files itself at run time
        _log.debug(
            "Spark lists the files of %s at run time.",
            catalyst.relations.name_of(leaf),
            exc_info=True,
        )
        return None


def fixed_scan(query: Query, scan: Scan, sites: Sequence[Site]) -> LogicalPlan | None:
    """Return a scan with a fixed list of files for a partitioned table that no keys prune.

    Return None if the optimizer has dropped the scan, if the query samples the table, or if Spark
    cannot read a fixed list of its files.

    Raises:
        LocationNotAllowed: if the table has files outside of ``allowed_locations``.
        MissingPartition: if a partition's directory does not exist and ``missing_partition`` is
            set to ``error``.
    """
    if not sites:
        return None  # the optimizer has dropped the scan
    if not sampled_leaves(query.analyzed_tree).isdisjoint(scan.paths):
        return None  # a sample depends on the order of the files
    try:
        return scan.fixed(sites, query.optimized)
    except (LocationNotAllowed, MissingPartition):
        raise
    except (SplitlibError, RuntimeError, *JVM_ERRORS):  # Spark lists the files itself at run time
        _log.debug("Spark lists the files of %s at run time.", scan.name, exc_info=True)
        return None


def listed_later(
    query: Query,
    outcomes: Collection[ScanOutcome],
    sites: PrunedSites,
    dead: Mapping[Path, LogicalPlan],
    copied: Collection[Scan],
) -> tuple[str, ...]:
    """Return the names of the tables whose files Spark lists when the query runs."""
    read = {one.scan for one in sites.values()}.union(copied)
    found = [
        outcome.scan.name
        for outcome in outcomes
        if outcome.scan.is_listed and outcome.instead is None and outcome.scan in read
    ]
    catalyst = query.catalyst
    sampled = sampled_leaves(query.analyzed_tree)
    for node in query.analyzed_tree.walk():
        is_listed = node.kind == "HiveTableRelation" or (
            node.path in sampled and node.kind == "LogicalRelation"
        )
        if is_listed and node.path not in dead:
            leaf = catalyst.plans.node(query.analyzed, node.path)
            found.append(catalyst.relations.name_of(leaf))
    return tuple(dict.fromkeys(found))
