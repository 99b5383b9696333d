"""An in-process S3 server that returns faulty listings, as some proxies and broken stores do."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

Asked: TypeAlias = Mapping[str, str]
Answer: TypeAlias = Callable[["HostileS3", Asked], bytes | Iterator[bytes]]

ERROR = b"<?xml version='1.0'?><Error><Code>InternalError</Code><Message>no</Message></Error>"
HTML = b"<html><body>Please log in.</body></html>"
EMPTY_RESULT = b"<ListBucketResult/>"


class HostileS3:
    """A bucket whose listing responses come from ``answer``, which may return invalid ones.

    Args:
        sizes: Size of each object in bytes, by key.
        page: Maximum number of names in a page.
    """

    def __init__(self, sizes: Mapping[str, int], page: int = 1000) -> None:
        self.sizes = {key: sizes[key] for key in sorted(sizes, key=str.encode)}
        self.page = page
        self.answer: Answer = HostileS3.listing
        self.asked: list[Asked] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    @property
    def options(self) -> dict[str, Any]:
        """Options with which s3fs connects to this server."""
        endpoint = f"http://127.0.0.1:{self._server.server_port}"
        return {"key": "k", "secret": "s", "endpoint_url": endpoint}

    def listing(self, asked: Asked, *, token: bool = True) -> bytes:
        """Return the correct listing."""
        prefix = asked.get("prefix", "")
        after = asked.get("continuation-token") or asked.get("start-after", "")
        page = min(self.page, int(asked.get("max-keys", 1000)))
        names: dict[str, str] = {}
        for key, size in self.sizes.items():
            rest = key.removeprefix(prefix)
            if not key.startswith(prefix) or key <= after:
                continue
            if "/" in rest and asked.get("delimiter"):
                folder = f"{prefix}{rest.partition('/')[0]}/"
                if not after.startswith(folder):
                    names[folder] = _FOLDER.format(escape(folder))
            else:
                names[key] = _OBJECT.format(escape(key), size)
        told = list(names)[:page]
        cut = len(names) > page
        more = f"<NextContinuationToken>{escape(told[-1])}</NextContinuationToken>" if cut else ""
        entries = "".join(names[name] for name in told)
        return _LISTING.format(str(cut).lower(), more if token else "", entries).encode()

    @contextmanager
    def running(self) -> Iterator[HostileS3]:
        """Serve requests inside the ``with`` block."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()


def always(body: bytes) -> Answer:
    """Return ``body`` for every request."""
    return lambda server, asked: body


def endless(beginning: bytes, *pieces: bytes) -> Answer:
    """Return an answer whose body has no end: ``beginning``, then ``pieces`` again and again."""
    return lambda server, asked: itertools.chain([beginning], itertools.cycle(pieces))


def in_pages(body: bytes) -> Answer:
    """Return ``body`` for requests without a delimiter. Listings of one directory stay correct."""
    return lambda server, asked: server.listing(asked) if asked.get("delimiter") else body


def later(body: bytes) -> Answer:
    """Return ``body`` for the second and later pages of a listing."""
    return lambda server, asked: body if "continuation-token" in asked else server.listing(asked)


def without_token(server: HostileS3, asked: Asked) -> bytes:
    """Return a truncated listing without a continuation token."""
    return server.listing(asked, token=False)


def again(server: HostileS3, asked: Asked) -> bytes:
    """Return the first page for every request."""
    return server.listing({k: v for k, v in asked.items() if k != "continuation-token"})


def twice(server: HostileS3, asked: Asked) -> bytes:
    """Return a listing that contains each name twice."""
    return re.sub(rb"(<(Contents|CommonPrefixes)>.*?</\2>)", rb"\1\1", server.listing(asked))


_LISTING = "<ListBucketResult><Name>b</Name><IsTruncated>{}</IsTruncated>{}{}</ListBucketResult>"
_FOLDER = "<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>"
_OBJECT = (
    "<Contents><Key>{}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>"
    '<ETag>"x"</ETag><Size>{}</Size><StorageClass>STANDARD</StorageClass></Contents>'
)


def _handler(server: HostileS3) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
            asked = {name: values[0] for name, values in query.items()}
            server.asked.append(asked)
            body = server.answer(server, asked)
            self.send_response(200)
            self.send_header("Content-Type", "application/xml")
            if isinstance(body, bytes):
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                return
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            with suppress(OSError):
                for piece in body:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            """Disable the log of the HTTP server."""

    return Handler
