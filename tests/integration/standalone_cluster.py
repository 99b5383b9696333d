"""A local standalone cluster of two workers, whose executors tests can kill."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

_DEPLOY = "org.apache.spark.deploy"
_HOST = "127.0.0.1"
_DEADLINE = 120.0
"""Maximum time to wait for the cluster, in seconds."""


class Cluster:
    """A running cluster, and a session on it.

    Args:
        spark: Session on the cluster.
        workers: Worker processes. Each is the parent of its executors.
    """

    def __init__(self, spark: SparkSession, workers: list[subprocess.Popen[bytes]]) -> None:
        self.spark = spark
        self._workers = workers

    def wait_for_executors(self) -> None:
        """Wait until both executors are registered."""
        _wait(lambda: len(self._addresses()) == 3)  # The list includes the driver.

    def kill_now(self, number: int) -> None:
        """Kill up to ``number`` executors. Do not wait until Spark detects their loss."""
        pids = [pid for worker in self._workers for pid in _children(worker.pid)]
        for pid in pids[:number]:
            os.kill(pid, signal.SIGKILL)

    def has_tasks(self) -> bool:
        """Return whether any task is running."""
        tracker = self.spark.sparkContext.statusTracker()
        infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return any(info is not None and info.numActiveTasks > 0 for info in infos)

    def _addresses(self) -> set[str]:
        """Return the addresses of the executors and the driver."""
        infos = self.spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
        return {f"{info.host()}:{info.port()}" for info in infos}


@contextmanager
def standalone_cluster(scratch: Path, settings: dict[str, str]) -> Iterator[Cluster]:
    """Start a master, two workers and a session. Stop all of them after the block."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port = probe.getsockname()[1]
    url = f"spark://{_HOST}:{port}"
    with ExitStack() as stack:
        arguments = ["--host", _HOST, "--port", str(port), "--webui-port", "0"]
        _started(stack, scratch / "master.log", f"{_DEPLOY}.master.Master", *arguments)
        _wait(lambda: _listens(port))
        workers = [
            _started(
                stack,
                scratch / f"worker{i}.log",
                f"{_DEPLOY}.worker.Worker",
                *("--host", _HOST, "--webui-port", "0", "--cores", "1", "--memory", "1g"),
                *("--work-dir", str(scratch / f"worker{i}"), url),
            )
            for i in range(2)
        ]
        builder = SparkSession.builder.master(url).appName("splitlib-lost-executors")
        given = {
            "spark.driver.host": _HOST,
            "spark.driver.bindAddress": _HOST,
            "spark.driver.memory": "1g",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.sql.catalogImplementation": "in-memory",
            **settings,
        }
        for name, value in given.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        stack.callback(spark.stop)
        spark.sparkContext.setLogLevel("OFF")
        cluster = Cluster(spark, workers)
        cluster.wait_for_executors()
        yield cluster


def _started(stack: ExitStack, log: Path, class_: str, *arguments: str) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
    process = subprocess.Popen(
        [str(java), "-Xmx256m", "-cp", f"{home}/jars/*", class_, *arguments],
        stdout=stack.enter_context(log.open("wb")),
        stderr=subprocess.STDOUT,
        env={
            **os.environ,
            "SPARK_HOME": str(home),
            # Without this setting, Spark looks for the version in a build directory.
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": _HOST,
        },
    )
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((_HOST, port)) == 0


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


def _wait(until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _DEADLINE
    while not until():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)
