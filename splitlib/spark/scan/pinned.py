"""Reading explicit files through Spark's own classes, without listing anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from splitlib.spark.jvm.pinned_relation import pinned_relation
from splitlib.spark.scan.paths import with_row_index

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from splitlib.spark.file_scan import FileScan


def pinned_scan(spark: SparkSession, scan: FileScan) -> DataFrame:
    """Return the rows of the scan. No file is opened, listed or stat'ed before tasks read it.

    Args:
        spark: A session whose internals are available.
        scan: What to read.

    Raises:
        RuntimeError: Spark did not take the files as given.
    """
    relation = pinned_relation(spark, scan)
    # not there where only a Connect client is installed
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    rows = ClassicDataFrame(spark._jsparkSession.baseRelationToDataFrame(relation), spark)
    return rows if scan.row_index is None else with_row_index(rows, scan.row_index)
