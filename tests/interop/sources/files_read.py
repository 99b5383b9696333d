"""How many files of a table queries have read, by Spark's own metrics of its scans."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tests.support.sql_metrics import counted, last_execution

# The metric of each format's scans.
_FILES = {"delta": "number of files read", "iceberg": "number of result data files"}


@contextmanager
def files_read(spark: SparkSession, format_: str, table: str) -> Iterator[list[int]]:
    """Appends the number of files of a table that the queries inside have read."""
    before, found = last_execution(spark), list[int]()
    yield found
    found.append(counted(spark, table, _FILES[format_], before))
