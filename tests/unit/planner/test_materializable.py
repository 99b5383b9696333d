"""Which tables are run once, and which inputs of joins there are, in handwritten plans."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pytest

from splitlib.spark.logical_plan import Expression, Node, Path, parse_plan
from splitlib.spark.planner.decide import decide
from splitlib.spark.planner.eligibility import TypeNames
from splitlib.spark.planner.join_graph import Dimension
from splitlib.spark.planner.materializable import (
    Leaves,
    inputs_of_joins,
    materializable,
    sampled_leaves,
)
from tests.unit.planner.recorded import MB, RecordedQuery, Scan
from tests.unit.test_planner_plans import Tree, attribute, equal, relation


def plan(tree: Tree) -> Node:
    return parse_plan(json.dumps(tree))


def filtered(child: Tree, condition: Tree) -> Tree:
    return [{"class": "Filter", "num-children": 1, "condition": condition}, *child]


def join(left: Tree, right: Tree, **arguments: object) -> Tree:
    kind = {"object": "org.apache.spark.sql.catalyst.plans.Inner$"}
    return [{"class": "Join", "num-children": 2, "joinType": kind, **arguments}, *left, *right]


def value_of(tree: Tree) -> Tree:
    return [{"class": "ScalarSubquery", "num-children": 0, "plan": tree}]


@pytest.mark.parametrize("has_filter", [True, False])
def test_the_table_of_a_scalar_subquery_is_run_with_its_filter(has_filter: bool) -> None:
    columns = [[attribute(number)[0] | {"nullable": True}] for number in (10, 11)]
    table = relation(*columns)
    inside = filtered(table, equal(attribute(10), attribute(11))) if has_filter else table
    aggregate: Tree = [{"class": "Aggregate", "num-children": 1}, *inside]
    root = plan(filtered(relation(attribute(0)), equal(attribute(0), value_of(aggregate))))
    dimension = Dimension(root.subqueries[0], is_value=True)
    ((found,),) = materializable([dimension], Leaves(root, root), (), lambda _: True)
    assert found.leaf.is_leaf
    assert found.top.kind == ("Filter" if has_filter else found.leaf.kind)
    assert len(found.top.path) == len(found.leaf.path) - has_filter


def test_only_the_filter_next_to_a_table_is_run_with_it() -> None:
    columns = [[attribute(number)[0] | {"nullable": True}] for number in (10, 11)]
    condition = equal(attribute(10), attribute(11))
    project: Tree = [{"class": "Project", "num-children": 1, "projectList": columns}]
    root = plan(filtered([*project, *filtered(relation(*columns), condition)], condition))
    ((found,),) = materializable([Dimension(root)], Leaves(root, root), (), lambda _: True)
    assert (found.top.path, found.leaf.path) == ((0, 0), (0, 0, 0))


@pytest.mark.parametrize(("kind", "is_run"), [("Sample", False), ("Sort", True)])
def test_a_sampled_table_is_not_run_alone(kind: str, is_run: bool) -> None:
    """Which rows are in a sample depends on the number and the order of all rows."""
    columns = [[attribute(10)[0] | {"nullable": True}]]
    above: Tree = [{"class": kind, "num-children": 1}, *relation(*columns)]
    root = plan(join(relation(attribute(0)), above))
    sampled = root.children[1]
    assert sampled_leaves(root) == (frozenset() if is_run else {(1, 0)})
    dimension = Dimension(sampled.children[0])
    found = materializable([dimension], Leaves(root, root), (), lambda _: True)
    assert bool(found) is is_run
    below = join(relation(*columns), relation(attribute(0)))
    both = plan(join([above[0], *below], relation(*columns)))
    assert sampled_leaves(both) == (frozenset() if is_run else {(0, 0, 0), (0, 0, 1), (1,)})


def test_inputs_of_joins_outside_of_subqueries() -> None:
    one, two, three, four = (relation(attribute(number)) for number in range(1, 5))
    inner = filtered(join(one, two), equal(attribute(1), value_of(join(three, four))))
    found = [node.path for node in inputs_of_joins(plan(join(inner, three)))]
    assert found == [(0,), (1,), (0, 0, 0), (0, 0, 1)]
    assert list(inputs_of_joins(plan(filtered(one, attribute(1))))) == []


FACT: Scan = ("fact", frozenset({0}))
DIMENSION: Scan = ("dimension", frozenset({20}))


@dataclass(frozen=True)
class CopiedDimension(RecordedQuery):
    """A join of two scans, and the optimizer has copied one of them under a new column id."""

    asked: dict[Path, set[Scan]] = field(default_factory=dict)
    """The scans that each leaf may be a copy of, by the path of the leaf."""

    @property
    def analyzed_tree(self) -> Node:
        return plan(join(relation(attribute(0)), relation(attribute(20))))

    @property
    def optimized_tree(self) -> Node:
        condition = equal(attribute(0), attribute(10))
        few: Tree = [{"class": "GlobalLimit", "num-children": 1}, *relation(attribute(10))]
        return plan(join(relation(attribute(0)), few, condition=condition))

    @property
    def scan_paths(self) -> Mapping[Scan, Collection[Path]]:
        return {FACT: [(0,)], DIMENSION: [(1,)]}

    def places_read_by(self, leaf: Node) -> frozenset[str]:
        return frozenset({"dimension"})

    def size_of(self, leaf: Node, copied: Collection[Scan]) -> int | None:
        self.asked.setdefault(leaf.path, set()).update(copied)
        return None if copied else MB

    def type_of(self, expression: Expression) -> TypeNames:
        return TypeNames("integer", "int")


def test_the_size_of_a_copy_depends_on_the_scans_that_it_may_be_a_copy_of() -> None:
    query = CopiedDimension({"deterministic": True})
    (site,) = decide(query).sites.values()
    assert query.asked[1, 0] == {DIMENSION}
    assert "unknown" in str(site.reasons[0])
