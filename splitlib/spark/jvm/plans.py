"""Inspect and change logical plans of Catalyst.

Nodes are copied with ``makeCopy``, from the arguments that the node itself returns. So this code
does not depend on the number of constructor arguments, which differs between versions of Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from splitlib.spark.jvm.expressions import CATALYST, EXPRESSIONS, Expressions
from splitlib.spark.jvm.scala import Scala, each
from splitlib.spark.logical_plan import Node, Path, Place, parse_plan

LOGICAL: Final = f"{CATALYST}.plans.logical"


class Plans(Expressions):
    """Finds, builds and replaces nodes of plans.

    Args:
        scala: Access to Scala's library in the session's JVM.
    """

    def __init__(self, scala: Scala) -> None:
        super().__init__(scala)
        self._nodes: dict[str, dict[Path, Any]] = {}
        """Nodes by path, for each root plan, by its py4j id. The root itself is included, so that
        its id is not reused."""

    def tree(self, plan: Any) -> Node:
        """Return a plan as a tree of Python objects."""
        to_json = self.scala.functions.calling(f"{CATALYST}.trees.TreeNode", "toJSON")
        return parse_plan(self.scala.text(self.scala.seq([plan]).map(to_json)))

    def node(self, plan: Any, path: Path) -> Any:
        """Return the node at ``path`` below ``plan``."""
        # Nodes are cached, since callers look up many nodes of a plan, mostly in the same branches.
        nodes = self._nodes.setdefault(plan._target_id, {(): plan})
        if path not in nodes:
            above = self.node(plan, path[:-1])
            step = path[-1]
            inner = above.children() if step >= 0 else above.subqueries()
            nodes[path] = inner.apply(step if step >= 0 else -1 - step)
        return nodes[path]

    def expression_at(self, plan: Any, place: Place) -> Any:
        """Return the expression at a place in a plan."""
        found = self.node(plan, place.node).expressions().apply(place.number)
        for step in place.inside:
            found = found.children().apply(step)
        return found

    def ids_read_by(self, expressions: Iterable[Any]) -> frozenset[int]:
        """Return the ids of all attributes that the expressions read."""
        read = (each(expression.references().toSeq()) for expression in expressions)
        return frozenset(int(a.exprId().id()) for attributes in read for a in attributes)

    def kind(self, node: Any) -> str:
        """Return the name of a node's class, without the table name that ``nodeName`` may add."""
        return str(node.nodeName()).partition(" ")[0]

    def leaves(self, plan: Any) -> list[Any]:
        """Return the leaves of a plan, without the leaves of its subqueries."""
        return list(each(plan.collectLeaves()))

    def all_leaves(self, plan: Any) -> list[Any]:
        """Return the leaves of a plan and of its subqueries."""
        return [leaf for one in (plan, *each(plan.subqueriesAll())) for leaf in self.leaves(one)]

    def distinct(self, plans: Sequence[Any]) -> list[Any]:
        """Return the plans without duplicates, compared in canonical form."""
        found = []
        seen = self.scala.nil
        for plan in plans:
            canonical = plan.canonicalized()
            if not seen.contains(canonical):
                seen = seen.prepended(canonical)
                found.append(plan)
        return found

    def output(self, plan: Any) -> list[Any]:
        """Return the output attributes of a plan."""
        return list(each(plan.output()))

    def attribute(self, plan: Any, position: int) -> Any:
        """Return the output attribute at a position."""
        return plan.output().apply(position)

    def attributes(self, plan: Any, positions: Sequence[int]) -> Any:
        """Return the output attributes at some positions, a ``Seq[Attribute]``."""
        output = plan.output()
        return self.scala.seq([output.apply(position) for position in positions])

    def size_of(self, plan: Any) -> int:
        """Return Spark's estimate of the size of a plan's rows, in bytes."""
        return int(str(plan.stats().sizeInBytes()))

    def is_deterministic(self, plan: Any) -> bool:
        """Return whether all expressions of a plan are deterministic."""
        return bool(plan.deterministic())

    def same_result(self, one: Any, other: Any) -> bool:
        """Return whether Spark's ``sameResult`` finds that two plans have the same result."""
        return bool(one.sameResult(other))

    def semantic_hash(self, plan: Any) -> int:
        """Return a hash that is equal for plans with the same result."""
        return int(plan.semanticHash())

    def is_checkpointed(self, leaf: Any) -> bool:
        """Return whether a ``LogicalRDD`` reads checkpointed rows."""
        return bool(leaf.rdd().isCheckpointed())

    def projected(self, plan: Any, named: Sequence[Any]) -> Any:
        """Return a projection of ``plan`` to the named expressions."""
        return self._logical("Project", self.scala.seq(named), plan)

    def qualified_like(self, plan: Any, attributes: Sequence[Any]) -> Any:
        """Qualify the columns of ``plan`` in the same way as the given attributes, by position."""
        pairs = zip(self.output(plan), attributes, strict=True)
        return self.projected(plan, [own.withQualifier(like.qualifier()) for own, like in pairs])

    def filtered(self, plan: Any, condition: Any) -> Any:
        """Return a filter of ``plan`` by a condition."""
        return self._logical("Filter", condition, plan)

    def one_row(self) -> Any:
        """Return a leaf with one row and no columns."""
        return self._logical("OneRowRelation")

    def local_relation(self, output: Any, rows: Any) -> Any:
        """Return a leaf with the given rows.

        Args:
            output: The attributes, a ``Seq[Attribute]``. The leaf has the same ids.
            rows: The rows, an ``Array[InternalRow]``.
        """
        data = self.scala.seq_of_array(rows)
        return self._logical("LocalRelation", output, data, False, self.scala.none)

    def semi_joined(self, plan: Any, other: Any, conditions: Sequence[Any]) -> Any:
        """Return a left semi join of ``plan`` with ``other`` on all conditions."""
        return self._joined(plan, other, "LeftSemi", self.all_of(conditions))

    def joined(self, left: Any, right: Any, condition: Any) -> Any:
        """Return an inner join of two plans on a condition."""
        return self._joined(left, right, "Inner", condition)

    def beside(self, plan: Any, others: Sequence[Any]) -> Any:
        """Add relations to an analyzed plan without changing its rows. The relations are not read.

        Spark searches the analyzed plan for tables before it overwrites one, and when it drops
        outdated cached results. Each relation is added by an anti join whose condition is always
        false. The optimizer removes such joins first.
        """
        # A hint applies to the join above it, so it has to stay at the top.
        if plan.nodeName() == "ResolvedHint":
            return plan.withNewChildren(self.scala.seq([self.beside(plan.child(), others)]))
        never = self.never()
        for other in others:
            nothing = self.filtered(other.newInstance(), never)
            plan = self._joined(plan, nothing, "LeftAnti", never)
        return plan

    def not_broadcast(self, plan: Any) -> Any:
        """Add a hint that joins must not broadcast the plan. The user's hints take precedence."""
        strategy = self.scala.some(self._jvm.object_(f"{LOGICAL}.NO_BROADCAST_HASH"))
        return self._logical("ResolvedHint", plan, self._logical("HintInfo", strategy))

    def replaced(self, plan: Any, new: Mapping[Path, Any]) -> Any:
        """Replace the nodes at some paths. All other nodes and all attribute ids stay the same."""
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
        """Return a copy of a node with other constructor arguments at some positions."""
        return self._copy(node, [new.get(i, value) for i, value in enumerate(_arguments(node))])

    def with_named_arguments(self, node: Any, new: Mapping[str, Any]) -> Any:
        """Return a copy of a node with other values for some named constructor arguments."""
        names = [str(node.productElementName(i)) for i in range(node.productArity())]
        return self.with_arguments(node, {names.index(name): new[name] for name in new})

    def _with_subqueries(self, plan: Any, new: Mapping[int, Mapping[Path, Any]]) -> Any:
        number = iter(range(1 << 30))
        is_a = self._jvm.is_a
        holds_plan = self._jvm.class_(f"{CATALYST}.trees.TreePattern").PLAN_EXPRESSION()

        def rebuilt(value: Any) -> Any:
            """Return a constructor argument with its subqueries replaced, if there are any."""
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
