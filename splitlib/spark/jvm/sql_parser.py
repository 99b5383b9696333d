"""Parse SQL with Spark's parser, classify statements, and change parsed commands.

Names of tables and columns stay unresolved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from pyspark.sql import SparkSession

from splitlib.spark.jvm.gateway import JVM_ERRORS, jvm_of
from splitlib.spark.jvm.plans import LOGICAL, Plans
from splitlib.spark.jvm.scala import each

_WRITES_QUERY: Final = (
    "InsertIntoStatement",
    "CreateTableAsSelect",
    "ReplaceTableAsSelect",
    "OverwriteByExpression",  # INSERT … REPLACE WHERE
)
# Root nodes of parsed queries. Any other node is not a query, such as the nodes of scripts, EXECUTE
# IMMEDIATE, SET VAR and statements that a later version of Spark adds.
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


@dataclass(frozen=True, slots=True, eq=False)
class ParsedCommand:
    """A command that reads data and writes it to a table."""

    kind: Literal["query", "change", "merge"]
    """``query`` writes a query's result, ``change`` is UPDATE or DELETE, ``merge`` is MERGE."""
    plans: Plans
    """Builder of changed plans."""
    node: Any
    """Unresolved Catalyst node of the command."""
    around: Any = None
    """``UnresolvedWith`` node around the command; None without ``WITH``."""

    @classmethod
    def of(cls, spark: SparkSession, plans: Plans, text: str) -> Self | None:
        """Parse the SQL text of a command.

        The result is None if the text is another kind of statement or cannot be parsed.
        """
        node = parsed_plan(spark, text)
        around = None
        if node is not None and plans.kind(node) == "UnresolvedWith":
            node, around = node.child(), node
        if node is None:
            return None
        match plans.kind(node):
            case kind if kind in _WRITES_QUERY:
                return cls("query", plans, node, around)
            case "MergeIntoTable":
                return cls("merge", plans, node, around)
            case "DeleteFromTable":
                return cls("change", plans, node, around)
            case "UpdateTable" if node.condition().isDefined():
                return cls("change", plans, node, around)
        return None

    @property
    def query(self) -> Any:
        """Query whose result the command writes, with the definitions of the command's ``WITH``."""
        return self.within(self.node.query())

    @property
    def plan(self) -> Any:
        """Plan of the whole command, including its ``WITH``."""
        return self.within(self.node)

    def within(self, plan: Any) -> Any:
        """Put a plan below the command's ``WITH``, so that the plan can use its definitions."""
        if self.around is None:
            return plan
        return self.plans.with_named_arguments(self.around, {"child": plan})

    @property
    def target(self) -> Any:
        """Plan of the table that the command changes."""
        return self.node.targetTable() if self.kind == "merge" else self.node.table()

    @property
    def replaces_by_condition(self) -> bool:
        """Whether the command replaces the rows of a table that meet a condition."""
        if self.plans.kind(self.node) == "OverwriteByExpression":
            return True
        names = [str(self.node.productElementName(i)) for i in range(self.node.productArity())]
        return "replaceCriteriaOpt" in names and bool(self.node.replaceCriteriaOpt().isDefined())

    @property
    def source(self) -> Any:
        """Plan of the source of MERGE, with the definitions of the command's ``WITH``."""
        return self.within(self.node.sourceTable())

    @property
    def condition(self) -> Any:
        """Condition that selects the rows to change; for MERGE the ``ON`` condition."""
        if self.kind == "merge":
            return self.node.mergeCondition()
        condition = self.node.condition()
        return condition.get() if self._has_optional_condition else condition

    @property
    def changes_rows_without_partner(self) -> bool:
        """Whether the command has a clause ``WHEN NOT MATCHED BY SOURCE``."""
        return self.kind == "merge" and not self.node.notMatchedBySourceActions().isEmpty()

    @property
    def qualifier(self) -> list[str]:
        """Qualifier of the changed table's columns: its alias, or the parts of its name."""
        if self.plans.kind(self.target) == "SubqueryAlias":
            return [str(self.target.alias())]
        return [str(part) for part in each(self.target.multipartIdentifier())]

    def with_query(self, query: Any) -> Any:
        """Return the command's plan with another query.

        The query cannot use definitions of the command's ``WITH``.
        """
        return self.plans.with_named_arguments(self.node, {"query": query})

    def with_source(self, source: Any) -> Self:
        """Return the same command with another source."""
        return self._with({"sourceTable": source})

    def with_also(self, spark: SparkSession, condition: str) -> Self:
        """Return the same command with an SQL condition added by AND to its own condition."""
        both = self.plans.all_of([self.condition, parsed_expression(spark, condition)])
        if self.kind == "merge":
            return self._with({"mergeCondition": both})
        is_optional = self._has_optional_condition
        return self._with({"condition": self.plans.scala.some(both) if is_optional else both})

    @property
    def _has_optional_condition(self) -> bool:
        return self.plans.kind(self.node) == "UpdateTable"

    def _with(self, new: dict[str, Any]) -> Self:
        node = self.plans.with_named_arguments(self.node, new)
        return type(self)(self.kind, self.plans, node, self.around)


def can_be_parsed(spark: SparkSession, text: str) -> bool:
    """Return whether Spark can parse a text."""
    return parsed_plan(spark, text) is not None


def is_statement(spark: SparkSession, text: str) -> bool:
    """Return whether an SQL text is a command, which ``spark.sql`` executes immediately.

    The result is false if the text cannot be parsed.
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
    """Return whether a parsed statement only changes settings or lists names in catalogs."""
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
    """Parse the SQL text of an expression, without resolving names."""
    return spark._jsparkSession.sessionState().sqlParser().parseExpression(text)
