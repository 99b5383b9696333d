"""Prune by static conditions, which do not depend on join keys.

Either Spark tests a condition on the partition values, or the condition is converted to the values
that columns can have. Both methods use Spark's analyzed expression, not the condition's text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.predicate import not_a_key
from splitlib.model import TableMetadata
from splitlib.redaction import get_logger
from splitlib.report import FilterUse
from splitlib.spark.compat import to_arrow, try_cast
from splitlib.spark.conversion import is_char_or_varchar, local_rows
from splitlib.spark.determinism import has_subquery, why_not_deterministic
from splitlib.spark.jvm.active_session import active
from splitlib.spark.jvm.catalyst import Conjunct, conjuncts
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.predicates.domains import Known, known_of

_log = get_logger(__name__)
_ROW = "__splitlib_row"
_AS_CONSTANT = "Compute the value first, and pass the result as a constant."
_ADD_ONE = "Add a condition on a partition key."


class StaticCondition:
    """A condition that reads only partition columns, evaluated by Spark.

    Implements :class:`splitlib.filtering.predicate.PartitionFilter`.

    Args:
        spark: Session in which to evaluate the condition.
        keys: Partition columns that the condition reads.
        kept: Function that filters rows by the condition. The rows have the columns in ``keys``
            and one additional column.
        text: The condition's text, for reports.
        keeps_undecided: Whether to keep partitions whose values are invalid for the column's type.
    """

    def __init__(
        self,
        spark: SparkSession,
        keys: StructType,
        kept: Callable[[DataFrame], DataFrame],
        text: str,
        *,
        keeps_undecided: bool = False,
    ) -> None:
        self._spark = spark
        self._keys = keys
        self._kept = kept
        self._text = text
        self._keeps_undecided = keeps_undecided

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the partition columns that the condition reads."""
        return tuple(self._keys.names)

    def describe(self) -> str:
        """Return the condition as SQL."""
        return self._text

    def match(self, values: pa.RecordBatch) -> pa.BooleanArray:
        """Return a boolean array: whether each partition may match.

        If Spark raises an error, all values are true.
        """
        rows = pa.array(range(values.num_rows), pa.int64())
        names = {name.lower(): i for i, name in enumerate(values.schema.names)}
        columns = {f"c{i}": values[names[key.name.lower()]] for i, key in enumerate(self._keys)}
        given = local_rows(self._spark, pa.table({**columns, _ROW: rows}))
        typed = given.select(
            *(
                try_cast(F.col(name), key.dataType).alias(key.name)
                for name, key in zip(columns, self._keys, strict=True)
            ),
            _ROW,
        )
        try:
            with active(self._spark):
                found = self._kept(typed).select(_ROW)
                if self._keeps_undecided:
                    found = found.union(given.where(self._undecided(columns)).select(_ROW))
                kept = to_arrow(found)
        except JVM_ERRORS as error:
            _log.warning("%s does not prune partitions: %s", self._text, error)
            return pa.repeat(True, values.num_rows)
        return pa.compute.is_in(rows, value_set=kept[_ROW].combine_chunks())

    def _undecided(self, columns: Iterable[str]) -> Column:
        """Return a condition that is true if a partition value is invalid for its column's type."""
        undecided = F.lit(False)
        for name, key in zip(columns, self._keys, strict=True):
            value = F.col(name)
            undecided |= value.isNotNull() & try_cast(value, key.dataType).isNull()
        return undecided


@dataclass(frozen=True, slots=True)
class StaticFilters:
    """The partition and file filters that follow from a condition."""

    used: tuple[StaticCondition | DynamicFilteringData, ...]
    unused: tuple[FilterUse, ...]
    """The parts of the condition that cannot prune, with the reasons."""


