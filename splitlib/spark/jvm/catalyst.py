"""Plans of one session: analyzed, optimized, and made DataFrames of."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from splitlib.spark.jvm.dataframes import dataframe_of_plan
from splitlib.spark.jvm.expressions import CATALYST
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.relations import SCANNED_TABLE, Relations
from splitlib.spark.jvm.scala import scala_of

_EXECUTION = "org.apache.spark.sql.execution"
_NOT_YET = (
    # with these Spark would fetch and list whole tables while it optimizes
    "org.apache.spark.sql.execution.datasources.PruneFileSourcePartitions",
    "org.apache.spark.sql.hive.execution.PruneHiveTablePartitions",
    # subqueries that were merged are no longer those of the query
    "org.apache.spark.sql.catalyst.optimizer.MergeScalarSubqueries",
    "org.apache.spark.sql.execution.planmerging.MergeSubplans",
)
_PRUNING = "spark.sql.optimizer.dynamicPartitionPruning.enabled"
_OWN_SETTINGS = {
    # subqueries of Spark's own dynamic pruning are of no use in a plan that is only read
    _PRUNING: "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    "spark.sql.optimizer.runtime.rowLevelOperationGroupFilter.enabled": "false",
    # it would put partition values in the place of a scan, which then does matter
    "spark.sql.optimizer.metadataOnly": "false",
    # it would put a copy with other columns in the place of a scan that has a VARIANT
    "spark.sql.variant.pushVariantIntoScan": "false",
}
_EXCLUDED = "spark.sql.optimizer.excludedRules"


class Catalyst(Relations):
    """Plans of one session.

    Args:
        spark: A session whose internals are available.
    """

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(scala_of(spark))
        self.spark = spark
        self.session: Any = spark._jsparkSession

    def stored_bytes(self, leaf: Any) -> int:
        """What the executors store of a ``LogicalRDD``; each copy counts."""
        number = leaf.rdd().id()
        infos = self.session.sparkContext().getRDDStorageInfo()
        return sum(int(i.memSize() + i.diskSize()) for i in infos if i.id() == number)

    def forget(self, leaf: Any) -> None:
        """Let the executors store nothing of a ``LogicalRDD`` any more."""
        leaf.rdd().unpersist(False)

    def with_rows_of(self, leaf: Any, plan: Any) -> Any:
        """A ``LogicalRDD`` with the rows of a plan, its columns and statistics as before.

        The optimizer cannot look into it.
        """
        unknown = self._jvm.class_(f"{CATALYST}.plans.physical.UnknownPartitioning")(0)
        rows = self.dataframe(plan)._jdf.queryExecution().toRdd()
        new = {"rdd": rows, "outputPartitioning": unknown, "outputOrdering": self.scala.nil}
        return self.with_named_arguments(leaf, new)

    def analyzed(self, df: DataFrame) -> Any:
        """The analyzed plan of ``df``, as its optimizer begins.

        What is cached is read from there, the current time is now, and common table expressions
        stand where they are used.
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
        """A parsed statement with its names resolved, as far as they can be. It does not run."""
        return self.session.sessionState().analyzer().execute(parsed)

    def optimized(self, analyzed: Any) -> Any:
        """What Spark makes of a plan before it would look at partitions. Lists nothing."""
        datasets = self._jvm.class_("org.apache.spark.sql.classic.Dataset")
        return datasets.ofRows(self.own_session, analyzed).queryExecution().optimizedPlan()

    def can_be_analyzed(self, command: Any) -> bool:
        """Whether all names in an unresolved command are found. The command does not run."""
        skip = self._jvm.object_(f"{_EXECUTION}.CommandExecutionMode").SKIP()
        try:
            self.session.sessionState().executePlan(command, skip).assertAnalyzed()
        except JVM_ERRORS:
            return False
        return True

    def dataframe(self, plan: Any) -> DataFrame:
        """A DataFrame of any resolved plan, in the user's session."""
        return dataframe_of_plan(self.spark, plan)

    def dataframe_of_part(self, plan: Any) -> DataFrame:
        """A DataFrame of a part of an optimized plan, of which other parts may run meanwhile.

        A table of DataSource V2 is scanned by one object in all of them, to which Spark adds what
        it prunes by at run time. Nobody synchronizes that, and it stays: so it is off for such
        tables.
        """
        scanned = any(self.kind(leaf) == SCANNED_TABLE for leaf in self.all_leaves(plan))
        return dataframe_of_plan(self.spark, plan, self._without_pruning if scanned else None)

    def broadcast_threshold(self) -> int:
        """Bytes up to which Spark broadcasts a side of a join."""
        return int(self.session.sessionState().conf().autoBroadcastJoinThreshold())

    def unknown_size(self) -> int:
        """Bytes that Spark takes a size to be that it does not know."""
        return int(self.session.sessionState().conf().defaultSizeInBytes())

    @cached_property
    def hadoop_conf(self) -> Any:
        """Hadoop's configuration, as the session has it."""
        return self.session.sessionState().newHadoopConf()

    def size_on_disk(self, leaf: Any) -> int | None:
        """Bytes of a table without partitions of whose size the catalog has no record."""
        if leaf.nodeName() != "HiveTableRelation" or leaf.isPartitioned():
            return None
        path = self._jvm.class_("org.apache.hadoop.fs.Path")(leaf.tableMeta().location())
        return int(path.getFileSystem(self.hadoop_conf).getContentSummary(path).getLength())

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
    def _without_pruning(self) -> Any:
        """A clone of the session without Spark's own dynamic pruning."""
        clone = self.session.cloneSession()
        clone.conf().set(_PRUNING, "false")
        return clone
