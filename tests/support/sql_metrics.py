"""SQL metrics of executed queries, such as rows and files read, from Spark's status store."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyspark.sql import DataFrame, Row, SparkSession

from splitlib.spark.jvm.scala import each


def last_execution(spark: SparkSession) -> int:
    """Return the id of the last query that the session ran; -1 if there was none."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    store = spark._jsparkSession.sharedState().statusStore()
    return max((int(each_.executionId()) for each_ in each(store.executionsList())), default=-1)


def counted(spark: SparkSession, node: str, metric: str, after: int) -> int:
    """Return the sum of a metric over the matching plan nodes of all queries after one.

    Args:
        spark: The session that ran the queries.
        node: Text in the name of the plan node, such as ``Scan parquet``.
        metric: Name of the metric, such as ``number of files read``.
        after: Id of a query. Only later queries count.
    """
    return sum(_values(spark, node, metric, after))


def collected(df: DataFrame, node: str, metric: str) -> tuple[list[Row], int]:
    """Collect a DataFrame. Return its rows and one metric of the query."""
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
                    # Some metrics have a second line: the total, then minimum, median and maximum
                    # per task.
                    (number_of,) = re.findall(r"^[\d,]+", str(text.get()).splitlines()[-1])[:1]
                    yield int(number_of.replace(",", ""))
