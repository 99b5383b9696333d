"""The Spark session of the benchmarks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark.sql import SparkSession


@contextlib.contextmanager
def spark_session(
    directory: Path, settings: Mapping[str, str], slots: int | None = None
) -> Iterator[SparkSession]:
    """Run the process's only Spark session, with default settings but no web interface.

    Args:
        directory: Directory of the warehouse and of Spark's temporary files.
        settings: Further settings of the session.
        slots: Number of concurrent tasks. None: one for each core.
    """
    builder = SparkSession.builder.master(f"local[{slots or '*'}]").appName("splitlib-benchmarks")
    common = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.local.dir": str(directory / "spark"),
        # If true, Spark creates a directory in the working directory.
        "spark.sql.artifact.isolation.enabled": "false",
    }
    for key, value in {**common, **settings}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()
