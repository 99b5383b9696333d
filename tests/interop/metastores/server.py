"""Run a Hive metastore by its own main class, with the settings that a test chooses."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_MAIN = "org.apache.hadoop.hive.metastore.HiveMetaStore"
_OPENED = ("java.net", "java.lang", "java.util", "sun.nio.ch", "sun.security.action")
_START_SECONDS = 180


def pyspark_jars() -> Path:
    """Return the directory of PySpark's jars, which contain a metastore of Hive 2.3."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "jars"


@contextmanager
def running(
    jars: Path, directory: Path, settings: Mapping[str, str], hadoop: Mapping[str, str] = {}
) -> Iterator[int]:
    """Start a metastore on a free port, and yield the port.

    Args:
        jars: Directory of the jars.
        directory: Directory for database, warehouse and log. It must exist.
        settings: Settings of the metastore.
        hadoop: Settings of Hadoop, and of Java if they start with ``java.``.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {
        "javax.jdo.option.ConnectionURL": "jdbc:derby:;databaseName=db;create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": str(directory / "warehouse"),
        "metastore.warehouse.dir": str(directory / "warehouse"),
        "hive.metastore.event.db.notification.api.auth": "false",
        **settings,
    }
    for name in ("hive-site", "metastore-site"):
        (directory / f"{name}.xml").write_text(_xml(own))
    (directory / "core-site.xml").write_text(_xml(hadoop))
    java = {
        "derby.system.home": str(directory),
        # The asynchronous logger needs a jar that PySpark does not contain.
        "hive.async.log.enabled": "false",
        **{name: value for name, value in hadoop.items() if name.startswith("java.")},
    }
    command = [
        "java",
        "-Xmx512m",
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
        "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
        *(f"-D{name}={value}" for name, value in java.items()),
        "-classpath",
        f"{directory}:{jars}/*",
        _MAIN,
        "-p",
        str(port),
    ]
    log = directory / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=directory, stdout=out, stderr=out)
    try:
        _wait(process, port, log)
        yield port
    finally:
        process.kill()
        process.wait()


def _xml(settings: Mapping[str, str]) -> str:
    entries = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in settings.items()
    )
    return f"<configuration>{entries}</configuration>"


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < until:
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise RuntimeError(f"the metastore did not start:\n{log.read_text(errors='replace')[-4000:]}")
