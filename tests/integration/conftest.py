"""One metastore and one Spark session for all integration tests of a process."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from splitlib.testing import HiveMetastore

JVM_ZONE = "America/New_York"
"""Time zone of Spark's JVM, and of its sessions unless a test says otherwise."""

SHORT_LIVED_JAVA = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""The environment of JVMs that end before well compiled code would pay."""


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


@pytest.fixture
def over_connect(tmp_path: Path) -> Callable[..., None]:
    """Runs a script with arguments; its session is that of a Spark Connect server of its own."""

    def run(script: str, *arguments: object) -> None:
        path = tmp_path / "over_connect.py"
        path.write_text(textwrap.dedent(_CONNECT) + textwrap.dedent(script) + "\nprint(DONE)\n")
        # the server is started by the script, with no session of this process in its environment
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
        env |= {"PYTHONPATH": os.pathsep.join(sys.path), "PYSPARK_PYTHON": sys.executable}
        env |= SHORT_LIVED_JAVA
        with open(Path(tempfile.gettempdir()) / "splitlib-tests-connect.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # every server listens at the same port
            done = subprocess.run(
                [sys.executable, str(path), *map(str, arguments)],
                capture_output=True,
                text=True,
                env=env,
                cwd=tmp_path,
                check=False,
                timeout=300,
            )
        assert "all of it ran" in done.stdout, done.stderr[-3000:]

    return run


_CONNECT = """
    import atexit
    import sys
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    atexit.register(spark.stop)  # the server would outlive a failed assertion
    assert not hasattr(spark, "_jsparkSession")
    DONE = "all of it ran"
"""
