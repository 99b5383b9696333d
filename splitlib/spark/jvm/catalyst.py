"""Analyze and optimize plans and conditions in one session, and turn plans into DataFrames."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from splitlib.spark.jvm.dataframes import analyzed_plan, dataframe_of_plan
from splitlib.spark.jvm.expressions import CATALYST
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.relations import SCANNED_TABLE, Relations
from splitlib.spark.jvm.scala import each, scala_of

_EXECUTION = "org.apache.spark.sql.execution"
_NOT_YET = (
    # These rules fetch and list whole tables during optimization.
    "org.apache.spark.sql.execution.datasources.PruneFileSourcePartitions",
    "org.apache.spark.sql.hive.execution.PruneHiveTablePartitions",
    # These rules merge subqueries, which then no longer match the subqueries of the query.
    "org.apache.spark.sql.catalyst.optimizer.MergeScalarSubqueries",
    "org.apache.spark.sql.execution.planmerging.MergeSubplans",
)
_PRUNING = "spark.sql.optimizer.dynamicPartitionPruning.enabled"
_OWN_SETTINGS = {
    # splitlib only inspects this plan. Subqueries that Spark adds for its own dynamic pruning would
    # be in the way.
    _PRUNING: "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    "spark.sql.optimizer.runtime.rowLevelOperationGroupFilter.enabled": "false",
    # This rule would replace a scan by its partition values, and the scan would not be found.
    "spark.sql.optimizer.metadataOnly": "false",
    # This rule would replace a scan with VARIANT columns by a copy that has other columns.
    "spark.sql.variant.pushVariantIntoScan": "false",
}
_EXCLUDED = "spark.sql.optimizer.excludedRules"


class Catalyst(Relations):
    """Analyzes and optimizes plans of one session, and turns them into DataFrames.

    Args:
        spark: A session with access to Spark's internals.
    """

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(scala_of(spark))
        self.spark = spark
        self.session: Any = spark._jsparkSession

    def stored_bytes(self, leaf: Any) -> int:
        """Return the size of a ``LogicalRDD`` in executor storage, in bytes, replicas included."""
        number = leaf.rdd().id()
        infos = self.session.sparkContext().getRDDStorageInfo()
        return sum(int(i.memSize() + i.diskSize()) for i in infos if i.id() == number)

    def forget(self, leaf: Any) -> None:
        """Remove a ``LogicalRDD`` from executor storage."""
        leaf.rdd().unpersist(False)

    def with_rows_of(self, leaf: Any, plan: Any) -> Any:
        """Return a copy of a ``LogicalRDD`` that reads the rows of a plan.

        Columns and statistics stay the same. The optimizer treats the copy as opaque.
        """
        unknown = self._jvm.class_(f"{CATALYST}.plans.physical.UnknownPartitioning")(0)
        rows = self.dataframe(plan)._jdf.queryExecution().toRdd()
        new = {"rdd": rows, "outputPartitioning": unknown, "outputOrdering": self.scala.nil}
        return self.with_named_arguments(leaf, new)

    def analyzed(self, df: DataFrame) -> Any:
        """Return the analyzed plan of ``df``, prepared for Spark's optimizer.

        As in Spark, parts of the plan whose results are cached are replaced by these results. The
        current time becomes a constant, and common table expressions are inlined.
        """
        execution: Any = df._jdf.queryExecution()
        plan = execution.analyzed()
        if not self.session.sharedState().cacheManager().isEmpty():
            plan = execution.withCachedData()
        patterns = self._jvm.class_(f"{CATALYST}.trees.TreePattern")
        if plan.containsPattern(patterns.CURRENT_LIKE()):
            plan = self._jvm.object_(f"{CATALYST}.optimizer.ComputeCurrentTime").apply(plan)
        if plan.containsPattern(patterns.CTE()):
            plan = self._inline_ctes().apply(plan)
        return plan

    def _inline_ctes(self) -> Any:
        rule = self._jvm.reflected(f"{CATALYST}.optimizer.InlineCTE")
        constructor = rule.getConstructors()[0]
        number = constructor.getParameterCount()
        return constructor.newInstance(self._jvm.array_of("java.lang.Object", [False] * number))

    def analyzed_statement(self, parsed: Any) -> Any:
        """Resolve the names in a parsed statement, as far as possible, without executing it."""
        return self.session.sessionState().analyzer().execute(parsed)

    def optimized(self, analyzed: Any) -> Any:
        """Return the optimized plan, without the rules that list files to prune partitions."""
        datasets = self._jvm.class_("org.apache.spark.sql.classic.Dataset")
        return datasets.ofRows(self.own_session, analyzed).queryExecution().optimizedPlan()

    def can_be_analyzed(self, command: Any) -> bool:
        """Return whether Spark can resolve all names in a command, without executing it."""
        skip = self._jvm.object_(f"{_EXECUTION}.CommandExecutionMode").SKIP()
        try:
            self.session.sessionState().executePlan(command, skip).assertAnalyzed()
        except JVM_ERRORS:
            return False
        return True

    def dataframe(self, plan: Any) -> DataFrame:
        """Return a DataFrame of a resolved plan, in the user's session."""
        return dataframe_of_plan(self.spark, plan)

    def dataframe_of_part(self, plan: Any) -> DataFrame:
        """Return a DataFrame of a part of an optimized plan. Other parts may run concurrently.

        For a DataSource V2 table, all parts share one scan object. Spark's dynamic pruning adds
        filters to this object without synchronization, and never removes them. So it is turned off
        for parts that read such a table.
        """
        scanned = any(self.kind(leaf) == SCANNED_TABLE for leaf in self.all_leaves(plan))
        return dataframe_of_plan(self.spark, plan, self._without_pruning if scanned else None)

    def broadcast_threshold(self) -> int:
        """Return the size up to which Spark broadcasts a side of a join, in bytes."""
        return int(self.session.sessionState().conf().autoBroadcastJoinThreshold())

    def unknown_size(self) -> int:
        """Return the size that Spark assumes for a relation of unknown size, in bytes."""
        return int(self.session.sessionState().conf().defaultSizeInBytes())

    @cached_property
    def hadoop_conf(self) -> Any:
        """Hadoop configuration of the session."""
        return self.session.sessionState().newHadoopConf()

    def size_on_disk(self, leaf: Any) -> int | None:
        """Return the size of an unpartitioned Hive table's directory, in bytes; None for others."""
        if leaf.nodeName() != "HiveTableRelation" or leaf.isPartitioned():
            return None
        path = self._jvm.class_("org.apache.hadoop.fs.Path")(leaf.tableMeta().location())
        return int(path.getFileSystem(self.hadoop_conf).getContentSummary(path).getLength())

    @cached_property
    def own_session(self) -> Any:
        """Clone of the session with splitlib's own optimizer settings, for internal use only."""
        clone = self.session.cloneSession()
        excluded = clone.conf().get(_EXCLUDED, "")
        clone.conf().set(_EXCLUDED, ",".join(filter(None, (excluded, *_NOT_YET))))
        for name, value in _OWN_SETTINGS.items():
            # Spark logs a warning whenever a deprecated setting is set, even to the same value.
            if clone.conf().get(name) != value:
                clone.conf().set(name, value)
        return clone

    @cached_property
    def _without_pruning(self) -> Any:
        """Clone of the session in which Spark's dynamic partition pruning is off."""
        clone = self.session.cloneSession()
        clone.conf().set(_PRUNING, "false")
        return clone


