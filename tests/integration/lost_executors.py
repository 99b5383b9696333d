"""A program that kills Spark executors between and during queries of splitlib.

``python -m tests.integration.lost_executors DIRECTORY`` prints as JSON whether each step gave the
expected rows. ``test_lost_executors.py`` runs it.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import splitlib
from splitlib.spark import dimension
from tests.integration.standalone_cluster import Cluster, standalone_cluster

# This subquery returns random rows. It sleeps, so that executors can be killed while it runs.
_SOME_DAYS = """(SELECT k FROM days
  WHERE rand() < 0.9 AND
    length(coalesce(java_method('java.lang.Thread', 'sleep', 100L), 'x')) > 0)"""
_QUERY = f"SELECT f.v FROM facts f JOIN {_SOME_DAYS} d ON f.p = d.k"


def outcomes(cluster: Cluster, scratch: Path) -> dict[str, bool]:
    """Run all steps. Return, by the name of each step, whether it gave the expected rows."""
    spark = cluster.spark
    spark.sql(
        "CREATE TABLE facts USING parquet PARTITIONED BY (p) AS "
        "SELECT id AS v, CAST(id % 12 AS int) AS p FROM range(240)"
    )
    days = spark.range(12).select(F.col("id").cast("int").alias("k")).repartition(2)
    days.write.saveAsTable("days")
    spark.sql("CREATE TABLE copies (v bigint) USING parquet")

    def frozen() -> DataFrame:
        return splitlib.freeze(spark.table("days").withColumn("r", F.rand()).repartition(2))

    rows = frozen()
    planned = splitlib.sql(spark, _QUERY)
    before = (_rows(rows), _rows(planned))
    cluster.kill_now(2)
    found = {"between": (_rows(rows), _rows(planned)) == before, "pruned": _is_pruned(planned)}

    planned = _while_killing(cluster, lambda: splitlib.sql(spark, _QUERY))
    found["while planning"] = _rows(planned) == _rows(planned)
    _while_killing(cluster, lambda: splitlib.sql(spark, f"INSERT INTO copies {_QUERY}"))
    written = [row.v for row in spark.table("copies").collect()]
    by_day = {v % 12 for v in written}
    found["once"] = 0 < len(written) == len(set(written)) == 20 * len(by_day)
    cluster.wait_for_executors()

    dimension.DRIVER_BYTES = -1  # type: ignore[misc]  # simulate rows over the limit
    rows = frozen()
    before_one = _rows(rows)
    cluster.kill_now(1)
    found["one of two"] = _rows(rows) == before_one
    spark.sparkContext.setCheckpointDir(str(scratch / "checkpoints"))
    rows = frozen()
    before_both = _rows(rows)
    cluster.kill_now(2)
    found["checkpoint directory"] = _rows(rows) == before_both
    return found


def _rows(df: DataFrame) -> list[str]:
    return sorted(map(str, df.collect()))


def _is_pruned(planned: DataFrame) -> bool:
    return "partitions" in str(splitlib.explain(planned))


def _while_killing(cluster: Cluster, step: Callable[[], DataFrame]) -> DataFrame:
    """Run ``step`` and return its result. Kill all executors as soon as one of its tasks runs."""
    done = threading.Event()

    def kill() -> None:
        while not cluster.has_tasks():
            if done.wait(0.01):
                return
        cluster.kill_now(2)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        return step()
    finally:
        done.set()
        killer.join()


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    with standalone_cluster(directory, {}) as running:
        print(json.dumps(outcomes(running, directory)))
