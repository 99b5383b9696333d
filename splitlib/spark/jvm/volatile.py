"""Find out which values in a plan depend on the run, and fix those that Spark fixes in each run.

For example, Spark replaces ``current_database()`` and the date ``'today'`` by their values when it
optimizes a query. splitlib optimizes a query before it runs, so both must use the same values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame

from splitlib.spark.jvm.gateway import analyzed_plan
from splitlib.spark.jvm.plans import CATALYST
from splitlib.spark.jvm.scala import Scala, each, scala_of
from splitlib.spark.jvm.spark_handles import JvmSession, LogicalPlan

_OPTIMIZER: Final = f"{CATALYST}.optimizer"
_MOST_FIELDS: Final = 25
"""Maximum number of expressions in the text of an operator."""
_AGGREGATES: Final = ("Aggregate", "Window")
_INNER: Final = "innerChildren"


def why_volatile(scala: Scala, plan: LogicalPlan) -> str | None:
    """Return why a plan may have other rows in another run, or None."""
    if not plan.deterministic():
        return "it calls a function that is not deterministic"
    if plan.containsPattern(scala.jvm.class_(f"{CATALYST}.trees.TreePattern").CURRENT_LIKE()):
        return "it uses the current time"
    return None if _with_fixed_dates(scala, plan) is plan else "it uses the current time"


def with_fixed_values(scala: Scala, plan: LogicalPlan, session: JvmSession) -> LogicalPlan:
    """Return a plan with constants in place of the current time, date, database and user."""
    is_current = scala.jvm.class_(f"{CATALYST}.trees.TreePattern").CURRENT_LIKE()
    if plan.containsPattern(is_current):
        plan = scala.jvm.object_(f"{_OPTIMIZER}.ComputeCurrentTime").apply(plan)
        if plan.containsPattern(is_current):
            names = session.sessionState().catalogManager()
            rule = scala.jvm.class_(f"{_OPTIMIZER}.ReplaceCurrentLike")(names)
            plan = _in_subqueries_too(scala, plan, rule)
    return _with_fixed_dates(scala, plan)


def _with_fixed_dates(scala: Scala, plan: LogicalPlan) -> LogicalPlan:
    """Return a plan with constants in place of dates and times such as ``'today'`` and ``'now'``.

    Return the same object if the plan has none.
    """
    rules = [
        scala.jvm.object_(f"{_OPTIMIZER}.{name}")
        for name in ("ReplaceExpressions", "SpecialDatetimeValues")
    ]
    # The first rule turns to_date and to_timestamp into casts.
    casts = _in_subqueries_too(scala, plan, rules[0])
    fixed = _in_subqueries_too(scala, casts, rules[1])
    return plan if fixed.fastEquals(casts) else fixed


def _in_subqueries_too(scala: Scala, plan: LogicalPlan, rule: Any) -> LogicalPlan:
    """Apply a rule of Spark's optimizer to a plan and to its subqueries."""
    applied: LogicalPlan
    patterns = scala.jvm.class_(f"{CATALYST}.trees.TreePattern")
    if not plan.containsPattern(patterns.PLAN_EXPRESSION()):
        applied = rule.apply(plan)
        return applied
    functions = scala.functions
    apply = functions.method(f"{CATALYST}.rules.Rule", "apply", f"{CATALYST}.trees.TreeNode")
    some = functions.method("scala.Option$", "apply", "java.lang.Object")
    optional = functions.then(
        functions.as_type(functions.bound(apply, 0, rule), "java.lang.Object", "java.lang.Object"),
        functions.bound(some, 0, scala.jvm.object_("scala.Option")),
    )
    partial = scala.jvm.object_("scala.Function").unlift(functions.function(optional))
    return plan.transformUpWithSubqueries(partial)


class PlanText(NamedTuple):
    """Text of an analyzed plan."""

    volatile: str | None
    """Why each run may return other rows, as a clause such as "it uses the current time", or None
    if all runs return the same rows."""
    operators: str
    """One line for each operator of the plan and of its subqueries. Spark shortens long lists of
    expressions."""
    aggregates: str
    """SQL text of the expressions of aggregates and windows, one on each line. Spark never shortens
    it."""


def plan_text(df: DataFrame) -> PlanText:
    """Return the text of the analyzed plan of ``df``."""
    plan, scala = analyzed_plan(df), scala_of(df.sparkSession)
    operators = "\n".join(_operators(scala, plan))
    aggregates: list[str] = []
    if any(name in operators for name in _AGGREGATES):
        plans = [plan, *each(plan.subqueriesAll())]
        aggregates = [text for one in plans for text in _aggregates(one)]
    return PlanText(why_volatile(scala, plan), operators, "\n".join(aggregates))


def _operators(scala: Scala, plan: LogicalPlan) -> Iterator[str]:
    # Join the texts of all operators, because Spark cuts its text of the whole plan after
    # ``spark.sql.maxPlanStringLength`` characters.
    functions = scala.functions
    shown = functions.method(f"{CATALYST}.trees.TreeNode", "simpleString", "int")
    yield scala.text(plan.map(functions.function(functions.bound(shown, 1, _MOST_FIELDS))), "\n")
    for inner in each(plan.flatMap(functions.calling(f"{CATALYST}.plans.QueryPlan", _INNER))):
        yield from _operators(scala, inner)


def _aggregates(plan: LogicalPlan) -> Iterator[str]:
    if plan.nodeName() in _AGGREGATES:
        for expression in each(plan.expressions()):
            yield expression.sql()
    for child in each(plan.children()):
        yield from _aggregates(child)
