"""Static conditions, decided on partition values by Spark itself."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from splitlib.spark.determinism import why_not_deterministic
from splitlib.spark.types import is_char_or_varchar

_log = logging.getLogger(__name__)
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
                F.col(_quoted(names[key.name.lower()])).try_cast(key.dataType).alias(key.name)
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


def static_conditions(
    spark: SparkSession, condition: str, schema: StructType, keys: tuple[str, ...]
) -> Iterator[StaticCondition]:
    """The conjuncts of ``condition`` that partition values decide.

    ``condition`` as a whole is still applied to the rows; this only says what need not be read.
    On Spark Connect, which shows no expressions, a condition is taken as one conjunct.
    """
    usable = [schema[key] for key in keys if not is_char_or_varchar(schema[key])]
    classic = getattr(spark, "_jsparkSession", None) is not None
    for text, read in (_conjuncts if classic else _whole)(spark, condition, schema, usable):
        fields = StructType([field for field in usable if field.name in read])
        if fields.fields and len(fields) == len(read):
            yield StaticCondition(spark, text, fields)


def _conjuncts(
    spark: SparkSession, condition: str, schema: StructType, _: list[StructField]
) -> Iterator[tuple[str, set[str]]]:
    """Deterministic conjuncts, and the columns each reads, from Spark's analyzer."""
    rows: Any = spark.createDataFrame([], schema).where(condition)
    patterns = rows.sparkSession._jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    open_ = [rows._jdf.queryExecution().analyzed().condition()]
    while open_:
        node = open_.pop()
        if node.nodeName() == "And":
            open_ += [node.right(), node.left()]
        elif node.deterministic() and not node.containsPattern(patterns.PLAN_EXPRESSION()):
            found = node.references().iterator()
            names = set()
            while found.hasNext():
                names.add(found.next().name())
            yield node.sql(), names


def _whole(
    spark: SparkSession, condition: str, _: StructType, usable: list[StructField]
) -> Iterator[tuple[str, set[str]]]:
    try:
        probe = spark.createDataFrame([], StructType(usable)).where(condition)
        if why_not_deterministic(probe) is None:
            yield condition, {field.name for field in usable}
    except PySparkException:
        return  # it reads data columns too, or nothing that exists; load() will say so


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
