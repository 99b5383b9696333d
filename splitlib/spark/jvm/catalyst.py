"""Inspect, change, analyze, optimize and execute the query plans of one session."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import (
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    ShortType,
    StructType,
)

from splitlib.remote.calls import cached_property
from splitlib.spark.jvm.gateway import (
    JVM_ERRORS,
    analyzed_plan,
    dataframe_of_plan,
    execution_of,
    session_of,
)
from splitlib.spark.jvm.java_handles import HadoopConf
from splitlib.spark.jvm.listing import hadoop_path
from splitlib.spark.jvm.plans import CATALYST, TYPES, Plans
from splitlib.spark.jvm.relations import SCANNED_TABLE, Relations
from splitlib.spark.jvm.scala import each, scala_of
from splitlib.spark.jvm.spark_handles import (
    BaseRelation,
    CatalystAttribute,
    CatalystExpression,
    Dataset,
    JvmSession,
    LogicalPlan,
)
from splitlib.spark.jvm.volatile import why_volatile, with_fixed_values

_EXECUTION = "org.apache.spark.sql.execution"
# Optimizer rules that :attr:`Execution.own_session` does not run.
_NOT_YET = (
    # These rules fetch and list whole tables during optimization.
    "org.apache.spark.sql.execution.datasources.PruneFileSourcePartitions",
    "org.apache.spark.sql.hive.execution.PruneHiveTablePartitions",
    # These rules merge subqueries. Merged subqueries do not match those of the original query.
    "org.apache.spark.sql.catalyst.optimizer.MergeScalarSubqueries",
    "org.apache.spark.sql.execution.planmerging.MergeSubplans",
)
_PRUNING = "spark.sql.optimizer.dynamicPartitionPruning.enabled"
_OWN_SETTINGS = {
    # Do not let Spark add subqueries for its own run-time filters. They would complicate the plan,
    # which splitlib only inspects.
    _PRUNING: "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    "spark.sql.optimizer.runtime.rowLevelOperationGroupFilter.enabled": "false",
    # Otherwise Spark would replace a scan by its partition values, and the plan would have no scan.
    "spark.sql.optimizer.metadataOnly": "false",
    # Otherwise Spark would replace a scan with VARIANT columns by a copy that has other columns.
    "spark.sql.variant.pushVariantIntoScan": "false",
}
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_IS_CLONE: Final = "splitlib.clone"
"""Setting that marks :attr:`Execution.own_session`."""
# Arrow types of the columns whose values Spark stores as integers.
_INTEGERS: Final[Mapping[type[DataType], pa.DataType]] = {
    ByteType: pa.int8(),
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    DateType: pa.date32(),
}


class Catalyst:
    """Access to the query plans of one session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.session = session_of(spark)
        self.scala = scala_of(spark)
        self.plans = Plans(self.scala)
        """Finds, builds and replaces plan nodes."""
        self.expressions = self.plans.expressions
        """Builds expressions."""
        self.relations = Relations(self.scala, self.plans)
        """Inspects the plan leaves that read tables."""
        self.execution = Execution(self)
        """Analyzes and optimizes plans, and turns them into DataFrames."""


@dataclass(frozen=True, slots=True)
class Conjunct:
    """One part of a condition whose parts are combined with AND."""

    spark: SparkSession
    expression: CatalystExpression
    """Resolved Catalyst expression."""
    attributes: tuple[CatalystAttribute, ...]
    """Catalyst attributes of all columns of the table."""
    reads: frozenset[str]
    """Names of the columns that the expression reads."""
    later: str | None
    """Why the condition may give another result when the rows are read, as a clause such as "it
    uses the current time"; None if it always gives the same result."""

    @property
    def text(self) -> str:
        """SQL text of the condition."""
        return self.expression.sql()

    def kept(self, rows: DataFrame) -> DataFrame:
        """Return a DataFrame of the rows that meet the condition. Columns are matched by name."""
        catalyst = Catalyst(self.spark)
        plan = analyzed_plan(rows)
        own = {a.name(): a for a in self.attributes}
        named = [
            catalyst.expressions.alias(a, a.name(), own[a.name()]) if a.name() in own else a
            for a in catalyst.plans.output(plan)
        ]
        kept = catalyst.plans.filtered(catalyst.plans.projected(plan, named), self.expression)
        return catalyst.execution.dataframe(kept)


