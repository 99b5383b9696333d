"""Find the scans that join keys can prune, with a graph of the joins in a plan.

The vertices of the graph are the inputs of the joins, and projections above joins that compute or
rename columns. An edge is a condition between two vertices. It points in the direction in which
join keys may prune: both ways in an inner or semi join, from the preserved side to the other side
in an outer join, and from the left to the right side in an anti or existence join. The graph does
not depend on the join order that the optimizer has chosen.

A dimension (the small side of a join) can be narrowed by other dimensions before its keys prune the
fact table: semi-joins with the other dimensions drop some of its rows.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from splitlib.spark.logical_plan import Expression, Node
from splitlib.spark.planner.lineage import (
    Lineage,
    is_function,
    join_type,
    leaf_ids,
    lineages_of,
    only_subquery,
    output_ids,
)

OPERATORS = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
"""The SQL operators that compare a column with join keys, by their Catalyst names."""

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<=>": "<=>"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """A condition ``target operator key`` that holds for all rows that the query needs."""

    lineage: Lineage
    """Partition columns from which ``target`` is computed."""
    target: Expression
    """Expression on columns of the fact table's side of the join."""
    operator: str
    """SQL operator, such as ``=``."""
    key: Expression
    """Expression on columns of the dimension."""
    key_lineage: Lineage | None
    """Partition columns from which ``key`` is computed, or None if it reads other columns."""

    @property
    def column(self) -> int | None:
        """Id of the scan's column if ``target`` is this column, possibly truncated, or None."""
        truncation = self.lineage.truncation
        return self.lineage.column if truncation is None else truncation.column


@dataclass(frozen=True, slots=True, eq=False)
class Dimension:
    """A part of the plan whose join keys can prune a scan. It contains all rows that may match."""

    node: Node
    narrowed_by: tuple[tuple[Dimension, tuple[Expression, ...]], ...] = ()
    """Other dimensions, each with the conditions of its semi-join with this dimension."""
    is_value: bool = False
    """Whether the keys are computed from the value of a scalar subquery with the plan ``node``."""

    @property
    def leaves(self) -> list[Node]:
        """The leaves that are read to collect the keys, including those of ``narrowed_by``."""
        own = [node for node in self.node.walk() if node.is_leaf]
        return own + [leaf for other, _ in self.narrowed_by for leaf in other.leaves]


@dataclass(frozen=True, slots=True, eq=False)
class JoinFilter:
    """Comparisons of a scan's partition columns with a dimension's keys, combined with AND."""

    dimension: Dimension
    comparisons: tuple[Comparison, ...]
    """The comparisons. Either all of them are equalities, or none is."""
    why_not_collected: str = ""
    """Reason why the dimension's query is not run to collect keys, as a clause. The report shows it
    only if the keys cannot be taken from the partitions of another scan."""

    @property
    def leaf(self) -> Node:
        """The scan that the filter can prune."""
        return self.comparisons[0].lineage.leaf


@dataclass(frozen=True, slots=True)
class PartitionCondition:
    """A condition in the query that reads only partition columns of one scan."""

    lineage: Lineage
    condition: Expression


@dataclass(frozen=True, slots=True, eq=False)
class _Edge:
    """A condition between two vertices: keys of the source can prune the target."""

    source: int
    target: int
    operator: str
    """SQL operator in ``target_side operator source_side``."""
    source_side: Expression
    target_side: Expression
    condition: Expression


@dataclass(slots=True)
class _Graph:
    vertices: list[Node] = field(default_factory=list)
    edges: list[_Edge] = field(default_factory=list)
    owner: dict[int, int | None] = field(default_factory=dict)
    """Number of the vertex that outputs an attribute, by attribute id, or None if several do."""


