"""Parse SQL with Spark's parser, classify statements, and change parsed commands.

The parsed plans are unresolved: the parser does not look up the names of tables and columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from pyspark.sql import SparkSession

from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.gateway import JVM_ERRORS, jvm_of, session_of
from splitlib.spark.jvm.plans import CATALYST, LOGICAL
from splitlib.spark.jvm.scala import each
from splitlib.spark.jvm.spark_handles import CatalystExpression, LogicalPlan, ParsedPlan

# Commands that write the result of a query, with the name of the argument that holds the query.
_WRITES_QUERY: Final = {
    "InsertIntoStatement": "query",
    "InsertIntoDir": "child",  # INSERT OVERWRITE DIRECTORY
    "CreateTableAsSelect": "query",
    "ReplaceTableAsSelect": "query",
    "OverwriteByExpression": "query",  # INSERT … REPLACE WHERE
}
# Root nodes of parsed queries. A plan with any other root is not treated as a query, for example a
# script, EXECUTE IMMEDIATE, SET VAR or a statement that a later Spark version adds. Nor is
# PlanWithUnresolvedIdentifier, which is an INSERT into a table that IDENTIFIER names, before Spark
# 4.3.
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
# Statements that read no table. They change session settings or list catalog objects.
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
    """A parsed SQL command that writes or changes the rows of a table, such as INSERT or MERGE."""

    kind: Literal["query", "change", "merge"]
    """``query`` for INSERT and for CREATE or REPLACE TABLE AS, ``change`` for UPDATE and DELETE,
    ``merge`` for MERGE."""
    catalyst: Catalyst
    """Access to the session's Catalyst plans."""
    node: ParsedPlan
    """The command's node in Catalyst's unresolved plan."""
    around: ParsedPlan | None = None
    """``UnresolvedWith`` node around the command; None if the command has no ``WITH``."""

    @classmethod
    def of(cls, catalyst: Catalyst, text: str) -> Self | None:
        """Parse the SQL text of a command.

        Return None if the text cannot be parsed, is not a command that writes or changes rows, or
        is an UPDATE without WHERE.
        """
        plans = catalyst.plans
        node, around = parsed_plan(catalyst.spark, text), None
        if node is not None and plans.kind(node) == "UnresolvedWith":
            node, around = node.child(), node
        if node is None:
            return None
        match plans.kind(node):
            case kind if kind in _WRITES_QUERY:
                return cls("query", catalyst, node, around)
            case "MergeIntoTable":
                return cls("merge", catalyst, node, around)
            case "DeleteFromTable":
                return cls("change", catalyst, node, around)
            case "UpdateTable" if node.condition().isDefined():
                return cls("change", catalyst, node, around)
        return None

    @property
    def query(self) -> LogicalPlan:
        """Plan of the query whose result the command writes, including the command's ``WITH``."""
        return self.within(self._written)

    @property
    def _argument(self) -> str:
        return _WRITES_QUERY[self.catalyst.plans.kind(self.node)]

    @property
    def _written(self) -> LogicalPlan:
        query: LogicalPlan = getattr(self.node, self._argument)()
        return query

    @property
    def plan(self) -> LogicalPlan:
        """Plan of the whole command, including its ``WITH``."""
        return self.within(self.node)

    def within(self, plan: LogicalPlan) -> LogicalPlan:
        """Wrap ``plan`` in the command's ``WITH``, so that the plan can refer to its CTEs."""
        if self.around is None:
            return plan
        return self.catalyst.plans.with_named_arguments(self.around, {"child": plan})

    @property
    def target(self) -> ParsedPlan:
        """Plan of the table that the command changes."""
        return self.node.targetTable() if self.kind == "merge" else self.node.table()

    @property
    def replaces_by_condition(self) -> bool:
        """Whether the command replaces rows that match a condition, as REPLACE WHERE does."""
        if self.catalyst.plans.kind(self.node) == "OverwriteByExpression":
            return True
        names = self.catalyst.scala.argument_names(self.node)
        return "replaceCriteriaOpt" in names and self.node.replaceCriteriaOpt().isDefined()

    @property
    def source(self) -> LogicalPlan:
        """Plan of the source of a MERGE, including the command's ``WITH``."""
        return self.within(self.node.sourceTable())

    @property
    def tables_read(self) -> list[tuple[str, ...]]:
        """Parts of each table name in the query or in the source of a MERGE.

        The tables that the command's ``WITH`` reads are not included.
        """
        plans = self.catalyst.plans
        read = self.node.sourceTable() if self.kind == "merge" else self._written
        return [
            tuple(each(leaf.multipartIdentifier()))
            for leaf in plans.all_leaves(read)
            if plans.kind(leaf) == "UnresolvedRelation"
        ]

    @property
    def condition(self) -> CatalystExpression:
        """Condition that selects the rows to change. For MERGE, this is the ``ON`` condition."""
        if self.kind == "merge":
            return self.node.mergeCondition()
        condition = self.node.condition()
        given: CatalystExpression = condition.get() if self._has_optional_condition else condition
        return given

    @property
    def changes_rows_without_partner(self) -> bool:
        """Whether the command is a MERGE with a ``WHEN NOT MATCHED BY SOURCE`` clause."""
        return self.kind == "merge" and not self.node.notMatchedBySourceActions().isEmpty()

    @property
    def qualifier(self) -> list[str]:
        """Qualifier of the changed table's columns: the table's alias, or the parts of its name."""
        if self.catalyst.plans.kind(self.target) == "SubqueryAlias":
            return [self.target.alias()]
        return each(self.target.multipartIdentifier())

    def with_query(self, query: LogicalPlan) -> LogicalPlan:
        """Return a copy of the command's plan that writes the result of another query.

        The copy has no ``WITH``, so the new query cannot refer to the command's CTEs.
        """
        return self.catalyst.plans.with_named_arguments(self.node, {self._argument: query})

    def with_source(self, source: LogicalPlan) -> Self:
        """Return a copy of a MERGE command with another source."""
        return self._with({"sourceTable": source})

    def with_also(self, condition: str) -> Self:
        """Return a copy of the command whose condition is combined with ``condition`` by AND."""
        both = self.catalyst.expressions.all_of(
            [
                self.condition,
                session_of(self.catalyst.spark)
                .sessionState()
                .sqlParser()
                .parseExpression(condition),
            ]
        )
        if self.kind == "merge":
            return self._with({"mergeCondition": both})
        is_optional = self._has_optional_condition
        return self._with({"condition": self.catalyst.scala.some(both) if is_optional else both})

    @property
    def _has_optional_condition(self) -> bool:
        return self.catalyst.plans.kind(self.node) == "UpdateTable"

    def _with(self, new: dict[str, object]) -> Self:
        node = self.catalyst.plans.with_named_arguments(self.node, new)
        return type(self)(self.kind, self.catalyst, node, self.around)


