"""The planner finds dimensions, columns and casts in plans. These tests need no Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

from splitlib.spark.logical_plan import Node, is_lossless, parse_plan
from splitlib.spark.planner.join_graph import Dimension, JoinFilter, discover
from splitlib.spark.planner.lineage import lineages_of

_CATALYST = "org.apache.spark.sql.catalyst."
Tree = list[dict[str, Any]]


def attribute(number: int, kind: object = "integer") -> Tree:
    return [{"class": "AttributeReference", "num-children": 0, "dataType": kind}
            | {"exprId": {"id": number}, "name": f"c{number}"}]  # fmt: skip


def cast(child: Tree, kind: object, zone: str | None = None) -> Tree:
    how = {"dataType": kind, "evalMode": None, "timeZoneId": zone}
    return [{"class": "Cast", "num-children": 1, **how}, *child]


def equal(left: Tree, right: Tree, operator: str = "EqualTo") -> Tree:
    return [{"class": operator, "num-children": 2}, *left, *right]


def conjunction(conditions: list[Tree]) -> Tree:
    """Return the conjunction of the conditions. Without conditions, return an empty list."""
    if len(conditions) < 2:
        return conditions[0] if conditions else []
    return [{"class": "And", "num-children": 2}, *conditions[0], *conjunction(conditions[1:])]


def relation(*columns: Tree) -> Tree:
    return [{"class": f"{_CATALYST}LogicalRelation", "num-children": 0, "output": list(columns)}]


def joined(relations: list[Tree], conditions: list[Tree]) -> Node:
    """Return inner joins of all relations, below a filter with all conditions."""
    tree = relations[0]
    for other in relations[1:]:
        join = {"class": "Join", "num-children": 2, "joinType": {"object": f"{_CATALYST}Inner$"}}
        tree = [join, *tree, *other]
    condition = {"class": "Filter", "num-children": 1, "condition": conjunction(conditions)}
    return parse_plan(json.dumps([condition, *tree]))


def all_of(dimension: Dimension) -> Iterator[Dimension]:
    """Yield a dimension and, recursively, all dimensions that filter it with their keys."""
    yield dimension
    for other, _ in dimension.narrowed_by:
        yield from all_of(other)


def found(root: Node, unusable: frozenset[int] = frozenset()) -> list[JoinFilter]:
    """Return the join filters for column 0. Dimensions with an id in ``unusable`` cannot be run."""
    return discover(root, frozenset({0}), lambda node: id_of(node) not in unusable)


def id_of(node: Node) -> int | None:
    """Return the id of the first column of a relation."""
    return node.expressions("output")[0].attribute_id


MANY = 12


def in_pairs(column: int) -> Node:
    """Return a fact table joined to many dimensions. Each two dimensions are equal in a column."""
    dimensions = [relation(attribute(10 * i), attribute(10 * i + 1)) for i in range(1, MANY + 1)]
    keys = [equal(attribute(0), attribute(10 * i)) for i in range(1, MANY + 1)]
    pairs = [
        equal(attribute(10 * i + column), attribute(10 * j + column))
        for i, j in combinations(range(1, MANY + 1), 2)
    ]
    return joined([relation(attribute(0)), *dimensions], keys + pairs)


def test_equal_keys_are_not_narrowed_by_each_other() -> None:
    """Each dimension prunes the fact table directly."""
    filters = found(in_pairs(0))
    assert len(filters) == MANY
    assert all(not f.dimension.narrowed_by for f in filters)


@pytest.mark.parametrize(("zone", "keys"), [("Asia/Tokyo", {10, 20}), ("UTC", {10})])
def test_casts_in_different_time_zones_differ(zone: str, keys: set[int]) -> None:
    """A view has the time zone of the session that created it."""
    time = attribute(10, "timestamp")
    root = joined(
        [relation(attribute(0, "date")), relation(time), relation(attribute(20, "date"))],
        [
            equal(cast(time, "date", zone="Asia/Tokyo"), attribute(20, "date")),
            equal(cast(time, "date", zone=zone), attribute(0, "date")),
        ],
    )
    assert {id_of(f.dimension.node) for f in found(root)} == keys


def test_other_columns_narrow_once_each() -> None:
    """Many paths connect two dimensions, but each dimension filters another only once."""
    filters = found(in_pairs(1))
    assert len(filters) == MANY
    for join_filter in filters:
        places = [dimension.node.path for dimension in all_of(join_filter.dimension)]
        assert len(places) == len(set(places)) == MANY


def chain() -> Node:
    """Return a fact table with a chain of three dimensions."""
    return joined(
        [relation(attribute(0)), *(relation(attribute(10 * i), attribute(10 * i + 1))
                                   for i in (1, 2, 3))],
        [equal(attribute(0), attribute(10)), equal(attribute(11), attribute(20)),
         equal(attribute(21), attribute(30))],
    )  # fmt: skip


def test_snowflake() -> None:
    """Keys of each dimension filter the one before it. One that cannot be run ends the chain."""
    (only,) = found(chain())
    assert [id_of(d.node) for d in all_of(only.dimension)] == [10, 20, 30]
    (only,) = found(chain(), frozenset({20}))
    assert [id_of(d.node) for d in all_of(only.dimension)] == [10]


def test_another_way_around_what_cannot_be_run() -> None:
    """If a dimension cannot be run, the dimensions behind it may be reached by another join."""
    root = joined(
        [relation(attribute(0)), *(relation(attribute(10 * i), attribute(10 * i + 1))
                                   for i in (1, 2, 3, 4))],
        [equal(attribute(0), attribute(10)), equal(attribute(11), attribute(20)),
         equal(attribute(20), attribute(30)), equal(attribute(11), attribute(40)),
         equal(attribute(41), attribute(31))],
    )  # fmt: skip
    (only,) = found(root, frozenset({20}))
    assert sorted(str(id_of(d.node)) for d in all_of(only.dimension)) == ["10", "30", "40"]


def test_equalities_through_casts() -> None:
    """Columns that equal the same column are equal, unless casts or collations may differ."""

    def implied(first: Tree, second: Tree, operator: str = "EqualTo") -> bool:
        root = joined(
            [relation(attribute(0)), relation(attribute(10)), relation(attribute(20))],
            [equal(attribute(0), first), equal(second, attribute(20), operator)],
        )
        return any(id_of(f.dimension.node) == 20 for f in found(root))

    column = attribute(10)
    assert implied(column, column)
    assert implied(cast(column, "long"), cast(column, "long"))
    assert not implied(cast(column, "long"), cast(column, "short"))
    # The plan does not show which of two casts is a ``try_cast``, which may be NULL.
    assert implied(column, column, "EqualNullSafe")
    assert not implied(cast(column, "short"), cast(column, "short"), "EqualNullSafe")
    assert not implied(cast(column, "string"), cast(column, "string"))


LOSSLESS: list[tuple[object, object]] = [
    ("byte", "short"),
    ("integer", "long"),
    ("short", "short"),
    ("byte", "decimal(3,0)"),
    ("short", "decimal(5,0)"),
    ("integer", "decimal(10,0)"),
    ("long", "decimal(19,0)"),
    ("long", "decimal(38,18)"),
    ("decimal(5,2)", "decimal(7,4)"),
    ("float", "double"),
    ("date", "timestamp_ntz"),
]
LOSSY: list[tuple[object, object]] = [
    ("short", "byte"),
    ("long", "integer"),
    ("long", "decimal(18,0)"),
    ("integer", "decimal(10,1)"),
    ("decimal(5,2)", "decimal(6,4)"),
    ("decimal(5,2)", "decimal(9,1)"),
    ("decimal(5,0)", "integer"),
    ("integer", "double"),
    ("long", "float"),
    ("float", "integer"),
    ("double", "float"),
    ("date", "timestamp"),
    ("timestamp", "date"),
    ("timestamp_ntz", "date"),
    ("timestamp", "timestamp_ntz"),
    ("timestamp_ntz", "timestamp"),
    ("timestamp_ntz", "date"),
    ("string", "string"),
    ("string", "date"),
    ("string", "integer"),
    ("integer", "string"),
    ("date", "string"),
    ("integer", "boolean"),
    ("boolean", "integer"),
    ("binary", "string"),
    ({"type": "struct"}, {"type": "struct"}),
]


@pytest.mark.parametrize(("source", "target"), LOSSLESS + LOSSY, ids=str)
def test_casts(source: object, target: object) -> None:
    """Casts to wider types lose no information, so the planner can follow a column through them."""
    lossless = (source, target) in LOSSLESS
    assert is_lossless(source, target) == lossless
    table = {"class": "LogicalRelation", "num-children": 0, "output": [attribute(0, source)]}
    once = cast(attribute(0, source), target)
    alias = [{"class": "Alias", "num-children": 1, "exprId": {"id": 1}}, *once]
    project = {"class": "Project", "num-children": 1, "projectList": [alias]}
    plan = parse_plan(json.dumps([project, table]))
    (lineage,) = lineages_of(plan, frozenset({0})).by_attribute[1]
    assert lineage.column == (0 if lossless else None)


ANTI, EXISTENCE = (
    {"object": f"{_CATALYST}LeftAnti$"},
    {"product-class": f"{_CATALYST}ExistenceJoin"},
)


@pytest.mark.parametrize(
    ("join_type", "literal", "reads"),
    [
        (ANTI, {"value": "false"}, 1),  # the right table is not read
        (ANTI, {"value": "true"}, 2),
        (ANTI, {}, 2),  # the condition is null
        (ANTI, None, 2),  # the join has no condition
        (EXISTENCE, {"value": "false"}, 2),
    ],
)
def test_joins_that_match_nothing(join_type, literal, reads):
    join = {"class": "Join", "num-children": 2, "joinType": join_type}
    if literal is not None:
        join["condition"] = [{"class": "Literal", "num-children": 0, **literal}]
    tree = [join, *relation(attribute(1)), *relation(attribute(2))]
    assert sum(node.is_leaf for node in parse_plan(json.dumps(tree)).walk()) == reads


def union(*children: Tree) -> Tree:
    tree: Tree = [{"class": f"{_CATALYST}Union", "num-children": len(children)}]
    return tree + [node for child in children for node in child]


def parsed(tree: Tree) -> Node:
    return parse_plan(json.dumps(tree))


def test_leaves_are_numbered_from_left_to_right_without_those_of_subqueries() -> None:
    subquery = [{"class": "Exists", "num-children": 0, "plan": relation(attribute(9))}]
    inner = union(relation(attribute(1)), relation(attribute(2)))
    filtered = [{"class": "Filter", "num-children": 1, "condition": subquery}, *inner]
    tree = parsed(union(relation(attribute(0)), filtered))
    assert tree.leaf_numbers() == {(0,): 0, (1, 0, 0): 1, (1, 0, 1): 2}


def test_leaves_have_no_numbers_beside_a_branch_that_is_not_read() -> None:
    never = [{"class": "Literal", "num-children": 0, "value": "false"}]
    join = {
        "class": "Join",
        "num-children": 2,
        "joinType": {"object": f"{_CATALYST}LeftAnti$"},
        "condition": never,
    }
    anti = [join, *relation(attribute(0)), *relation(attribute(1))]
    assert parsed(union(anti, relation(attribute(2)))).leaf_numbers() == {}


def test_equal_leaves_are_replaced_together() -> None:
    table, other = relation(attribute(0), attribute(1)), relation(attribute(2))
    tree = parsed(union(table, other, table))
    new = object()
    assert tree.has_equal_leaves_in({(0,): new, (2,): new})
    assert tree.has_equal_leaves_in({(0,): new, (2,): new, (1,): object()})
    assert tree.has_equal_leaves_in({})


@pytest.mark.parametrize("new", [{(0,): 1}, {(0,): 1, (2,): 2}, {(): 1}, {(0,): 1, (3,): 2}])
def test_equal_leaves_with_different_replacements_are_replaced_by_path(new: Any) -> None:
    table = relation(attribute(0))
    without_columns = relation()
    tree = parsed(union(table, relation(attribute(2)), table, without_columns))
    assert not tree.has_equal_leaves_in(new)
