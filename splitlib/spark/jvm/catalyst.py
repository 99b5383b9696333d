"""The plans of one session: inspect, change, analyze, optimize and execute them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from splitlib.spark.jvm.dataframes import analyzed_plan
from splitlib.spark.jvm.execution import Execution
from splitlib.spark.jvm.expressions import CATALYST, Expressions
from splitlib.spark.jvm.gateway import session_of
from splitlib.spark.jvm.plans import Plans
from splitlib.spark.jvm.relations import Relations
from splitlib.spark.jvm.scala import each, scala_of
from splitlib.spark.jvm.spark_handles import CatalystAttribute, CatalystExpression


class Catalyst:
    """Access to the plans of one session.

    Args:
        spark: A session with access to Spark's internals.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.session = session_of(spark)
        self.scala = scala_of(spark)
        self.expressions = Expressions(self.scala)
        """Builder of expressions."""
        self.plans = Plans(self.scala, self.expressions)
        """Nodes of plans: found, built and replaced."""
        self.relations = Relations(self.scala, self.plans)
        """Leaves of plans that read tables."""
        self.execution = Execution(spark, self.scala, self.plans)
        """Analysis, optimization and DataFrames of plans."""


@dataclass(frozen=True, slots=True)
class Conjunct:
    """A part of a condition that is combined with its other parts by AND."""

    spark: SparkSession
    expression: CatalystExpression
    """Resolved Catalyst expression."""
    attributes: tuple[CatalystAttribute, ...]
    """Catalyst attributes of all columns of the table."""
    reads: frozenset[str]
    """Names of the columns that the expression reads."""
    later: str | None
    """Reason why the condition may give another result when the rows are read, as a clause; None if
    it always gives the same result."""

    @property
    def text(self) -> str:
        """SQL text of the condition."""
        return self.expression.sql()

    def kept(self, rows: DataFrame) -> DataFrame:
        """Return the rows that meet the condition. Columns are matched by name."""
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
    """Keep the rows whose value in ``column`` may be in a Bloom filter.

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
    patterns = catalyst.scala.jvm.class_(f"{CATALYST}.trees.TreePattern")
    if not condition.deterministic():
        return "it calls a function that is not deterministic"
    if condition.containsPattern(patterns.CURRENT_LIKE()):
        return "it uses the current time"
    if condition.containsPattern(patterns.PLAN_EXPRESSION()):
        return "it contains a subquery"
    return None
