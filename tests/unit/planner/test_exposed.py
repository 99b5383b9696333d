"""The part of a query that later conditions can change, found in handwritten plans."""

from __future__ import annotations

import json
from typing import Final

import pytest

from splitlib.spark.logical_plan import Node, Path, parse_plan
from splitlib.spark.planner.exposed import (
    Exposed,
    exposed_part,
    lost_scans,
    may_be_needed,
    searched,
    shows_all_columns,
)
from tests.unit.test_planner_plans import Tree, attribute, relation


def alias(child: Tree, number: int) -> Tree:
    return [{"class": "Alias", "num-children": 1, "exprId": {"id": number}}, *child]


def unary(kind: str, child: Tree, **expressions: list[Tree]) -> Tree:
    """Return an operator with one child, and with lists of expressions as arguments."""
    return [{"class": kind, "num-children": 1, **expressions}, *child]


def project(child: Tree, *columns: Tree) -> Tree:
    return unary("Project", child, projectList=list(columns))


def aggregate(child: Tree, *columns: Tree) -> Tree:
    return unary("Aggregate", child, aggregateExpressions=list(columns))


def window(child: Tree, *functions: Tree) -> Tree:
    return unary("Window", child, windowExpressions=list(functions))


def join(left: Tree, right: Tree, kind: str = "Join") -> Tree:
    how = {"object": "org.apache.spark.sql.catalyst.plans.Inner$"}
    return [{"class": kind, "num-children": 2, "joinType": how}, *left, *right]


def plan(tree: Tree) -> Node:
    return parse_plan(json.dumps(tree))


A, B, C, D = (attribute(number) for number in range(4))
SUM, MAX = alias(A, 10), alias(B, 11)
UPPER = alias([{"class": "Upper", "num-children": 1}, *B], 9)
TABLE, OTHER = relation(A, B), relation(C, D)
# A join with USING hides columns of one side below a projection.
USING: Final = project(join(TABLE, OTHER), A, B, D)

