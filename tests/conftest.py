"""Settings of all tests; one metastore and one Spark session for those of a process."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from splitlib.testing import HiveMetastore

JVM_ZONE = "America/New_York"
"""Time zone of Spark's JVM, and of its sessions unless a test says otherwise."""

# Machines differ in speed, and shared ones from minute to minute: time proves nothing here.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")


@pytest.fixture(autouse=True)
def planner_bugs() -> Iterator[list[str]]:
    """What the planner has logged as bugs while it left queries to Spark.

    Their rows are right, so that only this fails the test; one that plants a bug takes it out.
    """
    found: list[str] = []

    class Bugs(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(self.format(record))

    handler = Bugs(logging.WARNING)
    logger = logging.getLogger("splitlib.spark.planner.optimize")
    logger.addHandler(handler)
    yield found
    logger.removeHandler(handler)
    assert not found, "\n".join(found)


@pytest.fixture(scope="session")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveMetastore]:
    """A metastore that all tests of the process share; each makes tables of its own."""
    with HiveMetastore(tmp_path_factory.mktemp("metastore")) as running:
        yield running


@pytest.fixture(scope="session")
def spark(
    metastore: HiveMetastore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """A session on that metastore; settings that a test changes, it changes back."""
    scratch: Path = tmp_path_factory.mktemp("spark")
    # the interpreter of Spark's Python workers, and where it finds what is not installed
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    builder = SparkSession.builder.master("local[2]").appName("splitlib-tests")
    settings = {
        **metastore.spark_conf(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        # a hash table takes at least one page, of 16 MB if Spark sizes it by this heap
        "spark.buffer.pageSize": "256k",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(scratch),
        # Hive's reader goes by the zone of the JVM, and keeps the first it sees for some types
        "spark.driver.extraJavaOptions": f"-Duser.timezone={JVM_ZONE} -XX:+UseSerialGC",
        "spark.sql.artifact.isolation.enabled": "false",
        "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
        "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")  # many tests provoke errors, and assert them
    yield session
    session.stop()
