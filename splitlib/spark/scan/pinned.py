"""Read explicit files with Spark's internal classes, without listing anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from splitlib.spark.jvm.dataframes import dataframe_of_relation
from splitlib.spark.jvm.pinned_relation import pinned_relation
from splitlib.spark.scan.paths import with_row_index

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from splitlib.spark.file_scan import FileScan


def pinned_scan(spark: SparkSession, scan: FileScan) -> DataFrame:
    """Return the rows of the scan. No file is opened or listed before tasks read it.

    Args:
        spark: A session whose internals are available.
        scan: The files to read.

    Raises:
        RuntimeError: if Spark would read other files than the given ones.
    """
    rows = dataframe_of_relation(spark, pinned_relation(spark, scan))
    return rows if scan.row_index is None else with_row_index(rows, scan.row_index)
