"""``splitlib.analyze``: learn the statistics of a table that a session reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyspark.sql import SparkSession

from splitlib.config import SplitConfig
from splitlib.enumeration.analyze import Analysis, analyze_table
from splitlib.registry import open_table
from splitlib.spark.session import settings_of


def analyze(
    spark: SparkSession,
    table: str,
    columns: Iterable[str] | None = None,
    *,
    connector: str | None = None,
    progress: Callable[[Analysis], object] = lambda so_far: None,
    **options: Any,
) -> Analysis:
    """Read the footers of all Parquet files of a table, and keep least and greatest values.

    Later queries of this process drop files and row groups by them at once. With the setting
    ``statistics_location``, other processes do so too. Nothing depends on it but the speed: new and
    changed files are read when a query needs them. The driver reads the footers, with
    ``listing_threads`` threads.

    Args:
        spark: The session.
        table: Name of the table, as for :func:`splitlib.load_table`.
        columns: Names of columns; by default all columns with statistics that can be trusted.
        connector: Name of the connector; by default the session's own catalog.
        progress: Function that is called with the counts so far.
        options: Options of the connector.

    Raises:
        UnsupportedTable: if statistics of the table, or of a given column, cannot be learned.
        InvalidFilter: if a column does not exist.
        SplitlibError: see :mod:`splitlib.errors`.
    """
    settings = settings_of(spark)
    config = SplitConfig.resolve(spark_conf=settings)
    with open_table(
        table, connector, spark=spark, spark_conf=settings, config=config, **options
    ) as opened:
        return analyze_table(opened, columns, (), config, progress)
