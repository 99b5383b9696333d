"""Frames of Kerberos; a real KDC is in tests/interop."""

from __future__ import annotations

import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore as Api
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TMemoryBuffer, TTransportException

from splitlib.errors import AccessDenied, ConnectorNotInstalled, SourceUnavailable
from tests.unit.connectors.hive.test_security import client_of, databases, metastore


class _Context:
    """Stands for a security context of gssapi: two steps, and layers that reverse the bytes."""

    def __init__(self, name: str, usage: str) -> None:
        assert (name, usage) == ("hive/127.0.0.1@EXAMPLE.COM", "initiate")
        self.steps = 0

    @property
    def complete(self) -> bool:
        return self.steps == 2

    def step(self, token: bytes | None = None) -> bytes:
        self.steps += 1
        assert token == (None if self.steps == 1 else b"challenge")
        return b"step %d" % self.steps

    def wrap(self, data: bytes, is_encrypted: bool) -> SimpleNamespace:
        return SimpleNamespace(message=data[::-1])

    def unwrap(self, data: bytes) -> SimpleNamespace:
        return SimpleNamespace(message=data[::-1])


@pytest.fixture
def gssapi(monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = ModuleType("gssapi")
    module.NameType = SimpleNamespace(kerberos_principal="principal")
    module.Name = lambda name, kind: name
    module.SecurityContext = _Context
    module.exceptions = SimpleNamespace(GSSError=type("GSSError", (Exception,), {}))
    monkeypatch.setitem(sys.modules, "gssapi", module)
    return module


@contextmanager
def served_by_sasl(layers: int, verdict: int = 5, frame: bytes = b"") -> Iterator[str]:
    """Serve one connection by SASL with the given security layers, and return its address.

    The answer to a call is ``frame`` if it is given.
    """
    listening = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler).socket
    processor = Api.Processor(metastore())

    def serve() -> None:
        accepted, _ = listening.accept()
        line = TSocket()
        line.setHandle(accepted)

        def receive() -> tuple[int, bytes]:
            status, size = struct.unpack(">BI", line.readAll(5))
            return status, line.readAll(size) if size else b""

        def send(status: int, body: bytes) -> None:
            line.write(struct.pack(">BI", status, len(body)) + body)

        with accepted, suppress(TTransportException, OSError):
            assert receive() == (1, b"GSSAPI")
            assert receive() == (2, b"step 1")
            send(2, b"challenge")
            assert receive() == (2, b"step 2")
            send(2, bytes([layers, 0, 16, 0])[::-1])
            chosen = receive()[1][::-1]
            assert chosen[0] == layers & -layers  # the lowest of the bits
            send(verdict, b"" if verdict == 5 else b"no such user")
            order = -1 if chosen[0] > 1 else 1
            while True:
                (size,) = struct.unpack(">i", line.readAll(4))
                answer = TMemoryBuffer()
                processor.process(
                    TBinaryProtocol(TMemoryBuffer(line.readAll(size)[::order])),
                    TBinaryProtocol(answer),
                )
                if frame:
                    line.write(frame)
                    return
                data = answer.getvalue()
                # a response may be in several frames
                for part in (data[:5], data[5:]):
                    line.write(struct.pack(">i", len(part)) + part[::order])

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"thrift://127.0.0.1:{listening.getsockname()[1]}"
    thread.join(20)
    listening.close()
    assert not thread.is_alive()


@pytest.mark.parametrize("layers", [1, 2, 4, 7])
def test_frames_of_kerberos(gssapi, layers):
    with served_by_sasl(layers) as uri:
        client = client_of(uri, kerberos_principal="hive/_HOST@EXAMPLE.COM")
        assert client.get_databases() == ["d"]
        assert client.get_partition_names("d", "t").to_pylist() == []
        client.close()


def test_a_frame_with_a_negative_length_is_refused(gssapi):
    frame = struct.pack(">i", -1) + b"data"
    with served_by_sasl(1, frame=frame) as uri:
        client = client_of(uri, kerberos_principal="hive/_HOST@EXAMPLE.COM")
        with pytest.raises(SourceUnavailable, match="a frame of -1 bytes"):
            client.get_databases()
        client.close()


@pytest.mark.parametrize("most", [8, 9])
def test_a_long_message_is_refused(gssapi, monkeypatch, most):
    monkeypatch.setattr("splitlib_hive.security.MOST_MESSAGE", most)
    with served_by_sasl(1) as uri:
        if most == len(b"challenge"):
            assert databases(uri, kerberos_principal="hive/_HOST@EXAMPLE.COM") == ["d"]
            return
        with pytest.raises(SourceUnavailable, match="a message of 9 bytes: the metastore may not"):
            databases(uri, kerberos_principal="hive/_HOST@EXAMPLE.COM")


def test_no_ticket(gssapi, monkeypatch):
    def failing(*_: Any) -> bytes:
        raise gssapi.exceptions.GSSError("no ticket")

    monkeypatch.setattr(_Context, "step", failing)
    with (
        served_by_sasl(1) as uri,
        pytest.raises(
            AccessDenied, match=r"metastore hive/127\.0\.0\.1@EXAMPLE\.COM failed: no ticket"
        ) as e,
    ):
        databases(uri, kerberos_principal="hive/_HOST@EXAMPLE.COM")
    assert "kinit" in str(e.value.hint)


def test_layers_of_kerberos_that_are_unknown(gssapi):
    with (
        served_by_sasl(8) as uri,
        pytest.raises(AccessDenied, match="no SASL security layer"),
    ):
        databases(uri, kerberos_principal="hive/_HOST@EXAMPLE.COM")


def test_a_rejected_ticket(gssapi):
    with (
        served_by_sasl(1, verdict=3) as uri,
        pytest.raises(
            AccessDenied, match=r"ticket for hive/127\.0\.0\.1@EXAMPLE\.COM: no such user"
        ),
    ):
        databases(uri, kerberos_principal="hive/_HOST@EXAMPLE.COM")


def test_kerberos_without_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConnectorNotInstalled, match="gssapi") as error:
        client_of("thrift://h", kerberos_principal="hive/_HOST@EXAMPLE.COM")
    assert "splitlib[kerberos]" in str(error.value.hint)
