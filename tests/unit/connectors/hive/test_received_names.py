"""Partition names that the metastore client receives in valid and invalid responses."""

from __future__ import annotations

import struct
import threading
from contextlib import suppress

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException, NoSuchObjectException
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TMessageType, TType
from thrift.transport.TTransport import TMemoryBuffer

import splitlib
from splitlib.remote.calls import Call, working_on
from tests.unit.connectors.hive.scripted_metastore import client_of, encoded, metastore

NAMES = ["k=1", "k=é", "k=" + "x" * 300, "k=__HIVE_DEFAULT_PARTITION__"]
BOTH = pytest.mark.parametrize("values", [(), ("1",)])


@BOTH
@pytest.mark.parametrize("size", [1, 5, 1 << 20])
def test_names_are_texts_of_arrow(values, size):
    def in_pieces(line, before, name, number):
        answer = encoded(name, number, success=NAMES)
        for start in range(0, len(answer), size):
            line.sendall(answer[start : start + size])

    with metastore(in_pieces) as server:
        client = client_of(server)
        for _ in range(2):
            found = client.get_partition_names("d", "t", values)
            assert found.type == "string"
            assert found.to_pylist() == NAMES
        assert server.connections == 1
        client.close()


@BOTH
def test_names_behind_an_unknown_field(values):
    def newer(line, before, name, number):
        answer = encoded(name, number, success=NAMES)
        begin = len(encoded(name, number)) - 1  # without the end of the fields
        line.sendall(answer[:begin] + struct.pack(">bhi", TType.I32, 9, 5) + answer[begin:])

    with metastore(newer) as server:
        found = client_of(server).get_partition_names("d", "t", values)
    assert (found.type, found.to_pylist()) == ("string", NAMES)


@BOTH
def test_no_names_are_none(values):
    with metastore(lambda line, _, *to: line.sendall(encoded(*to, success=[]))) as server:
        assert client_of(server).get_partition_names("d", "t", values).to_pylist() == []


@BOTH
def test_names_that_are_no_text_are_refused(values):
    """Names that are not valid UTF-8 are refused.

    With replacement characters, a name could become the name of another partition.
    """

    def broken(line, before, name, number):
        answer = encoded(name, number, success=NAMES)
        line.sendall(answer.replace("é".encode(), b"\xc3\xff") if before == 0 else answer)

    with metastore(broken) as server:
        client = client_of(server)
        with pytest.raises(splitlib.CorruptMetadata, match="not valid UTF-8"):
            client.get_partition_names("d", "t", values)
        assert client.get_partition_names("d", "t", values).to_pylist() == NAMES
        assert (server.calls, server.connections) == (2, 1)
        client.close()


@BOTH
@pytest.mark.parametrize("is_gone", [False, True])
def test_errors_in_place_of_names(values, is_gone):
    gone = bool(values) and is_gone
    error = NoSuchObjectException("t") if gone else MetaException("no way")
    field = "o1" if values and not gone else "o2"

    def fail(line, before, name, number):
        line.sendall(encoded(name, number, **{field: error}))

    kind = splitlib.TableNotFound if gone else splitlib.SourceError
    with metastore(fail) as server, pytest.raises(kind, match=r"no table d\.t|no way"):
        client_of(server).get_partition_names("d", "t", values)


@BOTH
@pytest.mark.parametrize("answer", ["unknown method", "nothing"])
def test_an_answer_without_names_is_not_understood(values, answer):
    def unknown(line, before, name, number):
        if answer == "nothing":
            line.sendall(encoded(name, number))
            return
        protocol = TBinaryProtocol(buffer := TMemoryBuffer())
        protocol.writeMessageBegin(name, TMessageType.EXCEPTION, number)
        TApplicationException(TApplicationException.UNKNOWN_METHOD, "what?").write(protocol)
        line.sendall(buffer.getvalue())

    said = "unknown result" if answer == "nothing" else r"what\?"
    refused = pytest.raises(splitlib.SourceError, match=f"fails unexpectedly: .*{said}")
    with metastore(unknown) as server, refused:
        client_of(server).get_partition_names("d", "t", values)


@BOTH
def test_names_have_a_deadline_and_are_not_read_half(values):
    """After a deadline, the rest of a late response is not read as the next response."""
    has_failed = threading.Event()

    def late(line, before, name, number):
        answer = encoded(name, number, success=NAMES)
        if before == 0:
            line.sendall(answer[:-20])
            assert has_failed.wait(30)
            with suppress(OSError):
                line.sendall(answer[-20:])
            return
        line.sendall(answer)

    with metastore(late) as server:
        client = client_of(server)
        with working_on(Call(0.3)), pytest.raises(splitlib.SourceUnavailable, match="in time"):
            client.get_partition_names("d", "t", values)
        has_failed.set()
        assert client.get_partition_names("d", "t", values).to_pylist() == NAMES
        assert server.connections == 2
        client.close()


@BOTH
@pytest.mark.parametrize("end", ["cut", "more", "length"])
def test_names_that_end_otherwise_than_they_should(values, end):
    def wrong(line, before, name, number):
        answer = encoded(name, number, success=NAMES)
        if end == "length":
            answer = answer.replace(b"\0\0\0\3k=1", b"\xff\0\0\3k=1")
        line.sendall(answer[:-1] if end == "cut" else answer + b"\0" * (end == "more"))
        line.close()

    said = {
        "cut": "TSocket read 0 bytes",
        "more": "has extra bytes",
        "length": "a string of -",
    }[end]
    with metastore(wrong) as server, pytest.raises(splitlib.SourceUnavailable, match=said):
        client_of(server).get_partition_names("d", "t", values)
