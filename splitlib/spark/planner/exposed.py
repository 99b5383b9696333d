"""Find the part of a query that later conditions can change.

``df.where`` and ``df.sort`` accept columns that ``df`` does not select. Spark searches for them
below the operators with one input at the top of the plan, and adds them to the projections on the
way (``resolveExprsAndAddMissingAttrs`` in its analyzer). Directly above an aggregate, they may also
call functions of its input, as in HAVING. Then Spark computes parts of the query that the optimizer
has dropped. So these parts must have the right rows, too.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping
from typing import TypeVar

from splitlib.spark.logical_plan import Expression, Node, Path
from splitlib.spark.planner.lineage import output_ids

S = TypeVar("S", bound=Hashable)
# Operators below which Spark does not search.
_END_OF_SEARCH = frozenset({"Aggregate", "Distinct", "SubqueryAlias"})
# Operators above which no hidden columns can be read. They can be read above DISTINCT.
_SHOW_NO_HIDDEN = frozenset({"Aggregate", "Except", "Intersect", "SubqueryAlias", "Union"})


class Exposed:
    """The part of a query that later conditions can change.

    Args:
        analyzed: The analyzed plan.
        optimized: The optimized plan.
    """

    def __init__(self, analyzed: Node, optimized: Node) -> None:
        nodes = analyzed.walk()
        self._part = exposed_part(analyzed)
        self._laterals = {node.path for node in nodes if node.kind == "LateralJoin"}
        self._windows = _lost(nodes, optimized, "Window", "windowExpressions")
        self._aggregates = _lost(nodes, optimized, "Aggregate", "aggregateExpressions")

    def contains(self, path: Path) -> bool:
        """Return whether a leaf is in this part, given its path in the analyzed plan."""
        return self._part is not None and path[: len(self._part)] == self._part

    def shows_columns(self, path: Path) -> bool:
        """Return whether later conditions may read other columns of a leaf that the query reads.

        Spark does not search in subqueries, except those of LATERAL.
        """
        steps = enumerate(path)
        return self.contains(path) and all(n >= 0 or path[:i] in self._laterals for i, n in steps)

    def has_lost_window(self, path: Path) -> bool:
        """Return whether the optimizer has dropped a window function above a leaf.

        Its results would be wrong if the leaf lacked rows.
        """
        return self.contains(path) and _is_below(path, self._windows)

    def has_lost_function(self, path: Path) -> bool:
        """Return whether the optimizer has dropped a function of an aggregate above a leaf."""
        return self.shows_columns(path) and _is_below(path, self._aggregates)


def exposed_part(analyzed: Node) -> Path | None:
    """Return the path of the first node that Spark searches and the query selects only in part.

    Return None if there is no such node.
    """
    node, selected, only_filters = analyzed, output_ids(analyzed), True
    while True:
        found = output_ids(node)
        if found is None or selected is None or not set(found) <= set(selected):
            return node.path
        if node.kind == "Aggregate" and only_filters:
            return node.children[0].path
        if len(node.children) != 1 or node.kind in _END_OF_SEARCH:
            return node.path if _hides_columns(node) else None
        if node.kind == "Project":
            selected = list(_unchanged(node.expressions("projectList")))
        only_filters = only_filters and node.kind == "Filter"
        (node,) = node.children


def may_be_needed(analyzed: Node, paths: Collection[Path]) -> Path | None:
    """Return the path of the part of a query that decides whether leaves may be needed later.

    The leaves are never needed if the optimizer drops them although all columns of this part are
    read. The path is None if such a part is unknown, and ``()`` if the leaves are not exposed.

    Args:
        analyzed: The analyzed plan.
        paths: Paths of the leaves. The optimizer has dropped them from the query.
    """
    part = exposed_part(analyzed)
    if part is None or all(path[: len(part)] != part for path in paths):
        return ()
    end = list(searched(analyzed, part))[-1]
    if any(path[: len(end.path)] != end.path for path in paths) or _hides_columns(end):
        return None
    return part if shows_all_columns(analyzed, part) else end.path


def searched(analyzed: Node, part: Path) -> Iterator[Node]:
    """Yield the nodes that Spark searches, from the top of the exposed part down."""
    node = analyzed
    for step in part:
        node = node.children[step]
    yield node
    while len(node.children) == 1 and node.kind not in _END_OF_SEARCH:
        (node,) = node.children
        yield node


def shows_all_columns(analyzed: Node, part: Path) -> bool:
    """Return whether the output of the exposed part has all columns that Spark finds in it."""
    nodes = list(searched(analyzed, part))
    return not _hides_columns(nodes[-1]) and all(n.kind != "Project" for n in nodes[:-1])


def lost_scans(
    analyzed: Node,
    optimized: Node,
    paths: Mapping[S, Collection[Path]],
    times_read: Mapping[S, int],
) -> set[S]:
    """Return the scans that have lost parts in the optimizer which later conditions may need.

    Args:
        analyzed: The analyzed plan.
        optimized: The optimized plan.
        paths: Paths of each scan in the analyzed plan.
        times_read: How often the optimized plan reads each scan that it reads.
    """
    exposed = Exposed(analyzed, optimized)
    return {
        scan
        for scan in times_read
        for path in paths[scan]
        if exposed.has_lost_window(path)
        or (exposed.contains(path) and len(paths[scan]) > times_read[scan])
    }


def _lost(nodes: Collection[Node], optimized: Node, kind: str, outputs: str) -> list[Path]:
    """Return the paths of the nodes of a kind with a result that the optimized plan lacks."""
    found = [node for node in nodes if node.kind == kind]
    if not found:
        return []
    others = (node for node in optimized.walk() if node.kind == kind)
    kept = {e.attribute_id for node in others for e in node.expressions(outputs)}
    return [
        n.path for n in found if any(e.attribute_id not in kept for e in n.expressions(outputs))
    ]


def _is_below(path: Path, places: Collection[Path]) -> bool:
    return any(path[: len(place)] == place for place in places)


def _unchanged(columns: Collection[Expression]) -> Iterator[int]:
    """Yield the ids of the attributes that a projection outputs as they are."""
    for column in columns:
        source = column.children[0] if column.kind == "Alias" else column
        if source.attribute_id is not None:
            yield source.attribute_id


def _hides_columns(node: Node) -> bool:
    """Return whether a USING join below may have columns that are hidden, but can be read."""
    if node.kind == "Project" and node.children[0].kind == "Join":
        found = output_ids(node.children[0])
        if found is None or not set(found) <= set(_unchanged(node.expressions("projectList"))):
            return True
    return node.kind not in _SHOW_NO_HIDDEN and any(map(_hides_columns, node.children))
