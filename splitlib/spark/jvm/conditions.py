"""Split conditions on rows into conjuncts, as resolved by Spark's analyzer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.dataframes import analyzed_plan
from splitlib.spark.jvm.expressions import CATALYST
from splitlib.spark.jvm.scala import each


@dataclass(frozen=True, slots=True)
class Conjunct:
    """One part of a condition whose parts are combined with AND."""

    spark: SparkSession
    expression: Any
    """Resolved Catalyst expression."""
    attributes: tuple[Any, ...]
    """Catalyst attributes of all columns of the table."""
    reads: frozenset[str]
    """Names of the columns that the expression reads."""
    later: str | None
    """Reason why the result may differ when the rows are read, as a clause; None if it cannot."""

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
    """Yield the conjuncts of a condition on rows of the given schema."""
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
        or_null: Keep rows with a null in ``column``, too.
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
