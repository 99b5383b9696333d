"""A REST catalog with one table. It returns credentials for the table's files."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def vending_catalog(
    metadata_location: str, metadata: Mapping[str, Any], vended: Mapping[str, str]
) -> Iterator[str]:
    """Serve the table ``ns.t`` for the ``with`` block, and yield the server's URL.

    Args:
        metadata_location: Path of the table's metadata file.
        metadata: Content of the metadata file.
        vended: Credentials for the table's bucket, which the catalog returns.
    """
    bucket = "/".join(metadata_location.split("/")[:3])
    loaded = {
        "metadata-location": metadata_location,
        "metadata": metadata,
        "config": {},
        "storage-credentials": [{"prefix": f"{bucket}/", "config": vended}],
    }
    answers = {
        "/v1/config": {"defaults": {}, "overrides": {}},
        "/v1/namespaces/ns/tables/t": loaded,
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path.partition("?")[0])
            body = json.dumps(found or {}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Disable the log of the HTTP server."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
