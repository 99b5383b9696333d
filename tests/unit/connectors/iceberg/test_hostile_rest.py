"""REST catalogs that respond like some proxies and broken servers."""

from __future__ import annotations

import itertools
import json
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import splitlib
from splitlib import SourceError, SplitlibError
from splitlib_iceberg import pinning
from tests.support.iceberg_tables import append, create, data_file
from tests.unit.connectors.iceberg.simple_tables import BY_D, SIMPLE

CONFIG = json.dumps({"defaults": {}, "overrides": {}}).encode()


@contextmanager
def serving(answer, config=CONFIG):
    """Serve a catalog that responds with the given bytes or pieces, and yield its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            body = config if self.path.startswith("/v1/config") else answer
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            if isinstance(body, bytes):
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                return
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            with suppress(OSError):
                for piece in body():
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.close_connection = True

        def log_message(self, format, *args):
            """Do not print requests in the output of tests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def endless():
    return itertools.chain([b'{"metadata": "'], itertools.repeat(b"a" * 65536))


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(pinning, "MOST_BYTES", 4 << 20)


@pytest.mark.parametrize("of_config", [False, True], ids=["table", "config"])
@pytest.mark.parametrize("named", [{"type": "rest"}, {}], ids=["by type", "by uri"])
def test_endless_response(small, of_config, named):
    bodies = {"config": endless} if of_config else {}
    with serving(endless, **bodies) as uri, pytest.raises(SourceError, match="more than 4194304"):
        splitlib.load_table("ns.t", "iceberg", uri=uri, **named)


def test_responses_to_signed_requests_are_limited(small):
    keys = {"client.access-key-id": "k", "client.secret-access-key": "s", "client.region": "r"}
    options: dict[str, Any] = {"type": "rest", "rest.sigv4-enabled": "true", **keys}
    with serving(b" " * (5 << 20)) as uri, pytest.raises(SourceError, match="more than 4194304"):
        splitlib.load_table("ns.t", "iceberg", uri=uri, **options)


@pytest.mark.parametrize(
    "body",
    [b"<html>Please log in.</html>", b"", b"{}", b"[]", b"null", b'{"metadata": {}}', b'{"meta'],
    ids=["html", "nothing", "empty", "list", "null", "no metadata", "cut"],
)
@pytest.mark.parametrize("of_config", [False, True], ids=["table", "config"])
def test_response_is_not_a_table(body, of_config):
    if of_config and body == b"{}":
        return  # ``{}`` is a valid config, because all fields are optional
    bodies = {"config": body} if of_config else {}
    with serving(body, **bodies) as uri, pytest.raises(SplitlibError):
        splitlib.load_table("ns.t", "iceberg", type="rest", uri=uri)


def test_a_table_does_not_choose_where_credentials_are_sent(catalog):
    """The server does. It sends its credentials in the same response."""
    table = create(catalog, SIMPLE, BY_D, {"s3.endpoint": "http://evil", "s3.region": "evil"})
    keys = {"s3.access-key-id": "k", "s3.secret-access-key": "s", "s3.endpoint": "http://good"}
    answer = {
        "metadata-location": table.metadata_location,
        "metadata": json.loads(table.metadata.model_dump_json()),
        "config": keys,
    }
    with (
        serving(json.dumps(answer).encode()) as uri,
        splitlib.load_table("ns.t", "iceberg", type="rest", uri=uri) as opened,
    ):
        expected = {"key": "k", "secret": "s", "endpoint_url": "http://good"}
        assert opened.storage_options("s3") == expected


def test_an_honest_catalog(catalog, tmp_path):
    table = create(catalog, SIMPLE, BY_D)
    append(table, [data_file(table, [{"d": 1}])])
    table = table.refresh()
    answer = {
        "metadata-location": table.metadata_location,
        "metadata": json.loads(table.metadata.model_dump_json()),
        "config": {},
    }
    with (
        serving(json.dumps(answer).encode()) as uri,
        splitlib.load_table("ns.t", "iceberg", type="rest", uri=uri) as opened,
    ):
        assert len(splitlib.paths(opened)) == 1
