"""Find the small dimension tables to read once, so that the keys and the join use the same rows.

In the plan, such a table is replaced by its rows that pass the filter above it. The filter stays in
the plan and passes all of these rows. Columns that neither the query reads nor later conditions can
read are null.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from splitlib.spark.logical_plan import Node, Path
from splitlib.spark.planner.exposed import Exposed
from splitlib.spark.planner.join_graph import Dimension
from splitlib.spark.planner.lineage import RELATIONS, SOME_ROWS, TABLES, leaf_ids

# Operators that output the columns of their input, and read only columns that their arguments name.
_SHOW_WHAT_IS_BELOW = frozenset({"Filter", "Join", "Sort", "GlobalLimit", "LocalLimit", "Window"})

Columns: TypeAlias = frozenset[tuple[int | None, str]]
"""The columns of a leaf, each with its id and type."""


@dataclass(frozen=True, slots=True, eq=False)
class Materializable:
    """A leaf of a plan that can be replaced by its filtered rows."""

    leaf: Node
    """The leaf in the optimized plan."""
    top: Node
    """The filter directly above the leaf, or the leaf itself."""
    place: Path
    """Path of the same leaf in the analyzed plan."""
    read: frozenset[int]
    """Positions of the leaf's columns that the query reads."""

    @property
    def read_by_subqueries(self) -> frozenset[Path]:
        """Paths of the leaves that subqueries in the filter read."""
        parts = (part for plan in self.top.subqueries for part in plan.walk())
        return frozenset(part.path for part in parts if part.is_leaf)


class Leaves:
    """The leaves of an optimized plan that can be replaced by their filtered rows.

    Args:
        optimized: The optimized plan. It may read the same table several times.
        analyzed: The analyzed plan.
    """

    def __init__(self, optimized: Node, analyzed: Node) -> None:
        self._optimized = optimized
        self.exposed = Exposed(analyzed, optimized)
        self._places: dict[Columns, list[Path]] = defaultdict(list)
        for node in analyzed.walk():
            if node.is_leaf:
                self._places[columns_of(node)].append(node.path)
        self._sampled = sampled_leaves(optimized)
        self._times_read = Counter(leaf_ids(node) for node in optimized.walk() if node.is_leaf)
        inner = (node for node in optimized.walk() if not node.is_leaf)
        values = (value for node in inner for value in node.fields.values())
        self._named = frozenset(i for value in values for i in _attribute_ids(value))

    def below(self, node: Node) -> Materializable | None:
        """Return the replaceable leaf below filters and projections, or None if there is none."""
        leaf = node.below("Project", "Filter")
        if leaf.kind not in RELATIONS or leaf.path in self._sampled:
            return None
        if self._times_read[leaf_ids(leaf)] != 1:
            return None
        # Look up the leaf in the analyzed plan, by the ids and types of its columns. There is none
        # if the optimizer has removed fields of structs, because this changes the types.
        at = self._places.get(columns_of(leaf), ())
        if len(at) != 1 or not leaf_ids(leaf) or self.exposed.has_lost_window(at[0]):
            return None
        read = frozenset(range(len(leaf.columns)))
        if not self.exposed.shows_columns(at[0]):
            read = _columns_read(self._optimized, leaf, self._named)
        return Materializable(leaf, _filter_of(node), at[0], read)


def materializable(
    dimensions: Iterable[Dimension],
    leaves: Leaves,
    sites: Collection[Path],
    fits: Callable[[Node], bool],
) -> list[tuple[Materializable, ...]]:
    """Return the small dimension tables to read once, in groups that are read one after another.

    Filtered tables in the subqueries of dimensions are included. If such a table was read for the
    keys and again for the query, the rows could differ. The tables that a subquery reads are in an
    earlier group than the table that the subquery filters.

    Args:
        dimensions: Dimensions whose keys are collected.
        leaves: Leaves of the plan.
        sites: Paths of the leaves that keys may prune. They are never included.
        fits: Function that returns whether a leaf is small enough to keep its rows in memory.
    """
    waiting: dict[Path, Materializable] = {}
    wanted = {d.node.path: d for top in dimensions for d in with_narrowing(top)}
    for node in (part for dimension in wanted.values() for part in _filters(dimension)):
        found = leaves.below(node)
        # _filters yields a filter before its leaf, so skip a leaf that is already waiting.
        if found is None or found.leaf.path in sites or found.leaf.path in waiting:
            continue
        if fits(found.leaf):
            waiting[found.leaf.path] = found
    return _in_order(waiting)


