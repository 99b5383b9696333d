"""Everything of Catalyst that the planner touches: plans in, plans out.

Only classes and methods that Spark 4.0 to 4.3 have in common are used; case classes are copied
through ``makeCopy``, whose arguments are those that the node itself shows, so that a constructor
that has grown an argument is none of our business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from splitlib.spark.jvm.dataframes import dataframe_of_plan
from splitlib.spark.jvm.functions import Functions, functions_of
from splitlib.spark.jvm.gateway import jvm_of
from splitlib.spark.logical_plan import Node, Path, Place, parse_plan

# With these rules Spark would fetch and list whole tables while it optimizes.
_NOT_YET = (
    "org.apache.spark.sql.execution.datasources.PruneFileSourcePartitions",
    "org.apache.spark.sql.hive.execution.PruneHiveTablePartitions",
)
_OWN_SETTINGS = {
    # subqueries of Spark's own dynamic pruning are of no use in a plan that is only read
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    "spark.sql.optimizer.runtime.rowLevelOperationGroupFilter.enabled": "false",
    # it would put partition values in the place of a scan, which then does matter
    "spark.sql.optimizer.metadataOnly": "false",
    # several threads list, so that no job has to
    "spark.sql.sources.parallelPartitionDiscovery.threshold": str(2**31 - 1),
}
_CATALYST = "org.apache.spark.sql.catalyst"
_EXPRESSIONS = f"{_CATALYST}.expressions"
_LOGICAL = f"{_CATALYST}.plans.logical"
_ARRAY_SEQ = "scala.collection.immutable.ArraySeq"
_EXCLUDED = "spark.sql.optimizer.excludedRules"


class Catalyst:
    """Plans of one session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.session: Any = spark._jsparkSession
        self.jvm = jvm_of(spark.sparkContext._gateway)
        self._nodes: dict[str, dict[Path, Any]] = {}
        """By the id of the plan's root, which is not given to another object while this is."""

    def analyzed(self, df: DataFrame) -> Any:
        """The analyzed plan of ``df``, as its optimizer begins.

        What is cached is read from there, the current time is now, and common table expressions
        stand where they are used.
        """
        execution: Any = df._jdf.queryExecution()
        plan = execution.analyzed()
        if not self.session.sharedState().cacheManager().isEmpty():
            plan = execution.withCachedData()
        if plan.containsPattern(self._patterns.CURRENT_LIKE()):
            plan = self.jvm.object_(f"{_CATALYST}.optimizer.ComputeCurrentTime").apply(plan)
        if plan.containsPattern(self._patterns.CTE()):
            plan = self._inline_ctes().apply(plan)
        return plan

    def _inline_ctes(self) -> Any:
        rule = self.jvm.reflected(f"{_CATALYST}.optimizer.InlineCTE")
        constructor = rule.getConstructors()[0]
        number = constructor.getParameterCount()
        flags = self.jvm.class_("java.util.Collections").nCopies(number, False)
        return constructor.newInstance(flags.toArray())

    def optimized(self, analyzed: Any) -> Any:
        """What Spark makes of a plan before it would look at partitions. Lists nothing."""
        return self._ofRows(self.own_session, analyzed).queryExecution().optimizedPlan()

    def dataframe(self, plan: Any) -> DataFrame:
        """A DataFrame of any resolved plan, in the user's session."""
        return dataframe_of_plan(self.spark, plan)

    def tree(self, plan: Any) -> Node:
        """All nodes of a plan, in Python."""
        return parse_plan(plan.toJSON())

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

    def projected(self, plan: Any, named: Sequence[Any]) -> Any:
        """``plan`` with only some named expressions over its output."""
        return self._new_node("Project", self.seq(named), plan)

    def alias(self, expression: Any, name: str, like: Any = None) -> Any:
        """A named expression, under a new id or under that of the attribute ``like``."""
        new_id = self._new_id() if like is None else like.exprId()
        return self._new_expression(
            "Alias", expression, name, new_id, self._nil, self._none, self._nil
        )

    def local_relation(self, output: Any, rows: Any) -> Any:
        """A leaf of given rows.

        Args:
            output: A ``Seq[Attribute]``, whose ids are kept.
            rows: An ``Array[InternalRow]``.
        """
        data = self.jvm.class_(_ARRAY_SEQ).unsafeWrapArray(rows)
        return self._new_node("LocalRelation", output, data, False, self._none)

    def semi_joined(self, plan: Any, other: Any, conditions: Sequence[Any]) -> Any:
        """The rows of ``plan`` for which ``other`` has one that meets all conditions."""
        together = conditions[0]
        for condition in conditions[1:]:
            together = self._new_expression("And", together, condition)
        semi = self.jvm.object_(f"{_CATALYST}.plans.LeftSemi")
        hint = self.jvm.object_(f"{_LOGICAL}.JoinHint").NONE()
        join = self.jvm.class_(f"{_LOGICAL}.Join")
        return join(plan, other, semi, self.some(together), hint)

    def not_broadcast(self, plan: Any) -> Any:
        """A plan that the joins it stands in do not broadcast; a hint of the user goes before."""
        strategy = self.some(self.jvm.object_(f"{_LOGICAL}.NO_BROADCAST_HASH"))
        hint = self.jvm.class_(f"{_LOGICAL}.HintInfo")(strategy)
        return self.jvm.class_(f"{_LOGICAL}.ResolvedHint")(plan, hint)

    def beside(self, plan: Any, others: Sequence[Any]) -> Any:
        """The rows of ``plan``; and relations, of which nothing is read.

        Each is joined by a condition that never holds. The optimizer drops such a join before all
        else, but who asks an analyzed plan what it reads finds the relation: Spark does before it
        overwrites a table, and when it looks for cached results of one that has changed.
        """
        if plan.nodeName() == "ResolvedHint":  # it is for the join above
            return plan.withNewChildren(self.seq([self.beside(plan.child(), others)]))
        never = self.jvm.object_(f"{_EXPRESSIONS}.Literal").FalseLiteral()
        anti = self.jvm.object_(f"{_CATALYST}.plans.LeftAnti")
        hint = self.jvm.object_(f"{_LOGICAL}.JoinHint").NONE()
        for other in others:
            nothing = self._new_node("Filter", never, other.newInstance())
            plan = self._new_node("Join", plan, nothing, anti, self.some(never), hint)
        return plan

    def might_contain(self, bloom_filter: bytes, attribute: Any) -> Any:
        """Whether a value's hash is in a Bloom filter, as Spark serializes it."""
        binary = self.jvm.object_("org.apache.spark.sql.types.BinaryType")
        literal = self._new_expression("Literal", bloom_filter, binary)
        hashed = self._new_expression("XxHash64", self.seq([attribute]))
        return self._new_expression("BloomFilterMightContain", literal, hashed)

    def filtered(self, plan: Any, condition: Any, or_null: Any = None) -> Any:
        """The rows for which a condition holds, or where the attribute ``or_null`` is null."""
        if or_null is not None:
            condition = self._new_expression(
                "Or", condition, self._new_expression("IsNull", or_null)
            )
        return self._new_node("Filter", condition, plan)

    def attempted(self, expression: Any) -> Any:
        """The expression with a null in the place of what it raises."""
        return self._new_expression("TryEval", expression)

    def raises(self, expression: Any) -> Any:
        """Whether the expression raises, which no null in its place is mistaken for."""
        value = self._new_expression("CreateArray", self.seq([expression]), False)
        return self._new_expression("IsNull", self.attempted(value))

    def any_of(self, conditions: Sequence[Any]) -> Any:
        """Whether one of some conditions holds, of which there may be none."""
        boolean = self.jvm.object_("org.apache.spark.sql.types.BooleanType")
        together = self._new_expression("Literal", False, boolean)
        for condition in conditions:
            together = self._new_expression("Or", together, condition)
        return together

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
            plan = plan.withNewChildren(self.seq(new_children))
        return plan

    def positions(self, numbers: pa.Array) -> Any:
        """A ``Seq`` of numbers, copied in one piece."""
        packed = numbers.cast(pa.int32()).to_numpy(zero_copy_only=False).astype(">i4").tobytes()
        array = self.jvm.gateway.new_array(self.jvm.gateway.jvm.int, len(numbers))
        self.jvm.class_("java.nio.ByteBuffer").wrap(packed).asIntBuffer().get(array)
        return self.jvm.class_(_ARRAY_SEQ).unsafeWrapArray(array)

    def array(self, class_: str, items: Any) -> Any:
        """A Java array of the items of a Scala collection."""
        tag = self.jvm.object_("scala.reflect.ClassTag").apply(self.jvm.reflected(class_))
        return items.toArray(tag)

    @cached_property
    def hadoop_conf(self) -> Any:
        """Hadoop's configuration, as the session has it."""
        return self.session.sessionState().newHadoopConf()

    def broadcast_threshold(self) -> int:
        """Bytes up to which Spark broadcasts a side of a join."""
        return int(self.session.sessionState().conf().autoBroadcastJoinThreshold())

    def unknown_size(self) -> int:
        """Bytes that Spark takes a size to be that it does not know."""
        return int(self.session.sessionState().conf().defaultSizeInBytes())

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

    def output(self, plan: Any) -> list[Any]:
        """The attributes of a plan."""
        return list(each(plan.output()))

    def sql(self, expression: Any) -> str:
        """An expression as it is shown."""
        return str(expression.sql())

    def places_read_by(self, leaf: Any) -> frozenset[str]:
        """The name of the table that a leaf reads, and the directories that it is told to read."""
        is_hive = leaf.nodeName() == "HiveTableRelation"
        table = self.some(leaf.tableMeta()) if is_hive else leaf.catalogTable()
        found = set()
        if table.isDefined():
            found.add(str(table.get().identifier().unquotedString()))
            uri = table.get().storage().locationUri()
            if uri.isDefined():
                path = self.jvm.class_("org.apache.hadoop.fs.Path")(uri.get())
                found.add(str(path.toString()))
        if not is_hive and self.is_file_relation(leaf.relation()):
            roots = each(leaf.relation().location().rootPaths())
            found |= {str(path.toString()) for path in roots}
        return frozenset(found)

    def size_on_disk(self, leaf: Any) -> int | None:
        """Bytes of a table without partitions of whose size the catalog has no record."""
        if leaf.nodeName() != "HiveTableRelation" or leaf.isPartitioned():
            return None
        path = self.jvm.class_("org.apache.hadoop.fs.Path")(leaf.tableMeta().location())
        return int(path.getFileSystem(self.hadoop_conf).getContentSummary(path).getLength())

    def null_like(self, attribute: Any) -> Any:
        """A named null of the type of an attribute."""
        return self.alias(self._new_expression("Literal", None, attribute.dataType()), "unread")

    def with_arguments(self, node: Any, new: Mapping[int, Any]) -> Any:
        """A copy of a node with some constructor arguments changed, by their number."""
        arguments = [new.get(i, value) for i, value in enumerate(_arguments(node))]
        return self._copy(node, arguments)

    def some(self, value: Any) -> Any:
        """Scala's ``Some``."""
        return self.jvm.class_("scala.Some")(value)

    @cached_property
    def empty_map(self) -> Any:
        """Scala's empty immutable ``Map``."""
        return self.jvm.object_("scala.collection.immutable.Map").empty()

    def case_insensitive(self, options: Any) -> Any:
        """A ``Map`` of options as Spark has them, whose names know no case."""
        return self.jvm.object_(f"{_CATALYST}.util.CaseInsensitiveMap").apply(options)

    @cached_property
    def build_from(self) -> Any:
        """What a strict collection asks for when it is mapped together with another."""
        return self.jvm.object_("scala.collection.BuildFrom").buildFromIterableOps()

    @cached_property
    def functions(self) -> Functions:
        """Java methods as Scala functions."""
        return functions_of(self.jvm)

    def is_a(self, value: Any, class_: str) -> bool:
        """Whether an object of the JVM is one of a class."""
        return bool(self.jvm.reflected(class_).isInstance(value))

    def is_file_relation(self, relation: Any) -> bool:
        """Whether what a ``LogicalRelation`` reads is a ``HadoopFsRelation``."""
        return self.is_a(relation, "org.apache.spark.sql.execution.datasources.HadoopFsRelation")

    @property
    def none(self) -> Any:
        """Scala's ``None``."""
        return self._none

    def _with_subqueries(self, plan: Any, new: Mapping[int, Mapping[Path, Any]]) -> Any:
        number = iter(range(1 << 30))

        def rebuilt(value: Any) -> Any:
            """The same argument; the same object, if no subquery in it changes."""
            if self.is_a(value, "org.apache.spark.sql.catalyst.expressions.Expression"):
                if not value.containsPattern(self._patterns.PLAN_EXPRESSION()):
                    return value
                children = [rebuilt(child) for child in each(value.children())]
                if self.is_a(value, "org.apache.spark.sql.catalyst.expressions.PlanExpression"):
                    changes = new.get(next(number))
                    if changes:
                        value = value.withNewPlan(self.replaced(value.plan(), changes))
                return value.withNewChildren(self.seq(children)) if children else value
            if self.is_a(value, "scala.collection.immutable.Seq"):
                return self.seq([rebuilt(item) for item in each(value)])
            if self.is_a(value, "scala.Some"):
                return self.some(rebuilt(value.get()))
            return value

        arguments = _arguments(plan)
        plans = {i for i, argument in enumerate(arguments) if self._is_plan(argument)}
        return self._copy(plan, [a if i in plans else rebuilt(a) for i, a in enumerate(arguments)])

    def _copy(self, node: Any, arguments: Sequence[Any]) -> Any:
        array = self.jvm.array("java.lang.Object", len(arguments))
        for i, argument in enumerate(arguments):
            array[i] = argument
        return node.makeCopy(array)

    def _is_plan(self, value: Any) -> bool:
        return self.is_a(value, "org.apache.spark.sql.catalyst.plans.logical.LogicalPlan")

    def seq(self, items: Sequence[Any]) -> Any:
        """Scala's immutable ``Seq`` of some objects."""
        found = self._nil
        for item in reversed(items):
            found = found.prepended(item)
        return found

    def _new_id(self) -> Any:
        return self.jvm.object_(f"{_EXPRESSIONS}.NamedExpression").newExprId()

    @cached_property
    def own_session(self) -> Any:
        """A clone of the session, for what is not for the user to see."""
        clone = self.session.cloneSession()
        excluded = clone.conf().get(_EXCLUDED, "")
        clone.conf().set(_EXCLUDED, ",".join(filter(None, (excluded, *_NOT_YET))))
        for name, value in _OWN_SETTINGS.items():
            # Spark warns of settings that are out of use, whatever they are set to
            if clone.conf().get(name) != value:
                clone.conf().set(name, value)
        return clone

    @cached_property
    def _ofRows(self) -> Any:  # noqa: N802 - Spark's name
        return self.jvm.class_("org.apache.spark.sql.classic.Dataset").ofRows

    @cached_property
    def _patterns(self) -> Any:
        return self.jvm.class_(f"{_CATALYST}.trees.TreePattern")

    def _new_expression(self, name: str, *arguments: Any) -> Any:
        return self.jvm.class_(f"{_EXPRESSIONS}.{name}")(*arguments)

    def _new_node(self, name: str, *arguments: Any) -> Any:
        return self.jvm.class_(f"{_LOGICAL}.{name}")(*arguments)

    @cached_property
    def _nil(self) -> Any:
        return self.jvm.object_("scala.collection.immutable.Nil")

    @cached_property
    def _none(self) -> Any:
        return self.jvm.object_("scala.None")


def each(collection: Any) -> Iterator[Any]:
    """The items of a Scala ``Seq``."""
    for i in range(collection.size()):
        yield collection.apply(i)


def _arguments(node: Any) -> list[Any]:
    return [node.productElement(i) for i in range(node.productArity())]
