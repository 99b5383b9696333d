"""One connection to a metastore: an answer has a deadline, and has to be that of its call."""

from __future__ import annotations

import threading
import time
from typing import Any

import pyarrow as pa
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TMessageType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from splitlib_hive.string_lists import read_strings

_READ_BUFFER = 1 << 18
# Thrift's own bound of 16 MB for one string is below what one wide table's parameters may take.
_STRING_LIMIT = 2**31 - 1
_POLL_SECONDS = 0.25


class Connection:
    """An open connection. Not thread-safe; after any failure it is to be closed.

    Args:
        host: Where the metastore is.
        port: Where it listens.
        timeout_seconds: For the connection to be accepted.

    Raises:
        TTransportException: if it is not.
    """

    def __init__(self, host: str, port: int, timeout_seconds: float) -> None:
        self._socket = DeadlineSocket(host, port)
        self._socket.setTimeout(timeout_seconds * 1000)
        self._transport = TBufferedTransport(self._socket, _READ_BUFFER)
        self._transport.open()
        protocol = _Protocol(self._transport, string_length_limit=_STRING_LIMIT)
        self._client = _Client(protocol)

    def client(self, until: float, given_up: threading.Event | None) -> ThriftHiveMetastore.Client:
        """Thrift's generated client, for the calls of some time; names of partitions are bytes.

        Args:
            until: When their answers have to be complete, by the monotonic clock.
            given_up: Set when nobody waits for them any more.
        """
        self._socket.until, self._socket.given_up = until, given_up
        return self._client

    def close(self) -> None:
        """Close it, whatever is still to come."""
        self._transport.close()


class DeadlineSocket(TSocket):  # type: ignore[misc]  # thrift is not typed
    """A socket with a deadline for the whole answer, however many pieces it comes in."""

    until = 0.0
    given_up: threading.Event | None = None

    def read(self, size: int) -> bytes:  # noqa: D102 - as of any transport
        while True:
            self.handle.settimeout(min(self._remaining_seconds(), _POLL_SECONDS))
            try:
                data: bytes = super().read(size)
            except TTransportException as error:
                # before 0.21 thrift calls it an unknown error
                timed_out = error.type == TTransportException.TIMED_OUT
                if not timed_out and not isinstance(error.inner, TimeoutError):
                    raise
            else:
                return data

    def write(self, data: bytes) -> None:  # noqa: D102 - as of any transport
        self.handle.settimeout(self._remaining_seconds())
        self.handle.sendall(data)  # in which the timeout is for all of it

    def _remaining_seconds(self) -> float:
        remaining = self.until - time.monotonic()
        if remaining <= 0 or (self.given_up is not None and self.given_up.is_set()):
            raise TTransportException(TTransportException.TIMED_OUT, "no complete answer in time")
        return remaining


class _Client(ThriftHiveMetastore.Client):  # type: ignore[misc]  # as above
    """Thrift's generated client, but the names of partitions come as an Arrow array of bytes."""

    def recv_get_partition_names(self) -> pa.BinaryArray:
        return self._strings(ThriftHiveMetastore.get_partition_names_result())

    def recv_get_partition_names_ps(self) -> pa.BinaryArray:
        return self._strings(ThriftHiveMetastore.get_partition_names_ps_result())

    def _strings(self, result: Any) -> pa.BinaryArray:
        """What the generated code does, which reads all that is not a list of strings in front."""
        protocol = self._iprot
        name, kind, _ = protocol.readMessageBegin()
        if kind == TMessageType.EXCEPTION:
            failure = TApplicationException()
            failure.read(protocol)
            protocol.readMessageEnd()
            raise failure
        strings = read_strings(protocol.trans)
        result.read(protocol)
        protocol.readMessageEnd()
        if result.success is not None:
            return pa.array([text.encode() for text in result.success], pa.binary())
        if strings is not None:
            return strings
        for field in ("o1", "o2"):
            if (error := getattr(result, field, None)) is not None:
                raise error
        missing = TApplicationException.MISSING_RESULT
        raise TApplicationException(missing, f"{name} failed: unknown result")


class _Protocol(TBinaryProtocolAccelerated):  # type: ignore[misc]  # as above
    """Numbers the calls; the generated code numbers none and takes whatever answer comes next."""

    _sent = ("", 0)

    def writeMessageBegin(self, name: str, type: int, seqid: int) -> None:  # noqa: N802 - thrift's name
        self._sent = (name, self._sent[1] + 1)
        super().writeMessageBegin(name, type, self._sent[1])

    def readMessageBegin(self) -> tuple[str, int, int]:  # noqa: N802 - thrift's name
        name, kind, number = super().readMessageBegin()
        if (name, number) != self._sent:
            raise TProtocolException(
                TProtocolException.INVALID_DATA,
                f"answer {number} of {name} came to call {self._sent[1]} of {self._sent[0]}",
            )
        answer: tuple[str, int, int] = name, kind, number
        return answer

    def readMessageEnd(self) -> None:  # noqa: N802 - thrift's name
        super().readMessageEnd()
        # one call at a time: what follows is of this answer, a part of which was misread
        if self.trans.cstringio_buf.read(1):
            raise TProtocolException(
                TProtocolException.INVALID_DATA,
                f"there is more in answer {self._sent[1]} than was to be read",
            )