def conjuncts(spark: SparkSession, condition: Column, schema: StructType) -> Iterator[Conjunct]:
    """Yield the parts of a condition that are combined with AND.

    Args:
        spark: A session with access to Spark's internals.
        condition: A condition on rows of ``schema``.
        schema: The schema of the rows.
    """
    plan = analyzed_plan(spark.createDataFrame([], schema).where(condition))
    if plan.nodeName() != "Filter":
        return
    catalyst = Catalyst(spark)
    attributes = tuple(catalyst.plans.output(plan))
    open_ = [catalyst.expressions.named_as(plan.condition(), plan.output())]
    while open_:
        node = open_.pop()
        if node.nodeName() == "And":
            open_ += [node.right(), node.left()]
            continue
        reads = frozenset(a.name() for a in each(node.references().toSeq()))
        yield Conjunct(spark, node, attributes, reads, _why_later(catalyst, node))


def rows_that_may_match(
    df: DataFrame, column: str, bloom_filter: bytes, *, or_null: bool
) -> DataFrame:
    """Return a DataFrame of the rows whose value in ``column`` may be in a Bloom filter.

    Args:
        df: The rows.
        column: Name of the column to test.
        bloom_filter: The filter, as Spark serializes it.
        or_null: Whether to keep rows with a null in ``column`` as well.
    """
    catalyst = Catalyst(df.sparkSession)
    plan = analyzed_plan(df)
    (attribute,) = (a for a in catalyst.plans.output(plan) if a.name() == column)
    condition = catalyst.expressions.might_contain(bloom_filter, [attribute])
    if or_null:
        condition = catalyst.expressions.or_null(condition, attribute)
    return catalyst.execution.dataframe(catalyst.plans.filtered(plan, condition))


def _why_later(catalyst: Catalyst, condition: CatalystExpression) -> str | None:
    # The rules that find special dates need a plan.
    plan = catalyst.plans.filtered(catalyst.plans.one_row(), condition)
    why = why_volatile(catalyst.scala, plan)
    patterns = catalyst.scala.jvm.class_(f"{CATALYST}.trees.TreePattern")
    if why is None and condition.containsPattern(patterns.PLAN_EXPRESSION()):
        return "it contains a subquery"
    return why


class _Opaque(NamedTuple):
    """Rows, and a leaf with the same rows that hides them from the optimizer."""

    rows: LogicalPlan
    """The rows as a ``LocalRelation``."""
    leaf: LogicalPlan
    """The rows as a ``LogicalRDD``."""


# The most recently used leaves of each session, by the hash of their rows. A session keeps at most
# _MOST_KEPT leaves, each of at most _MOST_BYTES_KEPT bytes.
_kept: WeakKeyDictionary[SparkSession, OrderedDict[int, _Opaque]] = WeakKeyDictionary()
_MOST_KEPT: Final = 16
_MOST_BYTES_KEPT: Final = 1 << 20


