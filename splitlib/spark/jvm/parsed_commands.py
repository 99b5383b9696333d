"""Commands as Spark's parser has them, before any name in them is looked for."""

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
    """A command that reads something to know what it has to write."""

    kind: Literal["query", "change", "merge"]
    """It writes what a query gives; or changes the rows of a table that meet a condition; or those
    that have a partner in another one, by a condition."""
    plans: Plans
    node: Any
    around: Any = None
    """``WITH``, in which it stands."""

    @classmethod
    def of(cls, spark: SparkSession, plans: Plans, text: str) -> Self | None:
        """The command that a text is; None if it is another statement, or none."""
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
        """What it writes, with what ``WITH`` defines."""
        return self.within(self.node.query())

    @property
    def plan(self) -> Any:
        """The whole command, with what ``WITH`` defines."""
        return self.within(self.node)

    def within(self, plan: Any) -> Any:
        """A plan that stands where the command does, so that it reads what ``WITH`` defines."""
        if self.around is None:
            return plan
        return self.plans.with_named_arguments(self.around, {"child": plan})

    @property
    def target(self) -> Any:
        """The table that it changes."""
        return self.node.targetTable() if self.kind == "merge" else self.node.table()

    @property
    def source(self) -> Any:
        """What MERGE reads."""
        return self.within(self.node.sourceTable())

    @property
    def condition(self) -> Any:
        """Of the rows that it changes; of MERGE, that of two rows that are partners."""
        if self.kind == "merge":
            return self.node.mergeCondition()
        condition = self.node.condition()
        return condition.get() if self._has_optional_condition else condition

    @property
    def changes_rows_without_partner(self) -> bool:
        """Whether it says ``WHEN NOT MATCHED BY SOURCE``."""
        return self.kind == "merge" and not self.node.notMatchedBySourceActions().isEmpty()

    @property
    def qualifier(self) -> list[str]:
        """What the columns of the table that it changes are qualified by."""
        if self.plans.kind(self.target) == "SubqueryAlias":
            return [str(self.target.alias())]
        return [str(part) for part in each(self.target.multipartIdentifier())]

    def with_query(self, query: Any) -> Any:
        """The plan of the command with another query, in which nothing of ``WITH`` is needed."""
        return self.plans.with_named_arguments(self.node, {"query": query})

    def with_source(self, source: Any) -> Self:
        """The same of another source."""
        return self._with({"sourceTable": source})

    def with_also(self, spark: SparkSession, condition: str) -> Self:
        """The same with one more condition, as SQL."""
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
