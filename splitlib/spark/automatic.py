"""``splitlib.sql`` and ``splitlib.optimize``: joins found and pruned, nothing wired by hand."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from splitlib.spark.explained import remember
from splitlib.spark.planner.named_tables import named_tables
from splitlib.spark.planner.optimize import plan


def optimize(df: DataFrame) -> DataFrame:
    """The same rows, read from fewer partitions where joins of ``df`` allow it.

    The keys of the dimensions are collected now, and the partitions that they need are listed; see
    :func:`splitlib.explain` for what was pruned, and why something was not. Where nothing can be
    pruned ``df`` itself is returned. Nothing is raised that plain Spark would not raise.
    """
    planned, report = plan(df)
    remember(planned, report)
    return planned


def sql(spark: SparkSession, query: str, *args: Any, **kwargs: Any) -> DataFrame:
    """``spark.sql(query, …)``, and :func:`optimize` on what it returns.

    A table may also be one of a named splitlib catalog: ``lake.db.t`` where
    ``spark.splitlib.catalog.lake.*`` says what ``lake`` is, and Spark has no catalog of that name.

    Raises:
        SplitlibError: if such a table cannot be read.
    """
    with named_tables(spark, query) as (text, tables):
        df = spark.sql(text, *args, **kwargs)
    planned, report = plan(df, tables)
    remember(planned, report)
    return planned
