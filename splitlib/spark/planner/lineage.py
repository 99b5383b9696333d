"""Lineage: find the partition columns that a column of a plan node is computed from.

A column after a lossless cast is treated like the partition column itself. A lossless cast keeps
different values different, and keeps their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from splitlib.spark.logical_plan import (
    INTEGERS,
    Expression,
    Node,
    Path,
    Place,
    catalyst_object,
    is_lossless,
)
from splitlib.spark.planner.truncated import Truncation, truncation_of

# Types in which equal values are identical. Decimals and strings are handled separately: equal
# strings may differ under a collation, and the JSON of a plan does not show collations.
_IDENTICAL_IF_EQUAL = {*INTEGERS, "binary", "boolean", "date", "timestamp", "timestamp_ntz"}
# Leaves that read a table or files.
RELATIONS = frozenset({"LogicalRelation", "HiveTableRelation"})
# Leaves that read a DataSource V2 table, in an analyzed plan and in an optimized plan.
TABLES = frozenset({"DataSourceV2Relation", "DataSourceV2ScanRelation"})
# Operators that handle each row independently and keep all columns.
_ROW_BY_ROW = frozenset({"Filter", "RepartitionByExpression", "RebalancePartitions", "Repartition"})
# Operators that call Python for each row and append the results as columns.
_PYTHON = frozenset({"ArrowEvalPython", "BatchEvalPython"})
# Operators that keep all columns, but whose rows or metrics depend on several input rows. So keys
# cannot be applied below them.
SOME_ROWS = frozenset({"CollectMetrics", "GlobalLimit", "LocalLimit", "Offset", "Sample", "Tail"})
# Generators whose output depends on one input row only. User-defined generators can keep state
# between rows, so they are not listed.
_GENERATORS = frozenset(
    {"Explode", "Inline", "JsonTuple", "PosExplode", "ReplicateRows", "Stack", "VariantExplode"}
)
# Expressions whose value depends on more than the columns of one row.
_NOT_A_FUNCTION = frozenset(
    {
        "AggregateExpression",
        "Exists",
        "GroupingID",
        "InSubquery",
        "InputFileBlockLength",
        "InputFileBlockStart",
        "InputFileName",
        "LateralSubquery",
        "ListQuery",
        "MonotonicallyIncreasingID",
        "PythonUDAF",
        "PythonUDF",
        "Rand",
        "Randn",
        "ScalarSubquery",
        "Shuffle",
        "SparkPartitionID",
        "Uuid",
        "WindowExpression",
    }
)
# Expressions that have the same value as their child.
_SAME_VALUE = frozenset({"Alias", "KnownFloatingPointNormalized", "NormalizeNaNAndZero"})
# Expressions that are equal if their JSON and their children are equal. The JSON of other
# expressions lacks some arguments: the literals of a long IN list, or the mode of arithmetic, which
# decides whether an overflow wraps around, is NULL or raises an error.
_KNOWN_BY_JSON: Final = frozenset(
    {
        *("AddMonths", "DateAdd", "DateSub", "DayOfMonth", "Hour", "Literal", "Month", "Quarter"),
        *("TruncDate", "TruncTimestamp", "Year"),
    }
)
_TIMES: Final = frozenset({"date", "timestamp", "timestamp_ntz"})
# Further operators with the columns of their input, or of their first input.
_WITH_EQUAL_COLUMNS = frozenset(
    {"Distinct", "ResolvedHint", "Sort", "SubqueryAlias", "Union", "View", "WindowGroupLimit"}
)
# Operators that add columns to their input, and the argument that lists the new columns.
_ADDED = {
    "ArrowEvalPython": "resultAttrs",
    "BatchEvalPython": "resultAttrs",
    "Generate": "generatorOutput",
    "Window": "windowExpressions",
}


@dataclass(frozen=True, slots=True)
class ChildColumn:
    """An output column of an operator that has a different id in one of the operator's children."""

    node: Path
    """Path of the operator."""
    child: int
    """Number of the child, starting with 0."""
    position: int
    """Position of the column in the output of the operator."""
    below: int
    """Position of the column in the output of the child."""


Step = Place | ChildColumn


