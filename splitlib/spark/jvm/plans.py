"""Build Catalyst expressions, and inspect and change Catalyst's logical plans.

Nodes are copied with ``makeCopy``, from the arguments that the node itself returns. So this code
does not depend on the number of constructor arguments, which differs between Spark versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from splitlib.remote.calls import cached_property
from splitlib.spark.jvm.java_handles import JavaArray, Seq
from splitlib.spark.jvm.scala import Scala, each
from splitlib.spark.jvm.spark_handles import (
    CatalystAttribute,
    CatalystExpression,
    InternalRow,
    LogicalPlan,
)
from splitlib.spark.logical_plan import Node, Path, Place, parse_plan

CATALYST: Final = "org.apache.spark.sql.catalyst"
EXPRESSIONS: Final = f"{CATALYST}.expressions"
TYPES: Final = "org.apache.spark.sql.types"


class Expressions:
    """Builds expressions with constructors that exist in all supported versions of Spark."""

    def __init__(self, scala: Scala) -> None:
        self._scala = scala
        self._jvm = scala.jvm

    def alias(
        self, expression: CatalystExpression, name: str, like: CatalystExpression | None = None
    ) -> CatalystExpression:
        """Name an expression. The alias has the id of ``like``, or a new id if ``like`` is None."""
        ids = self._jvm.object_(f"{EXPRESSIONS}.NamedExpression")
        new_id = ids.newExprId() if like is None else like.exprId()
        nil, none = self._scala.nil, self._scala.none
        return self._expression("Alias", expression, name, new_id, nil, none, nil)

    def alias_like(
        self, expression: CatalystExpression, attribute: CatalystAttribute
    ) -> CatalystExpression:
        """Give an expression the name, the id and the metadata of an attribute."""
        nil, metadata = self._scala.nil, self._scala.some(attribute.metadata())
        name, own_id = attribute.name(), attribute.exprId()
        return self._expression("Alias", expression, name, own_id, nil, metadata, nil)

    def null_like(self, attribute: CatalystAttribute) -> CatalystExpression:
        """Return a NULL literal of the attribute's type, with the name ``unread``."""
        return self.alias(self._expression("Literal", None, attribute.dataType()), "unread")

    def all_of(self, conditions: Sequence[CatalystExpression]) -> CatalystExpression:
        """Combine at least one condition with AND."""
        together, *others = conditions
        for condition in others:
            together = self._expression("And", together, condition)
        return together

    def any_of(self, conditions: Sequence[CatalystExpression]) -> CatalystExpression:
        """Combine conditions with OR. Without conditions the result is false."""
        boolean = self._jvm.object_(f"{TYPES}.BooleanType")
        together = self._expression("Literal", False, boolean)
        for condition in conditions:
            together = self._expression("Or", together, condition)
        return together

    def or_null(
        self, condition: CatalystExpression, attribute: CatalystAttribute
    ) -> CatalystExpression:
        """Return a condition that is also true where the attribute is null."""
        return self._expression("Or", condition, self._expression("IsNull", attribute))

    def never(self) -> CatalystExpression:
        """Return the literal FALSE."""
        made: CatalystExpression = self._jvm.object_(f"{EXPRESSIONS}.Literal").FalseLiteral()
        return made

    def hashed(self, values: Sequence[CatalystExpression]) -> CatalystExpression:
        """Return one XxHash64 expression over all values."""
        return self._expression("XxHash64", self._scala.seq(values))

    def might_contain(
        self, bloom_filter: bytes, values: Sequence[CatalystExpression]
    ) -> CatalystExpression:
        """Return a condition that tests the combined hash of all values with a Bloom filter.

        Args:
            bloom_filter: The filter, as Spark serializes it.
            values: The expressions to hash.
        """
        binary = self._jvm.object_(f"{TYPES}.BinaryType")
        literal = self._expression("Literal", bloom_filter, binary)
        return self._expression("BloomFilterMightContain", literal, self.hashed(values))

    def attempted(self, expression: CatalystExpression) -> CatalystExpression:
        """Return an expression that is null where ``expression`` would raise an error."""
        return self._expression("TryEval", expression)

    def raises(self, expression: CatalystExpression) -> CatalystExpression:
        """Return a condition that is true where the expression raises an error.

        The expression is wrapped in an array, so that a null value does not count as an error.
        """
        value = self._expression("CreateArray", self._scala.seq([expression]), False)
        return self._expression("IsNull", self.attempted(value))

    def named_as(
        self, expression: CatalystExpression, output: Seq[CatalystAttribute]
    ) -> CatalystExpression:
        """Rename the attributes of an expression to their names in ``output``.

        The names may differ in case, because column names in a query are not case-sensitive.

        Args:
            expression: An expression whose attributes have the same ids as those in ``output``.
            output: The output of a plan, a ``Seq[Attribute]``.
        """
        strategy = self._jvm.object_(
            "org.apache.spark.sql.execution.datasources.DataSourceStrategy"
        )
        named: Seq[CatalystExpression] = strategy.normalizeExprs(
            self._scala.seq([expression]), output
        )
        return named.head()

    def sql(self, expression: CatalystExpression) -> str:
        """Return the SQL text of an expression."""
        return expression.sql()

    def _expression(self, name: str, *arguments: object) -> CatalystExpression:
        made: CatalystExpression = self._jvm.class_(f"{EXPRESSIONS}.{name}")(*arguments)
        return made


