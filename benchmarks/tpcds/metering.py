"""Costs of a query, read from the status store of Spark's web interface.

No listener is needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one query, from planning to the last row, including jobs that ran to plan it."""

    seconds: float
    cpu_seconds: float
    """CPU time of tasks that list files, collect keys or run the query, in seconds."""
    bytes_read: int
    """Number of bytes that tasks read from files."""
    partitions_fetched: int
    """Number of partitions whose details Spark loaded from the metastore."""
    files_discovered: int
    """Number of files that Spark found by listing directories."""


class Meter:
    """Measures one query at a time. Nothing else may run in the session meanwhile."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._context: Any = spark.sparkContext._jsc.sc()
        self._catalog = jvm.org.apache.spark.metrics.source.HiveCatalogMetrics
        # These arguments of stageList select stages of any status, without details and quantiles.
        nothing = jvm.java.util.ArrayList()
        gateway: Any = spark.sparkContext._gateway
        quantiles = gateway.new_array(jvm.double, 0)
        self._filter = (nothing, False, False, quantiles, nothing)

    def measure(self, query: Callable[[], DataFrame]) -> tuple[Cost, DataFrame, list[Row]]:
        """Build and run a query, and return its cost, its DataFrame and its rows."""
        known = {int(stage.stageId()) for stage in self._stages()}
        self._catalog.reset()
        started = time.perf_counter()
        df = query()
        rows = df.collect()
        seconds = time.perf_counter() - started
        new = [stage for stage in self._stages() if int(stage.stageId()) not in known]
        return (
            Cost(
                seconds=seconds,
                cpu_seconds=sum(int(stage.executorCpuTime()) for stage in new) / 1e9,
                bytes_read=sum(int(stage.inputBytes()) for stage in new),
                partitions_fetched=int(self._catalog.METRIC_PARTITIONS_FETCHED().getCount()),
                files_discovered=int(self._catalog.METRIC_FILES_DISCOVERED().getCount()),
            ),
            df,
            rows,
        )

    def _stages(self) -> list[Any]:
        # Spark's events arrive some time after the work they describe.
        self._context.listenerBus().waitUntilEmpty()
        found = self._context.statusStore().stageList(*self._filter)
        return [found.apply(i) for i in range(found.size())]