@dataclass(frozen=True, slots=True)
class Conjunct:
    """A part of a condition that is combined with its other parts by AND."""

    spark: SparkSession
    expression: Any
    """Resolved Catalyst expression."""
    attributes: tuple[Any, ...]
    """Catalyst attributes of all columns of the table."""
    reads: frozenset[str]
    """Names of the columns that the expression reads."""
    later: str | None
    """Reason why the condition may give another result when the rows are read, as a clause; None if
    it always gives the same result."""

    @property
    def text(self) -> str:
        """SQL text of the condition."""
        return str(self.expression.sql())

    def kept(self, rows: DataFrame) -> DataFrame:
        """Return the rows that meet the condition. Columns are matched by name."""
        catalyst = Catalyst(self.spark)
        plan = analyzed_plan(rows)
        own = {a.name(): a for a in self.attributes}
        named = [
            catalyst.alias(a, a.name(), own[a.name()]) if a.name() in own else a
            for a in catalyst.output(plan)
        ]
        kept = catalyst.filtered(catalyst.projected(plan, named), self.expression)
        return catalyst.dataframe(kept)


def conjuncts(spark: SparkSession, condition: Column, schema: StructType) -> Iterator[Conjunct]:
    """Yield the parts of a condition that are combined by AND.

    Args:
        spark: A session with access to Spark's internals.
        condition: A condition on rows of ``schema``.
        schema: The schema of the rows.
    """
    plan = analyzed_plan(spark.createDataFrame([], schema).where(condition))
    if plan.nodeName() != "Filter":
        return
    catalyst = Catalyst(spark)
    attributes = tuple(catalyst.output(plan))
    open_ = [catalyst.named_as(plan.condition(), plan.output())]
    while open_:
        node = open_.pop()
        if node.nodeName() == "And":
            open_ += [node.right(), node.left()]
            continue
        reads = frozenset(str(a.name()) for a in each(node.references().toSeq()))
        yield Conjunct(spark, node, attributes, reads, _why_later(catalyst, node))


def rows_that_may_match(
    df: DataFrame, column: str, bloom_filter: bytes, *, or_null: bool
) -> DataFrame:
    """Keep the rows whose value in ``column`` may be in a Bloom filter.

    Args:
        df: The rows.
        column: Name of the column to test.
        bloom_filter: The filter, as Spark serializes it.
        or_null: Whether to keep rows with a null in ``column`` as well.
    """
    catalyst = Catalyst(df.sparkSession)
    plan = analyzed_plan(df)
    (attribute,) = (a for a in catalyst.output(plan) if a.name() == column)
    condition = catalyst.might_contain(bloom_filter, [attribute])
    if or_null:
        condition = catalyst.or_null(condition, attribute)
    return catalyst.dataframe(catalyst.filtered(plan, condition))


def _why_later(catalyst: Catalyst, condition: Any) -> str | None:
    patterns = catalyst.scala.jvm.class_(f"{CATALYST}.trees.TreePattern")
    if not condition.deterministic():
        return "it calls a function that is not deterministic"
    if condition.containsPattern(patterns.CURRENT_LIKE()):
        return "it uses the current time"
    if condition.containsPattern(patterns.PLAN_EXPRESSION()):
        return "it contains a subquery"
    return None
