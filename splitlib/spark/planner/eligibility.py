"""Decide which join filters may prune a scan site, and collect the reasons why others may not.

A scan site is a position in the optimized plan where a prunable scan is read. Keys cannot be
applied below some operators, and only Spark can compare values of some types.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Self

from splitlib.spark.logical_plan import Expression, Node, Path
from splitlib.spark.planner.join_graph import (
    OPERATORS,
    Comparison,
    Dimension,
    JoinFilter,
    PartitionCondition,
    partition_conditions,
)
from splitlib.spark.planner.lineage import (
    Lineages,
    join_type,
    lineages_of,
    only_subquery,
    output_ids,
)

COPIED: Final = "the optimizer has copied the scan, and a copy may need every partition."
NOT_SELECTED: Final = (
    "the query does not select all columns that it computes from the scan. Later conditions may "
    "read them, and may need every partition."
)
Ids = Mapping[str, int | None]
"""Attribute ids of a leaf by column name, in output order."""


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason why a join does not prune a scan site."""

    text: str
    """The reason, as a sentence."""
    parts: tuple[Expression | str, ...] = ()
    """The join condition, as expressions and the text between them. Empty if there is none."""

    def __str__(self) -> str:
        return self.text


def parts_of(comparisons: Iterable[Comparison]) -> tuple[Expression | str, ...]:
    """Return the text of the comparisons, combined with AND, as parts for ``Reason.parts``."""
    parts: list[Expression | str] = []
    for one in comparisons:
        parts += [" AND "] if parts else []
        parts += [one.target, f" {one.operator} ", one.key]
    return tuple(parts)


@dataclass(frozen=True, slots=True, eq=False)
class ScanSite:
    """A position in the plan where a prunable scan is read, with the planning results so far."""

    leaf: Node
    """The leaf in the optimized plan."""
    filters: tuple[JoinFilter, ...] = ()
    """Join filters whose keys are collected from dimensions."""
    from_sites: tuple[JoinFilter, ...] = ()
    """Join filters whose keys are the remaining partition values of another site."""
    conditions: tuple[PartitionCondition, ...] = ()
    """The query's own conditions on the partition columns."""
    reasons: tuple[Reason, ...] = ()
    """Reasons why joins do not prune the site."""
    wants_same_rows: bool = False
    """Whether more could be pruned if the query returned the same rows each time it runs."""
    reads_too_much: bool = False
    """Whether keys of a dimension are not collected because its size is too large or unknown."""

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """Dimensions whose keys are to be collected."""
        return tuple(join_filter.dimension for join_filter in self.filters)

    @property
    def may_have_keys(self) -> bool:
        """Whether keys of dimensions or of other sites may prune this site."""
        return bool(self.filters or self.from_sites)

    @property
    def reads_all(self) -> bool:
        """Whether the query has no condition on the partitions, apart from IS NOT NULL."""
        return all(one.condition.kind == "IsNotNull" for one in self.conditions)

    def without_keys(self, reason: Reason, *, wants_same_rows: bool) -> Self:
        """Return a copy of this site with a reason why a dimension's keys cannot prune the site."""
        wants_same_rows = wants_same_rows or self.wants_same_rows
        return replace(self.because(reason), wants_same_rows=wants_same_rows)

    def because(self, *reasons: Reason | str) -> Self:
        """Return a copy of this site with more reasons why joins do not prune the site."""
        more = (Reason(r) if isinstance(r, str) else r for r in reasons)
        return replace(self, reasons=(*self.reasons, *more))


# Names of Catalyst operators in reports. Other operators are reported by their class name.
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
    "PythonMapInArrow": "mapInArrow()",
    "Sample": "TABLESAMPLE or sample()",
    "ScriptTransformation": "TRANSFORM",
    "Tail": "tail()",
    "UnionLoop": "a recursive query",
    "Window": "a window that is not partitioned by the key",
    "WindowGroupLimit": "a rank that is not partitioned by the key",
}
# Expressions that are deterministic in every version of Spark.
_DETERMINISTIC: Final = frozenset(
    {
        *("And", "AttributeReference", "Cast", "Contains", "EndsWith", "EqualNullSafe", "EqualTo"),
        *("GreaterThan", "GreaterThanOrEqual", "In", "InSet", "IsNotNull", "IsNull", "LessThan"),
        *("LessThanOrEqual", "Like", "Literal", "Not", "Or", "StartsWith"),
    }
)
# For each operator: the argument that lists its new columns, and the argument that lists the
# expressions that compute these columns, in the same order.
_MADE: Final = {
    "Aggregate": ("aggregateExpressions", "aggregateExpressions"),
    "ArrowEvalPython": ("resultAttrs", "udfs"),
    "BatchEvalPython": ("resultAttrs", "udfs"),
    "Project": ("projectList", "projectList"),
    "Window": ("windowExpressions", "windowExpressions"),
}

