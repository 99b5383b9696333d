"""What the plan of a DataFrame says of being computed again, and its text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from splitlib.spark.jvm.dataframes import analyzed_plan
from splitlib.spark.jvm.expressions import CATALYST
from splitlib.spark.jvm.gateway import jvm_of
from splitlib.spark.jvm.scala import each


class PlanText(NamedTuple):
    """An analyzed plan."""

    volatile: str | None
    """Why its functions may give other values each time, as a clause; None if they do not."""
    operators: str
    """A line each, those of subqueries among them. Long lists of expressions are left out of it."""
    aggregates: str
    """The expressions of aggregates and windows, in full."""


def plan_text(df: DataFrame) -> PlanText:
    """The analyzed plan of ``df``."""
    plan = analyzed_plan(df)
    patterns = jvm_of(df.sparkSession).class_(f"{CATALYST}.trees.TreePattern")
    volatile = None
    if not plan.deterministic():
        volatile = "it calls a function that is not deterministic"
    elif plan.containsPattern(patterns.CURRENT_LIKE()):
        volatile = "it asks for the current time"
    plans = [plan, *each(plan.subqueriesAll())]
    aggregates = "\n".join(text for one in plans for text in _aggregates(one))
    return PlanText(volatile, str(plan.treeString()), aggregates)


def _aggregates(plan: Any) -> Iterator[str]:
    if plan.nodeName() in ("Aggregate", "Window"):
        for expression in each(plan.expressions()):
            yield expression.toString()
    for child in each(plan.children()):
        yield from _aggregates(child)