def is_query_plan(spark: SparkSession, parsed: LogicalPlan | None) -> bool:
    """Return whether a parsed plan is a query that contains no command.

    Spark executes all other statements immediately. None, a text that cannot be parsed, may become
    such a statement once values replace its parameter markers.
    """
    return parsed is not None and all(
        kind in _QUERIES and not _is_command(spark, node) for node, kind in _roots(parsed)
    )


def relations_in(catalyst: Catalyst, parsed: ParsedPlan) -> Iterator[tuple[str, ...]]:
    """Yield the names of the relations that a parsed plan reads, also in subqueries and ``WITH``.

    Each name is a tuple of its parts.
    """
    inner = catalyst.scala.functions.calling(f"{CATALYST}.trees.TreeNode", "innerChildren")
    open_: list[Any] = [parsed]
    while open_:
        plan = open_.pop()
        for leaf in catalyst.plans.leaves(plan):
            if catalyst.plans.kind(leaf) == "RelationTimeTravel":
                open_.append(leaf.relation())
            elif catalyst.plans.kind(leaf) == "UnresolvedRelation":
                yield tuple(each(leaf.multipartIdentifier()))
        open_ += each(plan.flatMap(inner))  # subqueries, and the queries of ``WITH``


def _roots(parsed: LogicalPlan) -> Iterator[tuple[LogicalPlan, str]]:
    """Yield the nodes of a parsed plan that may be commands, each with the name of its class."""
    open_ = [parsed]
    while open_:
        node = open_.pop()
        kind = node.nodeName().partition(" ")[0]  # the rest are arguments, as in "Except All"
        yield node, kind
        # The command is below WITH. An INSERT into several tables is a Union of commands.
        if kind in ("UnresolvedWith", "Union"):
            open_ += each(node.children())


def _is_command(spark: SparkSession, node: LogicalPlan) -> bool:
    return any(jvm_of(spark).is_a(node, statement) for statement in _STATEMENTS)


def only_reads_settings(parsed: LogicalPlan) -> bool:
    """Return whether a parsed statement only changes settings or lists catalog objects."""
    return parsed.nodeName() in _OF_SESSION


def parsed_plan(spark: SparkSession, text: str) -> ParsedPlan | None:
    """Return the unresolved plan of an SQL text, or None if the text cannot be parsed."""
    try:
        return parsed_statement(spark, text)
    except JVM_ERRORS:
        return None


def parsed_statement(spark: SparkSession, text: str) -> ParsedPlan:
    """Return the unresolved plan of an SQL text, or raise Spark's error if it is not valid SQL."""
    return session_of(spark).sessionState().sqlParser().parsePlan(text)
