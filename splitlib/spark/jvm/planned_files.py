"""What a source would read for a query, as far as it tells before it does."""

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
# What Iceberg calls them among the metrics of its scans.
_FILES: Final = "resultDataFiles"
_BYTES: Final = "totalDataFileSize"


class PlannedFiles(NamedTuple):
    """What a scan is going to read."""

    files: int | None = None
    """None = the source does not tell."""
    nbytes: int | None = None
    """None as there."""


def planned_files(catalyst: Catalyst, df: DataFrame) -> PlannedFiles:
    """What the one scan of a query would read if it ran now.

    The scan is planned for that, as it is whenever a query of the kind begins. What goes wrong with
    it then is for the query to say.

    Args:
        catalyst: Of the session.
        df: A table, or the rows of it that meet a condition.
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
    """What a scan has counted while it was planned, by name."""
    leaf.inputPartitions()  # by which it is planned
    # a method that few implement, and that py4j does not find where it is inherited
    report = catalyst.scala.functions.calling(_SCAN, "reportDriverMetrics")
    metrics = catalyst.scala.seq([leaf.scan()]).map(report).head()
    return {str(metric.name()): int(metric.value()) for metric in metrics}
