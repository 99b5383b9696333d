"""Convert PySpark DataFrames to plans in the JVM, and plans to DataFrames."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from splitlib.spark.compat import of_jvm
from splitlib.spark.jvm.gateway import jvm_of, session_of
from splitlib.spark.jvm.java_handles import ForeignObject, JavaArray
from splitlib.spark.jvm.spark_handles import (
    BaseRelation,
    Dataset,
    InternalRow,
    JvmSession,
    LogicalPlan,
    QueryExecution,
)


def execution_of(df: DataFrame) -> QueryExecution:
    """Return the stages of the query of ``df``."""
    execution: QueryExecution = df._jdf.queryExecution()
    return execution


def analyzed_plan(df: DataFrame) -> LogicalPlan:
    """Return the plan of ``df`` with all names resolved, before optimization."""
    return execution_of(df).analyzed()


def internal_rows(df: DataFrame) -> JavaArray[InternalRow]:
    """Execute ``df`` and return its rows as an ``Array[InternalRow]`` in the JVM."""
    return execution_of(df).executedPlan().executeCollect()


def have_same_schema(one: DataFrame, other: DataFrame, *, nullability: bool = True) -> bool:
    """Return whether column names, types and field metadata are equal.

    Args:
        one: First DataFrame.
        other: Second DataFrame.
        nullability: Whether nullability must be equal too.
    """
    schemas = one._jdf.schema(), other._jdf.schema()
    mine, others = schemas if nullability else (schema.asNullable() for schema in schemas)
    return bool(mine.equals(others))


def ran_a_command(df: DataFrame) -> bool:
    """Return whether creating ``df`` has executed a command."""
    execution = execution_of(df)
    # The command may be below the root of the plan, as in WITH … INSERT.
    return not execution.commandExecuted().fastEquals(execution.analyzed())


def bloom_filter(hashes: DataFrame, count: int, false_positives: float) -> bytes:
    """Build a Bloom filter of integers and return it as Spark serializes it.

    Args:
        hashes: A DataFrame with one integer column.
        count: Expected number of distinct values.
        false_positives: Probability of a false positive, between 0 and 1.
    """
    made: ForeignObject = hashes._jdf.stat().bloomFilter(hashes.columns[0], count, false_positives)
    stream = jvm_of(hashes.sparkSession).class_("java.io.ByteArrayOutputStream")()
    made.writeTo(stream)
    return bytes(stream.toByteArray())


def dataframe_of_plan(
    spark: SparkSession, plan: LogicalPlan, clone: JvmSession | None = None
) -> DataFrame:
    """Return a DataFrame of a resolved plan.

    Args:
        spark: The session of the DataFrame.
        plan: The plan, with all names resolved.
        clone: Clone of the JVM session to run the plan with; None for the session itself.
    """
    jvm = jvm_of(spark)
    datasets = jvm.class_(f"{jvm.sql}.Dataset")
    return _dataframe(spark, datasets.ofRows(clone or session_of(spark), plan))


def dataframe_of_relation(spark: SparkSession, relation: BaseRelation) -> DataFrame:
    """Return a DataFrame that reads a ``BaseRelation``."""
    return _dataframe(spark, session_of(spark).baseRelationToDataFrame(relation))


def _dataframe(spark: SparkSession, dataset: Dataset) -> DataFrame:
    return of_jvm(dataset, spark)
