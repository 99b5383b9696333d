"""Columns and keys that pass each kind of operator, on plans that Spark may not produce."""

from __future__ import annotations

import json
from typing import Any

import pytest

from splitlib.spark.logical_plan import Node, catalyst_object, parse_plan
from splitlib.spark.planner.eligibility import (
    Reason,
    ScanSite,
    TypeNames,
    blocked_joins,
    comparable,
    eligible,
    parts_of,
)
from splitlib.spark.planner.join_graph import discover
from splitlib.spark.planner.lineage import ChildColumn, Step, is_function, lineages_of, output_ids
from splitlib.spark.planner.truncated import Truncation
from tests.unit.test_planner_plans import Tree, attribute, conjunction, equal, joined, relation

COLUMNS = frozenset({0})


def plan(kind: str, *children: Tree, **arguments: object) -> Tree:
    """Return an operator or an expression above its children."""
    tree: Tree = [{"class": f"x.{kind}", "num-children": len(children), **arguments}]
    return tree + [node for child in children for node in child]


def parsed(tree: Tree) -> Node:
    return parse_plan(json.dumps(tree))


def alias(number: int, child: Tree) -> Tree:
    return plan("Alias", child, exprId={"id": number})


def join(kind: str, left: Tree, right: Tree, **arguments: object) -> Tree:
    return plan("Join", left, right, joinType={"object": f"x.{kind}$"}, **arguments)


SCAN = relation(attribute(0), attribute(1))
OTHER = relation(attribute(10))


@pytest.mark.parametrize(
    ("operator", "arguments", "passes"),
    [
        *((kind, {}, True) for kind in ("Filter", "Sort", "Repartition", "RebalancePartitions")),
        *((k, {}, True) for k in ("RepartitionByExpression", "ArrowEvalPython", "BatchEvalPython")),
        *((kind, {}, False) for kind in ("GlobalLimit", "LocalLimit", "Offset", "Tail", "Sample")),
        *((kind, {}, False) for kind in ("CollectMetrics", "MapInPandas", "OfAnotherVersion")),
        *(
            (kind, {"partitionSpec": [attribute(key)]}, key == 0)
            for kind in ("Window", "WindowGroupLimit")
            for key in (0, 1)
        ),
        *(
            ("Generate", {"generator": plan(kind)}, kind != "HiveGenericUDTF")
            for kind in (
                *("Explode", "Inline", "JsonTuple", "PosExplode", "ReplicateRows", "Stack"),
                *("VariantExplode", "HiveGenericUDTF"),
            )
        ),
        ("Expand", {"output": [attribute(0)]}, True),
        ("Expand", {"output": [attribute(9)]}, False),
    ],
    ids=str,
)  # fmt: skip
def test_operators_that_a_condition_passes(operator: str, arguments: Any, passes: bool) -> None:
    found = lineages_of(parsed(plan(operator, SCAN, **arguments)), COLUMNS).by_attribute
    assert set(found) == ({0} if passes else set())


@pytest.mark.parametrize(
    ("kind", "sides"),
    [
        ("Inner", {0, 10}), ("Cross", {0, 10}), ("LeftOuter", {0}), ("LeftSemi", {0}),
        ("LeftAnti", {0}), ("ExistenceJoin", {0}), ("RightOuter", {10}), ("FullOuter", set()),
        ("LeftSingle", set()),
    ],
)  # fmt: skip
def test_joins_that_a_condition_passes(kind: str, sides: set[int]) -> None:
    found = lineages_of(parsed(join(kind, SCAN, OTHER)), frozenset({0, 10})).by_attribute
    assert set(found) == sides


PROJECT = plan(
    "Project",
    SCAN,
    projectList=[
        *(alias(20 + number, plan("Year", attribute(0))) for number in range(2)),
        alias(22, plan("Month", attribute(0))),
        alias(23, attribute(1)),
        alias(24, attribute(0)),
        attribute(0),
        *(
            alias(25 + number, plan("Upper", attribute(0), dataType="string"))
            for number in range(2)
        ),
        *(alias(27 + number, plan("InSet", attribute(0))) for number in range(2)),
    ],
)


@pytest.mark.parametrize(
    ("key", "decided"),
    [(20, {20, 21}), (22, {22}), (0, {0, 24}), (24, {0, 24}), (23, set()), (25, {25}), (27, {27})],
)
def test_a_window_lets_columns_pass_that_equal_its_keys(key: int, decided: set[int]) -> None:
    """Equal texts may have different collations, and the JSON of InSet has no values."""
    found = lineages_of(parsed(plan("Window", PROJECT, partitionSpec=[attribute(key)])), COLUMNS)
    assert set(found.by_attribute) == decided


