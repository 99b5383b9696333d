"""An in-process S3 server that records its requests."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

_HOST = "127.0.0.1"
# splitlib masks known secrets in all later messages, so other tests must not use these values.
_KEY = "key-of-the-tests"
_SECRET = "secret-of-the-tests"


class S3Server:
    """A moto server that counts its requests."""

    def __init__(self) -> None:
        self._application = DomainDispatcherApplication(create_backend_app)
        self._server = make_server(
            _HOST, 0, self._answer, threaded=True, request_handler=_QuietHandler
        )
        self._lock = threading.Lock()
        self.listings: list[dict[str, str]] = []
        """Query parameters and bucket of each listing request, in the order of arrival."""
        self.others = 0
        """Number of requests that are not listings."""
        self.keys: list[str] = []
        """Access key or token of each request; ``""`` for an unsigned request."""
        self.filled_at = 0.0
        """Time when ``fill`` last stored objects, in seconds since the epoch."""

    @property
    def endpoint(self) -> str:
        """URL of the server."""
        return f"http://{_HOST}:{self._server.server_port}"

    @property
    def options(self) -> dict[str, Any]:
        """Options with which s3fs connects to this server."""
        return {"key": _KEY, "secret": _SECRET, "endpoint_url": self.endpoint}

    def fill(self, bucket: str, objects: Mapping[str, bytes]) -> None:
        """Create a bucket and store the objects in it."""
        client = self._client()
        client.create_bucket(Bucket=bucket)
        for key, content in objects.items():
            client.put_object(Bucket=bucket, Key=key, Body=content)
        client.close()
        self.filled_at = time.time()
        self.forget()

    def copy(self, bucket: str, key: str, to: str) -> None:
        """Copy an object within its bucket."""
        client = self._client()
        client.copy_object(Bucket=bucket, Key=to, CopySource=f"{bucket}/{key}")
        client.close()

    def remove(self, bucket: str, keys: Iterable[str]) -> None:
        """Delete objects from a bucket."""
        client = self._client()
        for key in keys:
            client.delete_object(Bucket=bucket, Key=key)
        client.close()

    def _client(self) -> Any:
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=_KEY,
            aws_secret_access_key=_SECRET,
        )

    def forget(self) -> None:
        """Reset the recorded requests."""
        with self._lock:
            self.listings.clear()
            self.others = 0
            self.keys.clear()

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        asked = {k: v[0] for k, v in parse_qs(environ["QUERY_STRING"]).items()}
        signed = re.search("(?:Credential=|Bearer )([^/]+)", environ.get("HTTP_AUTHORIZATION", ""))
        with self._lock:
            self.keys.append(signed[1] if signed else "")
            if "list-type" in asked:
                self.listings.append(asked | {"bucket": environ["PATH_INFO"].strip("/")})
            else:
                self.others += 1
        answer: Iterable[bytes] = self._application(environ, start_response)
        return answer

    @contextmanager
    def running(self) -> Iterator[S3Server]:
        """Serve requests inside the ``with`` block."""
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()


class _QuietHandler(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        """Disable the log of the HTTP server."""