def discover(
    root: Node, partition_columns: frozenset[int], usable: Callable[[Node], bool]
) -> list[JoinFilter]:
    """Return the join filters that follow from the joins of an optimized plan.

    Args:
        root: The plan.
        partition_columns: Ids of the attributes by which scans can be pruned.
        usable: Function that returns whether a part of the plan may be run to narrow another part.
    """
    found: list[JoinFilter] = []
    open_ = [root]
    seen = set()
    while open_:
        top = open_.pop()
        if top.path in seen:
            continue
        seen.add(top.path)
        graph = _Graph()
        _flatten(top, graph)
        found += _filters(graph, partition_columns, usable)
        for vertex in graph.vertices:
            if not _is_above_join(vertex):
                open_ += vertex.children
        open_ += [plan for node in _taken_apart(top) for plan in node.subqueries]
    return [*found, *_filters_by_values(root, partition_columns)]


def _filters_by_values(root: Node, partition_columns: frozenset[int]) -> Iterator[JoinFilter]:
    """Yield a join filter for each comparison with the value of a scalar subquery."""
    for node in root.walk():
        if node.kind != "Filter" or not node.subqueries:
            continue
        lineages = lineages_of(node.children[0], partition_columns)
        for part in node.conditions:
            operator = OPERATORS.get(part.kind)
            if operator is None:
                continue
            one, other = part.children
            for target, key, seen in ((one, other, operator), (other, one, _FLIPPED[operator])):
                subquery = only_subquery(key)
                if subquery is None:
                    continue
                dimension = Dimension(node.plan_of(subquery), is_value=True)
                for lineage in lineages.of(target):
                    yield JoinFilter(dimension, (Comparison(lineage, target, seen, key, None),))


def partition_conditions(root: Node, partition_columns: frozenset[int]) -> list[PartitionCondition]:
    """Return the conditions of an optimized plan that read partition columns only.

    Args:
        root: The plan.
        partition_columns: Ids of the attributes by which scans can be pruned.
    """
    return [
        PartitionCondition(lineage, part)
        for node in root.walk()
        if node.kind == "Filter"
        for lineages in [lineages_of(node.children[0], partition_columns)]
        for part in node.conditions
        for lineage in lineages.of(part)
    ]


def _taken_apart(node: Node) -> Iterator[Node]:
    """Yield the nodes from ``node`` down to the join inputs that :func:`_flatten` adds."""
    yield node
    if node.kind in ("Join", "Filter", "Project"):
        for child in node.children:
            yield from _taken_apart(child)


class _Rows(NamedTuple):
    """The attributes of a node that conditions above the node may use."""

    ids: frozenset[int] = frozenset()
    """Ids of attributes that have the same values as in the join input that outputs them."""
    or_null: frozenset[int] = frozenset()
    """Ids of attributes that are null in the rows without a match in an outer join."""


def _flatten(node: Node, graph: _Graph) -> _Rows:
    """Add the join inputs below a node, and the conditions between them, to the graph."""
    if node.kind == "Join":
        return _flatten_join(node, graph)
    if _is_above_join(node):
        rows = _flatten(node.children[0], graph)
        if node.kind == "Filter":
            _add_edges(graph, node.conditions, rows, rows)
            return rows
        shown = node.expressions("projectList")
        plain = {e.attribute_id for e in shown}
        ids, or_null = (frozenset(i for i in ids if i in plain) for ids in rows)
        new = frozenset(e.attribute_id for e in shown if e.kind == "Alias" and e.attribute_id)
        if new:
            _add_vertex(graph, node, new)
        return _Rows(ids | new, or_null)
    found = frozenset(output_ids(node, in_order=False) or ())
    _add_vertex(graph, node, found)
    return _Rows(found)


def _is_above_join(node: Node) -> bool:
    """Return whether :func:`_flatten` takes a projection or filter above a join apart."""
    return node.below("Project", "Filter").kind == "Join"


def _add_vertex(graph: _Graph, node: Node, ids: frozenset[int]) -> None:
    """Add a vertex that outputs the attributes with these ids."""
    for i in ids:
        graph.owner[i] = None if i in graph.owner else len(graph.vertices)
    graph.vertices.append(node)


