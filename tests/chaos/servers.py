"""A real object store: SeaweedFS, which is installed from a wheel.

A mock such as moto would be a slow Python process. Its connections, chunks and timing differ from
those of a real store.
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
    """An S3 server that stores its data in a directory. Its ports stay the same after a restart.

    Args:
        directory: Directory of the server's data.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        names = [f"{service}.{kind}" for service in _SERVICES for kind in ("port", "port.grpc")]
        self._ports = dict(zip(names, _free_ports(len(names)), strict=True))

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the S3 service."""
        return _HOST, self._ports["s3.port"]

    @property
    def endpoint(self) -> str:
        """URL of the S3 service."""
        return endpoint_of(self._at)

    @property
    def _at(self) -> str:
        host, port = self.address
        return f"{host}:{port}"

    def start(self) -> None:
        """Start the server, and return when it answers."""
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
            "master.electionTimeout": "500ms",  # a single master elects itself, so do not wait
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
                start_new_session=True,  # Ctrl-C must not stop the server
            )
        until = time.monotonic() + _START_SECONDS
        while not self._answers():
            if time.monotonic() > until or self._process.poll() is not None:
                raise RuntimeError((self._directory / "log").read_text()[-2000:])
            time.sleep(0.05)

    def upload(self, directory: Path) -> None:
        """Upload a local directory. Its objects have the directory's name as prefix."""
        from s3fs import S3FileSystem

        files = S3FileSystem(**storage_options(self._at))
        files.makedirs(BUCKET, exist_ok=True)
        files.put(f"{directory}/", f"{BUCKET}/{directory.name}/", recursive=True)

    def kill(self) -> None:
        """Kill the server."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(self.endpoint, timeout=1)
        except urllib.error.HTTPError as refusal:  # the store answers 403 without credentials
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
    """Return the URL of a store, or of a proxy for it, at an address."""
    return f"http://{address}"


def storage_options(address: str) -> dict[str, object]:
    """Return the options with which s3fs connects to an address."""
    return {"key": KEY, "secret": SECRET, "endpoint_url": endpoint_of(address)}


def _binary() -> str:
    # The wheel installs the binary next to the interpreter. That directory may be missing in PATH.
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