PARTS: Final[dict[str, tuple[Tree, Path | None]]] = {
    "all columns": (project(TABLE, A, B), None),
    "one column": (project(TABLE, A), (0,)),
    "a computed column": (project(TABLE, A, UPPER), (0,)),
    "a renamed column": (project(TABLE, alias(A, 8), alias(B, 9)), None),
    "a column that an inner projection drops": (project(project(TABLE, A), A), (0, 0)),
    "a column that an outer projection drops": (project(project(TABLE, A, B), A), (0,)),
    "below a filter, a sort and a limit": (
        unary("Filter", unary("Sort", unary("GlobalLimit", project(TABLE, B)))),
        (0, 0, 0, 0),
    ),
    "a column of a join": (project(join(TABLE, OTHER), A, B, C), (0,)),
    "all columns of a join": (project(join(TABLE, OTHER), A, B, C, D), None),
    "a subquery": (project(unary("SubqueryAlias", project(TABLE, A)), A), None),
    "a column of a subquery": (project(unary("SubqueryAlias", TABLE), A), (0,)),
    "distinct rows": (unary("Distinct", project(TABLE, A)), None),
    "an aggregate": (aggregate(TABLE, A), (0,)),
    "filtered groups": (unary("Filter", aggregate(TABLE, A, SUM)), (0, 0)),
    "sorted groups": (unary("Sort", aggregate(TABLE, A, SUM)), None),
    "sorted groups, filtered": (unary("Filter", unary("Sort", aggregate(TABLE, A))), None),
    "a result of sorted groups": (project(aggregate(TABLE, A, SUM), A), (0,)),
    "a hidden column of USING": (project(USING, A, B, D), (0, 0)),
    "unknown columns": (unary("Unknown", TABLE), ()),
    "a union": (
        [{"class": "Union", "num-children": 2}, *project(TABLE, A), *project(TABLE, A)],
        None,
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_exposed_part(name: str) -> None:
    """The part starts where the query selects less than Spark can find."""
    tree, expected = PARTS[name]
    assert exposed_part(plan(tree)) == expected


def test_a_join_of_using_is_searched_for_hidden_columns() -> None:
    """All columns of the top are selected, but ``t.day`` below a join of USING can be read."""
    tree = project(join(USING, relation(attribute(5))), A, B, D, attribute(5))
    assert exposed_part(plan(tree)) == (0,)
    whole = join(project(join(TABLE, OTHER), A, B, C, D), relation(attribute(5)))
    assert exposed_part(plan(project(whole, A, B, C, D, attribute(5)))) is None


def test_hidden_columns_can_be_read_above_distinct() -> None:
    assert exposed_part(plan(unary("Distinct", USING))) == ()
    assert exposed_part(plan(unary("Distinct", project(USING, A)))) == ()


@pytest.mark.parametrize("kind", ["View", "ResolvedHint"])
def test_views_and_hints_have_the_columns_of_their_input(kind: str) -> None:
    assert exposed_part(plan(project(unary(kind, TABLE), A, B))) is None
    assert exposed_part(plan(project(unary(kind, TABLE), A))) == (0,)


@pytest.mark.parametrize("kind", ["Aggregate", "Except", "Intersect", "SubqueryAlias", "Union"])
def test_a_join_of_using_below_these_operators_is_not_searched(kind: str) -> None:
    hidden = [{"class": kind, "num-children": 1, "aggregateExpressions": [A]}, *USING]
    tree = plan(project(join(hidden, relation(attribute(5))), A, B, D, attribute(5)))
    assert not shows_all_columns(tree, ())
    assert shows_all_columns(tree, (0,))


def test_all_nodes_down_to_the_end_of_the_search() -> None:
    tree = plan(project(unary("Filter", unary("SubqueryAlias", project(TABLE, A))), A))
    assert [node.kind for node in searched(tree, ())] == ["Project", "Filter", "SubqueryAlias"]
    assert [node.kind for node in searched(tree, (0,))] == ["Filter", "SubqueryAlias"]
    tree = plan(project(join(project(TABLE, A), OTHER), A))
    assert [node.kind for node in searched(tree, ())] == ["Project", "Join"]


@pytest.mark.parametrize(
    ("tree", "part", "shows"),
    [
        (project(TABLE, A), (0,), True),
        (project(TABLE, A), (), False),
        (project(unary("Filter", project(TABLE, A, B)), A), (0,), False),
        (project(unary("Filter", TABLE), A), (0,), True),
        (project(unary("Sort", USING), A), (0,), False),
        (unary("Filter", join(USING, relation(attribute(5)))), (), False),
    ],
)
def test_a_projection_within_the_part_hides_columns(tree: Tree, part: Path, shows: bool) -> None:
    assert shows_all_columns(plan(tree), part) is shows


# SELECT a FROM table JOIN (SELECT c, max(d) FROM other GROUP BY c)
DROPPED: Final = project(join(TABLE, aggregate(OTHER, C, alias(D, 12))), A)
NEEDED: Final[dict[str, tuple[Tree, tuple[Path, ...], Path | None]]] = {
    "the leaf of a join": (DROPPED, ((0, 1, 0),), (0,)),
    "a leaf of a subquery": (DROPPED, ((-1, 0),), ()),
    "leaves in the part and beside it": (DROPPED, ((-1, 0), (0, 1, 0)), None),
    "a query that selects all": (project(join(TABLE, OTHER), A, B, C, D), ((0, 1),), ()),
    "below another projection": (
        project(unary("Filter", project(join(TABLE, OTHER), A, B)), A),
        ((0, 0, 0, 1),),
        (0, 0, 0),
    ),
    "a subquery in the part": (
        project(unary("Filter", project(join(TABLE, OTHER), A, B)), A),
        ((0, 0, -1),),
        None,
    ),
    "below USING": (
        project(unary("Filter", join(USING, relation(attribute(5)))), A),
        ((0, 0, 0, 0, 1),),
        None,
    ),
}


@pytest.mark.parametrize("name", NEEDED)
def test_part_that_decides_about_leaves(name: str) -> None:
    tree, paths, expected = NEEDED[name]
    assert may_be_needed(plan(tree), paths) == expected


def test_columns_are_shown_outside_of_subqueries_only() -> None:
    exposed = Exposed(plan(project(join(TABLE, OTHER), A)), plan(TABLE))
    assert exposed.contains((0, 1))
    assert exposed.contains((0, 0, -1, 0))
    assert not exposed.contains((-1, 0))
    assert exposed.shows_columns((0, 1))
    assert not exposed.shows_columns((0, -1, 0))
    lateral = project(join(TABLE, OTHER, kind="LateralJoin"), A)
    exposed = Exposed(plan(lateral), plan(TABLE))
    assert exposed.shows_columns((0, -1, 0))
    assert not exposed.shows_columns((0, -1, -1, 0))


def test_nothing_is_shown_if_all_columns_are_selected() -> None:
    exposed = Exposed(plan(project(window(TABLE, SUM), A, B, attribute(10))), plan(TABLE))
    assert not exposed.contains((0, 0))
    assert not exposed.shows_columns((0, 0))
    assert not exposed.has_lost_window((0, 0))


@pytest.mark.parametrize(("kept", "is_lost"), [((SUM, MAX), False), ((SUM,), True), ((), True)])
def test_a_window_that_the_optimizer_drops(kept: tuple[Tree, ...], is_lost: bool) -> None:
    """If one of two functions is dropped, it would be computed from the remaining rows later."""
    analyzed = plan(project(join(window(TABLE, SUM, MAX), OTHER), A))
    exposed = Exposed(analyzed, plan(window(TABLE, *kept) if kept else TABLE))
    assert exposed.has_lost_window((0, 0, 0)) is is_lost
    assert not exposed.has_lost_window((0, 1))
    assert not exposed.has_lost_window((-1, 0, 0))


@pytest.mark.parametrize(("kept", "is_lost"), [((SUM, MAX), False), ((MAX,), True)])
def test_an_aggregate_that_the_optimizer_drops(kept: tuple[Tree, ...], is_lost: bool) -> None:
    groups = aggregate(TABLE, SUM, MAX)
    exposed = Exposed(plan(project(join(groups, OTHER), C)), plan(aggregate(TABLE, *kept)))
    assert exposed.has_lost_function((0, 0, 0)) is is_lost
    assert not exposed.has_lost_function((0, 1))
    assert not exposed.has_lost_function((0, -1, 0))
    assert not exposed.has_lost_window((0, 0, 0))


def test_scans_that_lost_a_part() -> None:
    """The fact is read twice, below a window and beside it. The optimizer keeps one of the two."""
    tree = project(join(join(window(TABLE, SUM), TABLE), OTHER), A)
    paths: dict[str, list[Path]] = {"fact": [(0, 0, 0, 0), (0, 0, 1)], "other": [(0, 1)]}
    analyzed, whole = plan(tree), plan(window(TABLE, SUM))
    assert lost_scans(analyzed, whole, paths, {"fact": 2, "other": 1}) == set()
    assert lost_scans(analyzed, whole, paths, {"fact": 1, "other": 1}) == {"fact"}
    assert lost_scans(analyzed, whole, paths, {"other": 1}) == set()
    assert lost_scans(analyzed, plan(TABLE), paths, {"fact": 2, "other": 1}) == {"fact"}
    selected = plan(project(join(TABLE, OTHER), A, B, C, D))
    paths = {"fact": [(0, 0), (0, 1)]}
    assert lost_scans(selected, plan(TABLE), paths, {"fact": 1}) == set()
