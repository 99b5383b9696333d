"""Single passes of the planner, on handwritten plans that Spark's optimizer does not produce."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from splitlib.spark.logical_plan import Node, Path, parse_plan
from splitlib.spark.planner.decide import (
    Costs,
    copied_leaves,
    copied_scans,
    dead_scans,
    worth_collecting,
)
from splitlib.spark.planner.eligibility import ScanSite, blocked_joins
from splitlib.spark.planner.join_graph import Dimension, discover
from splitlib.spark.planner.materializable import SourceLeaf, rdds_of, source_leaves
from splitlib.spark.planner.prune import sharing_broadcasts
from tests.unit.test_planner_plans import Tree, attribute, equal, id_of, joined, relation


def at_most(left: Tree, right: Tree) -> Tree:
    return [{"class": "LessThanOrEqual", "num-children": 2}, *left, *right]


def union(*relations: Tree) -> Node:
    """Return a union of the relations."""
    tree: Tree = [{"class": "Union", "num-children": len(relations)}]
    return parse_plan(json.dumps(tree + [node for one in relations for node in one]))


def test_what_is_below_a_key_does_not_equal_it() -> None:
    """A key applies to columns that equal it, not to columns that are at most as large."""
    root = joined(
        [relation(attribute(0)), relation(attribute(10)), relation(attribute(20))],
        [at_most(attribute(0), attribute(10)), equal(attribute(10), attribute(20))],
    )
    filters = discover(root, frozenset({0}), lambda _: True)
    assert [(id_of(f.dimension.node), f.comparisons[0].operator) for f in filters] == [(10, "<=")]


@pytest.mark.parametrize(("columns", "comes_from_site"), [({0, 1, 10}, False), ({0, 10}, True)])
def test_keys_come_from_another_site_if_all_are_partition_values(
    columns: set[int], comes_from_site: bool
) -> None:
    """Keys are read from another scan's partitions only if all columns are partition columns.

    Values of other columns must be collected from rows.
    """
    root = joined(
        [relation(attribute(0), attribute(1)), relation(attribute(10), attribute(11))],
        [equal(attribute(0), attribute(10)), equal(attribute(1), attribute(11))],
    )
    (join_filter,) = (
        f for f in discover(root, frozenset(columns), lambda _: True) if f.leaf.path[-1] == 0
    )
    site = ScanSite(join_filter.leaf, filters=(join_filter,))
    (found,) = worth_collecting({(): site}, Costs(lambda _: 10, limit=1), {()}).values()
    too_large = "the dimension reads 10 B, more than planner_dimension_bytes (1 B)"
    assert [f.why_not_collected for f in found.from_sites] == [too_large] * comes_from_site
    assert tuple(map(str, found.reasons)) == (() if comes_from_site else (f"{too_large}.",))
    assert not found.filters


@pytest.mark.parametrize(("limit", "is_run"), [(19, False), (20, True)])
def test_a_dimension_may_read_as_much_as_the_limit(limit, is_run):
    dimension = union(relation(attribute(1)), relation(attribute(2)))
    assert Costs(lambda _: 10, limit=limit).may_run(dimension) is is_run


@pytest.mark.parametrize(
    ("limit", "observed", "waits"), [(1, 0, True), (1, 1, False), (10, 0, False)]
)
def test_only_a_dimension_that_is_too_large_may_run_later(limit, observed, waits):
    """Pruning makes tables smaller, but a dimension with observe() never runs for its keys."""
    observe: Tree = [{"class": "CollectMetrics", "num-children": 1}] * observed
    root = joined(
        [relation(attribute(0)), [*observe, *relation(attribute(10))]],
        [equal(attribute(0), attribute(10))],
    )
    (join_filter,) = discover(root, frozenset({0}), lambda _: True)
    site = ScanSite(join_filter.leaf, filters=(join_filter,))
    costs = Costs(lambda _: 10, limit=limit)
    (found,) = worth_collecting({(): site}, costs, {()}, wants_selective=False).values()
    assert found.reads_too_much is waits


@pytest.mark.parametrize(("own", "is_asked"), [(1000, True), (101, True), (100, False)])
def test_a_much_larger_side_is_not_asked_for_its_keys(own: int, is_asked: bool) -> None:
    """Keys are not collected from a side that is much larger than the scan that they would prune.

    If partitions are not listed, any column may be a key, so each side could prune the other.
    """
    few: Tree = [{"class": "GlobalLimit", "num-children": 1}, *relation(attribute(10))]
    root = joined([relation(attribute(0)), few], [equal(attribute(0), attribute(10))])
    (join_filter,) = discover(root, frozenset({0}), lambda _: True)
    costs = Costs(lambda leaf: own if leaf is join_filter.leaf else 1000, limit=2000)
    site = ScanSite(join_filter.leaf, filters=(join_filter,))
    (found,) = worth_collecting({(): site}, costs, ()).values()
    assert bool(found.filters) is is_asked
    assert found.reasons == ()
    (listed,) = worth_collecting({(): site}, costs, {()}).values()
    assert listed.filters


@pytest.mark.parametrize(
    ("rows", "size", "listed", "is_run"),
    [
        (1000, 1 << 20, True, True),
        (1001, 1 << 20, True, False),
        (None, 1 << 20, True, False),
        (1000, (1 << 20) + 1, True, False),
        (1000, None, True, False),
        (1000, 1 << 20, False, False),
    ],
)
def test_a_small_table_of_keys_needs_no_condition(rows, size, listed, is_run):
    """It may have keys of only some partitions, and reading it costs little.

    A condition on a data column costs a test of each row, so there a condition is needed.
    """
    root = joined(
        [relation(attribute(0)), relation(attribute(10))], [equal(attribute(0), attribute(10))]
    )
    (join_filter,) = discover(root, frozenset({0}), lambda _: True)
    site = ScanSite(join_filter.leaf, filters=(join_filter,))
    costs = Costs(lambda _: size, limit=1 << 30, rows_of=lambda _: rows)
    (found,) = worth_collecting({(): site}, costs, {()} if listed else ()).values()
    assert bool(found.filters) is is_run


def test_the_rows_of_two_tables_are_not_few() -> None:
    """A join of two small tables may be large, and a wide table may join a small one."""
    costs = Costs(lambda _: 10, limit=100, rows_of=lambda _: 1)
    assert costs.has_few_rows(union(relation(attribute(1))))
    assert not costs.has_few_rows(union(relation(attribute(1)), relation(attribute(2))))


BLOCKED: dict[str, list[str | None]] = {
    "FullOuter": ["FULL OUTER JOIN keeps", "FULL OUTER JOIN keeps"],
    "LeftOuter": ["LEFT OUTER JOIN keeps", None],
    "RightOuter": [None, "RIGHT OUTER JOIN keeps"],
    "LeftAnti": ["NOT IN and NOT EXISTS", None],
    "ExistenceJoin": ["one part of an OR", None],
    "LeftSingle": ["a scalar subquery", None],
    "LeftSemi": [None, None],
    "Inner": [None, None],
}


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("kind", BLOCKED)
def test_why_a_join_does_not_prune_the_table_on_a_side(kind, side):
    join = {
        "class": "Join",
        "num-children": 2,
        "joinType": {"object": f"org.apache.spark.sql.catalyst.plans.{kind}$"},
        "condition": equal(attribute(0), attribute(1)),
    }
    root = parse_plan(json.dumps([join, *relation(attribute(0)), *relation(attribute(1))]))
    reasons = [str(reason) for _, reason in blocked_joins(root, frozenset({side}), {(0,), (1,)})]
    wanted = BLOCKED[kind][side]
    assert len(reasons) == (wanted is not None)
    assert all(str(wanted) in reason for reason in reasons)


def _below(operator: dict[str, object]) -> Node:
    """Return a join on attributes 0 and 10, with an operator above the scan of attribute 0."""
    join = {
        "class": "Join",
        "num-children": 2,
        "joinType": {"object": "org.apache.spark.sql.catalyst.plans.Inner$"},
        "condition": equal(attribute(0), attribute(10)),
    }
    operator = {"num-children": 1, **operator}
    return parse_plan(
        json.dumps([join, operator, *relation(attribute(0)), *relation(attribute(10))])
    )


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        ({"class": "plans.logical.OfAnotherVersion"}, "OfAnotherVersion"),
        *(
            ({"class": f"plans.logical.{kind}"}, name)
            for kind, name in [
                ("AttachDistributedSequence", "below zipWithIndex(),"),
                ("CollectMetrics", "below observe(),"),
                ("FlatMapCoGroupsInArrow", "below applyInArrow(),"),
                ("FlatMapCoGroupsInPandas", "below applyInPandas(),"),
                ("FlatMapGroupsInArrow", "below applyInArrow(),"),
                ("FlatMapGroupsInPandas", "below applyInPandas(),"),
                ("GlobalLimit", "below LIMIT,"),
                ("LocalLimit", "below LIMIT,"),
                ("MapInArrow", "below mapInArrow(),"),
                ("MapInPandas", "below mapInPandas(),"),
                ("Offset", "below OFFSET,"),
                ("PythonMapInArrow", "below mapInArrow(),"),
                ("Sample", "below TABLESAMPLE or sample(),"),
                ("ScriptTransformation", "below TRANSFORM,"),
                ("Tail", "below tail(),"),
                ("UnionLoop", "below a recursive query,"),
                ("WindowGroupLimit", "below a rank that is not partitioned by the key,"),
            ]
        ),
        (
            {
                "class": "plans.logical.Generate",
                "generator": [{"class": "hive.HiveGenericUDTF", "num-children": 0}],
            },
            "a generator",
        ),
    ],
)
def test_operators_that_keys_do_not_pass(operator: dict[str, object], name: str) -> None:
    root = _below(operator)
    assert list(discover(root, frozenset({0}), lambda _: True)) == []
    ((path, reason),) = blocked_joins(root, frozenset({0}), ())
    assert path == (0, 0)
    assert name in str(reason)


def _join(kind: str, left: Tree, right: Tree, **arguments: object) -> Tree:
    kinds = {"object": f"org.apache.spark.sql.catalyst.plans.{kind}$"}
    return [{"class": "Join", "num-children": 2, "joinType": kinds, **arguments}, *left, *right]


@pytest.mark.parametrize(
    ("kind", "name"),
    [("LeftSingle", "below a scalar subquery,"), ("LeftOuter", "below an outer join,")],
)
def test_outer_joins_that_keys_do_not_pass(kind: str, name: str) -> None:
    below = _join(kind, relation(attribute(1)), relation(attribute(0)))
    condition = equal(attribute(0), attribute(10))
    root = parse_plan(
        json.dumps(_join("Inner", below, relation(attribute(10)), condition=condition))
    )
    assert list(discover(root, frozenset({0}), lambda _: True)) == []
    ((path, reason),) = blocked_joins(root, frozenset({0}), ())
    assert path == (0, 1)
    assert name in str(reason)


def test_joins_in_a_subquery_of_a_condition_below_a_join() -> None:
    condition = equal(attribute(0), attribute(10))
    inner = _join("Inner", relation(attribute(0)), relation(attribute(10)), condition=condition)
    subquery: Tree = [{"class": "ScalarSubquery", "num-children": 0, "plan": inner}]
    compared = {"class": "Filter", "num-children": 1, "condition": equal(attribute(20), subquery)}
    root = _join("Inner", [compared, *relation(attribute(20))], relation(attribute(30)))
    (found,) = discover(parse_plan(json.dumps(root)), frozenset({0}), lambda _: True)
    assert id_of(found.dimension.node) == 10


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_comparison_with_a_subquery_above_an_operator(is_alone: bool) -> None:
    """Only a comparison with the plain result of a subquery gets the reason."""
    result: Tree = [{"class": "ScalarSubquery", "num-children": 0, "plan": relation(attribute(10))}]
    if not is_alone:
        result = [{"class": "Add", "num-children": 2}, *attribute(1), *result]
    condition = at_most(attribute(0), result)
    compared: Tree = [{"class": "Filter", "num-children": 1, "condition": condition}]
    limit: Tree = [{"class": "GlobalLimit", "num-children": 1}]
    root = parse_plan(json.dumps([*compared, *limit, *relation(attribute(0), attribute(1))]))
    found = [(path, str(reason)) for path, reason in blocked_joins(root, frozenset({0}), ())]
    assert [path for path, _ in found] == [(0, 0)] * is_alone
    assert all("below LIMIT" in reason for _, reason in found)


def test_leaves_that_read_an_rdd() -> None:
    rdd: Tree = [{"class": "org.apache.spark.sql.execution.LogicalRDD", "num-children": 0}]
    root = parse_plan(json.dumps(_join("Inner", relation(attribute(1)), rdd)))
    whole, part = Dimension(root), Dimension(root.children[1])
    assert rdds_of([whole, part]) == [root.children[1]]
    assert rdds_of([Dimension(root.children[0], ((part, ()),))]) == [root.children[1]]
    assert rdds_of([Dimension(root.children[0])]) == []


def _of_source(kind: str, *numbers: int, nullable: bool = True) -> Tree:
    output = [[attribute(number)[0] | {"nullable": nullable}] for number in numbers]
    return [{"class": f"DataSourceV2{kind}Relation", "num-children": 0, "output": output}]


def _sources(optimized: Tree, analyzed: Tree, **given: object) -> list[SourceLeaf]:
    plan, old = (parse_plan(json.dumps(tree)) for tree in (optimized, analyzed))
    sites = given.get("sites", ())
    assert isinstance(sites, tuple)
    fits = bool(given.get("fits", True))
    return source_leaves([Dimension(plan)], plan, old, sites, lambda _: fits)


_ABOVE_1: Tree = [
    {"class": "Filter", "num-children": 1, "condition": at_most(attribute(1), attribute(2))}
]


@pytest.mark.parametrize("nullable", [True, False])
def test_small_tables_of_data_sources_are_kept_with_their_filters(nullable: bool) -> None:
    analyzed = _of_source("", 1, 2, 3, nullable=nullable)
    whole = [*_ABOVE_1, *_of_source("Scan", 3, 2, 1, nullable=nullable)]
    (found,) = _sources(whole, analyzed)
    assert (found.leaf.path, found.top.path, found.table.path) == ((0,), (), ())
    assert found.unread == set()
    part = _join("Inner", _of_source("Scan", 1, nullable=nullable), relation(attribute(5)))
    assert len(_sources(part, analyzed)) == nullable
    for one in _sources(part, analyzed):
        assert (one.leaf.path, one.top.path, set(one.unread)) == ((0,), (0,), {1, 2})


def test_filters_with_subqueries_are_not_used_for_tables_of_data_sources() -> None:
    value: Tree = [{"class": "ScalarSubquery", "num-children": 0, "plan": relation(attribute(9))}]
    above = [{"class": "Filter", "num-children": 1, "condition": at_most(attribute(1), value)}]
    (found,) = _sources([*above, *_of_source("Scan", 1)], _of_source("", 1, 2))
    assert found.top is found.leaf


@pytest.mark.parametrize("kind", ["GlobalLimit", "LocalLimit", "Offset", "Sample", "Tail"])
def test_tables_of_data_sources_below_limits_are_not_kept(kind: str) -> None:
    """Spark may have moved the limit into the source, and then a filter above is above it."""
    below: Tree = [{"class": kind, "num-children": 1}, *_of_source("", 1, 2)]
    assert not _sources([*_ABOVE_1, *_of_source("Scan", 1, 2)], below)


def test_other_tables_of_data_sources_are_not_kept() -> None:
    one, whole = [*_ABOVE_1, *_of_source("Scan", 1, 2)], _of_source("", 1, 2, 3)
    assert _sources(one, whole)
    assert not _sources(one, whole, fits=False)
    assert not _sources(one, whole, sites=((0,),))
    assert not _sources(one, relation(attribute(1), attribute(2)))
    assert not _sources([*_ABOVE_1, *relation(attribute(1), attribute(2))], whole)
    assert not _sources(one, _of_source("", 1, 3))  # an aggregate that the source computes
    assert not _sources(_of_source("Scan"), whole)
    assert not _sources(one, _join("Inner", whole, whole))
    assert not _sources(_join("Inner", one, _of_source("Scan", 1, 2)), whole)
    # A copy of the table under the same ids reads another column.
    assert not _sources(_join("Inner", one, _of_source("Scan", 3)), whole)
    # The optimizer has removed fields of a struct.
    fields: Tree = [*_ABOVE_1, *_of_source("Scan", 1)]
    fields[-1]["output"][0][0]["dataType"] = "string"
    assert not _sources(fields, whole)


def test_a_step_of_a_recursive_query_is_not_run_alone() -> None:
    step: Tree = [{"class": "UnionLoopRef", "num-children": 0, "loopId": 3}]
    loop = [{"class": "UnionLoop", "num-children": 2, "id": 3}, *relation(attribute(1)), *step]
    whole, alone = (parse_plan(json.dumps(tree)) for tree in (loop, step))
    assert Costs(lambda _: 10, limit=20).may_run(whole)
    joined_with_step = parse_plan(json.dumps(_join("Inner", relation(attribute(2)), step)))
    for part in (alone, joined_with_step):
        assert "recursive" in str(Costs(lambda _: 10, limit=20).why_not_run(part))


def test_copies_are_known_by_what_they_read() -> None:
    """A copy of a scan has new column ids, so it is recognised by the table that it reads.

    If the table is unknown, the leaf may be a copy of any scan.
    """
    analyzed = union(relation(attribute(1)), relation(attribute(2)))
    optimized = union(relation(attribute(1)), relation(attribute(3)), relation(attribute(4)))
    copies = copied_leaves(analyzed, optimized)
    assert copies.keys() == {(1,), (2,)}
    read: dict[Path, frozenset[str]] = {(1,): frozenset({"b"}), (2,): frozenset()}
    places = {"first": frozenset({"a", "c"}), "second": frozenset({"b"})}
    found = copied_scans(copies, places, places.__getitem__, lambda leaf: read[leaf.path])
    assert found == {(1,): ("second",), (2,): ("first", "second")}
    assert copied_scans({}, places, places.__getitem__, lambda leaf: read[leaf.path]) == {}


@pytest.mark.parametrize(
    ("left", "is_dead"),
    [
        ([relation(attribute(1)), relation(attribute(3))], True),
        ([relation(attribute(1)), relation(attribute(2))], False),  # the emptied scan is still read
    ],
)
def test_scan_is_dead_if_an_empty_one_is_dropped_too(left: list[Tree], is_dead: bool) -> None:
    """A scan is not dead if it is only missing because Spark uses another scan for both."""
    analyzed = union(relation(attribute(1)), relation(attribute(2)), relation(attribute(3)))
    asked: list[tuple[Mapping[Path, str], Path]] = []

    def optimized_with(new: Mapping[Path, str], part: Path) -> Node:
        asked.append((new, part))
        return union(*left)

    found = dead_scans(analyzed, {"scan": [(1,)]}, lambda _: "empty", optimized_with)
    assert asked == [({(1,): "empty"}, ())]
    assert found == ({(1,): "empty"} if is_dead else {})


@pytest.mark.parametrize("is_dead", [True, False])
def test_a_dead_scan_stays_dead_if_more_columns_are_read(is_dead: bool) -> None:
    select: Tree = [{"class": "Project", "num-children": 1, "projectList": [attribute(1)]}]
    joined = _join("LeftOuter", relation(attribute(1)), relation(attribute(2)))
    analyzed = parse_plan(json.dumps([*select, *joined]))
    asked: list[Path] = []

    def optimized_with(_: object, part: Path) -> Node:
        asked.append(part)
        return union(relation(attribute(1)), *([] if is_dead or not part else [joined]))

    found = dead_scans(analyzed, {"scan": [(0, 1)]}, lambda _: "empty", optimized_with)
    assert asked == [(), (0,)]
    assert found == ({(0, 1): "empty"} if is_dead else {})


def test_no_scan_is_dead_that_cannot_be_emptied() -> None:
    """A scan that cannot be replaced by an empty one is not dead, and Spark does not plan again."""
    analyzed = union(relation(attribute(1)))
    assert dead_scans(analyzed, {"scan": [(0,)]}, lambda _: None, lambda *_: analyzed) == {}


@pytest.mark.parametrize(("sides", "sharing"), [("xx", {(0, 0, 0), (0, 1, 0)}), ("xy", set())])
def test_broadcast_is_shared_by_two_at_least(sides: str, sharing: set[Path]) -> None:
    """Joins with equal build sides share a broadcast, unless the build side is too large."""
    inner = {"class": "Join", "num-children": 2, "joinType": {"object": "x.Inner$"}}
    tree: Tree = [{"class": "Sort", "num-children": 1}, {"class": "Union", "num-children": 2}]
    for i in (1, 2):
        tree += [inner, *relation(attribute(i)), *relation(attribute(10 * i))]
    root = parse_plan(json.dumps(tree))
    build_sides: dict[Path, str] = dict(zip([(0, 0, 1), (0, 1, 1)], sides, strict=True))
    sites: set[Path] = {(0, 0, 0), (0, 1, 0)}
    assert sharing_broadcasts(root, sites, lambda node: build_sides.get(node.path)) == sharing
    assert sharing_broadcasts(root, sites, lambda _: None) == set()