def static_filters(
    spark: SparkSession,
    condition: Column,
    schema: StructType,
    table: TableMetadata,
    how: str = "auto",
) -> StaticFilters:
    """Return filters for the conjuncts of ``condition`` that can prune partitions or files.

    A conjunct is a part of the condition that is combined with others by AND. The caller still
    applies the whole condition to the rows. Without access to Spark's internals, the condition
    cannot be split, so it is treated as one conjunct.

    Args:
        spark: Session to evaluate the condition in.
        condition: Condition on rows of ``schema``.
        schema: Spark schema of the table.
        table: Metadata of the table.
        how: How to access Spark's internals, as for :func:`splitlib.spark.scan.scan_files`.
    """
    names = [key for key in table.partition_keys if key in schema.names]
    keys = [schema[key] for key in names if not is_char_or_varchar(schema[key])]
    why = internals_unavailable(spark, how)
    if why is not None:
        return _whole(spark, condition, keys, why)
    used: list[StaticCondition | DynamicFilteringData] = []
    unused: list[FilterUse] = []
    for conjunct in conjuncts(spark, condition, schema):
        known = _known(conjunct, table)
        if known is not None:
            used.append(known.data)
        own = _on_partitions(conjunct, keys)
        if own is not None and (known is None or not known.is_exact):
            used.append(own)
        if own is None and known is None:
            unused.append(_unused(conjunct, schema, table))
    return StaticFilters(tuple(used), tuple(unused))


def _known(conjunct: Conjunct, table: TableMetadata) -> Known | None:
    """Return the values that columns can have in matching rows, or None if they are not limited.

    They are also not limited if the condition may have another result when the query runs. The
    result covers the columns that have statistics. If the table has no statistics, the result
    covers only partition columns that are plain strings: a catalog can look up partitions by such
    values instead of listing all partitions.
    """
    if conjunct.later is not None:
        return None
    if table.has_statistics:
        return known_of(conjunct.expression, table.filter_schema)
    plain = [key for key in table.partition_schema if key.type == pa.string() and not key.metadata]
    read, names = set(conjunct.reads), {key.name for key in plain}
    if not read or not read <= names:
        return None
    return known_of(conjunct.expression, pa.schema(plain))


def _on_partitions(conjunct: Conjunct, keys: list[StructField]) -> StaticCondition | None:
    """Return a conjunct as a partition filter.

    Return None if it reads data columns, or if its result may differ when the query runs.
    """
    fields = StructType([field for field in keys if field.name in conjunct.reads])
    if conjunct.later is not None or not fields.fields or len(fields) != len(conjunct.reads):
        return None
    return StaticCondition(conjunct.spark, fields, conjunct.kept, conjunct.text)


def _unused(conjunct: Conjunct, schema: StructType, table: TableMetadata) -> FilterUse:
    """Return the report entry for a conjunct that cannot prune, with the reason."""
    read = [name for name in schema.names if name in conjunct.reads]
    padded = [n for n in read if n in table.partition_keys and is_char_or_varchar(schema[n])]
    others = [name for name in read if name not in table.partition_keys]
    if conjunct.later is not None:
        reason = f"The condition may change, because {conjunct.later}. {_AS_CONSTANT}"
    elif padded:
        names = ", ".join(padded)
        reason = (
            f"{names}: CHAR and VARCHAR are compared with padding. Partition the table by a STRING."
        )
    elif not read:
        reason = f"The condition does not read a column. {_ADD_ONE}"
    elif not table.has_statistics:
        reason = not_a_key(others)
    else:
        reason = (
            "Column statistics cannot decide the condition. Compare a column with constants, by "
            "=, <, <=, >, >=, IN, BETWEEN or IS NULL."
        )
    return FilterUse(tuple(read), conjunct.text, unused_because=reason)


def _whole(
    spark: SparkSession, condition: Column, usable: list[StructField], why: str
) -> StaticFilters:
    """Return filters for a whole condition, using only Spark's public API.

    Args:
        spark: Session to evaluate the condition in.
        condition: Condition on rows.
        usable: Partition columns that the condition may read.
        why: Why the condition cannot be split into conjuncts, as a clause.
    """
    keys = StructType(usable)
    text = str(condition)
    try:
        rows = spark.createDataFrame([], keys).where(condition)
        reason = why_not_deterministic(rows)
        if reason is None and has_subquery(rows):
            reason = "it contains a subquery"
        if reason is not None:
            reason = f"The condition may change, because {reason}. {_AS_CONSTANT}"
    except PySparkException:
        # The condition reads a data column, or a column that does not exist. In the second case,
        # load() raises an error later.
        reason = (
            f"{why[:1].upper()}{why[1:]}, so only a condition on partition keys alone can prune. "
            "Call where() once for partition keys, and once for other columns."
        )
    if reason is None and usable:
        kept = StaticCondition(spark, keys, lambda rows: rows.where(condition), text)
        return StaticFilters((kept,), ())
    reason = reason or f"The condition does not read a partition key. {_ADD_ONE}"
    unused = FilterUse((), text, unused_because=reason)
    return StaticFilters((), (unused,))
