"""A proxy for an S3 server that counts requests, delays responses and limits concurrency.

The proxy runs in its own process, so that its CPU time does not count as the driver's. It caches
the server's responses, so all contenders see the same latency, and the server takes no CPU time
from them.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

_HOST = "127.0.0.1"
_REFUSED = (
    b"HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n%s"
)
_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"


@dataclass(slots=True)
class Counts:
    """Counts of requests since the last reset."""

    listings: int = 0
    others: int = 0
    reads: int = 0
    """Number of GET requests for objects, included in ``others``."""
    heads: int = 0
    """Number of HEAD requests, included in ``others``."""
    bytes_sent: int = 0
    """Size of all responses, headers included, in bytes."""
    refused: int = 0
    """Number of listings rejected with status 503, included in ``listings``."""
    in_flight: int = 0
    most_in_flight: int = 0
    served_seconds: float = 0.0
    """Total time from each received request to the first byte of its response, in seconds."""


@dataclass(slots=True)
class Behaviour:
    """Settings of the proxy: delay, limit of concurrent requests, and caching."""

    delay_seconds: float = 0.0
    """Minimum time from a received request to its response, in seconds."""
    most_at_once: int | None = None
    """Maximum number of concurrent requests; None means no limit.

    At this number, further listings are rejected with status 503, without delay.
    """
    remembers: bool = True
    """Whether responses to GET and HEAD are cached."""
    remembers_objects: bool = True
    """Whether responses for single objects are cached too, not only those of listings."""


class RunningProxy:
    """Controls the proxy's process."""

    def __init__(self, port: int, control: Connection) -> None:
        self.address = f"{_HOST}:{port}"
        self._control = control

    @property
    def endpoint(self) -> str:
        """URL of the proxy."""
        return f"http://{self.address}"

    def begin(self, behaviour: Behaviour) -> None:
        """Reset the counts, and change how the proxy answers."""
        self._control.send(behaviour)
        self._control.recv()

    def counts(self) -> Counts:
        """Return the counts since the last reset."""
        self._control.send(None)
        found: Counts = self._control.recv()
        return found


@contextmanager
def running_proxy(server: str) -> Iterator[RunningProxy]:
    """Run a proxy for the ``with`` block.

    Args:
        server: Host and port of the S3 server.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(server, theirs), daemon=True)
    process.start()
    try:
        yield RunningProxy(ours.recv(), ours)
    finally:
        process.terminate()
        process.join()


def _serve(server: str, control: Connection) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_Proxy(server, control).run())


@dataclass(slots=True)
class _Message:
    """The raw bytes of an HTTP request or response."""

    head: bytes
    body: bytes = b""

    @property
    def first_line(self) -> str:
        return self.head.partition(b"\r\n")[0].decode("latin-1")


@dataclass(slots=True)
class _Proxy:
    server: str
    control: Connection
    counts: Counts = field(default_factory=Counts)
    behaviour: Behaviour = field(default_factory=Behaviour)
    known: dict[tuple[str, bytes], bytes] = field(default_factory=dict)

    async def run(self) -> None:
        listening = await asyncio.start_server(self._accept, _HOST, 0)
        self.control.send(listening.sockets[0].getsockname()[1])
        asyncio.get_running_loop().add_reader(self.control.fileno(), self._controlled)
        await listening.serve_forever()

    def _controlled(self) -> None:
        command = self.control.recv()
        if command is None:
            self.control.send(self.counts)
            return
        self.behaviour, self.counts = command, Counts()
        self.control.send(True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self.server.partition(":")
        upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        try:
            while True:
                request = await _message(reader, has_body=True)
                began = asyncio.get_running_loop().time()
                is_listing = "list-type=" in request.first_line
                if is_listing and self._is_too_many():
                    writer.write(_REFUSED % (len(_SLOW_DOWN), _SLOW_DOWN))
                    continue
                # Keep this object, because a reset during the request replaces `self.counts`.
                counts = self._begun(request.first_line, is_listing)
                try:
                    answer = self._known(request)
                    if answer is None:
                        upstream = upstream or await asyncio.open_connection(host, int(port))
                        answer = await self._asked(request, *upstream)
                    late = began + self.behaviour.delay_seconds
                    await asyncio.sleep(late - asyncio.get_running_loop().time())
                finally:
                    counts.in_flight -= 1
                counts.served_seconds += asyncio.get_running_loop().time() - began
                counts.bytes_sent += len(answer)
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # The client or the server closed the connection.
        finally:
            for each in (writer, upstream[1] if upstream else None):
                if each is not None:
                    each.close()

    def _is_too_many(self) -> bool:
        most, counts = self.behaviour.most_at_once, self.counts
        if most is None or counts.in_flight < most:
            return False
        counts.listings += 1
        counts.refused += 1
        return True

    def _begun(self, asked: str, is_listing: bool) -> Counts:
        counts = self.counts
        counts.listings += is_listing
        counts.others += not is_listing
        counts.reads += not is_listing and asked.startswith("GET ")
        counts.heads += asked.startswith("HEAD ")
        counts.in_flight += 1
        counts.most_in_flight = max(counts.most_in_flight, counts.in_flight)
        return counts

    def _known(self, request: _Message) -> bytes | None:
        return self.known.get(_key(request)) if self._is_kept(request) else None

    def _is_kept(self, request: _Message) -> bool:
        asked, behaviour = request.first_line, self.behaviour
        return (
            behaviour.remembers
            and asked.startswith(("GET ", "HEAD "))
            and (behaviour.remembers_objects or "list-type=" in asked)
        )

    async def _asked(
        self, request: _Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bytes:
        writer.write(request.head + request.body)
        told = await _message(reader, has_body=not request.first_line.startswith("HEAD "))
        answer = told.head + told.body
        if self._is_kept(request) and " 20" in told.first_line:
            self.known[_key(request)] = answer
        return answer


def _key(request: _Message) -> tuple[str, bytes]:
    return request.first_line, _header(request.head, b"range") or b""


async def _message(reader: asyncio.StreamReader, *, has_body: bool) -> _Message:
    head = await reader.readuntil(b"\r\n\r\n")
    if not has_body:
        return _Message(head)
    if b"chunked" in (_header(head, b"transfer-encoding") or b""):
        return _Message(head, await _chunks(reader))
    return _Message(head, await reader.readexactly(int(_header(head, b"content-length") or 0)))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        body += line + await reader.readexactly(size + 2)
        if not size:
            return body


def _header(head: bytes, name: bytes) -> bytes | None:
    found: Any = re.search(rb"(?im)^%s:\s*(.*?)\s*$" % name, head)
    return None if found is None else found[1].lower()