def _flatten_join(node: Node, graph: _Graph) -> _Rows:
    left, right = (_flatten(child, graph) for child in node.children)
    conditions = node.conditions
    match join_type(node):
        case "Inner" | "Cross":
            _add_edges(graph, conditions, left, right)
            _add_edges(graph, conditions, right, left)
            return _Rows(left.ids | right.ids, left.or_null | right.or_null)
        case "LeftSemi":
            _add_edges(graph, conditions, left, right)
            _add_edges(graph, conditions, right, left)
            return left
        case "LeftOuter":
            _add_edges(graph, conditions, left, right)
            return _Rows(left.ids, left.or_null.union(*right))
        case "RightOuter":
            _add_edges(graph, conditions, right, left)
            return _Rows(right.ids, right.or_null.union(*left))
        case "LeftAnti" | "ExistenceJoin":
            _add_edges(graph, conditions, left, right)
            return left
        case "FullOuter":
            return _Rows(or_null=frozenset().union(*left, *right))
    return _Rows()


def _add_edges(graph: _Graph, conditions: list[Expression], sources: _Rows, targets: _Rows) -> None:
    """Add an edge for each comparison between a vertex of ``sources`` and one of ``targets``."""
    for part in conditions:
        operator = OPERATORS.get(part.kind)
        if operator is None or not is_function(part):
            continue
        one, other = part.children
        for source, target, seen in ((one, other, _FLIPPED[operator]), (other, one, operator)):
            start, end = _vertex_of(graph, source), _vertex_of(graph, target)
            if start is None or end is None or _overlap(graph.vertices, start, end):
                continue
            flows = source.references <= sources.ids
            if not flows and operator != "<=>" and _is_null_with_its_column(source):
                # In rows without a match, the source columns are null. So the comparison is null,
                # and these rows do not meet the condition.
                flows = source.references <= sources.or_null
            if flows and target.references <= targets.ids:
                graph.edges.append(_Edge(start, end, seen, source, target, part))


def _joins_facts(node: Node, partition_columns: frozenset[int]) -> bool:
    """Return whether a node is a projection above a join that reads a scan to prune.

    Its inputs are vertices, too. So its keys would only repeat a part of the query.
    """
    leaves = (part for part in node.walk() if part.is_leaf)
    return _is_above_join(node) and any(leaf_ids(leaf) & partition_columns for leaf in leaves)


def _overlap(vertices: list[Node], one: int, other: int) -> bool:
    """Return whether one of two vertices contains the other, or both are the same."""
    paths = sorted((vertices[one].path, vertices[other].path), key=len)
    return paths[1][: len(paths[0])] == paths[0]


def _is_null_with_its_column(expression: Expression) -> bool:
    while expression.kind == "Cast":
        (expression,) = expression.children
    return expression.kind == "AttributeReference"


def _vertex_of(graph: _Graph, side: Expression) -> int | None:
    owners = {graph.owner.get(i) for i in side.references}
    return owners.pop() if len(owners) == 1 else None


def _filters(
    graph: _Graph, partition_columns: frozenset[int], usable: Callable[[Node], bool]
) -> Iterator[JoinFilter]:
    if not graph.edges:
        return
    inner = [lineages_of(vertex, partition_columns) for vertex in graph.vertices]
    found: dict[tuple[object, ...], list[Comparison]] = defaultdict(list)
    costly = {n for n, v in enumerate(graph.vertices) if _joins_facts(v, partition_columns)}
    for edge in _with_implied(graph.edges):
        if _overlap(graph.vertices, edge.source, edge.target):
            continue
        key_lineages = inner[edge.source].of(edge.source_side)
        key_lineage = key_lineages[0] if len(key_lineages) == 1 else None
        if key_lineage is not None and not key_lineage.is_of_all_rows:
            key_lineage = None
        for lineage in inner[edge.target].of(edge.target_side):
            exact = edge.operator in ("=", "<=>")
            found[lineage.leaf.path, edge.target, edge.source, exact].append(
                Comparison(lineage, edge.target_side, edge.operator, edge.source_side, key_lineage)
            )
    narrowing = _Narrowing(graph, usable, costly)
    equal_to: dict[tuple[object, object], set[object]] = defaultdict(set)
    for (leaf, *_), comparisons in found.items():
        for comparison in comparisons:
            if comparison.operator == "=":
                equal_to[leaf, comparison.target.shape].add(comparison.key.shape)
    for (leaf, target, source, _), comparisons in found.items():
        assert isinstance(target, int)
        assert isinstance(source, int)
        # Another dimension whose keys are compared with the same column prunes the scan directly,
        # so that dimension does not need to narrow this one.
        reached = {
            (comparison.key.shape, other)
            for comparison in comparisons
            if comparison.operator == "="
            for other in equal_to[leaf, comparison.target.shape]
        }
        why_not = "the dimension joins a table that is pruned itself" if source in costly else ""
        yield JoinFilter(narrowing.of(source, target, reached), tuple(comparisons), why_not)