def _in_order(waiting: dict[Path, Materializable]) -> list[tuple[Materializable, ...]]:
    """Group tables so that each table depends only on earlier groups.

    Tables that cannot be grouped in this way are left out.
    """
    groups: list[tuple[Materializable, ...]] = []
    done: set[Path] = set()
    while ready := tuple(
        one for path, one in waiting.items() if path not in done and one.read_by_subqueries <= done
    ):
        groups.append(ready)
        done |= {one.leaf.path for one in ready}
    return groups


def with_narrowing(dimension: Dimension) -> Iterator[Dimension]:
    """Yield a dimension and all dimensions that narrow it."""
    yield dimension
    for other, _ in dimension.narrowed_by:
        yield from with_narrowing(other)


def rdds_of(dimensions: Iterable[Dimension]) -> list[Node]:
    """Return the distinct RDD leaves in the plans of the dimensions."""
    leaves = {
        leaf.path: leaf
        for top in dimensions
        for dimension in with_narrowing(top)
        for leaf in dimension.node.walk()
        if leaf.kind == "LogicalRDD"
    }
    return list(leaves.values())


@dataclass(frozen=True, slots=True, eq=False)
class SourceLeaf:
    """A small DataSource V2 table, such as an Iceberg table, that a dimension reads."""

    leaf: Node
    """The leaf in the optimized plan. It has only the columns that the query reads."""
    top: Node
    """The filter directly above the leaf, or the leaf itself."""
    table: Node
    """The leaf in the analyzed plan. It has all columns."""
    is_exposed: bool
    """Whether later conditions may read other columns than the query."""

    @property
    def unread(self) -> frozenset[int]:
        """Positions of the table's columns that the query does not read."""
        columns = enumerate(self.table.columns)
        return frozenset(i for i, c in columns if c.attribute_id not in leaf_ids(self.leaf))


def source_leaves(
    dimensions: Iterable[Dimension],
    optimized: Node,
    analyzed: Node,
    sites: Collection[Path],
    fits: Callable[[Node], bool],
) -> list[SourceLeaf]:
    """Return the small DataSource V2 tables to replace by their filtered rows in both plans.

    The optimizer may have moved LIMIT, OFFSET and TABLESAMPLE into the source. They must not be
    applied twice, so tables below these operators are left out.

    Args:
        dimensions: Dimensions whose keys are collected.
        optimized: The optimized plan. No leaf is a copy under new column ids.
        analyzed: The analyzed plan.
        sites: Paths of the leaves that keys may prune. They are never included.
        fits: Function that returns whether a leaf is small enough to keep its rows in memory.
    """
    tables = [node for node in analyzed.walk() if node.kind in TABLES]
    limits = [node for node in analyzed.walk() if node.kind in SOME_ROWS]
    exposed = Exposed(analyzed, optimized)
    limited = {below.path for limit in limits for below in limit.walk()}
    nodes = {node.path: node for node in optimized.walk()}
    leaves = [node for node in nodes.values() if node.is_leaf]
    found = []
    for path, leaf in {x.path: x for one in dimensions for x in one.leaves}.items():
        is_alone = leaf.kind in TABLES and path[-1:] > (-1,) and path not in sites
        if not (is_alone and leaf_ids(leaf) and fits(leaf)):
            continue
        # Find the table with these columns. No table has them if the optimizer has removed fields
        # of structs, because this changes the types.
        at = [table for table in tables if columns_of(leaf) <= columns_of(table)]
        if len(at) != 1 or at[0].path in limited:
            continue
        ids = leaf_ids(at[0])
        if sum(not ids.isdisjoint(leaf_ids(other)) for other in leaves) > 1:
            continue
        above = nodes[path[:-1]]
        is_filter = above.kind == "Filter" and not above.subqueries
        place = at[0].path
        if exposed.has_lost_window(place):
            continue
        shows = exposed.shows_columns(place)
        source = SourceLeaf(leaf, above if is_filter else leaf, at[0], shows)
        # A column that is not nullable cannot be replaced by null.
        if all(at[0].columns[i].fields["nullable"] for i in source.unread):
            found.append(source)
    return found


