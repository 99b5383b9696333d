"""What a broken network, proxy or server does to one answer."""

from __future__ import annotations

import asyncio
import random
import re
from abc import ABC, abstractmethod
from typing import Protocol

_ERRORS = {"SlowDown": 503, "ServiceUnavailable": 503, "InternalError": 500, "RequestTimeout": 400}
_PAGE = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"


class Line(Protocol):
    """The connection that an answer is for."""

    @property
    def earlier(self) -> list[bytes]:
        """Answers that were given before, to whatever requests."""

    async def send(self, data: bytes) -> None:
        """Pass bytes on to the client."""

    def cut(self, *, reset: bool) -> None:
        """Close the connection, after what was sent or at once."""

    def close_door(self, seconds: float | None) -> None:
        """Cut all connections and refuse new ones; None = for ever."""


class Treatment(ABC):
    """Decides what becomes of one answer, which comes in pieces.

    Args:
        rng: What is drawn.
        deadline_seconds: That of one call of the client.
    """

    def __init__(self, rng: random.Random, deadline_seconds: float) -> None:
        self.rng = rng
        self.deadline_seconds = deadline_seconds
        self.begun = False

    async def pass_on(self, data: bytes, line: Line) -> None:
        """Take a piece of the answer, and send what the client is to get."""
        first, self.begun = not self.begun, True
        await self.treat(data, line, first=first)

    @abstractmethod
    async def treat(self, data: bytes, line: Line, *, first: bool) -> None:
        """:meth:`pass_on`, which also says whether the piece is the first one."""


class Untouched(Treatment):
    """As it is."""

    async def treat(self, data: bytes, line: Line, *, first: bool) -> None:
        await line.send(data)


class Delay(Treatment):
    """Complete, and perhaps too late."""

    async def treat(self, data: bytes, line: Line, *, first: bool) -> None:
        if first:
            await asyncio.sleep(self.rng.uniform(0, 1.5 * self.deadline_seconds))
        await line.send(data)


class Trickle(Treatment):
    """A few bytes at a time: every read is quick, and the whole may take for ever."""

    async def treat(self, data: bytes, line: Line, *, first: bool) -> None:
        size, pause = self.rng.randint(1, 400), self.rng.uniform(0, 0.05)
        for start in range(0, len(data), size):
            await line.send(data[start : start + size])
            await asyncio.sleep(pause)


class Cut(Treatment):
    """The connection ends in the middle, or before the first byte."""

    async def treat(self, data: bytes, line: Line, *, first: bool) -> None:
        await line.send(data[: self.rng.randrange(len(data))])
        line.cut(reset=self.rng.random() < 0.5)


class Hang(Treatment):
    """Nothing comes, and the connection stays."""

    async def treat(self, data: bytes, line: Line, *, first: bool) -> None:
        pass


class Refuse(Treatment):
    """The server is gone, for a moment or for good."""

    async def treat(self, data: bytes, line: Line, *, first: bool) -> None:
        seconds = self.rng.uniform(0, self.deadline_seconds)
        line.close_door(seconds if self.rng.random() < 0.5 else None)


class Garble(Treatment):
    """Bytes are lost, put in or said twice, so that all after them are out of place."""

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
    """One bit is another; what frames the answer may be as it was."""

    async def treat(self, data: bytes, line: Line, *, first: bool) -> None:
        changed = bytearray(data)
        changed[self.rng.randrange(len(data))] ^= 1 << self.rng.randrange(8)
        await line.send(bytes(changed))


class ErrorPage(Treatment):
    """A load balancer answers in the server's place, in HTML."""

    async def treat(self, data: bytes, line: Line, *, first: bool) -> None:
        if first:
            await line.send(_http(self.rng.choice([200, 502, 504]), "text/html", _PAGE))


class Swap(Treatment):
    """The answer to another request: whoever sits between has mixed up two of them."""

    async def treat(self, data: bytes, line: Line, *, first: bool) -> None:
        if not line.earlier:
            await line.send(data)
        elif first:
            await line.send(self.rng.choice(line.earlier))


class Throttle(Treatment):
    """An object store asks for fewer requests, or fails by itself."""

    async def treat(self, data: bytes, line: Line, *, first: bool) -> None:
        if first:
            code = self.rng.choice(list(_ERRORS))
            body = f"<Error><Code>{code}</Code><Message>Try later.</Message></Error>".encode()
            await line.send(_http(_ERRORS[code], "application/xml", body))


class Shorten(Treatment):
    """The body ends early, and its headers say that this is all of it."""

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
    """The body of an HTTP answer; None = there is more to come."""
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
"""Faults of any protocol over TCP, by name."""

OTHERS: dict[str, type[Treatment]] = {"flip": Flip, "restart": Untouched}
"""What may leave an answer that is as good as another, and what strikes the server itself."""

HTTP: dict[str, type[Treatment]] = {**STREAM, "throttle": Throttle, "shorten": Shorten}
"""Those of an object store."""