Blocked = Mapping[int, frozenset[tuple[Path, str]]]
"""Scans that keys for an attribute cannot reach, by attribute id. Each is a pair of the scan's path
and the name of the operator that blocks the keys."""
_PLAIN: Final = re.compile(
    r"binary|boolean|byte|date|decimal\(\d+,-?\d+\)|double|float|integer|long|short|timestamp"
    r"|timestamp_ntz"
)
_LEFT, _RIGHT = 0, 1
# Reasons why keys do not prune a table, by the join type and by the table's side of the join.
_REASONS = {
    ("FullOuter", _LEFT): "FULL OUTER JOIN keeps every row of both sides",
    ("FullOuter", _RIGHT): "FULL OUTER JOIN keeps every row of both sides",
    ("LeftOuter", _LEFT): "LEFT OUTER JOIN keeps every row of this table, its left side",
    ("RightOuter", _RIGHT): "RIGHT OUTER JOIN keeps every row of this table, its right side",
    ("LeftAnti", _LEFT): "NOT IN and NOT EXISTS keep the rows that have no match",
    ("ExistenceJoin", _LEFT): "IN or EXISTS is only one part of an OR",
    ("LeftSingle", _LEFT): "a scalar subquery as a value drops no rows",
}
# SQL names of conditions. Other conditions are reported by their Catalyst class name.
_CONDITIONS: Final = {"In": "IN", "InSet": "IN", "Like": "LIKE", "Not": "NOT", "Or": "OR"}
_SOURCES = "the keys of the join come from several tables or from an outer join."
_TOGETHER = "a join condition combines the partition columns with other columns."


class BlockedColumns:
    """The attributes of a plan that depend on partition columns but cannot pass keys to scans.

    At least one operator between such an attribute and the scan blocks the keys.

    Args:
        partition_columns: Ids of the attributes by which scans can be pruned.
    """

    def __init__(self, partition_columns: frozenset[int]) -> None:
        self._partition_columns = partition_columns
        self._known: dict[Path, Blocked] = {}

    def of(self, node: Node) -> Blocked:
        """Return the attributes in a node's output that cannot pass keys on to a scan.

        All nodes that are passed to one instance must be in the same plan.
        """
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
    """Return pairs: the id of a new column of a node, and the ids of the columns it depends on."""
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
    # Other operators do not show how they compute a column, so it may depend on all input columns.
    below = (output_ids(child, in_order=False) or () for child in node.children)
    everything = frozenset(i for ids in below for i in ids)
    return _pairs(made, [everything] * len(made))


def _pairs(
    made: Iterable[Expression], sources: Iterable[frozenset[int]]
) -> Iterable[tuple[int, frozenset[int]]]:
    pairs = zip(made, sources, strict=False)
    return [(e.attribute_id, source) for e, source in pairs if e.attribute_id is not None]


class TypeNames(NamedTuple):
    """The two names that Spark has for a data type."""

    name: str
    """Result of Spark's ``typeName``, such as ``integer``."""
    in_catalog: str
    """Result of Spark's ``catalogString``, such as ``int``."""


TypeOf = Callable[[Expression], TypeNames]
"""Function that returns the type of an expression of the optimized plan."""


def comparable(
    join_filter: JoinFilter, type_of: TypeOf
) -> tuple[JoinFilter | None, tuple[str, ...]]:
    """Drop the comparisons of a join filter that only Spark can evaluate.

    Args:
        join_filter: Comparisons of a scan's columns with the keys of a dimension.
        type_of: Function that returns the type of an expression. It is called only if the plan's
            JSON does not contain the full type.

    Returns:
        The filter without these comparisons (None if no comparison remains), and the reasons why
        comparisons were dropped, as clauses.
    """
    kept = []
    reasons: dict[str, None] = {}
    for comparison in join_filter.comparisons:
        kinds = [_other_kind(side, type_of) for side in (comparison.key, comparison.target)]
        if kinds == [None, None]:
            kept.append(comparison)
        else:
            reasons[f"keys of type {kinds[0] or kinds[1]} can only be compared by Spark"] = None
    left = replace(join_filter, comparisons=tuple(kept)) if kept else None
    return left, tuple(reasons)


def _other_kind(side: Expression, type_of: TypeOf) -> str | None:
    """Return the SQL type of one side of a comparison, or None if splitlib can compare the type."""
    if side.kind in ("AttributeReference", "Cast") and _PLAIN.fullmatch(
        str(side.fields.get("dataType"))
    ):
        return None
    # The plan's JSON does not contain the collation of strings, so the JVM returns the type.
    kind = type_of(side)
    return None if kind.name == "string" or _PLAIN.fullmatch(kind.name) else kind.in_catalog


