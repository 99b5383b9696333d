"""A local S3 server: versitygw if it is installed, otherwise moto."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from obstore.store import S3Store

BUCKET = "lake"
# splitlib masks known secrets in all messages, so these words must not occur in other texts.
KEY, SECRET = "key-of-benchmarks", "secret-of-benchmarks"
_HOST = "127.0.0.1"
_START_SECONDS = 30.0


class Server(NamedTuple):
    """A running server."""

    name: str
    address: str
    """Host and port of the server."""


def storage_options(endpoint: str) -> dict[str, Any]:
    """Return the storage options for splitlib and s3fs."""
    return {"key": KEY, "secret": SECRET, "endpoint_url": endpoint}


def obstore_of(endpoint: str, prefix: str | None = None) -> S3Store:
    """Return an obstore client for the bucket, or for the objects below a prefix."""
    return S3Store(
        BUCKET,
        prefix=prefix,
        endpoint=endpoint,
        region="us-east-1",
        access_key_id=KEY,
        secret_access_key=SECRET,
        client_options={"allow_http": True},
    )


def s3a_settings(endpoint: str, jars: Path) -> dict[str, str]:
    """Return the settings that connect Spark to a store.

    Limits of connections and threads keep Hadoop's defaults, which are far above the number of
    tasks.

    Args:
        endpoint: URL of the store.
        jars: Directory with the jars of Hadoop's S3 client.
    """
    settings = {
        "access.key": KEY,
        "secret.key": SECRET,
        "endpoint": endpoint,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
    }
    return {
        "spark.jars": ",".join(map(str, sorted(jars.glob("*.jar")))),
        **{f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()},
    }


@contextmanager
def running_server(objects: dict[str, bytes], directory: Path, versitygw: str) -> Iterator[Server]:
    """Run an S3 server for the ``with`` block. It has one bucket, with the given objects.

    Args:
        objects: Content by key.
        directory: Directory in which versitygw stores the objects.
        versitygw: Name or path of the program. If it does not exist, moto is used.
    """
    program = shutil.which(versitygw)
    with _versitygw(program, objects, directory) if program else _moto(objects) as server:
        yield server


@contextmanager
def _versitygw(program: str, objects: dict[str, bytes], directory: Path) -> Iterator[Server]:
    bucket = directory / BUCKET
    bucket.mkdir()
    for key, content in objects.items():
        path = bucket / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    address = f"{_HOST}:{_free_port()}"
    environment = {**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
    process = subprocess.Popen(
        [program, "--port", address, "posix", str(directory)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _await(address)
        yield Server("versitygw", address)
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _moto(objects: dict[str, bytes]) -> Iterator[Server]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve_moto, args=(objects, theirs), daemon=True)
    process.start()
    try:
        yield Server("moto", f"{_HOST}:{ours.recv()}")
    finally:
        process.terminate()
        process.join()


def _serve_moto(objects: dict[str, bytes], told: Connection) -> None:
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from moto.s3.models import s3_backends
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log(self, type: str, message: str, *args: Any) -> None:
            """Log nothing, because the proxy counts requests."""

    store = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    store.create_bucket(BUCKET, "us-east-1")
    for key, content in objects.items():
        store.put_object(BUCKET, key, content)
    application = DomainDispatcherApplication(create_backend_app)
    # Keep connections open, as other S3 servers do.
    Quiet.protocol_version = "HTTP/1.1"
    server = make_server(_HOST, 0, application, threaded=True, request_handler=Quiet)
    told.send(server.server_port)
    server.serve_forever()


def _free_port() -> int:
    with closing(socket.socket()) as held:
        held.bind((_HOST, 0))
        port: int = held.getsockname()[1]
        return port


def _await(address: str) -> None:
    host, _, port = address.partition(":")
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            return
