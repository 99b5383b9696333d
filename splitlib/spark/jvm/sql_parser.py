"""What a text is to Spark's parser, before any name in it is looked for."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import SparkSession

from splitlib.spark.jvm.gateway import JVM_ERRORS, jvm_of
from splitlib.spark.jvm.plans import LOGICAL
from splitlib.spark.jvm.scala import each

_STATEMENTS: Final = (f"{LOGICAL}.Command", f"{LOGICAL}.ParsedStatement")


def can_be_parsed(spark: SparkSession, text: str) -> bool:
    """Whether a text is a query, or a statement."""
    return parsed_plan(spark, text) is not None


def is_statement(spark: SparkSession, text: str) -> bool:
    """Whether a text does something at once; one that cannot be parsed does not."""
    parsed = parsed_plan(spark, text)
    is_a = jvm_of(spark).is_a
    open_ = [] if parsed is None else [parsed]
    while open_:
        node = open_.pop()
        if any(is_a(node, statement) for statement in _STATEMENTS):
            return True
        if node.nodeName() in ("UnresolvedWith", "Union"):  # one that inserts into several tables
            open_ += each(node.children())
    return False


def parsed_plan(spark: SparkSession, text: str) -> Any | None:
    """The unresolved plan of a text; None if it cannot be parsed."""
    try:
        return spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
    except JVM_ERRORS:
        return None


def parsed_expression(spark: SparkSession, text: str) -> Any:
    """The unresolved expression of a text that can be parsed."""
    return spark._jsparkSession.sessionState().sqlParser().parseExpression(text)
