"""Count the files that queries read from a table, with the SQL metrics of Spark's scans."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tests.support.sql_metrics import counted, last_execution

# Name of the metric for the number of files in the scans of each format.
_FILES = {"delta": "number of files read", "iceberg": "number of result data files"}


@contextmanager
def files_read(spark: SparkSession, format_: str, table: str) -> Iterator[list[int]]:
    """Yield a list. After the block, it contains the number of files that queries in it read."""
    before, found = last_execution(spark), list[int]()
    yield found
    found.append(counted(spark, table, _FILES[format_], before))