def test_keys_of_a_union_are_not_all_from_one_child() -> None:
    tree = plan("Union", relation(attribute(0)), OTHER)
    (lineage,) = lineages_of(parsed(tree), COLUMNS).by_attribute[0]
    assert not lineage.is_of_all_rows
    both = plan("Project", tree, projectList=[alias(20, plan("Add", attribute(0), attribute(0)))])
    (lineage,) = lineages_of(parsed(both), COLUMNS).by_attribute[20]
    assert not lineage.is_of_all_rows


def steps_of(tree: Tree, columns: set[int], output: int) -> list[tuple[Step, ...]]:
    found = lineages_of(parsed(tree), frozenset(columns)).by_attribute[output]
    return [lineage.steps for lineage in found]


def test_steps_through_operators_that_give_columns_other_ids() -> None:
    union = plan("Union", SCAN, relation(attribute(10), attribute(11)), SCAN)
    for above, path in ((union, ()), (plan("Filter", union), (0,))):
        assert steps_of(above, {1, 11}, 1) == [(), (ChildColumn(path, 1, 1, 1),), ()]
        assert steps_of(above, {11}, 1) == [(ChildColumn(path, 1, 1, 1),)]
    outputs = {"output": [attribute(number) for number in (9, 0, 8, 7)]}
    first = [attribute(1), attribute(0), plan("Literal"), attribute(0)]
    cells = {"projections": [first, [*first[:3], attribute(1)]]}
    expand = plan("Filter", plan("Expand", SCAN, **outputs, **cells))
    assert steps_of(expand, {0, 1}, 9) == [(ChildColumn((0,), 0, 0, 1),)]
    assert steps_of(expand, {0, 1}, 0) == [()]
    assert set(lineages_of(parsed(expand), frozenset({0, 1})).by_attribute) == {0, 9}


@pytest.mark.parametrize(
    ("argument", "name"),
    [
        ({"object": "org.apache.spark.sql.catalyst.plans.Inner$"}, "Inner"),
        ({"product-class": "x.UsingJoin", "joinType": {}}, "UsingJoin"),
        ({"product-class": "Inner"}, "Inner"),
        ({}, ""),
        (None, ""),
        ("x.Inner$", ""),
    ],
)
def test_names_of_objects(argument: object, name: str) -> None:
    assert catalyst_object(argument) == name


@pytest.mark.parametrize(
    ("kind", "is_identical"),
    [
        *((kind, True) for kind in ("byte", "integer", "long", "decimal(5,2)", "date", "boolean")),
        ("string", True),  # Spark allows no collations in partition columns
        *((kind, False) for kind in ("float", "double", "char(3)")),
        ({"type": "struct", "fields": []}, False),
    ],
)
def test_functions_of_equal_values_in_a_group(kind: object, is_identical: bool) -> None:
    """A group of -0.0 and 0.0 has one key, so a function of the key differs from those of rows."""
    key = attribute(0, kind)
    groups = plan("Aggregate", relation(key), groupingExpressions=[key], aggregateExpressions=[key])
    for below in (groups, plan("Window", relation(key), partitionSpec=[key])):
        outputs = [alias(1, attribute(0, kind)), alias(2, plan("F", attribute(0, kind)))]
        tree = plan("Project", below, projectList=outputs)
        found = lineages_of(parsed(tree), COLUMNS).by_attribute
        assert set(found) == ({1, 2} if is_identical else {1})


def test_functions_of_equal_texts_in_a_group() -> None:
    """A column of another table, or one with a COLLATE, may have equal texts that differ."""
    key, collated = attribute(0, "string"), plan("Collate", attribute(0, "string"))
    table = [{"class": "x.DataSourceV2Relation", "num-children": 0, "output": [key]}]
    inner = plan("Project", relation(key), projectList=[alias(3, collated)])
    for below, number in ((table, 0), (inner, 3)):
        key = attribute(number, "string")
        tree = plan("Aggregate", below, groupingExpressions=[key], aggregateExpressions=[key])
        tree = plan("Project", tree, projectList=[alias(1, key), alias(2, plan("F", key))])
        assert set(lineages_of(parsed(tree), COLUMNS).by_attribute) == {1}


@pytest.mark.parametrize("below", ["Filter", "Sort", "Window", "WindowGroupLimit"])
def test_equal_columns_are_found_below_operators(below: str) -> None:
    tree = plan(below, PROJECT, partitionSpec=[attribute(0)])
    tree = plan("Window", tree, partitionSpec=[attribute(0)])
    assert set(lineages_of(parsed(tree), COLUMNS).by_attribute) == {0, 24}


