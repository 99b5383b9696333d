"""Build Catalyst expressions, and print plans as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pyspark.sql import DataFrame

from splitlib.spark.jvm.dataframes import analyzed_plan
from splitlib.spark.jvm.gateway import jvm_of
from splitlib.spark.jvm.java_handles import Seq
from splitlib.spark.jvm.scala import Scala, each
from splitlib.spark.jvm.spark_handles import CatalystAttribute, CatalystExpression, LogicalPlan

CATALYST: Final = "org.apache.spark.sql.catalyst"
EXPRESSIONS: Final = f"{CATALYST}.expressions"
_TYPES = "org.apache.spark.sql.types"


class Expressions:
    """Builds expressions with constructors that exist in all supported versions of Spark.

    Args:
        scala: Access to Scala's library in the session's JVM.
    """

    def __init__(self, scala: Scala) -> None:
        self._scala = scala
        self._jvm = scala.jvm

    def alias(
        self, expression: CatalystExpression, name: str, like: CatalystExpression | None = None
    ) -> CatalystExpression:
        """Name an expression. It gets the id of the attribute ``like``, or a new id if None."""
        ids = self._jvm.object_(f"{EXPRESSIONS}.NamedExpression")
        new_id = ids.newExprId() if like is None else like.exprId()
        nil, none = self._scala.nil, self._scala.none
        return self._expression("Alias", expression, name, new_id, nil, none, nil)

    def null_like(self, attribute: CatalystAttribute) -> CatalystExpression:
        """Return a null of the attribute's type, named ``unread``."""
        return self.alias(self._expression("Literal", None, attribute.dataType()), "unread")

    def all_of(self, conditions: Sequence[CatalystExpression]) -> CatalystExpression:
        """Combine at least one condition with AND."""
        together, *others = conditions
        for condition in others:
            together = self._expression("And", together, condition)
        return together

    def any_of(self, conditions: Sequence[CatalystExpression]) -> CatalystExpression:
        """Combine conditions with OR. Without conditions the result is false."""
        boolean = self._jvm.object_(f"{_TYPES}.BooleanType")
        together = self._expression("Literal", False, boolean)
        for condition in conditions:
            together = self._expression("Or", together, condition)
        return together

    def or_null(
        self, condition: CatalystExpression, attribute: CatalystAttribute
    ) -> CatalystExpression:
        """Return a condition that is also true where the attribute is null."""
        return self._expression("Or", condition, self._expression("IsNull", attribute))

    def never(self) -> CatalystExpression:
        """Return the literal FALSE."""
        made: CatalystExpression = self._jvm.object_(f"{EXPRESSIONS}.Literal").FalseLiteral()
        return made

    def hashed(self, values: Sequence[CatalystExpression]) -> CatalystExpression:
        """Return one XxHash64 expression over all values."""
        return self._expression("XxHash64", self._scala.seq(values))

    def might_contain(
        self, bloom_filter: bytes, values: Sequence[CatalystExpression]
    ) -> CatalystExpression:
        """Return a condition that tests the common hash of all values with a Bloom filter.

        Args:
            bloom_filter: The filter, as Spark serializes it.
            values: The expressions to hash.
        """
        binary = self._jvm.object_(f"{_TYPES}.BinaryType")
        literal = self._expression("Literal", bloom_filter, binary)
        return self._expression("BloomFilterMightContain", literal, self.hashed(values))

    def attempted(self, expression: CatalystExpression) -> CatalystExpression:
        """Return the expression, changed to give null where it would raise an error."""
        return self._expression("TryEval", expression)

    def raises(self, expression: CatalystExpression) -> CatalystExpression:
        """Return a condition that is true where the expression raises an error.

        The value is wrapped in an array, so that a null value does not count as an error.
        """
        value = self._expression("CreateArray", self._scala.seq([expression]), False)
        return self._expression("IsNull", self.attempted(value))

    def named_as(
        self, expression: CatalystExpression, output: Seq[CatalystAttribute]
    ) -> CatalystExpression:
        """Rename the attributes of an expression to their names in ``output``.

        Without this, the names may differ in case, because a query can spell them in any case.

        Args:
            expression: An expression over attributes with the ids of those in ``output``.
            output: The output of a plan, a ``Seq[Attribute]``.
        """
        strategy = self._jvm.object_(
            "org.apache.spark.sql.execution.datasources.DataSourceStrategy"
        )
        named: Seq[CatalystExpression] = strategy.normalizeExprs(
            self._scala.seq([expression]), output
        )
        return named.head()

    def sql(self, expression: CatalystExpression) -> str:
        """Return the SQL text of an expression."""
        return expression.sql()

    def _expression(self, name: str, *arguments: object) -> CatalystExpression:
        made: CatalystExpression = self._jvm.class_(f"{EXPRESSIONS}.{name}")(*arguments)
        return made


class PlanText(NamedTuple):
    """Text of an analyzed plan."""

    volatile: str | None
    """Reason why the plan may return other rows in each run, as a clause; None if there is none."""
    operators: str
    """One line for each operator of the plan and of its subqueries. Spark shortens long lists of
    expressions."""
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
    return PlanText(volatile, plan.treeString(), aggregates)


def _aggregates(plan: LogicalPlan) -> Iterator[str]:
    if plan.nodeName() in ("Aggregate", "Window"):
        for expression in each(plan.expressions()):
            yield expression.toString()
    for child in each(plan.children()):
        yield from _aggregates(child)
