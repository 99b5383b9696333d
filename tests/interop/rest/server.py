"""A REST catalog: the server of Iceberg's own tests, with the database of a SQL catalog."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

_STARTS_WITHIN_SECONDS = 60
_SERVER = "org.apache.iceberg.rest.RESTCatalogServer"


@contextmanager
def rest_catalog(jars: Path, database: Path, catalog: str, log: Path) -> Iterator[str]:
    """Serve a SQLite catalog over REST for the ``with`` block, and yield the server's URL.

    Args:
        jars: Directory with the jars of the server and its dependencies.
        database: Path of the catalog's database.
        catalog: Name of the catalog in the database.
        log: Path of the server's log.
    """
    port = _free_port()
    # The server needs Hadoop's configuration classes. Spark's jars contain them.
    classpath = f"{jars}/*:{Path(pyspark.__file__).parent}/jars/*"
    environment = {
        **os.environ,
        "CATALOG_REST_PORT": str(port),
        "CATALOG_CATALOG_NAME": catalog,
        "CATALOG_URI": f"jdbc:sqlite:{database}",
        "CATALOG_WAREHOUSE": database.parent.as_uri(),
    }
    command = ["java", "-Xmx256m", "-cp", classpath, _SERVER]
    with log.open("w") as output:
        server = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        _await(server, port, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


def _await(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _STARTS_WITHIN_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"The REST catalog does not start:\n{log.read_text()[-2000:]}")
