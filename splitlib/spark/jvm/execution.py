"""Analyze and optimize plans in one session, and turn plans into DataFrames."""

from __future__ import annotations

from functools import cached_property

from pyspark.sql import DataFrame, SparkSession

from splitlib.spark.jvm.dataframes import dataframe_of_plan, execution_of
from splitlib.spark.jvm.expressions import CATALYST
from splitlib.spark.jvm.gateway import JVM_ERRORS, session_of
from splitlib.spark.jvm.java_handles import HadoopConf
from splitlib.spark.jvm.listing import hadoop_path
from splitlib.spark.jvm.plans import Plans
from splitlib.spark.jvm.relations import SCANNED_TABLE
from splitlib.spark.jvm.scala import Scala
from splitlib.spark.jvm.spark_handles import Dataset, JvmSession, LogicalPlan

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


class Execution:
    """Analyzes and optimizes plans of one session, and turns them into DataFrames.

    Args:
        spark: A session with access to Spark's internals.
        scala: Access to Scala's library in the session's JVM.
        plans: Access to the nodes of plans.
    """

    def __init__(self, spark: SparkSession, scala: Scala, plans: Plans) -> None:
        self._spark = spark
        self._session = session_of(spark)
        self._scala = scala
        self._jvm = scala.jvm
        self._plans = plans

    def stored_bytes(self, leaf: LogicalPlan) -> int:
        """Return the size of a ``LogicalRDD`` in executor storage, in bytes, replicas included."""
        number = leaf.rdd().id()
        infos = self._session.sparkContext().getRDDStorageInfo()
        return sum(int(i.memSize() + i.diskSize()) for i in infos if i.id() == number)

    def forget(self, leaf: LogicalPlan) -> None:
        """Remove a ``LogicalRDD`` from executor storage."""
        leaf.rdd().unpersist(False)

    def with_rows_of(self, leaf: LogicalPlan, plan: LogicalPlan) -> LogicalPlan:
        """Return a copy of a ``LogicalRDD`` that reads the rows of a plan.

        Columns and statistics stay the same. The optimizer treats the copy as opaque.
        """
        unknown = self._jvm.class_(f"{CATALYST}.plans.physical.UnknownPartitioning")(0)
        rows = execution_of(self.dataframe(plan)).toRdd()
        new = {"rdd": rows, "outputPartitioning": unknown, "outputOrdering": self._scala.nil}
        return self._plans.with_named_arguments(leaf, new)

    def analyzed(self, df: DataFrame) -> LogicalPlan:
        """Return the analyzed plan of ``df``, prepared for Spark's optimizer.

        As in Spark, parts of the plan whose results are cached are replaced by these results. The
        current time becomes a constant, and common table expressions are inlined.
        """
        execution = execution_of(df)
        plan = execution.analyzed()
        if not self._session.sharedState().cacheManager().isEmpty():
            plan = execution.withCachedData()
        patterns = self._jvm.class_(f"{CATALYST}.trees.TreePattern")
        if plan.containsPattern(patterns.CURRENT_LIKE()):
            plan = self._jvm.object_(f"{CATALYST}.optimizer.ComputeCurrentTime").apply(plan)
        if plan.containsPattern(patterns.CTE()):
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
        """Resolve the names in a parsed statement, as far as possible, without executing it."""
        plan: LogicalPlan = self._session.sessionState().analyzer().execute(parsed)
        return plan

    def optimized(self, analyzed: LogicalPlan) -> LogicalPlan:
        """Return the optimized plan, without the rules that list files to prune partitions."""
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
        """Return a DataFrame of a resolved plan, in the user's session."""
        return dataframe_of_plan(self._spark, plan)

    def dataframe_of_part(self, plan: LogicalPlan) -> DataFrame:
        """Return a DataFrame of a part of an optimized plan. Other parts may run concurrently.

        For a DataSource V2 table, all parts share one scan object. Spark's dynamic pruning adds
        filters to this object without synchronization, and never removes them. So it is turned off
        for parts that read such a table.
        """
        scanned = any(
            self._plans.kind(leaf) == SCANNED_TABLE for leaf in self._plans.all_leaves(plan)
        )
        return dataframe_of_plan(self._spark, plan, self._without_pruning if scanned else None)

    def broadcast_threshold(self) -> int:
        """Return the size up to which Spark broadcasts a side of a join, in bytes."""
        return self._session.sessionState().conf().autoBroadcastJoinThreshold()

    def unknown_size(self) -> int:
        """Return the size that Spark assumes for a relation of unknown size, in bytes."""
        return self._session.sessionState().conf().defaultSizeInBytes()

    @cached_property
    def hadoop_conf(self) -> HadoopConf:
        """Hadoop configuration of the session."""
        return self._session.sessionState().newHadoopConf()

    def size_on_disk(self, leaf: LogicalPlan) -> int | None:
        """Return the size of an unpartitioned Hive table's directory, in bytes; None for others."""
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
            # The option is empty for a setting that this Spark does not have.
            known = clone.conf().getOption(name)
            if known.isDefined() and known.get() != value:
                clone.conf().set(name, value)
        return clone

    @cached_property
    def _without_pruning(self) -> JvmSession:
        """Clone of the session in which Spark's dynamic partition pruning is off."""
        clone = self._session.cloneSession()
        clone.conf().set(_PRUNING, "false")
        return clone