@dataclass(frozen=True, slots=True)
class Lineage:
    """How an expression is computed from the partition columns of one scan."""

    leaf: Node
    """The plan's leaf for the scan."""
    steps: tuple[Step, ...] = ()
    """Positions of the intermediate named expressions, in the order in which they are computed."""
    column: int | None = None
    """Id of the scan's column if the expression is this column, possibly renamed or losslessly
    cast, or None if it is computed."""
    truncation: Truncation | None = None
    """How the scan's column is truncated, if the expression is this column truncated to a unit of
    time; otherwise None."""
    is_of_all_rows: bool = True
    """Whether all values of the expression come from this scan. False for a column of a union,
    because the other inputs of the union have values, too."""
    stands_for_equal: bool = False
    """Whether one output row may represent several rows of the scan. Their values are equal, but
    not identical, such as -0.0 and 0.0, or strings of some collations. A function of the value may
    have a different result for each of them."""


class Lineages:
    """The lineages of those attributes of a plan node that depend only on partition columns."""

    def __init__(self, by_attribute: Mapping[int, tuple[Lineage, ...]]) -> None:
        self.by_attribute = by_attribute

    def of(self, expression: Expression) -> tuple[Lineage, ...]:
        """Return the lineages of an expression.

        The result is empty if the expression reads an attribute without a lineage. An attribute of
        a union has one lineage for each scan below the union.
        """
        if not is_function(expression):
            return ()
        found = [self.by_attribute.get(i, ()) for i in sorted(expression.references)]
        if len(found) == 1 and _is_column(expression):
            return found[0]
        if any(lineage.stands_for_equal for lineages in found for lineage in lineages):
            return ()
        if len(found) == 1:
            truncation = truncation_of(expression)
            return tuple(_computed_from(lineage, truncation) for lineage in found[0])
        leaves = {lineages[0].leaf.path for lineages in found if len(lineages) == 1}
        if len(leaves) != 1 or any(len(lineages) != 1 for lineages in found):
            return ()
        steps = dict.fromkeys(step for lineages in found for step in lineages[0].steps)
        is_of_all_rows = all(lineages[0].is_of_all_rows for lineages in found)
        return (Lineage(found[0][0].leaf, tuple(steps), is_of_all_rows=is_of_all_rows),)


def _computed_from(lineage: Lineage, truncation: Truncation | None) -> Lineage:
    """Return the lineage of an expression that is computed from an attribute with a lineage."""
    if truncation is not None:
        truncation = None if lineage.column is None else replace(truncation, column=lineage.column)
    return replace(lineage, column=None, truncation=truncation)


def is_function(expression: Expression) -> bool:
    """Return whether the value of an expression depends only on the columns of one row."""
    return not any(e.kind in _NOT_A_FUNCTION for e in expression.walk())


def only_subquery(expression: Expression) -> Expression | None:
    """Return the scalar subquery if an expression depends only on this subquery, or None."""
    others = [e for e in expression.walk() if e.kind in _NOT_A_FUNCTION]
    if len(others) != 1 or others[0].kind != "ScalarSubquery" or expression.references:
        return None
    # A correlated subquery has children: the attributes of the outer query that it reads.
    return None if others[0].children else others[0]


def _is_column(expression: Expression) -> bool:
    """Return whether an expression is a column, possibly renamed or losslessly cast.

    Spark also wraps float columns in joins, to normalize -0.0 to 0.0.
    """
    wider = None
    while expression.kind in _SAME_VALUE or expression.kind in ("Cast", "AttributeReference"):
        if expression.kind not in _SAME_VALUE:
            kind = expression.fields["dataType"]
            if wider is not None and not is_lossless(kind, wider):
                return False
            wider = kind
        if expression.kind == "AttributeReference":
            return True
        (expression,) = expression.children
    return False


def lineages_of(node: Node, partition_columns: frozenset[int]) -> Lineages:
    """Return the lineages of output columns for which conditions can be pushed down to a scan.

    If the query keeps only the output rows that meet a condition on such a column, the scan can
    apply the condition to its own rows. The output rows that meet the condition stay the same.
    """
    return Lineages(_of(node, partition_columns))


def _of(node: Node, partition_columns: frozenset[int]) -> Mapping[int, tuple[Lineage, ...]]:
    # The result is cached, because several passes need the lineages of the same nodes.
    if partition_columns not in node.kept:
        node.kept[partition_columns] = _computed(node, partition_columns)
    found: Mapping[int, tuple[Lineage, ...]] = node.kept[partition_columns]
    return found


