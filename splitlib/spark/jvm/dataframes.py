"""DataFrames of PySpark's to plans of the JVM, and back."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from splitlib.spark.jvm.gateway import jvm_of


def analyzed_plan(df: DataFrame) -> Any:
    """The plan of ``df`` with every name resolved, before anything is optimized."""
    return df._jdf.queryExecution().analyzed()


def internal_rows(df: DataFrame) -> Any:
    """The rows of ``df``, computed now, as an ``Array[InternalRow]`` that stays in the JVM."""
    return df._jdf.queryExecution().executedPlan().executeCollect()


def have_same_schema(one: DataFrame, other: DataFrame) -> bool:
    """Whether columns, types and field metadata are the same; nullability counts."""
    return bool(one._jdf.schema().equals(other._jdf.schema()))


def ran_a_command(df: DataFrame) -> bool:
    """Whether a command was run when ``df`` was made."""
    execution = df._jdf.queryExecution()
    # a command may stand below others, as in WITH … INSERT
    return not execution.commandExecuted().fastEquals(execution.analyzed())


def bloom_filter(hashes: DataFrame, count: int, false_positives: float) -> bytes:
    """A Bloom filter of numbers, as Spark serializes it.

    Args:
        hashes: One column of whole numbers.
        count: How many there are.
        false_positives: How often it may be wrong.
    """
    made = hashes._jdf.stat().bloomFilter(hashes.columns[0], count, false_positives)
    stream = jvm_of(hashes.sparkSession).class_("java.io.ByteArrayOutputStream")()
    made.writeTo(stream)
    return bytes(stream.toByteArray())


def dataframe_of_plan(spark: SparkSession, plan: Any, clone: Any = None) -> DataFrame:
    """A DataFrame of any resolved plan, run by the settings of the session or of a clone of it."""
    datasets = jvm_of(spark).class_("org.apache.spark.sql.classic.Dataset")
    return _dataframe(spark, datasets.ofRows(clone or spark._jsparkSession, plan))


def dataframe_of_relation(spark: SparkSession, relation: Any) -> DataFrame:
    """A DataFrame that reads a ``BaseRelation``."""
    return _dataframe(spark, spark._jsparkSession.baseRelationToDataFrame(relation))


def _dataframe(spark: SparkSession, dataset: Any) -> DataFrame:
    # not there where only a Connect client is installed
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    return ClassicDataFrame(dataset, spark)