P = TypeVar("P", bound=LogicalPlan)

LOGICAL: Final = f"{CATALYST}.plans.logical"


@dataclass(eq=False)
class _Known:
    """Cache of the nodes of a plan that were looked up, to save repeated JVM calls."""

    plan: LogicalPlan
    """The plan. It is kept so that Py4J does not reuse its id."""
    nodes: dict[Path, LogicalPlan]
    """The nodes by path."""
    tree: Node | None = None
    """The plan as Python objects, or a plan that differs from it only in its leaves, with equal
    column ids; None if the plan was not converted."""
    leaf_numbers: Mapping[Path, int] = field(default_factory=dict)
    """Positions of the leaves of ``tree`` in ``leaves``, by path."""

    @cached_property
    def leaves(self) -> Seq[LogicalPlan]:
        """The leaves of the plan, without those of subqueries."""
        return self.plan.collectLeaves()


class Plans:
    """Finds, builds and replaces nodes of plans."""

    def __init__(self, scala: Scala) -> None:
        self._scala = scala
        self._jvm = scala.jvm
        self.expressions = Expressions(scala)
        """Builds expressions."""
        self._known: dict[str, _Known] = {}
        """The plans with nodes that were looked up, by Py4J's ids of the plans."""

    def tree(self, plan: LogicalPlan) -> Node:
        """Return a plan as a tree of Python objects."""
        to_json = self._scala.functions.calling(f"{CATALYST}.trees.TreeNode", "toJSON")
        text = self._scala.text(self._scala.mapped(self._scala.seq([plan]), to_json))
        return self._with_tree(plan, parse_plan(text))

    def _with_tree(self, plan: LogicalPlan, tree: Node) -> Node:
        known = self._known_of(plan)
        known.tree, known.leaf_numbers = tree, tree.leaf_numbers()
        return tree

    def node(self, plan: LogicalPlan, path: Path) -> LogicalPlan:
        """Return the node at ``path`` below ``plan``."""
        known = self._known_of(plan)
        if path not in known.nodes:
            known.nodes[path] = self._found(known, path)
        return known.nodes[path]

    def _found(self, known: _Known, path: Path) -> LogicalPlan:
        if path in known.leaf_numbers:
            return known.leaves.apply(known.leaf_numbers[path])
        above = self.node(known.plan, path[:-1])
        step = path[-1]
        inner = above.children() if step >= 0 else above.subqueries()
        return inner.apply(step if step >= 0 else -1 - step)

    def _known_of(self, plan: LogicalPlan) -> _Known:
        return self._known.setdefault(plan._target_id, _Known(plan, {(): plan}))

    def expression_at(self, plan: LogicalPlan, place: Place) -> CatalystExpression:
        """Return the expression at the position ``place`` in a plan."""
        found = self.node(plan, place.node).expressions().apply(place.number)
        for step in place.inside:
            found = found.children().apply(step)
        return found

    def ids_read_by(self, expressions: Iterable[CatalystExpression]) -> frozenset[int]:
        """Return the ids of all attributes that the expressions read."""
        read = (each(expression.references().toSeq()) for expression in expressions)
        return frozenset(a.exprId().id() for attributes in read for a in attributes)

    def kind(self, node: LogicalPlan) -> str:
        """Return the name of a node's class, without the table name that ``nodeName`` may add."""
        return node.nodeName().partition(" ")[0]

    def leaves(self, plan: LogicalPlan) -> list[LogicalPlan]:
        """Return the leaves of a plan, without the leaves of its subqueries."""
        return each(plan.collectLeaves())

    def all_leaves(self, plan: LogicalPlan) -> list[LogicalPlan]:
        """Return the leaves of a plan and of its subqueries."""
        return [leaf for one in (plan, *each(plan.subqueriesAll())) for leaf in self.leaves(one)]

    def distinct(self, plans: Iterable[LogicalPlan]) -> list[LogicalPlan]:
        """Return the plans without duplicates, compared in canonical form."""
        found = []
        seen: Seq[LogicalPlan] = self._scala.nil
        for plan in plans:
            canonical = plan.canonicalized()
            if not seen.contains(canonical):
                seen = self._scala.prepended(seen, canonical)
                found.append(plan)
        return found

    def output(self, plan: LogicalPlan) -> list[CatalystAttribute]:
        """Return the output attributes of a plan."""
        return each(plan.output())

    def attribute(self, plan: LogicalPlan, position: int) -> CatalystAttribute:
        """Return the output attribute at ``position``."""
        return plan.output().apply(position)

    def attributes(self, plan: LogicalPlan, positions: Sequence[int]) -> Seq[CatalystAttribute]:
        """Return the output attributes at the given positions, as a ``Seq[Attribute]``."""
        output = plan.output()
        return self._scala.seq([output.apply(position) for position in positions])

    def size_of(self, plan: LogicalPlan) -> int:
        """Return Spark's size estimate for the rows of a plan, in bytes."""
        return int(str(plan.stats().sizeInBytes()))

    def rows_of(self, plan: LogicalPlan) -> int | None:
        """Return Spark's estimate of the row count of a plan, or None if Spark has none."""
        count = plan.stats().rowCount()
        return int(str(count.get())) if count.isDefined() else None

    def is_deterministic(self, plan: LogicalPlan) -> bool:
        """Return whether all expressions of a plan are deterministic."""
        return plan.deterministic()

    def same_result(self, one: LogicalPlan, other: LogicalPlan) -> bool:
        """Return whether two plans have the same result, according to Spark's ``sameResult``."""
        return one.sameResult(other)

    def semantic_hash(self, plan: LogicalPlan) -> int:
        """Return a hash that is equal for plans with the same result."""
        return plan.semanticHash()

    def has_fixed_rows(self, leaf: LogicalPlan) -> bool:
        """Return whether a ``LogicalRDD`` reads checkpointed rows or rows of the driver."""
        rdd = leaf.rdd()
        return rdd.isCheckpointed() or self._jvm.is_a(
            rdd, "org.apache.spark.rdd.ParallelCollectionRDD"
        )

    def projected(self, plan: LogicalPlan, named: Sequence[CatalystExpression]) -> LogicalPlan:
        """Return a projection of ``plan`` to the named expressions."""
        return self._logical("Project", self._scala.seq(named), plan)

    def qualified_like(
        self, plan: LogicalPlan, attributes: Sequence[CatalystAttribute]
    ) -> LogicalPlan:
        """Return ``plan`` with its columns qualified like ``attributes``, in the same order."""
        pairs = zip(self.output(plan), attributes, strict=True)
        return self.projected(plan, [own.withQualifier(like.qualifier()) for own, like in pairs])

    def filtered(self, plan: LogicalPlan, condition: CatalystExpression) -> LogicalPlan:
        """Return ``plan`` filtered by a condition."""
        return self._logical("Filter", condition, plan)

    def one_row(self) -> LogicalPlan:
        """Return a leaf with one row and no columns."""
        return self._logical("OneRowRelation")

    def local_relation(
        self, output: Seq[CatalystAttribute], rows: JavaArray[InternalRow]
    ) -> LogicalPlan:
        """Return a ``LocalRelation`` with fixed rows.

        Args:
            output: The attributes, a ``Seq[Attribute]``. The leaf keeps their ids.
            rows: The rows, an ``Array[InternalRow]``.
        """
        empty: LogicalPlan = self._jvm.object_(f"{LOGICAL}.LocalRelation").apply(output)
        return self.with_named_arguments(empty, {"data": self._scala.seq_of_array(rows)})

    def semi_joined(
        self, plan: LogicalPlan, other: LogicalPlan, conditions: Sequence[CatalystExpression]
    ) -> LogicalPlan:
        """Return a left semi join of ``plan`` with ``other`` on all conditions."""
        return self._joined(plan, other, "LeftSemi", self.expressions.all_of(conditions))

    def joined(
        self, left: LogicalPlan, right: LogicalPlan, condition: CatalystExpression
    ) -> LogicalPlan:
        """Return an inner join of two plans on a condition."""
        return self._joined(left, right, "Inner", condition)

    def beside(self, plan: LogicalPlan, others: Sequence[LogicalPlan]) -> LogicalPlan:
        """Add relations to an analyzed plan without changing its rows. The relations are not read.

        Spark searches the analyzed plan for tables before it overwrites one, and when it drops
        outdated cached results. Each relation is added by an anti join whose condition is always
        false. The optimizer removes such joins first.
        """
        # A hint applies to the join directly above the hint, so the hint must stay at the top.
        if plan.nodeName() == "ResolvedHint":
            return plan.withNewChildren(self._scala.seq([self.beside(plan.child(), others)]))
        never = self.expressions.never()
        for other in others:
            nothing = self.filtered(other.newInstance(), never)
            plan = self._joined(plan, nothing, "LeftAnti", never)
        return plan

    def not_broadcast(self, plan: LogicalPlan) -> LogicalPlan:
        """Add a hint that joins must not broadcast the plan. The user's hints take precedence."""
        strategy = self._scala.some(self._jvm.object_(f"{LOGICAL}.NO_BROADCAST_HASH"))
        return self._logical("ResolvedHint", plan, self._logical("HintInfo", strategy))

    def replaced(
        self, plan: LogicalPlan, new: Mapping[Path, LogicalPlan], *, leaf_for_leaf: bool = False
    ) -> LogicalPlan:
        """Replace the nodes at the given paths. Other nodes and all attribute ids stay the same.

        Args:
            plan: A plan.
            new: New nodes by path.
            leaf_for_leaf: Whether each new node is a leaf with the column ids of the old leaf.
        """
        if () in new:
            return new[()]
        tree = self._known_of(plan).tree
        if tree is None or not tree.has_equal_leaves_in(new):
            return self._replaced_at(plan, new)
        pairs = [(self.node(plan, path), leaf) for path, leaf in new.items()]
        changed = self.with_leaves(plan, pairs)
        if leaf_for_leaf:
            self._with_tree(changed, tree)
        return changed

    def _replaced_at(self, plan: LogicalPlan, new: Mapping[Path, LogicalPlan]) -> LogicalPlan:
        """Replace the nodes at the given paths one by one."""
        if () in new:
            return new[()]
        below: dict[int, dict[Path, LogicalPlan]] = {}
        for path, node in new.items():
            below.setdefault(path[0], {})[path[1:]] = node
        children = {step: paths for step, paths in below.items() if step >= 0}
        subqueries = {-1 - step: paths for step, paths in below.items() if step < 0}
        if subqueries:
            plan = self._with_subqueries(plan, subqueries)
        if children:
            found = plan.children()
            for step, paths in children.items():
                child = self._replaced_at(found.apply(step), paths)
                found = self._scala.updated(found, step, child)
            plan = plan.withNewChildren(found)
        return plan

    def with_leaves(
        self, plan: LogicalPlan, new: Sequence[tuple[LogicalPlan, LogicalPlan]]
    ) -> LogicalPlan:
        """Replace leaves of a plan and its subqueries. ``new`` has pairs of old and new leaves."""
        rule: Any = self._scala.map({})  # a Scala map is a partial function
        for old, leaf in new:
            rule = rule.updated(old, leaf)
        # From the leaves up: otherwise, an old leaf inside its new node would be replaced again.
        return plan.transformUpWithSubqueries(rule) if new else plan

    def with_arguments(self, node: P, new: Mapping[int, object]) -> P:
        """Return a copy of a node with new constructor arguments at the given positions."""
        arguments = node.productIterator().toIndexedSeq()
        for position, value in new.items():
            arguments = self._scala.updated(arguments, position, value)
        return self._copy(node, arguments)

    def with_named_arguments(self, node: P, new: Mapping[str, object]) -> P:
        """Return a copy of a node with new values for the named constructor arguments."""
        names = self._scala.argument_names(node)
        return self.with_arguments(node, {names.index(name): new[name] for name in new})

    def _with_subqueries(
        self, plan: LogicalPlan, new: Mapping[int, Mapping[Path, LogicalPlan]]
    ) -> LogicalPlan:
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
                        value = value.withNewPlan(self._replaced_at(value.plan(), changes))
                return value.withNewChildren(self._scala.seq(children)) if children else value
            if is_a(value, self._scala.seq_class):
                return self._scala.seq([rebuilt(item) for item in each(value)])
            if is_a(value, "scala.Some"):
                return self._scala.some(rebuilt(value.get()))
            return value

        arguments = [
            argument if is_a(argument, f"{LOGICAL}.LogicalPlan") else rebuilt(argument)
            for argument in each(plan.productIterator().toIndexedSeq())
        ]
        return self._copy(plan, self._scala.seq(arguments))

    def _copy(self, node: P, arguments: Seq[object]) -> P:
        return node.makeCopy(self._scala.array("java.lang.Object", arguments))

    def _joined(
        self, left: LogicalPlan, right: LogicalPlan, kind: str, condition: CatalystExpression
    ) -> LogicalPlan:
        join_type = self._jvm.object_(f"{CATALYST}.plans.{kind}")
        hint = self._jvm.object_(f"{LOGICAL}.JoinHint").NONE()
        return self._logical("Join", left, right, join_type, self._scala.some(condition), hint)

    def _logical(self, name: str, *arguments: object) -> LogicalPlan:
        made: LogicalPlan = self._jvm.class_(f"{LOGICAL}.{name}")(*arguments)
        return made
