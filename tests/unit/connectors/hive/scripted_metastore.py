"""A thrift server that sends the responses that a test defines. They may be invalid."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore as Api
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TMemoryBuffer, TTransportException

from splitlib_hive.client import MetastoreClient, parse_uris

Answer = Callable[[Any, int, str, int], None]
"""Function that sends the response to a call.

Its arguments are the socket, the number of earlier calls, and the name and number of the call.
"""


def encoded(name: str, number: int, **result: Any) -> bytes:
    protocol = TBinaryProtocol(buffer := TMemoryBuffer())
    protocol.writeMessageBegin(name, TMessageType.REPLY, number)
    getattr(Api, f"{name}_result")(**result).write(protocol)
    answer: bytes = buffer.getvalue()
    return answer


ANSWERS = {"get_all_databases": ["default"], "get_all_tables": ["t", "u"]}


def right(name: str, number: int) -> bytes:
    return encoded(name, number, success=ANSWERS[name])


def answer_right(line: Any, before: int, name: str, number: int) -> None:
    line.sendall(right(name, number))


class Metastore(socketserver.ThreadingTCPServer):
    """A server that answers each call with a function of the test."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, answer: Answer) -> None:
        self.answer, self.calls, self.connections = answer, 0, 0
        super().__init__(("127.0.0.1", 0), _Connection)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.server_address[1]}"


_read = TSocket.read


class _Line(TSocket):  # type: ignore[misc]
    """The server's end of a connection.

    Tests patch ``TSocket.read`` for the client. The patch must not affect the server.
    """

    def read(self, size):
        return _read(self, size)


class _Connection(socketserver.BaseRequestHandler):
    server: Metastore

    def handle(self) -> None:
        self.server.connections += 1
        socket = _Line()
        socket.setHandle(self.request)
        protocol = TBinaryProtocol(socket)
        try:
            while True:
                name, _, number = protocol.readMessageBegin()
                getattr(Api, f"{name}_args")().read(protocol)
                before, self.server.calls = self.server.calls, self.server.calls + 1
                self.server.answer(self.request, before, name, number)
        except (TTransportException, OSError):
            pass  # one side has closed the connection


@contextmanager
def metastore(answer: Answer = answer_right) -> Iterator[Metastore]:
    with Metastore(answer) as server:
        yield server
        server.shutdown()


def client_of(*servers: Metastore, **settings: Any) -> MetastoreClient:
    return MetastoreClient(parse_uris(",".join(s.uri for s in servers)), **settings)
