"""A logical plan as a tree of Python objects, parsed from the JSON that Catalyst writes.

One JVM call returns the JSON of the whole plan. Separate calls for each node and expression would
cost a third of a millisecond each. This module itself does not call the JVM.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, TypeVar

T = TypeVar("T")

Path = tuple[int, ...]
"""Path from a plan's root to a node, with one number per level. Number i stands for the i-th child,
and -1 - i for the plan of the i-th subquery in the node's expressions."""

# Maximum number of decimal digits of each integer type, narrowest type first.
_DIGITS: Final = {"byte": 3, "short": 5, "integer": 10, "long": 19}
INTEGERS: Final = tuple(_DIGITS)
"""Names of the integer types in the JSON of a plan, narrowest type first."""
_DECIMAL: Final = re.compile(r"decimal\((\d+),(-?\d+)\)")
# Lossless casts (source, target) that are not between integers and decimals. A cast from date to
# timestamp is not lossless: in a time zone that has skipped a day, two dates become one timestamp.
_OTHERS: Final = frozenset({("float", "double"), ("date", "timestamp_ntz")})
_MATCHES_NOTHING: Final = "MatchesNothing"


class UnknownPlan(ValueError):
    """Raised if Spark's JSON of a plan does not have the expected format."""


def is_lossless(source: object, target: object) -> bool:
    """Return whether a cast keeps all values distinct and in order, with and without ANSI mode.

    A cast between strings is never treated as lossless, because the JSON of a plan does not contain
    collations.

    Args:
        source: Type before the cast, as in the JSON of a plan, such as ``decimal(10,2)``.
        target: Type after the cast, in the same form.
    """
    if not isinstance(source, str) or not isinstance(target, str):
        return False  # one of the types is nested
    if (source, target) in _OTHERS:
        return True
    if source in INTEGERS and target in INTEGERS:
        return INTEGERS.index(source) <= INTEGERS.index(target)
    own, others = _digits(source), _digits(target)
    if own is None or others is None or target in _DIGITS:
        return False
    return own[0] <= others[0] and own[1] <= others[1]


def _digits(kind: str) -> tuple[int, int] | None:
    """Return a type's digits before and after the decimal point, or None for inexact types."""
    if kind in _DIGITS:
        return _DIGITS[kind], 0
    found = _DECIMAL.fullmatch(kind)
    return None if found is None else (int(found[1]) - int(found[2]), int(found[2]))