def eligible(
    root: Node,
    leaves: Iterable[Node],
    partition_columns: frozenset[int],
    filters: Iterable[JoinFilter],
    type_of: TypeOf,
    *,
    deterministic: bool,
) -> dict[Path, ScanSite]:
    """Return the scan sites with the filters that may prune them, by path.

    A scan site is a leaf of the optimized plan that reads a prunable scan.

    Args:
        root: The optimized plan.
        leaves: Leaves of the plan that read prunable scans.
        partition_columns: Ids of the attributes by which these scans can be pruned.
        filters: Join filters that follow from the joins of the plan.
        type_of: Function that returns the type of an expression. It is called only if the plan's
            JSON does not contain the full type.
        deterministic: Whether the query returns the same rows each time it runs.
    """
    sites = {leaf.path: ScanSite(leaf) for leaf in leaves}
    for join_filter in filters:
        path = join_filter.leaf.path
        # The leaf may also be a dimension that is replaced by its rows, because these rows have the
        # column ids of the table. Only scans are pruned.
        if path not in sites:
            continue
        kept, reasons = comparable(join_filter, type_of)
        parts = parts_of(join_filter.comparisons)
        site = sites[path].because(*(Reason(f"{reason}.", parts) for reason in reasons))
        sites[path] = replace(site, filters=(*site.filters, kept)) if kept is not None else site
    for condition in partition_conditions(root, partition_columns):
        path = condition.lineage.leaf.path
        if path in sites:
            sites[path] = replace(sites[path], conditions=(*sites[path].conditions, condition))
    compared = {path for path, site in sites.items() if site.filters or site.reasons}
    for path, reason in blocked_joins(root, partition_columns, compared):
        if path in sites:
            sites[path] = sites[path].because(reason)
    if deterministic:
        return sites
    return {path: _not_deterministic(site) for path, site in sites.items()}


def _not_deterministic(site: ScanSite) -> ScanSite:
    site = site.because("the query calls functions that are not deterministic.")
    conditions = tuple(one for one in site.conditions if _is_deterministic(one))
    wants = bool(site.filters)
    return replace(site, filters=(), conditions=conditions, wants_same_rows=wants)


def _is_deterministic(condition: PartitionCondition) -> bool:
    """Return whether a condition certainly has the same result for all rows of a partition.

    This is certain only for known expressions. Other functions may be non-deterministic, and return
    different results for rows of one partition. The JSON of a plan does not show this.
    """
    kinds = {expression.kind for expression in condition.condition.walk()}
    return not condition.lineage.steps and kinds <= _DETERMINISTIC


def blocked_joins(
    root: Node, partition_columns: frozenset[int], compared: Collection[Path]
) -> Iterator[tuple[Path, Reason]]:
    """For each join condition that cannot prune a leaf, yield the path of the leaf and the reason.

    Args:
        root: An optimized plan.
        partition_columns: Ids of the attributes by which scans can be pruned.
        compared: Paths of the leaves that already have a join filter, or a reason why they do not.
    """
    blocked = BlockedColumns(partition_columns)
    for node in root.walk():
        if node.kind == "Filter" and node.subqueries:
            for part in node.conditions:
                if part.kind in OPERATORS and any(only_subquery(e) for e in part.children):
                    yield from _below_operators(part, blocked.of(node.children[0]))
        if node.kind != "Join":
            continue
        below = [lineages_of(child, partition_columns) for child in node.children]
        for part in node.conditions:
            columns = [e for e in part.walk() if e.kind == "AttributeReference"]
            for number, lineages in enumerate(below):
                reason = _REASONS.get((join_type(node), number))
                for leaf in {x.leaf.path for column in columns for x in lineages.of(column)}:
                    if reason is not None:
                        yield leaf, Reason(f"{reason}.", (part,))
                    elif part.kind not in OPERATORS:
                        name = _CONDITIONS.get(part.kind, part.kind)
                        text = f"{name} is not a supported join condition."
                        yield leaf, Reason(text, (part,))
                    elif leaf not in _compared(part, lineages):
                        yield leaf, Reason(_TOGETHER, (part,))
                    elif leaf not in compared:
                        yield leaf, Reason(_SOURCES, (part,))
                if reason is None and part.kind in OPERATORS:
                    yield from _below_operators(part, blocked.of(node.children[number]))


def _compared(part: Expression, lineages: Lineages) -> set[Path]:
    """Return the paths of scans whose partition columns are the only columns on a side of ``part``.

    ``part`` is a comparison.
    """
    return {x.leaf.path for side in part.children for x in lineages.of(side)}


def _below_operators(part: Expression, blocked: Blocked) -> Iterator[tuple[Path, Reason]]:
    for leaf, name in sorted(set().union(*(blocked.get(i, ()) for i in part.references))):
        text = f"keys are not applied below {name}, which is above this table."
        yield leaf, Reason(text, (part,))
