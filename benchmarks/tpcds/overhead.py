"""Measure splitlib's planning time for queries in which nothing can be pruned."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

import splitlib
from benchmarks.tpcds.explained import is_pruned, reasons_not_to_prune

_TIMES = 7
QUERIES = {
    "no join": "SELECT count(*) FROM store_sales",
    "no partitioned table": (
        "SELECT ca_state, count(*) FROM customer JOIN customer_address "
        "ON c_current_addr_sk = ca_address_sk GROUP BY ca_state"
    ),
    "a join on no partition column": (
        "SELECT i_category, sum(ss_net_paid) FROM store_sales JOIN item ON ss_item_sk = i_item_sk "
        "WHERE i_manager_id < 10 GROUP BY i_category"
    ),
    "days without a condition": (
        "SELECT d_year, sum(ss_net_paid) FROM store_sales JOIN date_dim "
        "ON ss_sold_date_sk = d_date_sk GROUP BY d_year"
    ),
}


@dataclass(frozen=True, slots=True)
class Overhead:
    """The planning time that splitlib adds to one query."""

    title: str
    seconds: Sequence[float]
    """Planning time with splitlib minus planning time with Spark, for each repetition."""
    reasons: tuple[str, ...]

    @property
    def median(self) -> float:
        """Median in seconds, without the first two repetitions (the JVM still loads classes)."""
        return statistics.median(self.seconds[2:])


def measure_overhead(spark: SparkSession) -> list[Overhead]:
    """Measure each query, on tables of the session's current database.

    Raises:
        RuntimeError: splitlib pruned a scan.
    """
    return [_measure(spark, title, query) for title, query in QUERIES.items()]


def _measure(spark: SparkSession, title: str, query: str) -> Overhead:
    seconds = []
    for _ in range(_TIMES):
        started = time.perf_counter()
        spark.sql(query)
        plain = time.perf_counter()
        planned = splitlib.sql(spark, query)
        seconds.append(time.perf_counter() - plain - (plain - started))
    report = splitlib.explain(planned)
    if is_pruned(report):
        raise RuntimeError(f"{title}: {report}")
    overhead = Overhead(title, seconds, reasons_not_to_prune(report))
    print(f"{title}: {overhead.median:.3f} s of planning", file=sys.stderr)
    return overhead