@dataclass(frozen=True, slots=True)
class Place:
    """Position of an expression in a plan."""

    node: Path
    """Path of the node that has the expression."""
    number: int
    """Index of the root expression in Catalyst's ``node.expressions()``."""
    inside: tuple[int, ...] = ()
    """Child indexes from the root expression down to this one; empty for the root expression."""


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """An expression in a plan."""

    kind: str
    """Name of the Catalyst class without its package."""
    fields: Mapping[str, Any]
    """Constructor arguments of the Catalyst class, without the children."""
    children: tuple[Expression, ...]
    place: Place
    """Position in the plan."""
    attribute_id: int | None
    """Id of an attribute or alias; None for every other expression."""
    references: frozenset[int]
    """Ids of the attributes that the expression reads outside of subqueries."""

    def walk(self) -> list[Expression]:
        """Return this expression and all its descendants."""
        return _walk(self, lambda part: part.children)

    @property
    def shape(self) -> object:
        """Hashable value by which expressions are compared.

        Equal attributes and equal casts have equal shapes. Every other expression has a unique
        shape, and so does a cast to a type with strings. A plan's JSON does not show the mode of a
        cast, so ``CAST`` and ``try_cast`` have equal shapes. Their results may differ:
        ``try_cast`` is NULL for some values that ``CAST`` converts or refuses.
        """
        match self.kind:
            case "AttributeReference":
                return self.attribute_id
            case "Cast" if not _has_strings(self.fields["dataType"]):
                # Two casts may have different time zones, because a view keeps the time zone of the
                # session that created it.
                names = ("dataType", "timeZoneId")
                how = tuple(str(self.fields.get(name)) for name in names)
                return ("Cast", how, self.children[0].shape)
        return self.place


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """An operator in a plan."""

    kind: str
    """Name of the Catalyst class without its package."""
    fields: Mapping[str, Any]
    """Constructor arguments. :meth:`expressions` parses the expressions in them."""
    children: tuple[Node, ...]
    subqueries: tuple[Node, ...]
    """Plans of the subqueries in the node's own expressions."""
    path: Path
    """Path from the root of the plan."""
    is_leaf: bool
    """Whether the node has no children."""
    kept: dict[Any, Any] = field(default_factory=dict, repr=False)
    """Cache in which other modules keep their results for this node."""
    _parsed: dict[str, tuple[Expression, ...]] = field(default_factory=dict, repr=False)

    def expressions(self, name: str) -> tuple[Expression, ...]:
        """Return the expressions in the constructor argument ``name``; empty if there are none."""
        if not self._parsed:
            number = count()
            for argument, value in self.fields.items():
                self._parsed[argument] = tuple(
                    _expression(iter(tree), Place(self.path, next(number)))
                    for tree in _trees(value)
                )
        return self._parsed.get(name, ())

    @property
    def conditions(self) -> list[Expression]:
        """Parts of the node's condition that ``AND`` combines; empty if it has no condition."""
        return [part for whole in self.expressions("condition") for part in _conjuncts(whole)]

    @property
    def columns(self) -> tuple[Expression, ...]:
        """Output attributes of a leaf, in order."""
        names = ("output", "dataCols", "partitionCols")
        return tuple(column for name in names for column in self.expressions(name))

    def plan_of(self, subquery: Expression) -> Node:
        """Return the plan of a subquery that is in an expression of this node."""
        plans = [found for value in self.fields.values() for found in _nested_plans(value)]
        number = next(i for i, plan in enumerate(plans) if plan is subquery.fields["plan"])
        return self.subqueries[number]

    def walk(self) -> list[Node]:
        """Return this node and all its descendants, including subqueries."""
        return _walk(self, lambda part: (*part.children, *part.subqueries))

    def below(self, *kinds: str) -> Node:
        """Return the first node, from this one down, that is not of one of the given kinds.

        Operators of the given kinds must have one child.
        """
        node = self
        while node.kind in kinds and node.children:
            (node,) = node.children
        return node

    def leaf_numbers(self) -> dict[Path, int]:
        """Return the positions of the leaves in Catalyst's ``collectLeaves``, by path.

        Leaves of subqueries are left out. The result is empty if the tree lacks a branch that a
        join never reads, because then the positions in Catalyst's plan are unknown.
        """
        nodes = _walk(self, lambda part: part.children)
        if any(node.kind == _MATCHES_NOTHING for node in nodes):
            return {}
        leaves = (node.path for node in nodes if node.is_leaf)
        return {path: i for i, path in enumerate(leaves)}

    def has_equal_leaves_in(self, new: Mapping[Path, object]) -> bool:
        """Return whether leaves with the same column ids all get the same new node, or none.

        Such leaves may be equal, so that only their paths differ. The result is False if a leaf
        without columns is replaced, or a node that is not a leaf.

        Args:
            new: New nodes by path.
        """
        of_ids: dict[frozenset[int | None], list[Path]] = {}
        for leaf in self.walk():
            if leaf.is_leaf and leaf.columns:
                ids = frozenset(column.attribute_id for column in leaf.columns)
                of_ids.setdefault(ids, []).append(leaf.path)
        nodes = [[new.get(path) for path in paths] for paths in of_ids.values()]
        replaced = sum(len(ones) for ones in nodes if ones[0] is not None)
        equal = all(one is ones[0] for ones in nodes for one in ones)
        return equal and replaced == len(new)


