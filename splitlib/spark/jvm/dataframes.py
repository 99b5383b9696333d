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


def dataframe_of_plan(spark: SparkSession, plan: Any) -> DataFrame:
    """A DataFrame of any resolved plan."""
    datasets = jvm_of(spark.sparkContext._gateway).class_("org.apache.spark.sql.classic.Dataset")
    return _dataframe(spark, datasets.ofRows(spark._jsparkSession, plan))


def dataframe_of_relation(spark: SparkSession, relation: Any) -> DataFrame:
    """A DataFrame that reads a ``BaseRelation``."""
    return _dataframe(spark, spark._jsparkSession.baseRelationToDataFrame(relation))


def _dataframe(spark: SparkSession, dataset: Any) -> DataFrame:
    # not there where only a Connect client is installed
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    return ClassicDataFrame(dataset, spark)
