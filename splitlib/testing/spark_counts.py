"""What Spark fetched, listed and read for one query.

Spark's UI stops its clock before files are listed, so the numbers come from where they are made:
partitions and files found from the counters of Spark's catalog client, files read from the metrics
of the scans in the plan that ran.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_SCAN = "FileSourceScanExec"


@dataclass(frozen=True, slots=True)
class QueryCounts:
    """One query: what it took, and what came out.

    Attributes:
        partitions_fetched: Partitions whose details Spark took from the metastore.
        files_discovered: Files that Spark found by listing directories, of partitioned and of other
            tables.
        files_read: Files that the scans of partitioned tables had to open.
        bytes_read: Size of these files; of a columnar file no more than the columns in use are
            read.
        seconds: From before the query is built to its last row.
        result: The rows.
    """

    partitions_fetched: int
    files_discovered: int
    files_read: int
    bytes_read: int
    seconds: float
    result: list[Row]


def measure(spark: SparkSession, query: Callable[[], DataFrame]) -> QueryCounts:
    """Build a query, run it, and count.

    The counters are the JVM's, so nothing else may query at the same time. Cold numbers need
    ``spark.catalog.refreshTable`` before, because Spark remembers listings.

    Args:
        spark: A classic session; Spark Connect shows neither counters nor plans.
        query: Makes the DataFrame whose rows are collected. What it does itself (such as a key
            collection) is in the seconds and the catalog's counters, not in the files read.
    """
    jvm: Any = spark._jvm
    catalog = jvm.org.apache.spark.metrics.source.HiveCatalogMetrics
    catalog.reset()
    started = time.perf_counter()
    df = query()
    result = df.collect()
    seconds = time.perf_counter() - started
    # not df.count(): that plans a query of its own, and this one's metrics would stay empty
    scans = [scan for scan in _scans(df) if scan.relation().partitionSchema().nonEmpty()]
    return QueryCounts(
        partitions_fetched=int(catalog.METRIC_PARTITIONS_FETCHED().getCount()),
        files_discovered=int(catalog.METRIC_FILES_DISCOVERED().getCount()),
        files_read=sum(_metric(scan, "numFiles") for scan in scans),
        bytes_read=sum(_metric(scan, "filesSize") for scan in scans),
        seconds=seconds,
        result=result,
    )


def _scans(df: DataFrame) -> list[Any]:
    """The file scans of the plan that ran, each once however often its rows were used."""
    root = df._jdf.queryExecution().executedPlan()
    return list({n.id(): n for n in _nodes(root) if n.getClass().getSimpleName() == _SCAN}.values())


def _nodes(plan: Any) -> Iterator[Any]:
    """The plan's operators, through the stages of adaptive execution, with their subqueries."""
    yield plan
    name = plan.getClass().getSimpleName()
    if name == "AdaptiveSparkPlanExec":
        yield from _nodes(plan.executedPlan())
    elif name.endswith("QueryStageExec"):
        yield from _nodes(plan.plan())
    for below in (plan.children(), plan.subqueries()):
        for i in range(below.size()):
            yield from _nodes(below.apply(i))


def _metric(scan: Any, name: str) -> int:
    return int(scan.metrics().apply(name).value())
