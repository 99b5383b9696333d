"""A Spark session on the metastore, on all cores of the machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark.sql import SparkSession


@contextlib.contextmanager
def spark_session(
    directory: Path, settings: Mapping[str, str], slots: int | None = None
) -> Iterator[SparkSession]:
    """A session as users have it but for the web interface; the process's only one.

    Args:
        directory: For what it keeps.
        settings: Of its own.
        slots: Tasks at once, by default as many as there are cores.
    """
    builder = SparkSession.builder.master(f"local[{slots or '*'}]").appName("splitlib-benchmarks")
    common = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.local.dir": str(directory / "spark"),
        # otherwise a session makes a directory in the working directory
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
