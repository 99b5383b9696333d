"""Count the partitions that Spark fetches, and the files that it lists and reads, for one query.

The numbers of partitions and files found come from counters in Spark's catalog client. The number
of files read comes from scan metrics in the executed plan. The time includes listing files, which
Spark's UI leaves out.
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
    """Counts and result of one query.

    Attributes:
        partitions_fetched: Number of partitions whose details Spark fetched from the metastore.
        files_discovered: Number of files that Spark found by listing directories, for all tables.
        files_read: Number of files that the scans of partitioned tables opened.
        bytes_read: Total size of these files, in bytes. In columnar files, Spark reads only the
            columns that it uses.
        seconds: Time to build the query and fetch its last row, in seconds.
        result: Rows that the query returned.
    """

    partitions_fetched: int
    files_discovered: int
    files_read: int
    bytes_read: int
    seconds: float
    result: list[Row]


def measure(spark: SparkSession, query: Callable[[], DataFrame]) -> QueryCounts:
    """Build and run a query, and return its counts and result.

    The counters belong to the JVM, so no other query may run at the same time. Spark caches
    listings. To measure without cached listings, call ``spark.catalog.refreshTable`` first.

    Args:
        spark: A classic session. Spark Connect provides neither counters nor plans.
        query: Function that returns the DataFrame to collect. Queries that the function itself
            runs, such as one for join keys, are included in ``seconds``, ``partitions_fetched`` and
            ``files_discovered``, but not in ``files_read``.
    """
    jvm: Any = spark._jvm
    catalog = jvm.org.apache.spark.metrics.source.HiveCatalogMetrics
    catalog.reset()
    started = time.perf_counter()
    df = query()
    result = df.collect()
    seconds = time.perf_counter() - started
    # Use collect(), because df.count() would run another plan and leave this plan's metrics empty.
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
    """Return the file scan nodes in the executed plan. A reused scan is returned only once."""
    root = df._jdf.queryExecution().executedPlan()
    return list({n.id(): n for n in _nodes(root) if n.getClass().getSimpleName() == _SCAN}.values())


def _nodes(plan: Any) -> Iterator[Any]:
    """Yield all operators of a plan, including those in adaptive query stages and subqueries."""
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
