"""The Spark session that the tests share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from splitlib.testing import HiveMetastore

JVM_ZONE = "America/New_York"
"""Time zone of Spark's JVM. Sessions use it unless a test sets another one."""


@contextmanager
def small_session(metastore: HiveMetastore, scratch: Path) -> Iterator[SparkSession]:
    """Run a Spark session for the ``with`` block, with settings for small tables.

    Args:
        metastore: The metastore that holds the tables.
        scratch: Directory for Spark's temporary files.
    """
    # Spark's Python workers use this interpreter and these import paths.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    builder = SparkSession.builder.master("local[2]").appName("splitlib-tests")
    settings = {
        **metastore.spark_conf(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        # A hash table takes at least one page. Spark would choose 16 MB pages for this heap.
        "spark.buffer.pageSize": "256k",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(scratch),
        # Hive's reader uses the time zone of the JVM, and caches it for some types. So the zone
        # must be set when the JVM starts.
        "spark.driver.extraJavaOptions": f"-Duser.timezone={JVM_ZONE} -XX:+UseSerialGC",
        "spark.sql.artifact.isolation.enabled": "false",
        "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
        "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    # Many tests provoke errors and assert them, so the log would be noise.
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()
