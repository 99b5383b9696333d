"""Static conditions: decided on partition values by Spark itself, or like join keys.

A condition never becomes text: what Spark's analyzer has made of it is evaluated as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.predicate import AppliedFilter
from splitlib.model import TableMetadata
from splitlib.redaction import get_logger
from splitlib.spark.jvm.catalyst import Catalyst, each
from splitlib.spark.keys.determinism import why_not_deterministic
from splitlib.spark.local_rows import local_rows
from splitlib.spark.predicates.domain_extraction import known_of
from splitlib.spark.schema import is_char_or_varchar

_log = get_logger(__name__)
_ROW = "__splitlib_row"


class StaticCondition:
    """A condition on partition keys alone.

    It is a :class:`splitlib.filtering.predicate.PartitionFilter`.

    Args:
        spark: Session to evaluate it in.
        keys: The partition keys that it reads.
        kept: Rows with those columns, and a further one, to those for which it holds.
        text: The condition as it is shown.
    """

    def __init__(
        self,
        spark: SparkSession,
        keys: StructType,
        kept: Callable[[DataFrame], DataFrame],
        text: str,
    ) -> None:
        self._spark = spark
        self._keys = keys
        self._kept = kept
        self._text = text

    @property
    def fields(self) -> tuple[str, ...]:
        """The partition keys that it reads."""
        return tuple(self._keys.names)

    def describe(self) -> str:
        """The condition as SQL."""
        return self._text

    def match(self, values: pa.RecordBatch) -> pa.BooleanArray:
        """True (or null) where a partition may matter; all, if Spark raises for some value."""
        rows = pa.array(range(values.num_rows), pa.int64())
        names = {name.lower(): i for i, name in enumerate(values.schema.names)}
        columns = {f"c{i}": values[names[key.name.lower()]] for i, key in enumerate(self._keys)}
        typed = local_rows(self._spark, pa.table({**columns, _ROW: rows})).select(
            *(
                F.col(name).try_cast(key.dataType).alias(key.name)
                for name, key in zip(columns, self._keys, strict=True)
            ),
            _ROW,
        )
        try:
            kept = self._kept(typed).select(_ROW).toArrow()
        except PySparkException as error:
            _log.warning("%s does not prune partitions: %s", self._text, error)
            return pa.repeat(True, values.num_rows)
        return pa.compute.is_in(rows, value_set=kept[_ROW].combine_chunks())


@dataclass(frozen=True, slots=True)
class StaticFilters:
    """What conditions say of partitions and files."""

    used: tuple[StaticCondition | DynamicFilteringData, ...]
    unused: tuple[AppliedFilter, ...]
    """The parts of conditions that only the rows are tested by, and why."""


def static_filters(
    spark: SparkSession, condition: Column, schema: StructType, table: TableMetadata
) -> StaticFilters:
    """The conjuncts of ``condition`` that partition values or file statistics decide.

    ``condition`` as a whole is still applied to the rows; this only says what need not be read.
    On Spark Connect, which shows no expressions, a condition is taken as one conjunct.
    """
    names = [key for key in table.partition_keys if key in schema.names]
    keys = [schema[key] for key in names if not is_char_or_varchar(schema[key])]
    if getattr(spark, "_jsparkSession", None) is None:
        return _whole(spark, condition, keys)
    used: list[StaticCondition | DynamicFilteringData] = []
    unused: list[AppliedFilter] = []
    for conjunct in _conjuncts(spark, condition, schema):
        known = conjunct.known(table)
        if known is not None:
            used.append(known.data)
        own = conjunct.on_partitions(keys)
        if own is not None and (known is None or not known.is_exact):
            used.append(own)
        if own is None and known is None:
            unused.append(conjunct.unused(schema, table))
    return StaticFilters(tuple(used), tuple(unused))


@dataclass(frozen=True, slots=True)
class _Conjunct:
    spark: SparkSession
    expression: Any
    """Catalyst's."""
    attributes: tuple[Any, ...]
    """The table's columns as they stand in it."""
    reads: frozenset[str]
    """The names of those that do."""
    later: str | None
    """Why it may be another when the rows are read."""

    def known(self, table: TableMetadata) -> Any:
        """What it says of columns whose statistics the catalog has; None if nothing."""
        return (
            None if table.filter_schema is None else known_of(self.expression, table.filter_schema)
        )

    def on_partitions(self, keys: list[StructField]) -> StaticCondition | None:
        """Itself, to be evaluated on partition values; None if it reads other columns."""
        fields = StructType([field for field in keys if field.name in self.reads])
        if self.later is not None or not fields.fields or len(fields) != len(self.reads):
            return None
        text = str(self.expression.sql())
        return StaticCondition(self.spark, fields, self._kept, text)

    def _kept(self, rows: DataFrame) -> DataFrame:
        """The rows for which it holds, whose columns are known by name."""
        catalyst = Catalyst(self.spark)
        plan: Any = rows._jdf.queryExecution().analyzed()
        own = {a.name(): a for a in self.attributes}
        named = [
            catalyst.alias(a, a.name(), own[a.name()]) if a.name() in own else a
            for a in each(plan.output())
        ]
        return catalyst.dataframe(
            catalyst.filtered(catalyst.projected(plan, named), self.expression)
        )

    def unused(self, schema: StructType, table: TableMetadata) -> AppliedFilter:
        """Why it neither is decided by partition values nor by statistics."""
        read = [name for name in schema.names if name in self.reads]
        padded = [n for n in read if n in table.partition_keys and is_char_or_varchar(schema[n])]
        others = [name for name in read if name not in table.partition_keys]
        if self.later is not None:
            reason = self.later
        elif padded:
            reason = f"{', '.join(padded)}: strings of a length are compared with padding"
        elif not read:
            reason = "it reads no column"
        elif table.filter_schema is None:
            reason = f"{', '.join(others)}: no partition key"
        else:
            reason = "statistics of columns do not decide it"
        return AppliedFilter(tuple(read), str(self.expression.sql()), 0, (), reason)


