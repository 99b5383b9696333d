"""Which filters and conditions reach the sites of scans, on handwritten plans."""

from __future__ import annotations

import json
from typing import Final

import pytest

from splitlib.spark.logical_plan import Expression, Node, parse_plan
from splitlib.spark.planner.decide import copied_leaves
from splitlib.spark.planner.eligibility import ScanSite, TypeNames, blocked_joins, eligible
from splitlib.spark.planner.join_graph import discover
from tests.unit.planner.test_passes import union
from tests.unit.test_planner_plans import Tree, attribute, equal, joined, relation

LITERAL: Final[Tree] = [{"class": "Literal", "num-children": 0, "value": "1"}]
# Conditions whose result is the same for all rows of a partition.
DETERMINISTIC: Final = (
    *("Contains", "EndsWith", "EqualNullSafe", "EqualTo", "GreaterThan"),
    *("GreaterThanOrEqual", "In", "InSet", "LessThan", "LessThanOrEqual", "Like", "Or"),
    *("StartsWith", "Cast", "IsNotNull", "IsNull", "Not"),
)


def integers(_: Expression) -> TypeNames:
    return TypeNames("integer", "int")


def of(tree: Tree) -> Node:
    return parse_plan(json.dumps(tree))


def condition(kind: str) -> Tree:
    children = [attribute(0)]
    if kind not in ("Cast", "IsNotNull", "IsNull", "Not"):
        children.append(LITERAL)
    head = {"class": kind, "num-children": len(children), "dataType": "integer"}
    return [head, *(node for child in children for node in child)]


def filtered(kind: str) -> Node:
    above = {"class": "Filter", "num-children": 1, "condition": condition(kind)}
    return of([above, *relation(attribute(0))])


@pytest.mark.parametrize("kind", DETERMINISTIC)
def test_conditions_that_hold_although_the_query_is_not_deterministic(kind: str) -> None:
    root = filtered(kind)
    leaves = root.children
    sites = eligible(root, leaves, frozenset({0}), (), integers, deterministic=False)
    found = [one.condition.kind for one in sites[leaves[0].path].conditions]
    assert found == [kind]


def test_a_function_may_return_another_result_for_each_row() -> None:
    root = filtered("AnyFunction")
    leaves = root.children
    for deterministic in (True, False):
        sites = eligible(root, leaves, frozenset({0}), (), integers, deterministic=deterministic)
        assert bool(sites[leaves[0].path].conditions) is deterministic


@pytest.mark.parametrize(
    ("kind", "name"),
    [("In", "IN"), ("InSet", "IN"), ("Like", "LIKE"), ("Not", "NOT"), ("Or", "OR"), ("Udf", "Udf")],
)
def test_names_of_conditions_that_hand_on_no_keys(kind: str, name: str) -> None:
    compared: Tree = [{"class": kind, "num-children": 2}, *attribute(0), *attribute(10)]
    join: Tree = [
        {
            "class": "Join",
            "num-children": 2,
            "joinType": {"object": "org.apache.spark.sql.catalyst.plans.Inner$"},
            "condition": compared,
        }
    ]
    root = of([*join, *relation(attribute(0)), *relation(attribute(10))])
    ((path, reason),) = blocked_joins(root, frozenset({0}), ())
    assert path == (0,)
    assert str(reason) == f"{name} is not a supported join condition."


def test_keys_of_a_leaf_that_is_no_scan_are_left_out() -> None:
    """A dimension that is replaced by its rows has the same column ids as the scan."""
    root = joined(
        [relation(attribute(0)), relation(attribute(10))], [equal(attribute(0), attribute(10))]
    )
    filters = discover(root, frozenset({0}), lambda _: True)
    (leaf,) = (f.leaf for f in filters)
    assert eligible(root, (), frozenset({0}), filters, integers, deterministic=True) == {}
    sites = eligible(root, [leaf], frozenset({0}), filters, integers, deterministic=True)
    assert sites[leaf.path].may_have_keys
    assert not ScanSite(leaf).may_have_keys


def test_a_union_hands_on_the_reason_of_each_of_its_inputs() -> None:
    """The union has the column ids of its first input."""
    limit: Tree = [{"class": "GlobalLimit", "num-children": 1}]
    inputs: Tree = [
        {"class": "Union", "num-children": 2},
        *limit, *relation(attribute(0)),
        *limit, *relation(attribute(1)),
    ]  # fmt: skip
    join: Tree = [
        {
            "class": "Join",
            "num-children": 2,
            "joinType": {"object": "org.apache.spark.sql.catalyst.plans.Inner$"},
            "condition": equal(attribute(0), attribute(10)),
        }
    ]
    root = of([*join, *inputs, *relation(attribute(10))])
    found = {path: str(reason) for path, reason in blocked_joins(root, frozenset({0, 1}), ())}
    assert found.keys() == {(0, 0, 0), (0, 1, 0)}
    assert all("LIMIT" in reason for reason in found.values())


def test_copies_of_rdds_and_of_tables_without_columns() -> None:
    """A table that is read without columns has no ids, so it may be a copy of any table."""

    def leaf(kind: str, *columns: Tree) -> Tree:
        return [{"class": kind, "num-children": 0, "output": list(columns)}]

    analyzed = union(
        leaf("LogicalRDD", attribute(1)), leaf("DataSourceV2ScanRelation", attribute(2))
    )
    optimized = union(
        leaf("LogicalRDD", attribute(5)),
        leaf("DataSourceV2ScanRelation"),
        leaf("LocalRelation", attribute(6)),
        leaf("DataSourceV2ScanRelation", attribute(2)),
    )
    assert copied_leaves(analyzed, optimized).keys() == {(0,), (1,)}
