"""Return the text of a DataFrame's plan, and whether its result may change between runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from splitlib.spark.jvm.dataframes import analyzed_plan
from splitlib.spark.jvm.expressions import CATALYST
from splitlib.spark.jvm.gateway import jvm_of
from splitlib.spark.jvm.scala import each


class PlanText(NamedTuple):
    """Text of an analyzed plan."""

    volatile: str | None
    """Reason why functions may return different values in each run, as a clause; None if not."""
    operators: str
    """One line for each operator, with subqueries. Spark shortens long lists of expressions."""
    aggregates: str
    """Expressions of aggregates and windows, not shortened, one on each line."""


def plan_text(df: DataFrame) -> PlanText:
    """Return the text of the analyzed plan of ``df``."""
    plan = analyzed_plan(df)
    patterns = jvm_of(df.sparkSession).class_(f"{CATALYST}.trees.TreePattern")
    volatile = None
    if not plan.deterministic():
        volatile = "it calls a function that is not deterministic"
    elif plan.containsPattern(patterns.CURRENT_LIKE()):
        volatile = "it uses the current time"
    plans = [plan, *each(plan.subqueriesAll())]
    aggregates = "\n".join(text for one in plans for text in _aggregates(one))
    return PlanText(volatile, str(plan.treeString()), aggregates)


def _aggregates(plan: Any) -> Iterator[str]:
    if plan.nodeName() in ("Aggregate", "Window"):
        for expression in each(plan.expressions()):
            yield expression.toString()
    for child in each(plan.children()):
        yield from _aggregates(child)
