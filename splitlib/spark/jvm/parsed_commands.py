"""Inspect and change parsed commands, before Spark resolves the names in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from pyspark.sql import SparkSession

from splitlib.spark.jvm.plans import Plans
from splitlib.spark.jvm.scala import each
from splitlib.spark.jvm.sql_parser import parsed_expression, parsed_plan

_WRITES_QUERY: Final = (
    "InsertIntoStatement",
    "CreateTableAsSelect",
    "ReplaceTableAsSelect",
    "OverwriteByExpression",  # INSERT … REPLACE WHERE
)


@dataclass(frozen=True, slots=True, eq=False)
class ParsedCommand:
    """A command that writes a table and reads data to do so."""

    kind: Literal["query", "change", "merge"]
    """``query`` writes a query's result, ``change`` is UPDATE or DELETE, ``merge`` is MERGE."""
    plans: Plans
    """Builds the plans."""
    node: Any
    """Unresolved Catalyst node of the command."""
    around: Any = None
    """``UnresolvedWith`` node around the command; None without ``WITH``."""

    @classmethod
    def of(cls, spark: SparkSession, plans: Plans, text: str) -> Self | None:
        """Parse a text. Return None if it is another kind of statement or cannot be parsed."""
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
        """Query whose result the command writes, inside the command's ``WITH``."""
        return self.within(self.node.query())

    @property
    def plan(self) -> Any:
        """Whole command, inside its ``WITH``."""
        return self.within(self.node)

    def within(self, plan: Any) -> Any:
        """Return a plan inside the command's ``WITH``, so that it can use the definitions."""
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
        """Plan of the source of MERGE, inside the command's ``WITH``."""
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
        """Return the command's plan with another query. The query cannot use ``WITH``."""
        return self.plans.with_named_arguments(self.node, {"query": query})

    def with_source(self, source: Any) -> Self:
        """Return the same command with another source."""
        return self._with({"sourceTable": source})

    def with_also(self, spark: SparkSession, condition: str) -> Self:
        """Return the same command with an SQL condition added to its own by AND."""
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
