"""The metastore client with servers that are slow, fail or send wrong responses."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException, NoSuchObjectException
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TMessageType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TMemoryBuffer, TTransportException

import splitlib
from splitlib.remote.calls import Call, working_on
from splitlib_hive.client import parse_uris
from splitlib_hive.connection import DeadlineSocket
from tests.unit.connectors.hive.scripted_metastore import (
    answer_right,
    client_of,
    encoded,
    metastore,
    right,
)


def test_an_answer_to_another_call_is_refused():
    def late(line, before, name, number):
        line.sendall(right(name, number - 1))

    refused = pytest.raises(splitlib.SourceUnavailable, match=r"response 0 .* arrived for call 1")
    with metastore(late) as server, refused:
        client_of(server).get_databases()


def test_an_answer_of_another_name_is_refused():
    def other(line, before, name, number):
        line.sendall(encoded("get_all_tables", number, success=["t"]))

    refused = pytest.raises(splitlib.SourceUnavailable, match="of get_all_tables arrived")
    with metastore(other) as server, refused:
        client_of(server).get_databases()


def test_a_stale_answer_costs_a_connection_and_no_more(monkeypatch):
    opened: list[TSocket] = []
    monkeypatch.setattr(DeadlineSocket, "setTimeout", lambda socket, _: opened.append(socket))

    def twice(line, before, name, number):
        # Sent with the first response, the stale one would count as extra bytes of it.
        if before == 1:
            line.sendall(right("get_all_databases", number - 1))
        line.sendall(right(name, number))

    with metastore(twice) as server:
        client = client_of(server)
        assert client.get_databases() == ["default"]
        assert client.get_databases() == ["default"]
        assert client.get_tables("default") == ["t", "u"]
        assert server.connections == 2
        assert [socket.isOpen() for socket in opened] == [False, True]
        client.close()
        assert not opened[1].isOpen()


def test_an_answer_that_comes_twice_at_once_is_refused():
    def doubled(line, before, name, number):
        line.sendall(right(name, number) * 2)

    refused = pytest.raises(splitlib.SourceUnavailable, match="response 1 has extra bytes")
    with metastore(doubled) as server, refused:
        client_of(server).get_databases()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interrupted_call_leaves_no_answer_for_the_next(monkeypatch, error):
    with metastore() as server:
        client = client_of(server)
        assert client.get_databases() == ["default"]
        read = TSocket.read

        def interrupted(self, size):
            monkeypatch.setattr(TSocket, "read", read)
            raise error

        monkeypatch.setattr(TSocket, "read", interrupted)
        with pytest.raises(error):
            client.get_databases()
        assert client.get_tables("default") == ["t", "u"]
        assert server.connections == 2
        client.close()


@pytest.mark.parametrize("thrift", ["installed", "older"])
def test_a_slow_answer_is_waited_for(monkeypatch, thrift):
    """A response is complete even if many reads of it time out.

    Thrift before 0.21 raises another exception for a timeout, which must be recognised too.
    """
    read, timed_out = TSocket.read, []

    def read_once(self, size):
        try:
            return read(self, size)
        except TTransportException as error:
            timed_out.append(error)
            if thrift == "installed":
                raise
            raise TTransportException(
                message="unexpected exception", inner=TimeoutError()
            ) from None

    def slow(line, before, name, number):
        time.sleep(0.5)
        answer_right(line, before, name, number)

    monkeypatch.setattr(TSocket, "read", read_once)
    with metastore(slow) as server:
        client = client_of(server)
        assert client.get_databases() == ["default"]
        assert server.connections == 1
        client.close()
    assert timed_out


def mangled(name: str, number: int) -> Iterator[bytes]:
    """Yield copies of a response. In each, another byte after the header is changed."""
    whole = right(name, number)
    header = len(name) + 12
    for at in range(header, len(whole)):
        yield whole[:at] + bytes([whole[at] ^ 0x5A]) + whole[at + 1 :]


def test_a_torn_answer_is_no_error_of_a_class_of_its_own():
    variants: list[bytes] = list(mangled("get_all_databases", 1))

    def torn(line, before, name, number):
        line.sendall(variants[before])
        line.close()

    seen = set()
    with metastore(torn) as server:
        for _ in variants:
            client = client_of(server, timeout_seconds=2)
            try:
                client.get_databases()
            except splitlib.SplitlibError as error:
                seen.add(type(error))
    assert splitlib.SourceUnavailable in seen


def test_a_line_that_was_closed_while_idle_is_opened_again():
    def closing(line, before, name, number):
        line.sendall(right(name, number))
        line.close()

    with metastore(closing) as first, metastore() as second:
        client = client_of(first)
        for _ in range(3):
            assert client.get_databases() == ["default"]
            time.sleep(0.02)
        assert first.connections == 3
        # A server that closes an idle connection is not down.
        client = client_of(first, second)
        for _ in range(3):
            assert client.get_databases() == ["default"]
            time.sleep(0.02)
        assert (first.connections, second.connections) == (6, 0)
        client.close()


def test_where_nobody_listens_any_more_the_next_address_is_asked():
    def closing(line, before, name, number):
        line.sendall(right(name, number))
        line.close()

    with metastore() as second:
        with metastore(closing) as first:
            client = client_of(first, second)
            assert client.get_databases() == ["default"]
        assert client.get_databases() == ["default"]
        assert (first.connections, second.connections) == (1, 1)
        client.close()


def drip(line, before, name, number):
    for byte in right(name, number):
        line.sendall(bytes([byte]))
        time.sleep(0.1)


def test_an_answer_in_drops_has_a_deadline():
    with metastore(drip) as server:
        started = time.monotonic()
        with pytest.raises(splitlib.SourceUnavailable, match="no complete answer in time"):
            client_of(server, timeout_seconds=0.5).get_databases()
        with (
            pytest.raises(splitlib.SourceUnavailable, match="no complete answer in time"),
            working_on(Call(0.5)),
        ):
            client_of(server).get_databases()
        assert time.monotonic() - started < 3


def test_a_mute_address_leaves_time_for_the_next():
    def mute(line, before, name, number):
        time.sleep(10)

    with metastore(mute) as silent, metastore() as good, working_on(Call(2)):
        assert client_of(silent, good).get_databases() == ["default"]


def test_a_call_that_nobody_waits_for_ends():
    with metastore(drip) as server:
        call = Call(60)
        threading.Timer(0.2, call.abandoned.set).start()
        started = time.monotonic()
        with pytest.raises(splitlib.SourceUnavailable), working_on(call):
            client_of(server).get_databases()
        assert time.monotonic() - started < 2


def test_a_call_waits_for_another_no_longer_than_its_deadline():
    with metastore(drip) as server:
        client = client_of(server, timeout_seconds=3)

        def call() -> None:
            with suppress(OSError):
                client.get_databases()

        other = threading.Thread(target=call)
        other.start()
        time.sleep(0.1)
        with (
            pytest.raises(splitlib.SourceUnavailable, match="still running"),
            working_on(Call(0.2)),
        ):
            client.get_databases()
        other.join(10)


def test_a_table_that_was_dropped_in_between():
    def gone(line, before, name, number):
        line.sendall(encoded(name, number, o2=NoSuchObjectException("t")))

    refused = pytest.raises(splitlib.TableNotFound, match=r"no table default\.t")
    with metastore(gone) as server, refused:
        client_of(server).get_partitions_by_names("default", "t", ["k=1"])


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (
            "java.security.AccessControlException: Permission denied: user=me, access=READ",
            splitlib.AccessDenied,
        ),
        ("No privilege 'Select' found for inputs { database:default }", splitlib.AccessDenied),
        ("User me is not authorized to perform describe_table", splitlib.AccessDenied),
        ("Exception thrown when executing query", splitlib.SourceError),
    ],
)
def test_a_refusal_is_told_from_a_failure(message, error):
    """Denied access and failures raise different errors.

    The metastore raises the same exception type for both, so its text decides.
    """

    def refuse(line, before, name, number):
        line.sendall(encoded(name, number, o1=MetaException(message)))

    with metastore(refuse) as server, pytest.raises(error, match="The metastore rejects") as caught:
        client_of(server).get_databases()
    assert type(caught.value) is error
    assert server.calls == 1


def test_only_an_unknown_method_is_asked_for_by_its_older_name():
    def fail(line, before, name, number):
        protocol = TBinaryProtocol(buffer := TMemoryBuffer())
        protocol.writeMessageBegin(name, TMessageType.EXCEPTION, number)
        TApplicationException(TApplicationException.INTERNAL_ERROR, "no").write(protocol)
        line.sendall(buffer.getvalue())

    refused = pytest.raises(splitlib.SourceError, match="fails unexpectedly: no")
    with metastore(fail) as server:
        with refused:
            client_of(server).get_table("d", "t")
        assert server.calls == 1


def test_an_error_that_goes_on_after_its_end_is_refused():
    def fail(line, before, name, number):
        protocol = TBinaryProtocol(buffer := TMemoryBuffer())
        protocol.writeMessageBegin(name, TMessageType.EXCEPTION, number)
        TApplicationException(TApplicationException.INTERNAL_ERROR, "broken").write(protocol)
        line.sendall(buffer.getvalue() + b"more")

    with metastore(fail) as server:
        client = client_of(server)
        with pytest.raises(splitlib.SourceUnavailable, match="has extra bytes"):
            client.get_partition_names("d", "t")
        client.close()


def test_nothing_is_sent_after_the_deadline(monkeypatch):
    monkeypatch.setattr("splitlib_hive.connection.time", SimpleNamespace(monotonic=lambda: 100))
    sent: list[bytes] = []
    left: list[float] = []
    socket = DeadlineSocket("127.0.0.1", 1)
    socket.setHandle(SimpleNamespace(settimeout=left.append, sendall=sent.append))
    for socket.until in (0, 100, 100.5):
        with suppress(TTransportException):
            socket.write(b"%g" % socket.until)
    assert (sent, left) == ([b"100.5"], [0.5])
    socket.given_up = threading.Event()
    socket.write(b"on time")
    socket.given_up.set()
    with pytest.raises(TTransportException):
        socket.write(b"for nobody")
    assert sent == [b"100.5", b"on time"]


def test_an_answer_comes_in_pieces_and_may_end_early(monkeypatch):
    monkeypatch.setattr("splitlib_hive.connection.time", SimpleNamespace(monotonic=lambda: 0))
    pieces, wanted = [b"ab", b"c", b"d", b""], list[int]()

    def recv(size):
        wanted.append(size)
        return pieces.pop(0)

    socket = DeadlineSocket("127.0.0.1", 1)
    socket.setHandle(SimpleNamespace(settimeout=lambda _: None, recv=recv))
    socket.until, socket.received = 1, 0
    assert socket.readAll(3) == b"abc"
    with pytest.raises(TTransportException) as caught:
        socket.readAll(3)
    assert caught.value.type == TTransportException.END_OF_FILE
    assert (wanted, socket.received) == ([3, 1, 3, 2], 4)


@pytest.mark.parametrize("given", ["", ",", " , "])
def test_no_address_is_an_error(given):
    with pytest.raises(splitlib.ConfigError, match="No metastore address"):
        parse_uris(given)


@pytest.mark.parametrize("reason", ["deadline", "abandoned"])
def test_nothing_is_asked_for_nobody(reason):
    with metastore(answer_right) as server:
        client, call = client_of(server), Call(0.001 if reason == "deadline" else 5)
        with working_on(call):
            if reason == "abandoned":
                call.abandoned.set()
            time.sleep(0.002)
            with pytest.raises(
                splitlib.SourceUnavailable, match=r"deadline has passed|still running"
            ):
                client.get_databases()
        assert server.connections == 0
        assert client.get_databases() == ["default"]
        client.close()


def test_connecting_is_of_the_time_of_a_call(monkeypatch):
    """The time limit of a call includes the time to connect."""

    def never(line, before, name, number):
        time.sleep(2)

    opened = TSocket.open

    def slow(socket):
        time.sleep(0.3)
        opened(socket)

    monkeypatch.setattr(TSocket, "open", slow)
    with metastore(never) as server:
        client = client_of(server)
        started = time.monotonic()
        with working_on(Call(0.4)), pytest.raises(splitlib.SourceUnavailable):
            client.get_databases()
        assert time.monotonic() - started < 0.65
        client.close()


def test_an_answer_that_goes_on_after_its_end_is_refused():
    """A response with bytes after its end is refused.

    The response contains one more name than the list declares, so bytes are left.
    """
    name = b"\x00\x00\x00\x01t"

    def twice(line, before, call, number):
        answer = encoded(call, number, success=["t", "u"])
        assert answer.count(name) == 1
        line.sendall(answer.replace(name, name + name))

    with metastore(twice) as server:
        client = client_of(server)
        with pytest.raises(splitlib.SourceUnavailable, match="has extra bytes"):
            client.get_tables("d")
        client.close()