def parse_plan(text: str) -> Node:
    """Parse the JSON that ``LogicalPlan.toJSON`` returns.

    Raises:
        UnknownPlan: if the JSON does not have the expected format.
    """
    objects = iter(json.loads(text))
    try:
        return _node(objects, ())
    except (StopIteration, KeyError, TypeError) as error:
        raise UnknownPlan("Spark's JSON of the plan has an unknown format.") from error


def catalyst_object(argument: Any) -> str:
    """Return the class name of a Scala object or case class, or "" for any other argument."""
    name = ""
    if isinstance(argument, dict):
        name = str(argument.get("object") or argument.get("product-class") or "")
    return name.rpartition(".")[2].removesuffix("$")


def _walk(root: T, below: Callable[[T], Sequence[T]]) -> list[T]:
    """Return the root and all its descendants, each before its own descendants."""
    found, open_ = list[T](), [root]
    while open_:
        found.append(part := open_.pop())
        open_ += reversed(below(part))
    return found


def _conjuncts(condition: Expression) -> list[Expression]:
    if condition.kind != "And":
        return [condition]
    return [part for child in condition.children for part in _conjuncts(child)]


def _has_strings(kind: Any) -> bool:
    """Return whether a type contains strings, whose collations the plan's JSON does not show."""
    return "string" in json.dumps(kind)


def _node(objects: Iterator[dict[str, Any]], path: Path) -> Node:
    fields = next(objects)
    children = tuple(_node(objects, (*path, i)) for i in range(fields["num-children"]))
    if _matches_nothing(fields):
        # An anti join that matches nothing keeps all rows of the left child, and does not read the
        # right child.
        fields, children = {**fields, "class": _MATCHES_NOTHING}, children[:1]
    plans = [found for value in fields.values() for found in _nested_plans(value)]
    subqueries = tuple(_node(iter(plan), (*path, -1 - i)) for i, plan in enumerate(plans))
    return Node(_kind(fields), fields, children, subqueries, path, not children)


def _matches_nothing(fields: Mapping[str, Any]) -> bool:
    """Return whether an operator is an anti join whose condition is always false."""
    # For an existence join, `joinType` has no `object`.
    if _kind(fields) != "Join" or not fields["joinType"].get("object", "").endswith(".LeftAnti$"):
        return False
    # A join without a condition has no field `condition`, and a null literal has no `value`.
    conditions = [tree[0] for tree in _trees(fields.get("condition"))]
    return [(_kind(c), c.get("value")) for c in conditions] == [("Literal", "false")]


def _expression(objects: Iterator[dict[str, Any]], place: Place) -> Expression:
    fields = next(objects)
    children = tuple(
        _expression(objects, Place(place.node, place.number, (*place.inside, i)))
        for i in range(fields["num-children"])
    )
    kind, found = _kind(fields), fields.get("exprId")
    identifier = None if found is None else int(found["id"])
    read = {identifier} if kind == "AttributeReference" and identifier is not None else set()
    references = frozenset(read.union(*(child.references for child in children)))
    return Expression(kind, fields, children, place, identifier, references)


def _trees(value: Any) -> Iterator[list[dict[str, Any]]]:
    """Yield each expression in a constructor argument, as a list with a JSON object per node."""
    if isinstance(value, list) and value:
        if isinstance(value[0], dict) and "num-children" in value[0]:
            yield value
        else:
            for item in value:
                yield from _trees(item)


def _nested_plans(value: Any) -> Iterator[list[dict[str, Any]]]:
    """Yield the subquery plans in a constructor argument, in the order of ``Node.subqueries``."""
    if isinstance(value, list):
        for item in value:
            yield from _nested_plans(item)
    elif isinstance(value, dict) and "num-children" in value and "plan" in value:
        # The children of an expression follow it in the list. Its other fields (the original form
        # of BETWEEN, the branches of CASE) repeat these children, so they are skipped.
        yield value["plan"]


def _kind(fields: Mapping[str, Any]) -> str:
    name = str(fields["class"])
    return name.rpartition(".")[2]
