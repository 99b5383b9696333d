"""Which small dimensions are run once: their rows serve both for the keys and for the join.

The rows of a leaf that its filter keeps take the place of the leaf. The filter stays where it is,
and keeps them all; columns that the query does not read are null.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from splitlib.spark.logical_plan import Node, Path
from splitlib.spark.planner.join_graph import Dimension
from splitlib.spark.planner.lineage import RELATIONS, leaf_columns, leaf_ids

# Operators that give on the columns of their input, and of whose columns no other is read unnamed.
_SHOW_WHAT_IS_BELOW = frozenset({"Filter", "Join", "Sort", "GlobalLimit", "LocalLimit", "Window"})


@dataclass(frozen=True, slots=True, eq=False)
class Materializable:
    """A leaf whose filtered rows can take its place."""

    leaf: Node
    """In the optimized plan."""
    top: Node
    """The filter right above the leaf, or the leaf itself."""
    place: Path
    """Of the same leaf in the analyzed plan."""
    read: frozenset[int]
    """The numbers of its columns that the query reads."""

    @property
    def read_by_subqueries(self) -> frozenset[Path]:
        """The leaves on which its filter depends besides its own."""
        parts = (part for plan in self.top.subqueries for part in plan.walk())
        return frozenset(part.path for part in parts if part.is_leaf)


class Leaves:
    """The leaves of an optimized plan, of which some can be replaced by rows of theirs.

    Args:
        optimized: The optimized plan, in which the same columns may be read in several places.
        analyzed: The analyzed plan.
    """

    def __init__(self, optimized: Node, analyzed: Node) -> None:
        self._optimized = optimized
        self._places: dict[frozenset[tuple[int | None, str]], list[Path]] = defaultdict(list)
        for node in analyzed.walk():
            if node.is_leaf:
                self._places[_columns(node)].append(node.path)
        self._times_read = Counter(leaf_ids(node) for node in optimized.walk() if node.is_leaf)
        self._named = frozenset(_named_attributes(optimized))

    def below(self, node: Node) -> Materializable | None:
        """The leaf that a node only filters and projects, if other rows can take its place."""
        leaf = _leaf_below(node)
        if leaf.kind not in RELATIONS or self._times_read[leaf_ids(leaf)] != 1:
            return None
        # the optimizer may have left out fields of its structs: then it is not the same leaf
        at = self._places.get(_columns(leaf), ())
        if len(at) != 1 or not leaf_ids(leaf):
            return None
        read = _columns_read(self._optimized, leaf, self._named)
        return Materializable(leaf, _filter_of(node), at[0], read)


def materializable(
    dimensions: Iterable[Dimension],
    leaves: Leaves,
    sites: Collection[Path],
    fits: Callable[[Node], bool],
) -> list[tuple[Materializable, ...]]:
    """Each dimension that is a filter on one small table, in groups that run one after another.

    And each such filter in a dimension's subquery, which would run once for the keys and once
    more. A subquery runs again in the query and must not see other rows there: what it reads is
    in an earlier group.

    Args:
        dimensions: Those whose keys are wanted.
        leaves: Of the plan.
        sites: The paths of leaves that keys may prune; they are never run.
        fits: Whether the rows of a leaf fit into memory beside everything else.
    """
    waiting: dict[Path, Materializable] = {}
    wanted = {d.node.path: d for top in dimensions for d in with_narrowing(top)}
    for node in (part for dimension in wanted.values() for part in _filters(dimension)):
        found = leaves.below(node)
        # the filter on a leaf comes before the leaf alone
        if found is None or found.leaf.path in sites or found.leaf.path in waiting:
            continue
        if fits(found.leaf):
            waiting[found.leaf.path] = found
    return _in_order(waiting)


def _in_order(waiting: dict[Path, Materializable]) -> list[tuple[Materializable, ...]]:
    """Groups of which each depends on earlier ones only; what depends on anything else is left."""
    groups: list[tuple[Materializable, ...]] = []
    done: set[Path] = set()
    while ready := tuple(
        one for path, one in waiting.items() if path not in done and one.read_by_subqueries <= done
    ):
        groups.append(ready)
        done |= {one.leaf.path for one in ready}
    return groups


def with_narrowing(dimension: Dimension) -> Iterator[Dimension]:
    """A dimension, and all that narrow it."""
    yield dimension
    for other, _ in dimension.narrowed_by:
        yield from with_narrowing(other)


def rdds_of(dimensions: Iterable[Dimension]) -> list[Node]:
    """The RDDs that dimensions read, each place once."""
    leaves = {
        leaf.path: leaf
        for top in dimensions
        for dimension in with_narrowing(top)
        for leaf in dimension.node.walk()
        if leaf.kind == "LogicalRDD"
    }
    return list(leaves.values())


def inputs_of_joins(node: Node) -> Iterator[Node]:
    """The inputs of joins outside of subqueries, whose plans may not stand alone."""
    if node.kind == "Join":
        yield from node.children
    for child in node.children:
        yield from inputs_of_joins(child)


def _columns(leaf: Node) -> frozenset[tuple[int | None, str]]:
    """The ids and types of what a leaf shows."""
    return frozenset((e.attribute_id, str(e.fields["dataType"])) for e in leaf_columns(leaf))


def _filters(dimension: Dimension) -> Iterator[Node]:
    """A dimension, and the filters in its subqueries; of a value, what it is computed from."""
    yield dimension.node
    if dimension.is_value:
        yield from (part for part in dimension.node.walk() if part.kind == "Filter" or part.is_leaf)
    for node in dimension.node.walk():
        for subquery in node.subqueries:
            yield from (part for part in subquery.walk() if part.kind == "Filter")


def _leaf_below(node: Node) -> Node:
    """The leaf that a node only filters and projects; else what is not a leaf."""
    while node.kind in ("Project", "Filter") and node.children:
        (node,) = node.children
    return node


def _filter_of(node: Node) -> Node:
    """The lowest operator that still shows all columns of the leaf: the filter right above it."""
    while node.kind == "Project" or (node.kind == "Filter" and not node.children[0].is_leaf):
        (node,) = node.children
    return node


def _columns_read(root: Node, leaf: Node, named: frozenset[int]) -> frozenset[int]:
    """The numbers of the columns of a leaf that the rest of the plan may read."""
    if not _is_projected(root, leaf.path):
        return frozenset(range(len(leaf_columns(leaf))))
    return frozenset(
        i
        for i, column in enumerate(leaf_columns(leaf))
        # a column that is never null has no null to be read in its place
        if column.attribute_id in named or not column.fields["nullable"]
    )


def _is_projected(root: Node, path: Path) -> bool:
    """Whether a list of columns is between a leaf and whatever takes all that it is given."""
    node, above = root, False
    for step in path:
        if step < 0 or node.kind not in _SHOW_WHAT_IS_BELOW:
            above = step >= 0 and node.kind in ("Project", "Aggregate")
        node = node.children[step] if step >= 0 else node.subqueries[-1 - step]
    return above


def _named_attributes(root: Node) -> Iterator[int]:
    """The ids of attributes that any operator but the leaves names."""
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
        else:
            # the plan of a subquery is walked on its own, but not what it takes from outside
            is_subquery = "plan" in value
            for name, item in value.items():
                if not (is_subquery and name == "plan"):
                    yield from _attribute_ids(item)