def _computed(node: Node, partition_columns: frozenset[int]) -> Mapping[int, tuple[Lineage, ...]]:
    if node.is_leaf:
        ids = output_ids(node) or []
        return {i: (Lineage(node, column=i),) for i in ids if i in partition_columns}
    below = [_of(child, partition_columns) for child in node.children]
    match node.kind:
        case "Project":
            return _named(below[0], node.expressions("projectList"))
        case "Aggregate":
            keys = node.expressions("groupingExpressions")
            grouped = _grouped(below[0], [(key, set(_ids([key]) or ())) for key in keys])
            return _named(grouped, node.expressions("aggregateExpressions"))
        case "Window" | "WindowGroupLimit":
            keys = node.expressions("partitionSpec")
            return _grouped(below[0], [(key, _equal_to(key, node.children[0])) for key in keys])
        case "Union":
            return _of_union(node, below)
        case "Join":
            return _of_join(node, below)
        case "Expand":
            return _of_expand(node, below[0])
        case "Generate":
            (generator,) = node.expressions("generator")
            return below[0] if generator.kind in _GENERATORS else {}
        case "Sort":
            return below[0]
        case kind if kind in _ROW_BY_ROW or kind in _PYTHON:
            return below[0]
    return {}


def _grouped(
    below: Mapping[int, tuple[Lineage, ...]], columns: Iterable[tuple[Expression, set[int]]]
) -> Mapping[int, tuple[Lineage, ...]]:
    """Return the lineages of grouping columns, and of the columns that equal them."""
    found = {}
    for key, ids in columns:
        if key.kind != "AttributeReference":
            continue
        kind = str(key.fields["dataType"])
        is_identical = kind in _IDENTICAL_IF_EQUAL or kind.startswith("decimal")
        for i in ids & below.keys():
            found[i] = tuple(
                x if is_identical or _is_stored_text(x, kind) else replace(x, stands_for_equal=True)
                for x in below[i]
            )
    return found


def _is_stored_text(lineage: Lineage, kind: str) -> bool:
    """Return whether an expression is a string column whose values are in partition names.

    Spark allows no collation for such a column, so equal values are identical.
    """
    return kind == "string" and lineage.column is not None and lineage.leaf.kind in RELATIONS


def _equal_to(column: Expression, node: Node) -> set[int]:
    """Return the ids of a column, and of the node's columns that equal it in every row."""
    key = column.attribute_id
    node = node.below("Filter", "Sort", "Window", "WindowGroupLimit")
    outputs = {e.attribute_id: e for e in node.expressions("projectList")}
    if node.kind != "Project" or key not in outputs:
        return set() if key is None else {key}
    value = _unnamed(outputs[key])
    equal = {i for i, other in outputs.items() if _is_same(_unnamed(other), value)}
    return {i for i in (key, *equal) if i is not None}


def _unnamed(expression: Expression) -> Expression:
    return expression.children[0] if expression.kind == "Alias" else expression


def _is_same(one: Expression, other: Expression) -> bool:
    """Return whether two expressions have the same value in every row."""
    if one.kind == "AttributeReference":
        return one.kind == other.kind and one.attribute_id == other.attribute_id
    if one.fields.get("dataType") == "string":
        return False  # the JSON of a plan does not show the collation
    if not (one.kind in _KNOWN_BY_JSON or _is_same_in_all_modes(one)):
        return False
    if one.kind != other.kind or one.fields != other.fields:
        return False
    return all(map(_is_same, one.children, other.children))


def _is_same_in_all_modes(expression: Expression) -> bool:
    """Return whether an expression is a cast that neither wraps around nor is NULL in any mode."""
    if expression.kind != "Cast":
        return False
    source = expression.children[0].fields.get("dataType")
    target = expression.fields["dataType"]
    return is_lossless(source, target) or {source, target} <= _TIMES


