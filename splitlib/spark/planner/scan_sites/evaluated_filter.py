"""Filters on partition values that only Spark can evaluate, such as conditions with a cast."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from splitlib.spark.compat import to_arrow, try_cast
from splitlib.spark.conversion import local_rows, quoted
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.gateway import JVM_ERRORS, analyzed_plan, internal_rows
from splitlib.spark.jvm.java_handles import Seq
from splitlib.spark.jvm.spark_handles import CatalystAttribute, CatalystExpression, LogicalPlan
from splitlib.spark.logical_plan import Expression
from splitlib.spark.planner.lineage import ChildColumn, Step

UNDECIDED: Final = "__splitlib_undecided"
"""Name of the column that is true if a condition could not be evaluated for a partition."""


class EvaluatedFilter:
    """A :class:`splitlib.filtering.predicate.PartitionFilter` that Spark evaluates.

    Args:
        evaluate: Function that computes the expressions for a batch of partition values, and
            returns a table as :func:`evaluate` does.
        fields: Partition keys that the expressions read.
        test: Function that receives the computed columns by name, and returns whether each
            partition matches, as a boolean array.
        text: Text of the condition, for reports.
    """

    def __init__(
        self,
        evaluate: Callable[[pa.RecordBatch], pa.Table],
        fields: Sequence[str],
        test: Callable[[Mapping[str, pa.Array]], pa.BooleanArray],
        text: str,
    ) -> None:
        self._evaluate = evaluate
        self._test = test
        self._text = text
        self.fields = tuple(fields)
        self._latest: tuple[pa.RecordBatch, pa.BooleanArray] | None = None

    def describe(self) -> str:
        """Return the condition as SQL."""
        return self._text

    def match(self, values: pa.RecordBatch) -> pa.BooleanArray:
        """Return a boolean array: whether each partition may match. The latest result is cached."""
        read = {name.lower() for name in self.fields}
        values = values.select([name for name in values.schema.names if name.lower() in read])
        latest = self._latest  # read the attribute only once: another thread may replace it
        if latest is None or not latest[0].equals(values):
            found = self._evaluate(values)
            columns = {name: found[name].combine_chunks() for name in found.column_names}
            met = pc.fill_null(self._test(columns), False)
            self._latest = latest = values, pc.or_(met, columns[UNDECIDED])
        return latest[1]


def partition_rows(
    catalyst: Catalyst,
    values: pa.RecordBatch,
    schema: StructType,
    attributes: Seq[CatalystAttribute],
) -> LogicalPlan:
    """Return a plan with one row per partition, and the columns ``attributes`` and ``UNDECIDED``.

    Args:
        catalyst: Catalyst of the session.
        values: Partition values, as text or typed. Column names may differ from ``schema`` in
            letter case.
        schema: Columns to return.
        attributes: Catalyst attributes of these columns, a ``Seq[Attribute]``.
    """
    present = {name.lower(): i for i, name in enumerate(values.schema.names)}
    columns = {f"c{i}": values.column(present[key.name.lower()]) for i, key in enumerate(schema)}
    typed = [try_cast(F.col(name), key.dataType) for name, key in zip(columns, schema, strict=True)]
    doubt = F.lit(False)
    for name, value in zip(columns, typed, strict=True):
        doubt = doubt | (value.isNull() & F.col(quoted(name)).isNotNull())
    rows = local_rows(catalyst.spark, pa.table(columns)).select(*typed, doubt.alias(UNDECIDED))
    doubtful = catalyst.plans.attribute(analyzed_plan(rows), len(schema))
    output = catalyst.scala.appended(attributes, doubtful)
    return catalyst.plans.local_relation(output, internal_rows(rows))


def evaluate(
    catalyst: Catalyst,
    rows: LogicalPlan,
    plan: LogicalPlan,
    steps: Sequence[Step],
    wanted: Mapping[str, Expression],
) -> pa.Table:
    """Compute expressions over partition values in Spark.

    Args:
        catalyst: Catalyst of the session.
        rows: Result of :func:`partition_rows`.
        plan: The plan that contains the expressions.
        steps: Named intermediate results that the expressions read, in evaluation order.
        wanted: Expressions to compute, by the name of their result column.

    Returns:
        A table with one row per partition. It has the columns named in ``wanted``, and the column
        :data:`UNDECIDED`, which is true if a partition value cannot be cast to its type or if an
        expression raises an error. Such a partition must be kept.
    """
    doubts = [a for a in catalyst.plans.output(rows) if a.name() == UNDECIDED]
    named = [named_step(catalyst, plan, step) for step in steps]
    columns = [
        catalyst.expressions.alias(catalyst.plans.expression_at(plan, expression.place), name)
        for name, expression in wanted.items()
    ]
    try:
        return _projected(catalyst, rows, named, columns, doubts)
    except JVM_ERRORS:
        return _attempted(catalyst, rows, named, columns, doubts)


def _projected(
    catalyst: Catalyst,
    rows: LogicalPlan,
    named: Sequence[CatalystExpression],
    columns: Sequence[CatalystExpression],
    doubts: Sequence[CatalystExpression],
) -> pa.Table:
    """Return a table of ``columns`` and ``UNDECIDED``, which combines ``doubts`` with OR."""
    for one in named:
        rows = catalyst.plans.projected(rows, [*catalyst.plans.output(rows), one])
    doubt = catalyst.expressions.alias(catalyst.expressions.any_of(doubts), UNDECIDED)
    found = catalyst.execution.dataframe(catalyst.plans.projected(rows, [*columns, doubt]))
    return to_arrow(found).combine_chunks()


def _attempted(
    catalyst: Catalyst,
    rows: LogicalPlan,
    named: Sequence[CatalystExpression],
    columns: Sequence[CatalystExpression],
    doubts: Sequence[CatalystExpression],
) -> pa.Table:
    """Return a table like ``_projected``, but with null where an expression raises an error.

    ``UNDECIDED`` is true for these rows.
    """
    steps: list[CatalystExpression] = []
    for one in named:
        if one.nodeName() == "Alias":
            raised = catalyst.expressions.alias(catalyst.expressions.raises(one.child()), "raised")
            steps += [
                raised,
                catalyst.expressions.alias(
                    catalyst.expressions.attempted(one.child()), one.name(), one
                ),
            ]
            doubts = [*doubts, raised.toAttribute()]
    doubts = [*doubts, *(catalyst.expressions.raises(column.child()) for column in columns)]
    tried = [
        catalyst.expressions.alias(catalyst.expressions.attempted(c.child()), c.name(), c)
        for c in columns
    ]
    return _projected(catalyst, rows, steps, tried, doubts)


def named_step(catalyst: Catalyst, plan: LogicalPlan, step: Step) -> CatalystExpression:
    """Convert an item of ``Lineage.steps`` to a named Catalyst expression."""
    if isinstance(step, ChildColumn):
        below = catalyst.plans.node(plan, (*step.node, step.child))
        outer = catalyst.plans.attribute(catalyst.plans.node(plan, step.node), step.position)
        return catalyst.expressions.alias(
            catalyst.plans.attribute(below, step.below), outer.name(), outer
        )
    return catalyst.plans.expression_at(plan, step)