def _conjuncts(spark: SparkSession, condition: Column, schema: StructType) -> Iterator[_Conjunct]:
    """From Spark's analyzer."""
    rows: Any = spark.createDataFrame([], schema).where(condition)
    plan = rows._jdf.queryExecution().analyzed()
    if plan.nodeName() != "Filter":
        return
    patterns = rows.sparkSession._jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    attributes = tuple(each(plan.output()))
    open_ = [plan.condition()]
    while open_:
        node = open_.pop()
        if node.nodeName() == "And":
            open_ += [node.right(), node.left()]
            continue
        found = node.references().iterator()
        reads = set()
        while found.hasNext():
            reads.add(str(found.next().name()))
        later = None
        if not node.deterministic():
            later = "it calls a function that is not deterministic"
        elif node.containsPattern(patterns.CURRENT_LIKE()):
            later = "it asks for the current time"
        elif node.containsPattern(patterns.PLAN_EXPRESSION()):
            later = "it holds a query"
        yield _Conjunct(spark, node, attributes, frozenset(reads), later)


def _whole(spark: SparkSession, condition: Column, usable: list[StructField]) -> StaticFilters:
    keys = StructType(usable)
    text = str(condition)
    try:
        reason = why_not_deterministic(spark.createDataFrame([], keys).where(condition))
    except PySparkException:
        # it reads data columns too, or nothing that exists; load() will say so
        reason = "over Spark Connect a condition prunes if it reads partition keys alone"
    if reason is None and usable:
        kept = StaticCondition(spark, keys, lambda rows: rows.where(condition), text)
        return StaticFilters((kept,), ())
    unused = AppliedFilter((), text, 0, (), reason or "it reads no partition key")
    return StaticFilters((), (unused,))
