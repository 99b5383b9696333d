"""Small dimensions run once: their rows serve both for the keys and for the join.

The rows of a leaf that its filter keeps take the place of the leaf. The filter stays where it is,
and keeps them all; columns that the query does not read are null.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.dataframes import analyzed_plan, internal_rows
from splitlib.spark.keys.determinism import why_not_deterministic
from splitlib.spark.logical_plan import Node, Path
from splitlib.spark.planner.join_graph import Dimension
from splitlib.spark.planner.lineage import leaf_columns, leaf_ids

# Operators that give on the columns of their input, and of whose columns no other is read unnamed.
_SHOW_WHAT_IS_BELOW = frozenset({"Filter", "Join", "Sort", "GlobalLimit", "LocalLimit", "Window"})


@dataclass(frozen=True, slots=True)
class Freezable:
    """A leaf and what is between it and the joins."""

    top: Node
    leaf: Node

    @property
    def read_by_subqueries(self) -> frozenset[Path]:
        """The leaves on which its filter depends besides its own."""
        parts = (part for plan in self.top.subqueries for part in plan.walk())
        return frozenset(part.path for part in parts if part.is_leaf)


@dataclass(slots=True)
class _Run:
    """Rows that serve in several places."""

    plan: Any
    leaf: Node
    """One of those that it reads."""
    paths: list[Path] = field(default_factory=list)
    """Of all leaves that its rows take the place of."""
    read: set[int] = field(default_factory=set)
    """The numbers of the columns that are read in any of these places."""


def freezable(
    dimensions: Iterable[Dimension], root: Node, small: Callable[[Node], bool]
) -> dict[Path, Freezable]:
    """By the path of its leaf, each dimension that is a filter on one small table.

    And each such filter in a dimension's subquery, which would run once for the keys and once more.

    Args:
        dimensions: Those whose keys are wanted.
        root: The optimized plan, in which the same columns may be read in several places.
        small: Whether the rows of a leaf fit into memory beside everything else.
    """
    found = {}
    places = Counter(leaf_ids(node) for node in root.walk() if node.is_leaf)
    wanted = {d.node.path: d.node for top in dimensions for d in _all(top)}
    for node in (part for whole in wanted.values() for part in _filters(whole)):
        below = node
        while below.kind in ("Project", "Filter") and below.children:
            (below,) = below.children
        ids = leaf_ids(below)
        if below.is_leaf and ids and places[ids] == 1 and small(below):
            found[below.path] = Freezable(_filter_of(node), below)
    return found


def freeze(
    catalyst: Catalyst,
    optimized: Any,
    root: Node,
    wanted: Mapping[Path, Freezable],
    executor: Executor,
) -> dict[Path, Any]:
    """Run dimensions; their rows as a plan with the leaf's own attributes, by the leaf's path."""
    spoken_of = frozenset(_spoken_of(root))
    runs: list[_Run] = []
    for path, dimension in wanted.items():
        plan = catalyst.node(optimized, dimension.top.path)
        run = next((run for run in runs if catalyst.same_result(plan, run.plan)), None)
        if run is None:
            runs.append(run := _Run(plan, dimension.leaf))
        run.paths.append(path)
        everything = not _is_projected(root, path)
        run.read |= {
            i
            for i, column in enumerate(leaf_columns(dimension.leaf))
            # a column that is never null has no null to be read in its place
            if everything or column.attribute_id in spoken_of or not column.fields["nullable"]
        }
    plans = [catalyst.projected(run.plan, list(_shown(catalyst, run))) for run in runs]
    rows = executor.map(lambda plan: _rows(catalyst, plan), plans)
    return {
        path: catalyst.local_relation(catalyst.node(optimized, path).output(), found)
        for run, found in zip(runs, rows, strict=True)
        for path in run.paths
    }


def checkpoint_rdds(
    catalyst: Catalyst, optimized: Any, dimensions: Iterable[Dimension]
) -> dict[frozenset[int], Any]:
    """RDDs that dimensions read, computed now and kept by the executors; by ids of their columns.

    As plans with the same attributes. One that is checkpointed already stays as it is.
    """
    found: dict[frozenset[int], Any] = {}
    for leaf in {
        leaf.path: leaf
        for top in dimensions
        for dimension in _all(top)
        for leaf in dimension.node.walk()
        if leaf.kind == "LogicalRDD"
    }.values():
        ids = leaf_ids(leaf)
        node = catalyst.node(optimized, leaf.path)
        if ids not in found and not catalyst.is_checkpointed(node):
            rows = catalyst.dataframe(node).localCheckpoint()
            found[ids] = analyzed_plan(rows)
    return found


def compute_once(
    catalyst: Catalyst,
    analyzed: Any,
    root: Node,
    usable: Callable[[Node], bool],
) -> dict[Path, Any]:
    """Inputs of joins that may give other rows each time: computed now, kept by the executors.

    As plans with the same attributes, by path; of those inside each other the outermost.

    Args:
        catalyst: Of the session.
        analyzed: An analyzed plan.
        root: The same plan.
        usable: Whether an input is small enough, and none of the scans that keys are to prune.
    """
    found: dict[Path, Any] = {}
    for node in _main(root):
        for child in node.children if node.kind == "Join" else ():
            inside = any(child.path[: len(path)] == path for path in found)
            if inside or not usable(child):
                continue
            rows = catalyst.dataframe(catalyst.node(analyzed, child.path))
            if why_not_deterministic(rows) is not None:
                kept = rows.localCheckpoint()
                found[child.path] = analyzed_plan(kept)
    return found


def _main(node: Node) -> Iterator[Node]:
    """A plan without its subqueries, whose plans may not stand alone."""
    yield node
    for child in node.children:
        yield from _main(child)


def _rows(catalyst: Catalyst, plan: Any) -> Any:
    return internal_rows(catalyst.dataframe(plan))


def _all(dimension: Dimension) -> Iterator[Dimension]:
    yield dimension
    for other, _ in dimension.narrowed_by:
        yield from _all(other)


def _filters(dimension: Node) -> Iterator[Node]:
    """A dimension, and the filters in its subqueries."""
    yield dimension
    for node in dimension.walk():
        for subquery in node.subqueries:
            yield from (part for part in subquery.walk() if part.kind == "Filter")


def _filter_of(node: Node) -> Node:
    """The lowest operator that still shows all columns of the leaf: the filter right above it."""
    while node.kind == "Project" or (node.kind == "Filter" and not node.children[0].is_leaf):
        (node,) = node.children
    return node


def _shown(catalyst: Catalyst, run: _Run) -> Iterator[Any]:
    """The columns of a leaf, with a null in the place of those that nobody reads."""
    output = catalyst.output(run.plan)
    nulls: dict[str, Any] = {}
    for i, column in enumerate(leaf_columns(run.leaf)):
        if i in run.read:
            yield output[i]
            continue
        kind = str(column.fields["dataType"])
        if kind not in nulls:
            # under an id of its own: the optimizer takes a column of the same id for the column
            nulls[kind] = catalyst.null_like(output[i])
        yield nulls[kind]


def _is_projected(root: Node, path: Path) -> bool:
    """Whether a list of columns is between a leaf and whatever takes all that it is given."""
    node, above = root, False
    for step in path:
        if step < 0 or node.kind not in _SHOW_WHAT_IS_BELOW:
            above = step >= 0 and node.kind in ("Project", "Aggregate")
        node = node.children[step] if step >= 0 else node.subqueries[-1 - step]
    return above


def _spoken_of(root: Node) -> Iterator[int]:
    """The ids of attributes that any operator but the leaves speaks of."""
    for node in root.walk():
        if not node.is_leaf:
            for value in node.fields.values():
                yield from _attribute_ids(value)


def _attribute_ids(value: Any) -> Iterator[int]:
    if isinstance(value, list):
        for item in value:
            yield from _attribute_ids(item)
    elif isinstance(value, dict):
        if str(value.get("class", "")).endswith(".AttributeReference"):
            yield int(value["exprId"]["id"])
        elif "plan" not in value:
            for item in value.values():
                yield from _attribute_ids(item)
        else:  # a subquery: its plan is walked on its own, but not what it takes from outside
            for name, item in value.items():
                if name != "plan":
                    yield from _attribute_ids(item)
