"""Run small dimensions once during planning, and put their rows into the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from pyspark.sql import DataFrame

from splitlib.config import SplitConfig
from splitlib.redaction import get_logger
from splitlib.spark.allowed_scans import allowed_part
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.dataframes import analyzed_plan, internal_rows
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.java_handles import JavaArray
from splitlib.spark.jvm.spark_handles import CatalystExpression, InternalRow, LogicalPlan
from splitlib.spark.kept_rows import kept_rows
from splitlib.spark.keys.collect import why_not_deterministic
from splitlib.spark.logical_plan import Node, Path
from splitlib.spark.planner.join_graph import Dimension
from splitlib.spark.planner.lineage import leaf_columns, leaf_ids
from splitlib.spark.planner.materializable import Materializable, inputs_of_joins, rdds_of
from splitlib.spark.planner.query import Query

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Materialized:
    """The rows of dimensions that have run, for the optimized and the analyzed plan of a query."""

    optimized: LogicalPlan
    """The optimized plan with these rows."""
    leaves: Mapping[Path, LogicalPlan]
    """New leaves by their path in the analyzed plan."""


def materialize(
    query: Query,
    dimensions: Iterable[Dimension],
    run_once: Iterable[Sequence[Materializable]],
    executor: Executor,
) -> Materialized:
    """Run the leaves of dimensions, and replace these leaves by their rows.

    A leaf that raises an error stays in the plan: the query may not evaluate its filter.

    Args:
        query: The query.
        dimensions: Dimensions whose keys are collected.
        run_once: Leaves to run, one group after the other.
        executor: Executor that runs the leaves of a group in parallel.
    """
    computed = _checkpoints(query, dimensions)
    leaves = _by_path(query.analyzed_tree, computed)
    optimized = query.catalyst.plans.replaced(
        query.optimized, _by_path(query.optimized_tree, computed)
    )
    done: set[Path] = set()
    for group in run_once:
        # A leaf also stays in the plan if its filter reads a leaf that does.
        ready = [one for one in group if one.read_by_subqueries <= done]
        rows = _rows_of(query.catalyst, optimized, ready, executor, query.config)
        done |= rows.keys()
        leaves |= {one.place: rows[one.leaf.path] for one in ready if one.leaf.path in rows}
        optimized = query.catalyst.plans.replaced(optimized, rows)
    return Materialized(optimized, leaves)


def checkpointed_inputs(query: Query, usable: Callable[[Node], bool]) -> dict[Path, LogicalPlan]:
    """Compute the join inputs that are not deterministic, and keep their rows.

    Return plans that read these rows, by path in the analyzed plan. If join inputs are nested, only
    the outermost one is computed. An input that raises an error is left out.

    Args:
        query: The query.
        usable: Function that returns whether an input is small enough, and reads no scan to prune.
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
                found[node.path] = analyzed_plan(kept_rows(rows))
            except JVM_ERRORS:
                _log.debug("An input of a join could not be computed.", exc_info=True)
    return found


def _checkpoints(
    query: Query, dimensions: Iterable[Dimension]
) -> dict[frozenset[int], LogicalPlan]:
    """Compute the RDDs that dimensions read, and keep their rows, because they may change.

    Return plans that read these rows, by column ids. The rows of checkpointed RDDs do not change,
    so these RDDs are not computed.
    """
    catalyst = query.catalyst
    found: dict[frozenset[int], LogicalPlan] = {}
    for leaf in rdds_of(dimensions):
        ids = leaf_ids(leaf)
        node = catalyst.plans.node(query.optimized, leaf.path)
        if ids not in found and not catalyst.plans.is_checkpointed(node):
            found[ids] = analyzed_plan(kept_rows(catalyst.execution.dataframe(node)))
    return found


def _by_path(root: Node, plans: Mapping[frozenset[int], LogicalPlan]) -> dict[Path, LogicalPlan]:
    """Return the plans by the paths of the leaves with the same column ids."""
    leaves = ((node.path, leaf_ids(node)) for node in root.walk() if node.is_leaf)
    return {path: plans[ids] for path, ids in leaves if ids in plans}


def _rows_of(
    catalyst: Catalyst,
    optimized: LogicalPlan,
    group: Sequence[Materializable],
    executor: Executor,
    config: SplitConfig,
) -> dict[Path, LogicalPlan]:
    """Run a group of leaves; return new leaves with their rows and the same attributes, by path.

    Plans with the same result run once, with all columns that any of their leaves needs. Leaves
    whose plan raises an error are left out.
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
    # Check all plans before one of them runs.
    parts = [allowed_part(catalyst, plan, config) for plan in plans]
    rows = executor.map(_rows_or_none, parts)
    return {
        one.leaf.path: catalyst.plans.local_relation(
            catalyst.plans.node(optimized, one.leaf.path).output(), found
        )
        for (_, ones), found in zip(equal, rows, strict=True)
        if found is not None
        for one in ones
    }


def _rows_or_none(part: DataFrame) -> JavaArray[InternalRow] | None:
    """Return the rows of a part of the query; None if it raises an error."""
    try:
        return internal_rows(part)
    except JVM_ERRORS:
        _log.debug("A dimension could not be run.", exc_info=True)
        return None


def _read_in(places: Iterable[Materializable]) -> frozenset[int]:
    """Return the positions of the columns that are read from at least one of the leaves."""
    return frozenset().union(*(place.read for place in places))


def shown(
    catalyst: Catalyst, plan: LogicalPlan, leaf: Node, read: frozenset[int]
) -> Iterator[CatalystExpression]:
    """Yield the columns of a leaf, with null in place of columns that the query does not read."""
    output = catalyst.plans.output(plan)
    nulls: dict[str, CatalystExpression] = {}
    for i, column in enumerate(leaf_columns(leaf)):
        if i in read:
            yield output[i]
            continue
        kind = str(column.fields["dataType"])
        if kind not in nulls:
            # Give the null a new id: the optimizer treats columns with one id as the same column.
            nulls[kind] = catalyst.expressions.null_like(output[i])
        yield nulls[kind]
