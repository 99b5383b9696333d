"""Proxies in front of real servers, which change, delay or drop some answers."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from tests.chaos.strikes import NOTHING, Strikes
from tests.chaos.treatments import Treatment

T = TypeVar("T")

_PIECE = 1 << 16
_LOOPBACK = "127.0.0.1"


class _Loop:
    """The thread with the event loop that all proxies of this process share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread, and return its result."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


_loop = _Loop()


class Proxy:
    """A proxy for one server. The protocol must alternate between requests and answers.

    Args:
        target: Host and port of the server.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.strikes = Strikes(NOTHING)
        self.earlier: list[bytes] = []
        """Complete answers that the server sent since the last call of :meth:`set_up`."""
        self._make: Callable[[], Treatment] | None = None
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None
        # This socket keeps the port reserved while the proxy does not listen.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._reserved.bind((_LOOPBACK, 0))
        self.port: int = self._reserved.getsockname()[1]

    @property
    def connections(self) -> int:
        """Number of client connections."""
        return len(self._connections)

    def set_up(self, strikes: Strikes, make: Callable[[], Treatment] | None) -> None:
        """Close all connections, set the treatment of answers, and accept new connections.

        Args:
            strikes: Selection of the requests that the fault affects.
            make: Function that creates the treatment of one answer. With None, the proxy does not
                change any answer.
        """
        self.strikes, self._make, self.earlier = strikes, make, []
        _loop.run(self._begin())

    def treatment(self, request: bytes) -> Treatment | None:
        """Return the treatment of the answer to a request. None to pass it on unchanged."""
        struck = self.strikes.hit(request.decode("latin-1"))
        return self._make() if struck and self._make is not None else None

    def cut_all(self) -> None:
        """Reset every connection."""
        for connection in list(self._connections):
            connection.cut(reset=True)

    def close_door(self, seconds: float | None) -> None:
        """Reset all connections and reject new ones. Call this in the event loop.

        Args:
            seconds: Time until connections are accepted again. None means never.
        """
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut_all()
        if seconds is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(seconds, lambda: loop.create_task(self._open_door()))

    async def _begin(self) -> None:
        self.cut_all()
        await self._open_door()

    async def _open_door(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(
                self._accept, _LOOPBACK, self.port, reuse_port=True
            )

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(self, reader, writer)
        self._connections.add(connection)
        try:
            await connection.serve()
        finally:
            self._connections.discard(connection)


class Proxies:
    """A pool of proxies that later runs use again.

    Clients such as s3fs start slowly and are cached by address. Proxies with the same addresses
    allow later runs to use the same clients.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[tuple[str, int], list[Proxy]] = {}

    @contextmanager
    def borrowed(self, target: tuple[str, int]) -> Iterator[Proxy]:
        """Reserve a proxy of a server for the ``with`` block."""
        with self._lock:
            idle = self._idle.setdefault(target, [])
            proxy = idle.pop() if idle else Proxy(target)
        try:
            yield proxy
        finally:
            proxy.set_up(Strikes(NOTHING), None)
            with self._lock:
                idle.append(proxy)


class _Connection:
    """A connection from a client, and the corresponding connection to the server."""

    def __init__(
        self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._reader = reader
        self._writer = writer
        self._treatment: Treatment | None = None
        self._answer = b""
        self._begun = False

    @property
    def earlier(self) -> list[bytes]:
        return self._proxy.earlier

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def cut(self, *, reset: bool) -> None:
        if reset:
            self._writer.transport.abort()
        else:
            self._writer.close()

    def close_door(self, seconds: float | None) -> None:
        self._proxy.close_door(seconds)

    async def serve(self) -> None:
        """Pass data in both directions until one side closes."""
        writer: asyncio.StreamWriter | None = None
        try:
            reader, writer = await asyncio.open_connection(*self._proxy.target)
            ways = [
                asyncio.ensure_future(self._requests(writer)),
                asyncio.ensure_future(self._answers(reader)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            pass  # the server may be down during a restart
        finally:
            for each in filter(None, (writer, self._writer)):
                with suppress(OSError):
                    each.close()

    async def _requests(self, server: asyncio.StreamWriter) -> None:
        while data := await self._reader.read(_PIECE):
            if self._answer or not self._begun:  # a new request
                if self._answer:
                    self._proxy.earlier.append(self._answer)
                self._answer, self._begun = b"", True
                self._treatment = self._proxy.treatment(data)
            server.write(data)
            await server.drain()

    async def _answers(self, server: asyncio.StreamReader) -> None:
        while data := await server.read(_PIECE):
            self._answer += data
            if self._treatment is None:
                await self.send(data)
            else:
                await self._treatment.pass_on(data, self)
