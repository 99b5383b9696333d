"""Fixtures of the integration tests."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.protocol import MEMORY_COMMAND_NAME
from pyspark.sql import SparkSession

from splitlib.testing import HiveMetastore
from tests.support.hive_tables import way_of

SHORT_LIVED_JAVA = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Environment variables that make short-lived JVMs start faster, with less compilation."""


@pytest.fixture(params=["hive", "session"])
def way(request: pytest.FixtureRequest, metastore: HiveMetastore) -> dict[str, str]:
    """Options for opening a metastore table with the ``hive`` or the ``session`` connector."""
    found: dict[str, str] = way_of(metastore, request.param)
    return found


@pytest.fixture
def jvm_calls(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list of the calls into the JVM by all threads. It grows with each call."""
    gateway: Any = spark.sparkContext._gateway
    client = gateway._gateway_client
    calls: list[str] = []
    send = client.send_command

    def counted(command: str, *args: Any, **kwargs: Any) -> Any:
        # Do not count memory commands: garbage collection sends them at any time.
        if not command.startswith(MEMORY_COMMAND_NAME):
            calls.append(command)
        return send(command, *args, **kwargs)

    monkeypatch.setattr(client, "send_command", counted)
    return calls


@pytest.fixture
def over_connect(tmp_path: Path) -> Callable[..., None]:
    """Return a function that runs a script with a session of a new Spark Connect server."""
    if not any((Path(pyspark.__file__).parent / "jars").glob("spark-connect_*.jar")):
        pytest.skip("this PySpark has no server of Spark Connect")

    def run(script: str, *arguments: object) -> None:
        path = tmp_path / "over_connect.py"
        path.write_text(textwrap.dedent(_CONNECT) + textwrap.dedent(script) + "\nprint(DONE)\n")
        # The script starts a server of its own. With this process's Spark variables, the script
        # would connect to this process's session instead.
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
        env |= {"PYTHONPATH": os.pathsep.join(sys.path), "PYSPARK_PYTHON": sys.executable}
        # With this variable the server chooses a free port. Otherwise all servers use the same one.
        env |= {"SPARK_TESTING": "1", **SHORT_LIVED_JAVA}
        done = subprocess.run(
            [sys.executable, str(path), *map(str, arguments)],
            capture_output=True,
            text=True,
            env=env,
            cwd=tmp_path,
            check=False,
            timeout=500,
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
