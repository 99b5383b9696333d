"""A Spark session on the metastore, on all cores of the machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark.sql import SparkSession


@contextlib.contextmanager
def spark_session(directory: Path, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session as users have it but for the web interface; the process's only one."""
    builder = SparkSession.builder.master("local[*]").appName("splitlib-benchmarks")
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
