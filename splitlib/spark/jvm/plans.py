"""Logical plans of Catalyst: plans in, plans out.

Case classes are copied through ``makeCopy``, whose arguments are those that the node itself shows,
so that a constructor that has grown an argument is none of our business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from splitlib.spark.jvm.expressions import CATALYST, EXPRESSIONS, Expressions
from splitlib.spark.jvm.scala import Scala, each
from splitlib.spark.logical_plan import Node, Path, Place, parse_plan

LOGICAL: Final = f"{CATALYST}.plans.logical"


class Plans(Expressions):
    """Finds nodes in plans, builds new ones, and puts them in the place of others.

    Args:
        scala: Of the session's JVM.
    """

    def __init__(self, scala: Scala) -> None:
        super().__init__(scala)
        self._nodes: dict[str, dict[Path, Any]] = {}
        """By the id of the plan's root, which is not given to another object while this is."""

    def tree(self, plan: Any) -> Node:
        """All nodes of a plan, in Python."""
        to_json = self.scala.functions.calling(f"{CATALYST}.trees.TreeNode", "toJSON")
        return parse_plan(self.scala.text(self.scala.seq([plan]).map(to_json)))

    def node(self, plan: Any, path: Path) -> Any:
        """The node at ``path`` below ``plan``."""
        # a plan is asked for many of its nodes, most of them in the same branches
        nodes = self._nodes.setdefault(plan._target_id, {(): plan})
        if path not in nodes:
            above = self.node(plan, path[:-1])
            step = path[-1]
            inner = above.children() if step >= 0 else above.subqueries()
            nodes[path] = inner.apply(step if step >= 0 else -1 - step)
        return nodes[path]

    def expression_at(self, plan: Any, place: Place) -> Any:
        """An expression of a plan."""
        found = self.node(plan, place.node).expressions().apply(place.number)
        for step in place.inside:
            found = found.children().apply(step)
        return found

    def ids_read_by(self, expressions: Iterable[Any]) -> frozenset[int]:
        """The ids of the attributes that some expressions read."""
        read = (each(expression.references().toSeq()) for expression in expressions)
        return frozenset(int(a.exprId().id()) for attributes in read for a in attributes)

    def kind(self, node: Any) -> str:
        """The name of a node's class; some nodes show what they read behind it."""
        return str(node.nodeName()).partition(" ")[0]

    def leaves(self, plan: Any) -> list[Any]:
        """The leaves of a plan, without those of its subqueries."""
        return list(each(plan.collectLeaves()))

    def all_leaves(self, plan: Any) -> list[Any]:
        """The leaves of a plan and of its subqueries."""
        return [leaf for one in (plan, *each(plan.subqueriesAll())) for leaf in self.leaves(one)]

    def distinct(self, plans: Sequence[Any]) -> list[Any]:
        """Some plans without those that read the same as one before."""
        found = []
        seen = self.scala.nil
        for plan in plans:
            canonical = plan.canonicalized()
            if not seen.contains(canonical):
                seen = seen.prepended(canonical)
                found.append(plan)
        return found

    def output(self, plan: Any) -> list[Any]:
        """The attributes of a plan."""
        return list(each(plan.output()))

    def attribute(self, plan: Any, position: int) -> Any:
        """One attribute of a plan."""
        return plan.output().apply(position)

    def attributes(self, plan: Any, positions: Sequence[int]) -> Any:
        """Some attributes of a plan, a ``Seq[Attribute]``."""
        output = plan.output()
        return self.scala.seq([output.apply(position) for position in positions])

    def size_of(self, plan: Any) -> int:
        """Bytes of the rows of a plan, as Spark estimates them."""
        return int(str(plan.stats().sizeInBytes()))

    def is_deterministic(self, plan: Any) -> bool:
        """Whether no function in a plan differs between two computations."""
        return bool(plan.deterministic())

    def same_result(self, one: Any, other: Any) -> bool:
        """Whether two plans read the same and compute the same of it."""
        return bool(one.sameResult(other))

    def semantic_hash(self, plan: Any) -> int:
        """The same number for plans of the same result."""
        return int(plan.semanticHash())

    def is_checkpointed(self, leaf: Any) -> bool:
        """Whether a ``LogicalRDD`` reads rows that are kept."""
        return bool(leaf.rdd().isCheckpointed())

    def projected(self, plan: Any, named: Sequence[Any]) -> Any:
        """``plan`` with only some named expressions over its output."""
        return self._logical("Project", self.scala.seq(named), plan)

    def qualified_like(self, plan: Any, attributes: Sequence[Any]) -> Any:
        """The same columns as ``plan``, qualified as some attributes are, in their order."""
        pairs = zip(self.output(plan), attributes, strict=True)
        return self.projected(plan, [own.withQualifier(like.qualifier()) for own, like in pairs])

    def filtered(self, plan: Any, condition: Any) -> Any:
        """The rows for which a condition holds."""
        return self._logical("Filter", condition, plan)

    def one_row(self) -> Any:
        """A leaf of one row without columns."""
        return self._logical("OneRowRelation")

    def local_relation(self, output: Any, rows: Any) -> Any:
        """A leaf of given rows.

        Args:
            output: A ``Seq[Attribute]``, whose ids are kept.
            rows: An ``Array[InternalRow]``.
        """
        data = self.scala.seq_of_array(rows)
        return self._logical("LocalRelation", output, data, False, self.scala.none)

    def semi_joined(self, plan: Any, other: Any, conditions: Sequence[Any]) -> Any:
        """The rows of ``plan`` for which ``other`` has one that meets all conditions."""
        return self._joined(plan, other, "LeftSemi", self.all_of(conditions))

    def joined(self, left: Any, right: Any, condition: Any) -> Any:
        """The pairs of rows of two plans that meet a condition."""
        return self._joined(left, right, "Inner", condition)

    def beside(self, plan: Any, others: Sequence[Any]) -> Any:
        """The rows of ``plan``; and relations, of which nothing is read.

        Each is joined by a condition that never holds. The optimizer drops such a join before all
        else, but who asks an analyzed plan what it reads finds the relation: Spark does before it
        overwrites a table, and when it looks for cached results of one that has changed.
        """
        if plan.nodeName() == "ResolvedHint":  # it is for the join above
            return plan.withNewChildren(self.scala.seq([self.beside(plan.child(), others)]))
        never = self.never()
        for other in others:
            nothing = self.filtered(other.newInstance(), never)
            plan = self._joined(plan, nothing, "LeftAnti", never)
        return plan

    def not_broadcast(self, plan: Any) -> Any:
        """A plan that the joins it stands in do not broadcast; a hint of the user goes before."""
        strategy = self.scala.some(self._jvm.object_(f"{LOGICAL}.NO_BROADCAST_HASH"))
        return self._logical("ResolvedHint", plan, self._logical("HintInfo", strategy))

    def replaced(self, plan: Any, new: Mapping[Path, Any]) -> Any:
        """``plan`` with other nodes at some paths; all else is kept, identifiers too."""
        if () in new:
            return new[()]
        below: dict[int, dict[Path, Any]] = {}
        for path, node in new.items():
            below.setdefault(path[0], {})[path[1:]] = node
        children = {step: paths for step, paths in below.items() if step >= 0}
        subqueries = {-1 - step: paths for step, paths in below.items() if step < 0}
        if subqueries:
            plan = self._with_subqueries(plan, subqueries)
        if children:
            new_children = [
                self.replaced(child, children[i]) if i in children else child
                for i, child in enumerate(each(plan.children()))
            ]
            plan = plan.withNewChildren(self.scala.seq(new_children))
        return plan

    def with_arguments(self, node: Any, new: Mapping[int, Any]) -> Any:
        """A copy of a node with some constructor arguments changed, by their number."""
        return self._copy(node, [new.get(i, value) for i, value in enumerate(_arguments(node))])

    def with_named_arguments(self, node: Any, new: Mapping[str, Any]) -> Any:
        """A copy of a node with some constructor arguments changed, by their name."""
        names = [str(node.productElementName(i)) for i in range(node.productArity())]
        return self.with_arguments(node, {names.index(name): new[name] for name in new})

    def _with_subqueries(self, plan: Any, new: Mapping[int, Mapping[Path, Any]]) -> Any:
        number = iter(range(1 << 30))
        is_a = self._jvm.is_a
        holds_plan = self._jvm.class_(f"{CATALYST}.trees.TreePattern").PLAN_EXPRESSION()

        def rebuilt(value: Any) -> Any:
            """The same argument; the same object, if no subquery in it changes."""
            if is_a(value, f"{EXPRESSIONS}.Expression"):
                if not value.containsPattern(holds_plan):
                    return value
                children = [rebuilt(child) for child in each(value.children())]
                if is_a(value, f"{EXPRESSIONS}.PlanExpression"):
                    changes = new.get(next(number))
                    if changes:
                        value = value.withNewPlan(self.replaced(value.plan(), changes))
                return value.withNewChildren(self.scala.seq(children)) if children else value
            if is_a(value, "scala.collection.immutable.Seq"):
                return self.scala.seq([rebuilt(item) for item in each(value)])
            if is_a(value, "scala.Some"):
                return self.scala.some(rebuilt(value.get()))
            return value

        arguments = _arguments(plan)
        plans = {i for i, a in enumerate(arguments) if is_a(a, f"{LOGICAL}.LogicalPlan")}
        return self._copy(plan, [a if i in plans else rebuilt(a) for i, a in enumerate(arguments)])

    def _copy(self, node: Any, arguments: Sequence[Any]) -> Any:
        return node.makeCopy(self._jvm.array_of("java.lang.Object", arguments))

    def _joined(self, left: Any, right: Any, kind: str, condition: Any) -> Any:
        join_type = self._jvm.object_(f"{CATALYST}.plans.{kind}")
        hint = self._jvm.object_(f"{LOGICAL}.JoinHint").NONE()
        return self._logical("Join", left, right, join_type, self.scala.some(condition), hint)

    def _logical(self, name: str, *arguments: Any) -> Any:
        return self._jvm.class_(f"{LOGICAL}.{name}")(*arguments)


def _arguments(node: Any) -> list[Any]:
    return [node.productElement(i) for i in range(node.productArity())]
