"""Static conditions: decided on partition values by Spark itself, or like join keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from splitlib.filtering import DynamicFilteringData
from splitlib.model import TableMetadata
from splitlib.redaction import get_logger
from splitlib.spark.determinism import why_not_deterministic
from splitlib.spark.static_values import values_of
from splitlib.spark.types import is_char_or_varchar

_log = get_logger(__name__)
_ROW = "__splitlib_row"


class StaticCondition:
    """A condition that reads partition keys only: a :class:`splitlib.predicate.PartitionFilter`."""

    def __init__(self, spark: SparkSession, condition: str, keys: StructType) -> None:
        self._spark = spark
        self._condition = condition
        self._keys = keys

    @property
    def fields(self) -> tuple[str, ...]:
        """The partition keys that it reads."""
        return tuple(self._keys.names)

    def describe(self) -> str:
        """The condition as SQL."""
        return self._condition

    def match(self, values: pa.RecordBatch) -> pa.BooleanArray:
        """True (or null) where a partition may matter; all, if Spark raises for some value."""
        rows = pa.array(range(values.num_rows), pa.int64())
        columns = pa.table([*values.columns, rows], names=[*values.schema.names, _ROW])
        names = {name.lower(): name for name in values.schema.names}
        typed = self._spark.createDataFrame(columns).select(
            *(
                F.col(quoted(names[key.name.lower()])).try_cast(key.dataType).alias(key.name)
                for key in self._keys
            ),
            _ROW,
        )
        try:
            kept = typed.where(self._condition).select(_ROW).toArrow()
        except PySparkException as error:
            _log.warning("%s does not prune partitions: %s", self._condition, error)
            return pa.repeat(True, values.num_rows)
        return pa.compute.is_in(rows, value_set=kept[_ROW].combine_chunks())


def static_filters(
    spark: SparkSession, condition: str, schema: StructType, table: TableMetadata
) -> Iterator[StaticCondition | DynamicFilteringData]:
    """The conjuncts of ``condition`` that partition values or file statistics decide.

    ``condition`` as a whole is still applied to the rows; this only says what need not be read.
    On Spark Connect, which shows no expressions, a condition is taken as one conjunct.
    """
    names = [key for key in table.partition_keys if key in schema.names]
    keys = [schema[key] for key in names if not is_char_or_varchar(schema[key])]
    if getattr(spark, "_jsparkSession", None) is None:
        conjuncts = _whole(spark, condition, keys)
    else:
        conjuncts = _conjuncts(spark, condition, schema)
    for conjunct in conjuncts:
        if table.filter_schema is not None and conjunct.expression is not None:
            data = values_of(conjunct.expression, table.filter_schema)
            if data is not None:
                yield data
                continue
        fields = StructType([field for field in keys if field.name in conjunct.reads])
        if fields.fields and len(fields) == len(conjunct.reads):
            yield StaticCondition(spark, conjunct.text, fields)


class _Conjunct(NamedTuple):
    text: str
    reads: set[str]
    """The columns."""
    expression: Any = None
    """Catalyst's."""


def _conjuncts(spark: SparkSession, condition: str, schema: StructType) -> Iterator[_Conjunct]:
    """Those that are as true when the rows are read, from Spark's analyzer."""
    rows: Any = spark.createDataFrame([], schema).where(condition)
    patterns = rows.sparkSession._jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    later = (patterns.PLAN_EXPRESSION(), patterns.CURRENT_LIKE())
    open_ = [rows._jdf.queryExecution().analyzed().condition()]
    while open_:
        node = open_.pop()
        if node.nodeName() == "And":
            open_ += [node.right(), node.left()]
        elif node.nodeName() == "Between":
            open_.append(node.replacement())
        elif node.deterministic() and not any(node.containsPattern(p) for p in later):
            found = node.references().iterator()
            names = set()
            while found.hasNext():
                names.add(found.next().name())
            yield _Conjunct(node.sql(), names, node)


def _whole(spark: SparkSession, condition: str, usable: list[StructField]) -> Iterator[_Conjunct]:
    try:
        probe = spark.createDataFrame([], StructType(usable)).where(condition)
        if why_not_deterministic(probe) is None:
            yield _Conjunct(condition, {field.name for field in usable})
    except PySparkException:
        return  # it reads data columns too, or nothing that exists; load() will say so


def quoted(name: str) -> str:
    """A column's name as Spark's SQL spells it."""
    return "`" + name.replace("`", "``") + "`"