def _with_implied(edges: list[_Edge]) -> list[_Edge]:
    """Return the edges, and all edges that they imply: a = b and b = c imply a = c."""
    closed = list(edges)
    known = {(e.source, e.source_side.shape, e.target, e.target_side.shape) for e in edges}
    equal_to = defaultdict(list)
    for edge in edges:
        if edge.operator == "=":
            equal_to[edge.source, edge.source_side.shape].append(edge)
    for first in closed:  # the loop appends to this list
        if first.operator == "<=>" and first.target_side.kind != "AttributeReference":
            # The next edge may have `CAST` where this one has `try_cast`, because their shapes are
            # equal. If `try_cast` is NULL, `CAST` may have a value. So `<=>` implies nothing here.
            continue
        for edge in equal_to[first.target, first.target_side.shape]:
            ends = (first.source, first.source_side.shape, edge.target, edge.target_side.shape)
            if edge.target != first.source and ends not in known:
                known.add(ends)
                closed.append(replace(first, target=edge.target, target_side=edge.target_side))
    return closed


class _Narrowing:
    """The vertices of a graph as dimensions, each narrowed by the vertices connected to it.

    Every other vertex is semi-joined once, on its shortest path to the dimension. If conditions
    form cycles, using all paths could drop a few more rows, but the number of paths grows
    exponentially.
    """

    def __init__(
        self, graph: _Graph, usable: Callable[[Node], bool], costly: Collection[int]
    ) -> None:
        self._vertices = graph.vertices
        self._usable = usable
        self._costly = costly
        self._into: dict[int, dict[int, list[_Edge]]] = defaultdict(lambda: defaultdict(list))
        for edge in graph.edges:
            self._into[edge.target][edge.source].append(edge)

    def of(self, vertex: int, target: int, reached: set[tuple[object, object]]) -> Dimension:
        """Return a vertex as a dimension, semi-joined with other vertices.

        Args:
            vertex: Number of the vertex.
            target: Number of the vertex that the keys prune. Neither this vertex nor one that
                contains it narrows other vertices.
            reached: Pairs of expression shapes: an expression of this vertex, and one of another
                vertex. Equalities between such pairs are not used to narrow this vertex.
        """
        parts: dict[int, list[tuple[int, tuple[Expression, ...]]]] = defaultdict(list)
        taken = {
            number
            for number in range(len(self._vertices))
            if _overlap(self._vertices, number, vertex) or _overlap(self._vertices, number, target)
        }
        open_ = deque([vertex])
        while open_:
            at = open_.popleft()
            for source, edges in self._into[at].items():
                conditions = tuple(
                    edge.condition
                    for edge in edges
                    if at != vertex
                    or edge.operator != "="
                    or (edge.target_side.shape, edge.source_side.shape) not in reached
                )
                if source in taken or source in self._costly or not conditions:
                    continue
                if self._usable(self._vertices[source]):
                    taken.add(source)
                    parts[at].append((source, conditions))
                    open_.append(source)
        return self._dimension(vertex, parts)

    def _dimension(
        self, vertex: int, parts: dict[int, list[tuple[int, tuple[Expression, ...]]]]
    ) -> Dimension:
        others = tuple((self._dimension(source, parts), found) for source, found in parts[vertex])
        return Dimension(self._vertices[vertex], others)
