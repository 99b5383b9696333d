"""Expressions of Catalyst, built of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from splitlib.spark.jvm.scala import Scala

CATALYST: Final = "org.apache.spark.sql.catalyst"
EXPRESSIONS: Final = f"{CATALYST}.expressions"
_TYPES = "org.apache.spark.sql.types"


class Expressions:
    """Builds expressions.

    Only constructors are used that all supported Sparks have in common.

    Args:
        scala: Of the session's JVM.
    """

    def __init__(self, scala: Scala) -> None:
        self.scala = scala
        self._jvm = scala.jvm

    def alias(self, expression: Any, name: str, like: Any = None) -> Any:
        """A named expression, under a new id or under that of the attribute ``like``."""
        ids = self._jvm.object_(f"{EXPRESSIONS}.NamedExpression")
        new_id = ids.newExprId() if like is None else like.exprId()
        nil, none = self.scala.nil, self.scala.none
        return self._expression("Alias", expression, name, new_id, nil, none, nil)

    def null_like(self, attribute: Any) -> Any:
        """A named null of the type of an attribute."""
        return self.alias(self._expression("Literal", None, attribute.dataType()), "unread")

    def all_of(self, conditions: Sequence[Any]) -> Any:
        """Whether some conditions hold together, of which there is at least one."""
        together, *others = conditions
        for condition in others:
            together = self._expression("And", together, condition)
        return together

    def any_of(self, conditions: Sequence[Any]) -> Any:
        """Whether one of some conditions holds, of which there may be none."""
        boolean = self._jvm.object_(f"{_TYPES}.BooleanType")
        together = self._expression("Literal", False, boolean)
        for condition in conditions:
            together = self._expression("Or", together, condition)
        return together

    def or_null(self, condition: Any, attribute: Any) -> Any:
        """Whether a condition holds, or an attribute is null."""
        return self._expression("Or", condition, self._expression("IsNull", attribute))

    def never(self) -> Any:
        """A condition that does not hold."""
        return self._jvm.object_(f"{EXPRESSIONS}.Literal").FalseLiteral()

    def hashed(self, values: Sequence[Any]) -> Any:
        """A hash of all values together."""
        return self._expression("XxHash64", self.scala.seq(values))

    def might_contain(self, bloom_filter: bytes, values: Sequence[Any]) -> Any:
        """Whether the hash of all values is in a Bloom filter, as Spark serializes it."""
        binary = self._jvm.object_(f"{_TYPES}.BinaryType")
        literal = self._expression("Literal", bloom_filter, binary)
        return self._expression("BloomFilterMightContain", literal, self.hashed(values))

    def attempted(self, expression: Any) -> Any:
        """The expression with a null in the place of what it raises."""
        return self._expression("TryEval", expression)

    def raises(self, expression: Any) -> Any:
        """Whether the expression raises, which no null in its place is mistaken for."""
        value = self._expression("CreateArray", self.scala.seq([expression]), False)
        return self._expression("IsNull", self.attempted(value))

    def named_as(self, expression: Any, output: Any) -> Any:
        """An expression whose attributes are spelled as in ``output``, and not as in the query.

        Args:
            expression: Over attributes with the ids of those in ``output``.
            output: Of a plan, a ``Seq[Attribute]``.
        """
        strategy = self._jvm.object_(
            "org.apache.spark.sql.execution.datasources.DataSourceStrategy"
        )
        return strategy.normalizeExprs(self.scala.seq([expression]), output).head()

    def sql(self, expression: Any) -> str:
        """An expression as it is shown."""
        return str(expression.sql())

    def _expression(self, name: str, *arguments: Any) -> Any:
        return self._jvm.class_(f"{EXPRESSIONS}.{name}")(*arguments)
