"""Responses of a metastore that are too large, or that declare a huge length, are refused."""

from __future__ import annotations

import itertools
import struct
from contextlib import suppress

import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType, TType
from thrift.transport.TTransport import TMemoryBuffer

import splitlib
from splitlib_hive import connection
from tests.unit.connectors.hive.scripted_metastore import client_of, encoded, metastore

CALLS = {
    "names": lambda client: client.get_partition_names("d", "t"),
    "tables": lambda client: client.get_tables("d"),
    "partitions": lambda client: client.get_partitions_by_names("d", "t", ["k=1"]),
}
TEXT = struct.pack(">i", 1000) + b"k" * 1000
# Header of field 3 of a partition, the name of its table.
FIELD = struct.pack(">bh", TType.STRING, 3)
OF = {"partitions": (TType.STRUCT, FIELD, bytes([TType.STOP]))}


def begun(name: str, number: int, of: int, count: int) -> bytes:
    """Return the beginning of a response, up to the first element of its list."""
    protocol = TBinaryProtocol(buffer := TMemoryBuffer())
    protocol.writeMessageBegin(name, TMessageType.REPLY, number)
    protocol.writeFieldBegin("success", TType.LIST, 0)
    protocol.writeListBegin(of, count)
    answer: bytes = buffer.getvalue()
    return answer


def endless(of, count, piece):
    def answer(line, _, name, number):
        with suppress(OSError):
            line.sendall(begun(name, number, of, count))
            for more in itertools.repeat(piece):
                line.sendall(more)

    return answer


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(connection, "ANSWER_LIMIT", 8 << 20)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("count", [1 << 20, 1 << 24])
def test_endless_response(small, name, count):
    of, before, after = OF.get(name, (TType.STRING, b"", b""))
    with metastore(endless(of, count, (before + TEXT + after) * 100)) as server:
        client = client_of(server)
        with pytest.raises(splitlib.SourceError, match="more than 8388608 bytes"):
            CALLS[name](client)
        assert server.calls == 1


@pytest.mark.parametrize("name", CALLS)
def test_endless_string(small, name):
    of, before, _ = OF.get(name, (TType.STRING, b"", b""))
    huge = before + struct.pack(">i", (1 << 30) - 1) + b"k" * 1000
    with metastore(endless(of, 1, huge)) as server:
        client = client_of(server)
        with pytest.raises(splitlib.SourceError, match="more than 8388608 bytes"):
            CALLS[name](client)


def test_the_rest_of_a_large_response_is_not_read_for_the_next_call(monkeypatch):
    monkeypatch.setattr(connection, "ANSWER_LIMIT", 100)

    def answer(line, before, name, number):
        line.sendall(encoded(name, number, success=["t" if before else "t" * 200]))

    with metastore(answer) as server:
        client = client_of(server)
        with pytest.raises(splitlib.SourceError, match="more than 100 bytes"):
            client.get_databases()
        assert client.get_tables("d") == ["t"]
        assert (server.calls, server.connections) == (2, 2)
        client.close()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("of", [TType.STRUCT, TType.I32])
def test_list_with_a_huge_declared_length(call, of):
    def answer(line, _, name, number):
        line.sendall(begun(name, number, of, (1 << 31) - 1))

    with metastore(answer) as server:
        client = client_of(server)
        with pytest.raises(splitlib.SplitlibError):
            call(client)
