"""Effects of a broken network, proxy or server on one answer."""

from __future__ import annotations

import asyncio
import random
import re
from abc import ABC, abstractmethod
from typing import Protocol

_ERRORS = {"SlowDown": 503, "ServiceUnavailable": 503, "InternalError": 500, "RequestTimeout": 400}
_PAGE = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"


class Line(Protocol):
    """The client's connection that receives the answer."""

    @property
    def earlier(self) -> list[bytes]:
        """Complete answers that the server sent before, to any requests."""

    async def send(self, data: bytes) -> None:
        """Send bytes to the client."""

    def cut(self, *, reset: bool) -> None:
        """Close the connection.

        Args:
            reset: Whether to close immediately, without sending the remaining bytes.
        """

    def close_door(self, seconds: float | None) -> None:
        """Reset all connections and reject new ones.

        Args:
            seconds: Time until connections are accepted again. None means never.
        """


class Treatment(ABC):
    """A fault that changes, delays or drops one answer. The answer arrives in pieces.

    Args:
        rng: Random numbers of the run.
        deadline_seconds: Time limit of the client for one call, in seconds.
    """

    def __init__(self, rng: random.Random, deadline_seconds: float) -> None:
        self.rng = rng
        self.deadline_seconds = deadline_seconds
        self.begun = False

    async def pass_on(self, data: bytes, line: Line) -> None:
        """Apply the fault to a piece of the answer, and send the result to the client."""
        first, self.begun = not self.begun, True
        await self.treat(data, line, first=first)

    @abstractmethod
    async def treat(self, data: bytes, line: Line, *, first: bool) -> None:
        """Apply the fault to a piece of the answer.

        Args:
            data: Bytes of the piece.
            line: The client's connection.
            first: Whether this is the first piece.
        """


class Untouched(Treatment):
    """The answer is not changed."""

    async def treat(self, data: bytes, line: Line, *, first: bool) -> None:
        await line.send(data)


class Delay(Treatment):
    """The answer is complete, but perhaps too late."""

    async def treat(self, data: bytes, line: Line, *, first: bool) -> None:
        if first:
            await asyncio.sleep(self.rng.uniform(0, 1.5 * self.deadline_seconds))
        await line.send(data)


class Trickle(Treatment):
    """The answer comes a few bytes at a time. Each read is fast, but the whole may be too late."""

    async def treat(self, data: bytes, line: Line, *, first: bool) -> None:
        size, pause = self.rng.randint(1, 400), self.rng.uniform(0, 0.05)
        for start in range(0, len(data), size):
            await line.send(data[start : start + size])
            await asyncio.sleep(pause)


class Cut(Treatment):
    """The connection closes in the middle of the answer, or before its first byte."""

    async def treat(self, data: bytes, line: Line, *, first: bool) -> None:
        await line.send(data[: self.rng.randrange(len(data))])
        line.cut(reset=self.rng.random() < 0.5)


class Hang(Treatment):
    """No answer comes, and the connection stays open."""

    async def treat(self, data: bytes, line: Line, *, first: bool) -> None:
        pass


class Refuse(Treatment):
    """The server closes all connections and rejects new ones, temporarily or for ever."""

    async def treat(self, data: bytes, line: Line, *, first: bool) -> None:
        seconds = self.rng.uniform(0, self.deadline_seconds)
        line.close_door(seconds if self.rng.random() < 0.5 else None)


class Garble(Treatment):
    """Bytes of the answer are lost, inserted or repeated. All later bytes move."""

    async def treat(self, data: bytes, line: Line, *, first: bool) -> None:
        at, size = self.rng.randrange(len(data)), self.rng.randint(1, 64)
        match self.rng.choice(["lost", "put in", "twice"]):
            case "lost":
                data = data[:at] + data[at + size :]
            case "put in":
                data = data[:at] + self.rng.randbytes(size) + data[at:]
            case _:
                data = data[: at + size] + data[at:]
        await line.send(data)


class Flip(Treatment):
    """One bit of the answer is flipped. The framing of the answer may stay intact."""

    async def treat(self, data: bytes, line: Line, *, first: bool) -> None:
        changed = bytearray(data)
        changed[self.rng.randrange(len(data))] ^= 1 << self.rng.randrange(8)
        await line.send(bytes(changed))


class ErrorPage(Treatment):
    """A load balancer sends an HTML page instead of the server's answer."""

    async def treat(self, data: bytes, line: Line, *, first: bool) -> None:
        if first:
            await line.send(_http(self.rng.choice([200, 502, 504]), "text/html", _PAGE))


class Swap(Treatment):
    """The client gets the answer to another request, as if a proxy had confused two requests."""

    async def treat(self, data: bytes, line: Line, *, first: bool) -> None:
        if not line.earlier:
            await line.send(data)
        elif first:
            await line.send(self.rng.choice(line.earlier))


class Throttle(Treatment):
    """The object store throttles the request or reports an internal error."""

    async def treat(self, data: bytes, line: Line, *, first: bool) -> None:
        if first:
            code = self.rng.choice(list(_ERRORS))
            body = f"<Error><Code>{code}</Code><Message>Try later.</Message></Error>".encode()
            await line.send(_http(_ERRORS[code], "application/xml", body))


class Shorten(Treatment):
    """The body is truncated, and its ``Content-Length`` is the shorter length."""

    def __init__(self, rng: random.Random, deadline_seconds: float) -> None:
        super().__init__(rng, deadline_seconds)
        self._received = b""

    async def treat(self, data: bytes, line: Line, *, first: bool) -> None:
        self._received += data
        body = _whole_body(self._received)
        if body is not None:
            head = self._received.partition(b"\r\n\r\n")[0]
            kept = [h for h in head.split(b"\r\n") if not re.match(rb"(?i)content-l|transfer", h)]
            short = body[: self.rng.randrange(len(body) or 1)]
            length = b"Content-Length: %d" % len(short)
            await line.send(b"\r\n".join([*kept, length, b"", short]))


def _whole_body(received: bytes) -> bytes | None:
    """Return the body of an HTTP answer, or None if it is not complete."""
    head, _, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    if length:
        return body if len(body) >= int(length[1]) else None
    if not body.endswith(b"0\r\n\r\n"):
        return None
    chunks = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        chunks, body = chunks + body[: int(size, 16)], body[int(size, 16) + 2 :]
    return chunks


def _http(status: int, kind: str, body: bytes) -> bytes:
    head = [f"HTTP/1.1 {status} Answer", f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    return "\r\n".join([*head, "", ""]).encode() + body


STREAM: dict[str, type[Treatment]] = {
    "delay": Delay,
    "trickle": Trickle,
    "cut": Cut,
    "hang": Hang,
    "refuse": Refuse,
    "garble": Garble,
    "error page": ErrorPage,
    "swap": Swap,
}
"""Faults that are possible in every protocol over TCP, by name."""

OTHERS: dict[str, type[Treatment]] = {"flip": Flip, "restart": Untouched}
"""Other faults. No client can always detect ``flip``. ``restart`` restarts the server."""

HTTP: dict[str, type[Treatment]] = {**STREAM, "throttle": Throttle, "shorten": Shorten}
"""Faults that are possible in answers of an object store, by name."""
