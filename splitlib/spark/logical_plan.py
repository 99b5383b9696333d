"""A logical plan as plain Python values, read from Spark in one call.

Asking the JVM for each node and expression costs a third of a millisecond a question; Catalyst's
own JSON of the whole tree is one question. Nothing here knows the JVM.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

Path = tuple[int, ...]
"""The way from the root of a plan to a node: numbers of children; -1 - i leads into the plan of
the i-th subquery among a node's expressions."""


class UnknownPlan(ValueError):
    """Spark describes a plan in another form than any known version does."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an expression stands: Catalyst's ``node.expressions()(number)``, and on inside."""

    node: Path
    number: int
    inside: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """An expression; ``fields`` are Catalyst's constructor arguments that are not children."""

    kind: str
    """Name of the class without its package."""
    fields: Mapping[str, Any]
    children: tuple[Expression, ...]
    place: Place

    @property
    def attribute_id(self) -> int | None:
        """The id of an attribute, or of what an alias makes; None for every other expression."""
        found = self.fields.get("exprId")
        return None if found is None else int(found["id"])

    def walk(self) -> Iterator[Expression]:
        """This expression and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def references(self) -> frozenset[int]:
        """The ids of the attributes that it reads, those of subqueries left out."""
        return frozenset(
            e.attribute_id
            for e in self.walk()
            if e.kind == "AttributeReference" and e.attribute_id is not None
        )

    @property
    def shape(self) -> object:
        """Equal for expressions that are the same; of attributes and casts only, else unique."""
        match self.kind:
            case "AttributeReference":
                return self.attribute_id
            case "Cast" if not _has_strings(self.fields["dataType"]):
                how = tuple(str(self.fields.get(name)) for name in ("dataType", "evalMode"))
                return ("Cast", how, self.children[0].shape)
        return self.place


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """An operator of a plan."""

    kind: str
    """Name of the class without its package."""
    fields: Mapping[str, Any]
    """Its arguments; those that hold expressions are parsed by :meth:`expressions`."""
    children: tuple[Node, ...]
    subqueries: tuple[Node, ...]
    """The plans of the subqueries among its own expressions."""
    path: Path
    _parsed: dict[str, tuple[Expression, ...]] = field(default_factory=dict, repr=False)

    def expressions(self, name: str) -> tuple[Expression, ...]:
        """The expressions of one argument: of a list of them, or of one that may be missing."""
        if not self._parsed:
            number = count()
            for argument, value in self.fields.items():
                self._parsed[argument] = tuple(
                    _expression(iter(tree), Place(self.path, next(number)))
                    for tree in _trees(value)
                )
        return self._parsed.get(name, ())

    def plan_of(self, subquery: Expression) -> Node:
        """The plan of a subquery among its own expressions."""
        plans = [found for value in self.fields.values() for found in _nested_plans(value)]
        number = next(i for i, plan in enumerate(plans) if plan is subquery.fields["plan"])
        return self.subqueries[number]

    def walk(self) -> Iterator[Node]:
        """This node and all below it, those in subqueries included."""
        yield self
        for child in (*self.children, *self.subqueries):
            yield from child.walk()

    @property
    def is_leaf(self) -> bool:
        """Whether it reads something itself."""
        return not self.children


def parse_plan(text: str) -> Node:
    """The tree of ``LogicalPlan.toJSON``.

    Raises:
        UnknownPlan: if it is none.
    """
    objects = iter(json.loads(text))
    try:
        return _node(objects, ())
    except (StopIteration, KeyError, TypeError) as error:
        raise UnknownPlan("Spark's JSON of the plan has another form than known.") from error


def catalyst_object(argument: Any) -> str:
    """The name of an argument that is an object or a case class; "" if it is neither."""
    name = ""
    if isinstance(argument, dict):
        name = str(argument.get("object") or argument.get("product-class") or "")
    return name.rpartition(".")[2].removesuffix("$")


def conjuncts(condition: Expression) -> Iterator[Expression]:
    """The parts that ``AND`` holds together."""
    if condition.kind == "And":
        for child in condition.children:
            yield from conjuncts(child)
    else:
        yield condition


def _has_strings(kind: Any) -> bool:
    """Whether strings are part of a type, whose collations the JSON of a plan does not tell."""
    return "string" in json.dumps(kind)


def _node(objects: Iterator[dict[str, Any]], path: Path) -> Node:
    fields = next(objects)
    children = tuple(_node(objects, (*path, i)) for i in range(fields["num-children"]))
    if _matches_nothing(fields):
        # its rows are those of the first child, and the other is not read
        fields, children = {**fields, "class": "MatchesNothing"}, children[:1]
    plans = [found for value in fields.values() for found in _nested_plans(value)]
    subqueries = tuple(_node(iter(plan), (*path, -1 - i)) for i, plan in enumerate(plans))
    return Node(_kind(fields), fields, children, subqueries, path)


def _matches_nothing(fields: Mapping[str, Any]) -> bool:
    """Whether an operator is an anti join whose condition never holds."""
    # an existence join has a type of another form
    if _kind(fields) != "Join" or not fields["joinType"].get("object", "").endswith(".LeftAnti$"):
        return False
    # without a condition there is no such field, and a null has no value
    conditions = [tree[0] for tree in _trees(fields.get("condition"))]
    return [(_kind(c), c.get("value")) for c in conditions] == [("Literal", "false")]


def _expression(objects: Iterator[dict[str, Any]], place: Place) -> Expression:
    fields = next(objects)
    children = tuple(
        _expression(objects, Place(place.node, place.number, (*place.inside, i)))
        for i in range(fields["num-children"])
    )
    return Expression(_kind(fields), fields, children, place)


def _trees(value: Any) -> Iterator[list[dict[str, Any]]]:
    """The expressions in one argument: a list of objects each, alone or in lists."""
    if isinstance(value, list) and value:
        if isinstance(value[0], dict) and "num-children" in value[0]:
            yield value
        else:
            for item in value:
                yield from _trees(item)


def _nested_plans(value: Any) -> Iterator[list[dict[str, Any]]]:
    """Plans below one argument, in the order of Catalyst's ``subqueries``."""
    if isinstance(value, list):
        for item in value:
            yield from _nested_plans(item)
    elif isinstance(value, dict) and "num-children" in value and "plan" in value:
        # an expression's children follow it; what it holds besides (``BETWEEN`` as it was written,
        # the branches of ``CASE``) are the same ones again
        yield value["plan"]


def _kind(fields: Mapping[str, Any]) -> str:
    name = str(fields["class"])
    return name.rpartition(".")[2]
