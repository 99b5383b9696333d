"""Blocked columns: partition columns above an operator that keys cannot pass.

Used only for reports. A join on such a column does not prune, and the report names the operator.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from splitlib.spark.logical_plan import Expression, Node, Path
from splitlib.spark.planner.lineage import join_type, lineages_of, output_ids

# Names of Catalyst's operators in reports. Other operators are reported by their class name.
_NAMES: Final = {
    "Aggregate": "an aggregate that is not grouped by the key",
    "ArrowEvalPython": "a Python function",
    "AttachDistributedSequence": "zipWithIndex()",
    "BatchEvalPython": "a Python function",
    "CollectMetrics": "observe()",
    "Expand": "ROLLUP, CUBE, GROUPING SETS, UNPIVOT or several DISTINCT aggregates",
    "FlatMapCoGroupsInArrow": "applyInArrow()",
    "FlatMapCoGroupsInPandas": "applyInPandas()",
    "FlatMapGroupsInArrow": "applyInArrow()",
    "FlatMapGroupsInPandas": "applyInPandas()",
    "Generate": "a generator such as explode()",
    "GlobalLimit": "LIMIT",
    "LocalLimit": "LIMIT",
    "MapInArrow": "mapInArrow()",
    "MapInPandas": "mapInPandas()",
    "Offset": "OFFSET",
    "Project": "an expression that also depends on other values",
    "Sample": "TABLESAMPLE or sample()",
    "ScriptTransformation": "TRANSFORM",
    "Tail": "tail()",
    "UnionLoop": "a recursive query",
    "Window": "a window that is not partitioned by the key",
    "WindowGroupLimit": "a rank that is not partitioned by the key",
}
# By operator, the argument that lists the new columns, and the argument that lists the expressions
# that compute them, in the same order.
_MADE: Final = {
    "Aggregate": ("aggregateExpressions", "aggregateExpressions"),
    "ArrowEvalPython": ("resultAttrs", "udfs"),
    "BatchEvalPython": ("resultAttrs", "udfs"),
    "Project": ("projectList", "projectList"),
    "Window": ("windowExpressions", "windowExpressions"),
}

Blocked = Mapping[int, frozenset[tuple[Path, str]]]
"""By attribute id: the scans that keys could prune, and the name of the operator above each."""


class BlockedColumns:
    """Attributes computed from partition columns to which keys cannot be applied.

    Args:
        partition_columns: Ids of the attributes by which scans can be pruned.
    """

    def __init__(self, partition_columns: frozenset[int]) -> None:
        self._partition_columns = partition_columns
        self._known: dict[Path, Blocked] = {}

    def of(self, node: Node) -> Blocked:
        """Return the blocked attributes in the output of a node. All nodes must be of one plan."""
        if node.path not in self._known:
            self._known[node.path] = {} if node.is_leaf else self._of(node)
        return self._known[node.path]

    def _of(self, node: Node) -> Blocked:
        found: dict[int, set[tuple[Path, str]]] = defaultdict(set)
        passing: dict[int, set[tuple[Path, str]]] = defaultdict(set)
        for child in node.children:
            for i, blocked in self.of(child).items():
                found[i] |= blocked
            for i, lineages in lineages_of(child, self._partition_columns).by_attribute.items():
                passing[i] |= {(lineage.leaf.path, _name(node)) for lineage in lineages}
        own = lineages_of(node, self._partition_columns).by_attribute
        for i in passing.keys() - own.keys():
            found[i] |= passing[i]
        for i, sources in _made_from(node):
            if i not in own:
                found[i] |= set().union(*(found.get(s) or passing.get(s, set()) for s in sources))
        return {i: frozenset(blocked) for i, blocked in found.items() if blocked}


def _name(node: Node) -> str:
    if node.kind == "Join":
        return "a scalar subquery" if join_type(node) == "LeftSingle" else "an outer join"
    return _NAMES.get(node.kind, node.kind)


def _made_from(node: Node) -> Iterable[tuple[int, frozenset[int]]]:
    """Yield each new column of a node with the input columns from which it is computed."""
    if node.kind == "Union":
        outputs = [output_ids(child) or [] for child in node.children]
        return [(ids[0], frozenset(ids)) for ids in zip(*outputs, strict=False)]
    if node.kind in _MADE:
        made, sources = (node.expressions(name) for name in _MADE[node.kind])
        return _pairs(made, (e.references for e in sources))
    if node.kind == "Generate":
        made = node.expressions("generatorOutput")
        return _pairs(made, [node.expressions("generator")[0].references] * len(made))
    made = node.expressions("output")
    cells = [e.references for e in node.expressions("projections")]
    if cells:
        columns = (cells[number :: len(made)] for number in range(len(made)))
        return _pairs(made, (frozenset().union(*column) for column in columns))
    # The expressions are unknown, so each column may depend on every input column.
    below = (output_ids(child, in_order=False) or () for child in node.children)
    everything = frozenset(i for ids in below for i in ids)
    return _pairs(made, [everything] * len(made))


def _pairs(
    made: Iterable[Expression], sources: Iterable[frozenset[int]]
) -> Iterable[tuple[int, frozenset[int]]]:
    pairs = zip(made, sources, strict=False)
    return [(e.attribute_id, source) for e, source in pairs if e.attribute_id is not None]
