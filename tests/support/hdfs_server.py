"""A single-node HDFS in its own process, started from the jars that ``make interop`` downloads."""

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
    """Run HDFS and yield its address, ``hdfs://host:port``.

    Args:
        jars: Directory with the jars of Hadoop's ``minicluster``. All others come from PySpark.
        directory: Empty directory for the server's files.
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
    """Wait for the settings file that the cluster writes when it is ready. Return its address."""
    for _ in range(_START_SECONDS * 10):
        text = settings.read_text(encoding="utf-8") if settings.exists() else ""
        if found := re.search(r"<name>fs\.defaultFS</name><value>([^<]*)</value>", text):
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.1)
    log = (settings.parent / "log").read_text(encoding="utf-8", errors="replace")
    raise RuntimeError(f"HDFS has not started: {log[-2000:]}")
