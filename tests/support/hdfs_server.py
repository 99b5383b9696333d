"""A HDFS of one node in a process of its own, made of the jars of ``make interop``."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

_MANAGER = "org.apache.hadoop.test.MiniDFSClusterManager"
_START_SECONDS = 120


@contextmanager
def running_hdfs(jars: Path, directory: Path) -> Iterator[str]:
    """``hdfs://host:port``, while it runs.

    Args:
        jars: A directory of Hadoop's ``minicluster``; the rest is PySpark's.
        directory: For its files; empty.
    """
    pyspark_jars = Path(pyspark.__file__).parent / "jars"
    settings = directory / "settings.xml"
    command = ["java", "-Xmx512m", "-cp", f"{jars}/*:{pyspark_jars}/*", _MANAGER, "-format"]
    command += ["-datanodes", "1", "-writeConfig", str(settings)]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=directory, stdout=log, stderr=log)
    try:
        yield _address(process, settings)
    finally:
        process.terminate()
        process.wait()


def _address(process: subprocess.Popen[bytes], settings: Path) -> str:
    """What the cluster writes once it is there."""
    for _ in range(_START_SECONDS * 10):
        text = settings.read_text(encoding="utf-8") if settings.exists() else ""
        if found := re.search(r"<name>fs\.defaultFS</name><value>([^<]*)</value>", text):
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.1)
    log = (settings.parent / "log").read_text(encoding="utf-8", errors="replace")
    raise RuntimeError(f"HDFS has not started: {log[-2000:]}")
