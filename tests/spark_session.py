"""The Spark session of tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from splitlib.testing import HiveMetastore

JVM_ZONE = "America/New_York"
"""Time zone of Spark's JVM, and of its sessions unless a test says otherwise."""


@contextmanager
def small_session(metastore: HiveMetastore, scratch: Path) -> Iterator[SparkSession]:
    """A session on a metastore, for little data; stopped afterwards.

    Args:
        metastore: With the tables.
        scratch: Where it keeps its temporary files.
    """
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
    try:
        yield session
    finally:
        session.stop()
