"""Spark as a contender. It lists the directories of a table in a job."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.cpu import cpu_seconds_of
from benchmarks.object_store.peers import Peer
from benchmarks.object_store.servers import BUCKET, s3a_settings
from benchmarks.session import spark_session
from benchmarks.tpcds.modes import LISTING_TASKS


@contextmanager
def spark_peers(endpoint: str, jars: Path, slots: int) -> Iterator[tuple[Peer, ...]]:
    """Yield Spark with default settings, and Spark with as many concurrent listings as splitlib.

    Args:
        endpoint: URL of the store.
        jars: Directory with the jars of Hadoop's S3 client.
        slots: Number of concurrent tasks.
    """
    with tempfile.TemporaryDirectory(prefix="splitlib-s3-spark-") as scratch:
        settings = s3a_settings(endpoint, jars)
        with spark_session(Path(scratch), settings, slots) as spark:
            yield (
                _peer(spark, "Spark as shipped", None),
                _peer(spark, f"Spark, {slots} listings at once", slots),
            )


def _peer(spark: SparkSession, name: str, listing_tasks: int | None) -> Peer:
    def prepare(_: str, matching: Sequence[int]) -> Callable[[], int]:
        if listing_tasks is None:
            spark.conf.unset(LISTING_TASKS)
        else:
            spark.conf.set(LISTING_TASKS, listing_tasks)
        wanted = F.col("k").isin(*matching)

        def run() -> int:
            table = spark.read.schema("a long, k int").parquet(f"s3a://{BUCKET}/t").where(wanted)
            scan: Any = table._jdf.queryExecution().sparkPlan().collectLeaves().head()
            return int(scan.selectedPartitions().totalNumberOfFiles())

        return run

    gateway: Any = spark.sparkContext._gateway
    jvm = gateway.proc.pid

    def cpu_seconds() -> float:
        return time.process_time() + cpu_seconds_of(jvm)

    return Peer(name, "the files of a planned scan", prepare, cpu_seconds=cpu_seconds)