class Execution:
    """Analyzes and optimizes plans of one session, and turns them into DataFrames."""

    def __init__(self, catalyst: Catalyst) -> None:
        self._spark = catalyst.spark
        self._session = catalyst.session
        self._scala = catalyst.scala
        self._jvm = catalyst.scala.jvm
        self._plans = catalyst.plans

    def stored_bytes(self, leaf: LogicalPlan) -> int:
        """Return the size of a ``LogicalRDD`` in executor storage, in bytes, replicas included."""
        number = leaf.rdd().id()
        infos = self._session.sparkContext().getRDDStorageInfo()
        return sum(int(i.memSize() + i.diskSize()) for i in infos if i.id() == number)

    def forget(self, leaf: LogicalPlan) -> None:
        """Remove a ``LogicalRDD`` from executor storage."""
        leaf.rdd().unpersist(False)

    def rdd_leaf(self, leaf: LogicalPlan) -> LogicalPlan:
        """Return a ``LogicalRDD`` with the columns, rows and statistics of a ``LocalRelation``."""
        tag = self._scala.class_tag(f"{CATALYST}.InternalRow")
        context, rows = self._session.sparkContext(), leaf.data()
        tasks = max(1, min(rows.size(), context.defaultParallelism()))
        rdd = context.parallelize(rows, tasks, tag)
        rdds = self._jvm.object_(f"{_EXECUTION}.LogicalRDD")
        arguments = rdd, self.dataframe(leaf)._jdf, False
        found: LogicalPlan
        try:
            found = rdds.fromDataset(*arguments)
        except JVM_ERRORS:  # newer versions have an argument for checkpoints
            found = rdds.fromDataset(*arguments, False)
        return found

    def opaque(self, leaf: LogicalPlan) -> LogicalPlan:
        """Hide the rows of a ``LocalRelation`` from the optimizer. Return other leaves unchanged.

        The optimizer itself evaluates expressions on the rows of a ``LocalRelation``. Such an
        expression may raise an error, even if the query would never evaluate it. An empty
        ``LocalRelation`` stays in the plan, because the optimizer can remove joins with it.

        Equal rows get the same RDD, also in a later query, up to the limits of ``_kept``. So Spark
        finds cached results of an equal query, and runs equal parts of a query once.
        """
        if leaf.nodeName() != "LocalRelation" or leaf.data().isEmpty():
            return leaf
        if self._plans.size_of(leaf) > _MOST_BYTES_KEPT:
            return self.rdd_leaf(leaf)
        kept = _kept.setdefault(self._spark, OrderedDict())
        key = self._plans.semantic_hash(leaf)
        same = kept.pop(key, None)
        if same is not None and self._plans.same_result(same.rows, leaf):
            found = self._plans.with_named_arguments(same.leaf, {"output": leaf.output()})
        else:
            found = self.rdd_leaf(leaf)
        kept[key] = _Opaque(leaf, found)
        while len(kept) > _MOST_KEPT:
            kept.popitem(last=False)
        return found

    def analyzed(self, df: DataFrame) -> LogicalPlan:
        """Return the analyzed plan of ``df``, prepared for Spark's optimizer.

        As Spark does, this replaces parts of the plan by their cached results, makes values such as
        the current time constants, and inlines common table expressions.
        """
        execution = execution_of(df)
        plan = execution.analyzed()
        if not self._session.sharedState().cacheManager().isEmpty():
            plan = execution.withCachedData()
        plan = with_fixed_values(self._scala, plan, self._session)
        if plan.containsPattern(self._jvm.class_(f"{CATALYST}.trees.TreePattern").CTE()):
            plan = self._with_ctes_inlined(plan)
        return plan

    def _with_ctes_inlined(self, plan: LogicalPlan) -> LogicalPlan:
        rule = self._jvm.reflected(f"{CATALYST}.optimizer.InlineCTE")
        constructor = rule.getConstructors()[0]
        off = [False] * constructor.getParameterCount()
        options = self._jvm.array_of("java.lang.Object", off)
        inlined: LogicalPlan = constructor.newInstance(options).apply(plan)
        return inlined

    def analyzed_statement(self, parsed: LogicalPlan) -> LogicalPlan:
        """Return a parsed statement with names resolved as far as possible. Nothing is executed."""
        plan: LogicalPlan = self._session.sessionState().analyzer().execute(parsed)
        return plan

    def optimized(self, analyzed: LogicalPlan) -> LogicalPlan:
        """Optimize a plan without the rules that list files to prune partitions."""
        datasets = self._jvm.class_(f"{self._jvm.sql}.Dataset")
        dataset: Dataset = datasets.ofRows(self.own_session, analyzed)
        return dataset.queryExecution().optimizedPlan()

    def can_be_analyzed(self, command: LogicalPlan) -> bool:
        """Return whether Spark can resolve all names in a command, without executing it."""
        skip = self._jvm.object_(f"{_EXECUTION}.CommandExecutionMode").SKIP()
        try:
            self._session.sessionState().executePlan(command, skip).assertAnalyzed()
        except JVM_ERRORS:
            return False
        return True

    def dataframe(self, plan: LogicalPlan) -> DataFrame:
        """Return a DataFrame that runs a resolved plan in the user's session."""
        return dataframe_of_plan(self._spark, plan)

    def dataframe_of_part(self, plan: LogicalPlan) -> DataFrame:
        """Return a DataFrame that runs a part of an optimized plan.

        Several parts may run concurrently. If they read a DataSource V2 table, they share one scan
        object. Spark's dynamic pruning adds filters to this object without synchronization, and
        never removes them. So dynamic pruning is turned off for parts that read such a table.
        """
        scanned = any(
            self._plans.kind(leaf) == SCANNED_TABLE for leaf in self._plans.all_leaves(plan)
        )
        return dataframe_of_plan(self._spark, plan, self._without_pruning if scanned else None)

    def broadcast_threshold(self) -> int:
        """Return the maximum size of a join side that Spark broadcasts, in bytes."""
        return self._session.sessionState().conf().autoBroadcastJoinThreshold()

    def unknown_size(self) -> int:
        """Return the size that Spark assumes for a relation of unknown size, in bytes."""
        return self._session.sessionState().conf().defaultSizeInBytes()

    @cached_property
    def hadoop_conf(self) -> HadoopConf:
        """The session's Hadoop configuration."""
        return self._session.sessionState().newHadoopConf()

    def size_on_disk(self, leaf: LogicalPlan) -> int | None:
        """Return the bytes on disk of an unpartitioned Hive table, or None for other leaves."""
        if leaf.nodeName() != "HiveTableRelation" or leaf.isPartitioned():
            return None
        path = hadoop_path(self._jvm, leaf.tableMeta().location())
        return path.getFileSystem(self.hadoop_conf).getContentSummary(path).getLength()

    @cached_property
    def own_session(self) -> JvmSession:
        """Clone of the session with splitlib's own optimizer settings, for internal use only."""
        clone = self._session.cloneSession()
        excluded = clone.conf().get(_EXCLUDED, "")
        clone.conf().set(_EXCLUDED, ",".join(filter(None, (excluded, *_NOT_YET))))
        for name, value in _OWN_SETTINGS.items():
            # Spark logs a warning whenever a deprecated setting is set, even to the same value.
            # ``getOption`` returns an empty option for a setting that this version of Spark lacks.
            known = clone.conf().getOption(name)
            if known.isDefined() and known.get() != value:
                clone.conf().set(name, value)
        clone.conf().set(_IS_CLONE, "true")
        return clone

    def session_of(self, relation: BaseRelation) -> JvmSession:
        """Return the session whose settings Spark uses to read a relation.

        This is the session that created the relation. If that is :attr:`own_session`, return the
        user's session.
        """
        created_by = relation.sparkSession()
        is_clone = created_by.conf().getOption(_IS_CLONE).isDefined()
        return self._session if is_clone else created_by

    @cached_property
    def _without_pruning(self) -> JvmSession:
        """Clone of the session in which Spark's dynamic partition pruning is off."""
        clone = self._session.cloneSession()
        clone.conf().set(_PRUNING, "false")
        return clone


def rows_in_plan(df: DataFrame) -> pa.Table | None:
    """Return the rows of ``df`` if Spark's optimized plan contains them, without a Spark job.

    The result is None if Spark has to compute the rows, or if a column is neither an integer nor a
    date.
    """
    fields = df.schema.fields
    if not fields or not {type(field.dataType) for field in fields} <= _INTEGERS.keys():
        return None
    plan = execution_of(df).optimizedPlan()
    if plan.nodeName() != "LocalRelation":
        return None
    scala = scala_of(df.sparkSession)
    values_of = scala.functions.method(f"{CATALYST}.InternalRow", "toSeq", f"{TYPES}.StructType")
    values_of = scala.functions.bound(values_of, 1, plan.schema())
    values = scala.texts(scala.flat_mapped(plan.data(), scala.functions.function(values_of)))
    numbers = [None if value == "null" else int(value) for value in values]
    kinds = [_INTEGERS[type(field.dataType)] for field in fields]
    columns = [pa.array(numbers[i :: len(kinds)], kind) for i, kind in enumerate(kinds)]
    return pa.table(columns, names=[field.name for field in fields])