def _of_expand(
    node: Node, below: Mapping[int, tuple[Lineage, ...]]
) -> Mapping[int, tuple[Lineage, ...]]:
    """Return the lineages of columns that an ``Expand`` copies unchanged from its input."""
    outputs = _ids(node.expressions("output")) or []
    cells = node.expressions("projections")
    # The JSON of some plans has no projections. For such a plan, return only columns that have the
    # id of an input column, because they are equal to the input column.
    if not cells:
        return {i: below[i] for i in outputs if i in below}
    inner = output_ids(node.children[0]) or []
    found = {}
    for position, i in enumerate(outputs):
        column = cells[position :: len(outputs)]
        sources = {e.attribute_id if e.kind == "AttributeReference" else None for e in column}
        source = sources.pop() if len(sources) == 1 else None
        if source is None or source not in below:
            continue
        if source == i:
            found[i] = below[i]
        elif source in inner:
            step = ChildColumn(node.path, 0, position, inner.index(source))
            found[i] = tuple(replace(x, steps=(*x.steps, step)) for x in below[source])
    return found


def _named(
    below: Mapping[int, tuple[Lineage, ...]], outputs: Iterable[Expression]
) -> Mapping[int, tuple[Lineage, ...]]:
    known = Lineages(below)
    named = {}
    for output in outputs:
        lineages = known.of(output)
        if lineages and output.attribute_id is not None:
            if output.kind == "Alias":
                lineages = tuple(replace(x, steps=(*x.steps, output.place)) for x in lineages)
            named[output.attribute_id] = lineages
    return named


def _of_union(
    node: Node, below: list[Mapping[int, tuple[Lineage, ...]]]
) -> Mapping[int, tuple[Lineage, ...]]:
    outputs = [output_ids(child) for child in node.children]
    known = [ids for ids in outputs if ids is not None]
    if len(known) < len(outputs):
        return {}
    found: dict[int, tuple[Lineage, ...]] = {}
    # A union outputs the attribute ids of its first child.
    for position, ids in enumerate(zip(*known, strict=True)):
        lineages = []
        for child, i in enumerate(ids):
            step = ChildColumn(node.path, child, position, position)
            steps = (step,) if i != ids[0] else ()
            lineages += [
                replace(x, steps=(*x.steps, *steps), is_of_all_rows=False)
                for x in below[child].get(i, ())
            ]
        found[ids[0]] = () if ids[0] in found else tuple(lineages)
    return {i: lineages for i, lineages in found.items() if lineages}


def _of_join(
    node: Node, below: list[Mapping[int, tuple[Lineage, ...]]]
) -> Mapping[int, tuple[Lineage, ...]]:
    left, right = below
    match join_type(node):
        case "Inner" | "Cross":
            return {**left, **right}
        case "LeftOuter" | "LeftSemi" | "LeftAnti" | "ExistenceJoin":
            return left
        case "RightOuter":
            return right
    return {}


def leaf_ids(leaf: Node) -> frozenset[int]:
    """Return the attribute ids of a leaf's output columns."""
    return frozenset(output_ids(leaf) or ())


def output_ids(node: Node, *, in_order: bool = True) -> list[int] | None:
    """Return the attribute ids of a node's output columns, or None if the JSON does not show them.

    Args:
        node: The node.
        in_order: Whether the result must be exact and in order. If False, it may have extra
            columns, because the JSON of a plan does not show which columns a ``Generate`` drops.
    """

    def of_child() -> list[int] | None:
        return output_ids(node.children[0], in_order=in_order)

    match node.kind:
        case "Project" | "Aggregate":
            name = "projectList" if node.kind == "Project" else "aggregateExpressions"
            return _ids(node.expressions(name))
        case "Join":
            left, right = (output_ids(child, in_order=in_order) for child in node.children)
            if join_type(node) in ("LeftSemi", "LeftAnti"):
                return left
            known = left is not None and right is not None and join_type(node) != "ExistenceJoin"
            return [*(left or ()), *(right or ())] if known else None
        case kind if kind in _WITH_EQUAL_COLUMNS:
            return of_child()
        case "Generate" if in_order:
            return None
        case kind if kind in _ROW_BY_ROW or kind in SOME_ROWS:
            return of_child()
        case kind if kind in _ADDED:
            inner, added = of_child(), _ids(node.expressions(_ADDED[kind]))
            return None if inner is None or added is None else inner + added
    if node.is_leaf:
        return _ids(node.columns)
    own = node.expressions("output")
    return _ids(own) if own else None


def _ids(expressions: Iterable[Expression]) -> list[int] | None:
    ids = [e.attribute_id for e in expressions]
    return None if None in ids else [i for i in ids if i is not None]


def join_type(node: Node) -> str:
    """Return Catalyst's name for the type of a join, such as ``LeftOuter``."""
    return catalyst_object(node.fields.get("joinType"))
