"""Conditions on rows as Spark's analyzer understands them, taken apart at their ANDs."""

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
    """One of the conditions that hold together."""

    spark: SparkSession
    expression: Any
    """Catalyst's."""
    attributes: tuple[Any, ...]
    """The table's columns as they stand in it."""
    reads: frozenset[str]
    """The names of those that do."""
    later: str | None
    """Why it may be another when the rows are read, as a clause; None if it is not."""

    @property
    def text(self) -> str:
        """The condition as SQL."""
        return str(self.expression.sql())

    def kept(self, rows: DataFrame) -> DataFrame:
        """The rows for which it holds, whose columns are known by name."""
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
    """The parts of a condition on rows of a schema."""
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
    """The rows whose value in ``column`` is in a Bloom filter, or is null."""
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
        return "it asks for the current time"
    if condition.containsPattern(patterns.PLAN_EXPRESSION()):
        return "it holds a query"
    return None
