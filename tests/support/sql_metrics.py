"""What Spark counted while it ran a query: rows, files, as its own status store has it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyspark.sql import DataFrame, Row, SparkSession

from splitlib.spark.jvm.scala import each


def last_execution(spark: SparkSession) -> int:
    """The number of the last query that the session has run; -1 = none yet."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    store = spark._jsparkSession.sharedState().statusStore()
    return max((int(each_.executionId()) for each_ in each(store.executionsList())), default=-1)


def counted(spark: SparkSession, node: str, metric: str, after: int) -> int:
    """The sum of a metric over the nodes of a kind in all queries run since.

    Args:
        spark: The session.
        node: Found in the names of the nodes of a plan, such as ``Scan parquet``.
        metric: Its name, such as ``number of files read``.
        after: Number of the last query that does not count.
    """
    return sum(_values(spark, node, metric, after))


def collected(df: DataFrame, node: str, metric: str) -> tuple[list[Row], int]:
    """The rows of a query, and a metric of it."""
    spark = df.sparkSession
    before = last_execution(spark)
    rows = df.collect()
    return rows, counted(spark, node, metric, before)


def _values(spark: SparkSession, node: str, metric: str, after: int) -> Iterator[int]:
    last = last_execution(spark)
    store = spark._jsparkSession.sharedState().statusStore()
    for number in range(after + 1, last + 1):
        values = store.executionMetrics(number)
        for part in each(store.planGraph(number).allNodes()):
            if node not in str(part.name()):
                continue
            for known in each(part.metrics()):
                text = values.get(known.accumulatorId())
                if str(known.name()) == metric and text.isDefined():
                    # perhaps with the least, median and most of its tasks in a second line
                    (number_of,) = re.findall(r"^[\d,]+", str(text.get()).splitlines()[-1])[:1]
                    yield int(number_of.replace(",", ""))
