"""One metastore and one Spark session for all integration tests of a process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from splitlib.testing import HiveMetastore

JVM_ZONE = "America/New_York"
"""Time zone of Spark's JVM, and of its sessions unless a test says otherwise."""


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
    builder = SparkSession.builder.master("local[2]").appName("splitlib-tests")
    settings = {
        **metastore.spark_conf(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(scratch),
        # Hive's reader goes by the zone of the JVM, and keeps the first it sees for some types
        "spark.driver.extraJavaOptions": f"-Duser.timezone={JVM_ZONE}",
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