def inputs_of_joins(node: Node) -> Iterator[Node]:
    """Yield the inputs of all joins outside of subqueries.

    A subquery cannot always run separately, because it may read columns of the outer query.
    """
    if node.kind == "Join":
        yield from node.children
    for child in node.children:
        yield from inputs_of_joins(child)


def sampled_leaves(tree: Node) -> frozenset[Path]:
    """Return the paths of the leaves below a TABLESAMPLE or ``sample()``, and of equal leaves.

    Leaves are equal if they have the same column ids. A sample with a seed depends on the order and
    the number of rows below it, and a scan of fixed files reads the files in a different order. So
    these leaves keep Spark's own listing, unless keys prune them.
    """
    samples = (node for node in tree.walk() if node.kind == "Sample")
    sampled = {leaf_ids(leaf) for node in samples for leaf in node.walk() if leaf.is_leaf}
    return frozenset(
        leaf.path for leaf in tree.walk() if leaf.is_leaf and leaf_ids(leaf) in sampled
    )


def columns_of(leaf: Node) -> Columns:
    """Return the ids and types of a leaf's columns."""
    return frozenset((e.attribute_id, str(e.fields["dataType"])) for e in leaf.columns)


def _filters(dimension: Dimension) -> Iterator[Node]:
    """Yield the plan of a dimension, and the filters in its subqueries.

    If the dimension is a scalar subquery, also yield the filters and leaves of its plan.
    """
    yield dimension.node
    if dimension.is_value:
        yield from (part for part in dimension.node.walk() if part.kind == "Filter" or part.is_leaf)
    for node in dimension.node.walk():
        for subquery in node.subqueries:
            yield from (part for part in subquery.walk() if part.kind == "Filter")


def _filter_of(node: Node) -> Node:
    """Return the filter directly above the leaf, or the leaf if there is none."""
    while node.kind == "Project" or (node.kind == "Filter" and not node.children[0].is_leaf):
        (node,) = node.children
    return node


def _columns_read(root: Node, leaf: Node, named: frozenset[int]) -> frozenset[int]:
    """Return the positions of a leaf's columns that the rest of the plan may read."""
    if not _is_projected(root, leaf.path):
        return frozenset(range(len(leaf.columns)))
    return frozenset(
        i
        for i, column in enumerate(leaf.columns)
        # A column that is not nullable cannot be replaced by null.
        if column.attribute_id in named or not column.fields["nullable"]
    )


def _is_projected(root: Node, path: Path) -> bool:
    """Return whether a projection or an aggregate selects the columns to read from a leaf."""
    node, above = root, False
    for step in path:
        if step < 0 or node.kind not in _SHOW_WHAT_IS_BELOW:
            above = step >= 0 and node.kind in ("Project", "Aggregate")
        node = node.children[step] if step >= 0 else node.subqueries[-1 - step]
    return above


def _attribute_ids(value: Any) -> Iterator[int]:
    if isinstance(value, list):
        for item in value:
            yield from _attribute_ids(item)
    elif isinstance(value, dict):
        if str(value.get("class", "")).endswith(".AttributeReference"):
            yield int(value["exprId"]["id"])
        else:
            # root.walk() also yields the nodes of a subquery's plan, so skip the plan here.
            is_subquery = "plan" in value
            for name, item in value.items():
                if not (is_subquery and name == "plan"):
                    yield from _attribute_ids(item)