def test_a_truncated_column() -> None:
    day = plan("Cast", attribute(0, "timestamp"), dataType="date", timeZoneId="UTC")
    tree = plan("Project", relation(attribute(0, "timestamp")), projectList=[alias(1, day)])
    (lineage,) = lineages_of(parsed(tree), COLUMNS).by_attribute[1]
    assert lineage.truncation == Truncation("timestamp", "DAY", True, "UTC", 0)
    assert lineage.column is None
    # The column of the second projection is the first one truncated, not the scan's column.
    tree = plan("Project", relation(attribute(0)), projectList=[alias(1, plan("F", attribute(0)))])
    day = plan("Cast", attribute(1, "timestamp"), dataType="date", timeZoneId="UTC")
    tree = plan("Project", tree, projectList=[alias(2, day)])
    (lineage,) = lineages_of(parsed(tree), COLUMNS).by_attribute[2]
    assert (lineage.truncation, lineage.column) == (None, None)


@pytest.mark.parametrize(
    "kind",
    [
        *("AggregateExpression", "Exists", "GroupingID", "InSubquery", "InputFileBlockLength"),
        *("InputFileBlockStart", "InputFileName", "LateralSubquery", "ListQuery"),
        *("MonotonicallyIncreasingID", "PythonUDAF", "PythonUDF", "Rand", "Randn"),
        *("ScalarSubquery", "Shuffle", "SparkPartitionID", "Uuid", "WindowExpression"),
    ],
)
def test_expressions_that_depend_on_more_than_a_row(kind: str) -> None:
    tree = plan("Filter", SCAN, condition=plan("Add", attribute(0), plan(kind)))
    (condition,) = parsed(tree).expressions("condition")
    assert not is_function(condition)


ANY = {"projectList": [attribute(7)], "aggregateExpressions": [attribute(8)]}
ADDED = {"resultAttrs": [attribute(5)], "windowExpressions": [alias(6, attribute(0))]}
GENERATED = plan("Generate", SCAN, generatorOutput=[attribute(9)])
UNKNOWN = plan("OfAnotherVersion", SCAN)


@pytest.mark.parametrize(
    ("tree", "ids", "unordered"),
    [
        (SCAN, [0, 1], [0, 1]),
        (plan("Project", SCAN, **ANY), [7], [7]),
        (plan("Aggregate", SCAN, **ANY), [8], [8]),
        *((join(kind, SCAN, OTHER), [0, 1, 10], [0, 1, 10]) for kind in ("Inner", "FullOuter")),
        *((join(kind, SCAN, OTHER), [0, 1], [0, 1]) for kind in ("LeftSemi", "LeftAnti")),
        (join("ExistenceJoin", SCAN, OTHER), None, None),
        (join("Inner", SCAN, UNKNOWN), None, None),
        (join("Inner", UNKNOWN, SCAN), None, None),
        *((plan(kind, SCAN), [0, 1], [0, 1]) for kind in ("Sort", "Union", "WindowGroupLimit")),
        *((plan(kind, SCAN), [0, 1], [0, 1]) for kind in ("Filter", "Repartition", "Sample")),
        (plan("Window", SCAN, **ADDED), [0, 1, 6], [0, 1, 6]),
        (plan("ArrowEvalPython", SCAN, **ADDED), [0, 1, 5], [0, 1, 5]),
        (plan("BatchEvalPython", SCAN, **ADDED), [0, 1, 5], [0, 1, 5]),
        (plan("BatchEvalPython", UNKNOWN, **ADDED), None, None),
        (plan("Sort", GENERATED), None, [0, 1, 9]),
        (join("Inner", OTHER, GENERATED), None, [10, 0, 1, 9]),
        (plan("Expand", SCAN, output=[attribute(9)]), [9], [9]),
        (UNKNOWN, None, None),
    ],
    ids=lambda value: value[0]["class"] if value and isinstance(value[0], dict) else str(value),
)
def test_output_columns(tree: Tree, ids: list[int] | None, unordered: list[int] | None) -> None:
    node = parsed(tree)
    assert (output_ids(node), output_ids(node, in_order=False)) == (ids, unordered)


COLLATED = TypeNames("string collate X", "STRING COLLATE X")
TEXT = TypeNames("string", "STRING")


