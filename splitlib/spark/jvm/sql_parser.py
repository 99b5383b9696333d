"""Parse SQL with Spark's parser and classify it, without resolving names."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import SparkSession

from splitlib.spark.jvm.gateway import JVM_ERRORS, jvm_of
from splitlib.spark.jvm.plans import LOGICAL
from splitlib.spark.jvm.scala import each

# Root nodes of parsed queries. An allow-list: it excludes scripts, EXECUTE IMMEDIATE, SET VAR and
# any statement that a later version of Spark adds.
_QUERIES: Final = frozenset(
    {
        "Aggregate",
        "AsOfJoin",
        "Distinct",
        "Except",
        "Filter",
        "Generate",
        "GlobalLimit",
        "Intersect",
        "Join",
        "LateralJoin",
        "LimitAll",
        "LocalLimit",
        "LocalRelation",
        "Offset",
        "OneRowRelation",
        "Pivot",
        "PlanWithUnresolvedIdentifier",
        "Project",
        "RelationTimeTravel",
        "Repartition",
        "RepartitionByExpression",
        "Sample",
        "Sort",
        "SubqueryAlias",
        "Union",
        "Unpivot",
        "UnresolvedHaving",
        "UnresolvedHint",
        "UnresolvedInlineTable",
        "UnresolvedQualify",
        "UnresolvedRelation",
        "UnresolvedSubqueryColumnAliases",
        "UnresolvedTVFAliases",
        "UnresolvedTableValuedFunction",
        "UnresolvedWith",
        "Window",
        "WithWindowDefinition",
    }
)
# Statements that read no table: they change settings or list objects of catalogs.
_OF_SESSION: Final = frozenset(
    {
        "ResetCommand",
        "SetCatalogAndNamespace",
        "SetCatalogCommand",
        "SetCommand",
        "SetNamespaceCommand",
        "ShowCatalogsCommand",
        "ShowCurrentNamespaceCommand",
        "ShowFunctions",
        "ShowNamespaces",
        "ShowNamespacesCommand",
        "ShowTables",
        "ShowViews",
    }
)
_STATEMENTS: Final = (f"{LOGICAL}.Command", f"{LOGICAL}.ParsedStatement")


def can_be_parsed(spark: SparkSession, text: str) -> bool:
    """Return whether Spark can parse a text."""
    return parsed_plan(spark, text) is not None


def is_statement(spark: SparkSession, text: str) -> bool:
    """Return whether a text is a command, which ``spark.sql`` executes immediately.

    False if it cannot be parsed.
    """
    parsed = parsed_plan(spark, text)
    is_a = jvm_of(spark).is_a
    open_ = [] if parsed is None else [parsed]
    while open_:
        node = open_.pop()
        if any(is_a(node, statement) for statement in _STATEMENTS):
            return True
        if node.nodeName() in ("UnresolvedWith", "Union"):  # INSERT into several tables is a Union
            open_ += each(node.children())
    return False


def is_query_plan(spark: SparkSession, parsed: Any) -> bool:
    """Return whether a parsed text is a query without any command in it."""
    is_a = jvm_of(spark).is_a
    open_ = [parsed]
    while open_:
        node = open_.pop()
        kind = node.nodeName()
        if kind not in _QUERIES or any(is_a(node, statement) for statement in _STATEMENTS):
            return False
        if kind in ("UnresolvedWith", "Union"):  # INSERT into several tables is a Union
            open_ += each(node.children())
    return True


def only_reads_settings(parsed: Any) -> bool:
    """Return whether a parsed text only concerns settings or catalog names and reads no table."""
    return str(parsed.nodeName()) in _OF_SESSION


def parsed_plan(spark: SparkSession, text: str) -> Any | None:
    """Return the unresolved plan of a text; None if it cannot be parsed."""
    try:
        return spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
    except JVM_ERRORS:
        return None


def parsed_statement(spark: SparkSession, text: str) -> Any:
    """Return the unresolved plan of a text. If it cannot be parsed, raise Spark's own error."""
    parsed = parsed_plan(spark, text)
    if parsed is None:
        parsed = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
    return parsed


def parsed_expression(spark: SparkSession, text: str) -> Any:
    """Return the unresolved expression of a text that can be parsed."""
    return spark._jsparkSession.sessionState().sqlParser().parseExpression(text)
