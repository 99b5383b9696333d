"""Find out how many files and bytes a query would read, without running it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import pyarrow.compute as pc
from pyspark.sql import DataFrame

from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.scala import each

_FILE_SCAN: Final = "org.apache.spark.sql.execution.FileSourceScanExec"
_TABLE_SCAN: Final = "org.apache.spark.sql.execution.datasources.v2.BatchScanExec"
_SCAN: Final = "org.apache.spark.sql.connector.read.Scan"
# Names of metrics of Iceberg's scans.
_FILES: Final = "resultDataFiles"
_BYTES: Final = "totalDataFileSize"


class PlannedFiles(NamedTuple):
    """Number and size of the files that a scan will read."""

    files: int | None = None
    """Number of files; None if the source does not report it."""
    nbytes: int | None = None
    """Total size in bytes; None if the source does not report it."""


def planned_files(catalyst: Catalyst, df: DataFrame) -> PlannedFiles:
    """Return the files that a query with one scan would read now.

    Spark plans the scan for this, as at the start of each query. If planning fails, the result is
    empty: the query itself will raise the error.

    Args:
        catalyst: The plans of the session.
        df: A table, or a filter on a table.
    """
    try:
        return _planned_files(catalyst, df)
    except JVM_ERRORS:
        return PlannedFiles()


def _planned_files(catalyst: Catalyst, df: DataFrame) -> PlannedFiles:
    execution = df._jdf.queryExecution()
    leaves = list(each(execution.sparkPlan().collectLeaves()))
    if len(leaves) != 1:
        return PlannedFiles()
    jvm, leaf = catalyst.scala.jvm, leaves[0]
    if jvm.is_a(leaf, _FILE_SCAN):
        index = leaf.relation().location()
        directories = index.listFiles(leaf.partitionFilters(), leaf.dataFilters())
        found = catalyst.files_of(directories).files
        return PlannedFiles(found.num_rows, pc.sum(found["size"]).as_py() or 0)
    told = _metrics(catalyst, leaf) if jvm.is_a(leaf, _TABLE_SCAN) else {}
    nbytes = told.get(_BYTES)
    if nbytes is None:
        size = catalyst.size_of(execution.optimizedPlan())
        nbytes = None if size >= catalyst.unknown_size() else size
    return PlannedFiles(told.get(_FILES), nbytes)


def _metrics(catalyst: Catalyst, leaf: Any) -> dict[str, int]:
    """Plan a scan and return its driver metrics, by name."""
    leaf.inputPartitions()  # makes the source plan the scan
    # Called by reflection, since py4j does not find the interface's default method.
    report = catalyst.scala.functions.calling(_SCAN, "reportDriverMetrics")
    metrics = catalyst.scala.seq([leaf.scan()]).map(report).head()
    return {str(metric.name()): int(metric.value()) for metric in metrics}