@pytest.mark.parametrize(
    ("kinds", "type_of", "kept", "reasons"),
    [
        (("long", "date", "long", "date"), COLLATED, [0, 1], ()),
        (("long", "string", "long", "string"), TEXT, [0, 1], ()),
        (("string", "date", "string", "date"), COLLATED, [1], ("STRING COLLATE X",)),
        (("string", "date", "long", "date"), COLLATED, [1], ("STRING COLLATE X",)),
        (("long", "date", "long", "string"), COLLATED, [0], ("STRING COLLATE X",)),
        (("string", "long", "long", "string"), COLLATED, None, ("STRING COLLATE X",)),
    ],
)
def test_comparisons_that_only_spark_can_make(
    kinds: tuple[str, ...], type_of: TypeNames, kept: list[int] | None, reasons: tuple[str, ...]
) -> None:
    """The kinds are those of the scan's two columns, and of the two columns of the keys."""
    columns = [attribute(number, kind) for number, kind in zip((0, 1, 10, 11), kinds, strict=True)]
    one, other = columns[:2], columns[2:]
    pairs = [equal(left, right) for left, right in zip(one, other, strict=True)]
    root = joined([relation(*one), relation(*other)], pairs)
    (join_filter,) = discover(root, frozenset({0, 1}), lambda _: True)
    left, found = comparable(join_filter, lambda _: type_of)
    assert (left and [one.target.attribute_id for one in left.comparisons]) == kept
    assert found == tuple(f"keys of type {kind} can only be compared by Spark" for kind in reasons)


def test_reasons_of_a_scan() -> None:
    root = joined(
        [relation(attribute(0), attribute(1)), relation(attribute(10), attribute(11))],
        [equal(attribute(0), attribute(10)), equal(attribute(1), attribute(11))],
    )
    filters = list(discover(root, frozenset({0, 1}), lambda _: True))
    parts = parts_of(comparison for one in filters for comparison in one.comparisons)
    assert [part for part in parts if isinstance(part, str)] == [" = ", " AND ", " = "]
    assert [part.attribute_id for part in parts if not isinstance(part, str)] == [0, 10, 1, 11]
    site = ScanSite(filters[0].leaf)
    assert not site.wants_same_rows
    for once, twice in [(True, False), (False, True), (True, True)]:
        found = site.without_keys(Reason("a"), wants_same_rows=once)
        found = found.without_keys(Reason("b"), wants_same_rows=twice)
        assert found.wants_same_rows
        assert list(map(str, found.reasons)) == ["a", "b"]
    assert not site.without_keys(Reason("a"), wants_same_rows=False).wants_same_rows


@pytest.mark.parametrize(
    ("kinds", "all_rows"),
    [((), True), (("IsNotNull",), True), (("IsNotNull", "EqualTo"), False), (("In",), False)],
)
def test_conditions_that_keep_all_partitions(kinds: tuple[str, ...], all_rows: bool) -> None:
    condition = conjunction([plan(kind, attribute(0)) for kind in kinds])
    root = parsed(plan("Filter", SCAN, condition=condition))
    (leaf,) = root.children
    found = eligible(root, [leaf], COLUMNS, (), lambda _: TypeNames("", ""), deterministic=True)
    assert [one.condition.kind for one in found[leaf.path].conditions] == list(kinds)
    assert found[leaf.path].reads_all is all_rows


UDF = plan("PythonUDF", attribute(0))


@pytest.mark.parametrize(
    ("operator", "arguments", "name"),
    [
        ("ArrowEvalPython", {"resultAttrs": [attribute(5)], "udfs": [UDF]}, "a Python function"),
        ("BatchEvalPython", {"resultAttrs": [attribute(5)], "udfs": [UDF]}, "a Python function"),
        ("Aggregate", {"aggregateExpressions": [alias(5, UDF)]}, "an aggregate that is not"),
        ("Project", {"projectList": [alias(5, UDF)]}, "an expression that also depends"),
        ("Window", {"windowExpressions": [alias(5, UDF)]}, "a window that is not"),
        ("Generate", {"generatorOutput": [attribute(5)], "generator": UDF}, "a generator"),
        ("Expand", {"output": [attribute(5)], "projections": [[UDF]]}, "ROLLUP, CUBE"),
        ("MapInArrow", {"output": [attribute(5)]}, "mapInArrow()"),
    ],
)
def test_new_columns_that_keys_do_not_pass(operator: str, arguments: Any, name: str) -> None:
    """The new column depends on column 0 of the scan."""
    child = plan(operator, SCAN, **arguments)
    root = parsed(join("Inner", child, OTHER, condition=equal(attribute(5), attribute(10))))
    ((path, reason),) = blocked_joins(root, COLUMNS, ())
    assert path == (0, 0)
    assert f"keys are not applied below {name}" in str(reason)


def test_a_new_column_of_other_columns_is_no_key() -> None:
    child = plan("Expand", SCAN, output=[attribute(5)], projections=[[attribute(1)]])
    root = parsed(join("Inner", child, OTHER, condition=equal(attribute(5), attribute(10))))
    assert not list(blocked_joins(root, COLUMNS, ()))
