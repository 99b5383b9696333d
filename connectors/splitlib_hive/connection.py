"""One connection to a metastore. It checks that responses arrive in time and match their calls."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from typing import Any

import pyarrow as pa
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TMessageType, TType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from splitlib.errors import SourceError
from splitlib_hive.security import Address, HttpTransport, KerberosTransport, Security
from splitlib_hive.string_lists import read_strings

# Thrift logs each error with its traceback, and then raises it. Without this handler, Python would
# also print the logged error in a program that does not configure logging.
logging.getLogger("thrift").addHandler(logging.NullHandler())
_READ_BUFFER = 1 << 18
# Thrift's default limit of 16 MB per string is too low for the table parameters of wide tables.
_STRING_LIMIT = 2**31 - 1
# Maximum number of elements in a list or map: 16 million. There must be a limit, because Thrift
# allocates memory for all elements before it reads them.
_LENGTH_LIMIT = 1 << 24
ANSWER_LIMIT = 1 << 30
"""Maximum size of a response, in bytes: a million partition names of 1,000 characters each."""
_PIECE = 1 << 20
_POLL_SECONDS = 0.25


class Connection:
    """An open connection. Not thread-safe. Close it after any failure.

    Args:
        address: Address of the metastore.
        security: How the connection is secured.
        timeout_seconds: Time limit for opening the connection, in seconds.

    Raises:
        TTransportException: if the connection cannot be opened.
        AccessDenied: if the metastore rejects the credentials.
    """

    def __init__(self, address: Address, security: Security, timeout_seconds: float) -> None:
        self._socket = DeadlineSocket(address.host, address.port, security.tls)
        self._socket.setTimeout(timeout_seconds * 1000)
        self._socket.until = time.monotonic() + timeout_seconds
        transport = self._socket
        if address.scheme != "thrift":
            transport = HttpTransport(transport, address, security.token)
        elif security.principal is not None:
            transport = KerberosTransport(transport, security.principal_of(address.host))
        self._transport = TBufferedTransport(transport, _READ_BUFFER)
        try:
            self._transport.open()
        except BaseException:
            self._transport.close()
            raise
        protocol = _Protocol(
            self._transport,
            string_length_limit=_STRING_LIMIT,
            container_length_limit=_LENGTH_LIMIT,
        )
        self._client = _Client(protocol)

    def client(self, until: float, given_up: threading.Event | None) -> ThriftHiveMetastore.Client:
        """Return Thrift's client for the next calls. The client returns partition names as bytes.

        Args:
            until: Deadline for complete responses, as a value of ``time.monotonic``.
            given_up: Event that is set when the caller no longer waits for the responses. None
                means that the caller waits until the deadline.
        """
        self._socket.until, self._socket.given_up = until, given_up
        return self._client

    def close(self) -> None:
        """Close the connection without reading outstanding responses."""
        self._transport.close()


class DeadlineSocket(TSocket):  # type: ignore[misc]  # thrift is not typed
    """A socket with a deadline and a size limit for the whole response, not for each read."""

    until: float
    received: int
    given_up: threading.Event | None = None

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(host, port)
        self._tls = tls

    def open(self) -> None:  # noqa: D102 - overrides TSocket
        super().open()
        if self._tls is not None:
            self.setHandle(self._tls.wrap_socket(self.handle, server_hostname=self.host))

    def read(self, size: int) -> bytes:  # noqa: D102 - overrides TSocket
        while True:
            self.handle.settimeout(min(self._remaining_seconds(), _POLL_SECONDS))
            try:
                data: bytes = super().read(min(size, _PIECE))
            except TTransportException as error:
                # Thrift before 0.21 reports a timeout as an unknown error. After a timeout, the
                # loop checks the deadline and reads again.
                timed_out = error.type == TTransportException.TIMED_OUT
                if not timed_out and not isinstance(error.inner, TimeoutError):
                    raise
            else:
                self.received += len(data)
                if self.received > ANSWER_LIMIT:
                    raise SourceError(
                        f"The response of the metastore has more than {ANSWER_LIMIT} bytes.",
                        hint="check the uri; if it is right, request fewer partitions per call.",
                    )
                return data

    def readAll(self, size: int) -> bytes:  # noqa: D102, N802 - overrides TSocket
        # Thrift's own method is slow, because it copies all received bytes again for each piece.
        data = bytearray()
        while len(data) < size:
            data += self.read(size - len(data))  # raises an error if the connection was closed
        return bytes(data)

    def write(self, data: bytes) -> None:  # noqa: D102 - overrides TSocket
        self.received = 0
        self.handle.settimeout(self._remaining_seconds())
        self.handle.sendall(data)  # the timeout limits the whole call of sendall

    def _remaining_seconds(self) -> float:
        remaining = self.until - time.monotonic()
        if remaining <= 0 or (self.given_up is not None and self.given_up.is_set()):
            raise TTransportException(TTransportException.TIMED_OUT, "no complete answer in time")
        return remaining


class _Client(ThriftHiveMetastore.Client):  # type: ignore[misc]  # as above
    """Thrift's generated client.

    It also sends the catalog of a table, and returns partition names as a binary Arrow array.
    """

    def send_get_table_req(self, req: Any) -> None:
        # hmsclient's class of the request lacks the field ``catName``, and the generated code would
        # not send it.
        protocol = self._oprot
        protocol.writeMessageBegin("get_table_req", TMessageType.CALL, self._seqid)
        protocol.writeFieldBegin("req", TType.STRUCT, 1)
        for field, text in ((1, req.dbName), (2, req.tblName), (4, req.catName)):
            if text is not None:
                protocol.writeFieldBegin("", TType.STRING, field)
                protocol.writeString(text)
        protocol.writeFieldStop()  # end of the request
        protocol.writeFieldStop()  # end of the arguments
        protocol.writeMessageEnd()
        protocol.trans.flush()

    def recv_get_partition_names(self) -> pa.BinaryArray:
        return self._strings(ThriftHiveMetastore.get_partition_names_result())

    def recv_get_partition_names_ps(self) -> pa.BinaryArray:
        return self._strings(ThriftHiveMetastore.get_partition_names_ps_result())

    def _strings(self, result: Any) -> pa.BinaryArray:
        """Read a response as the generated code does, but return its strings as an Arrow array."""
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
    """Numbers the calls, and checks that each response belongs to its call.

    Thrift's generated code does not check this.
    """

    _sent = ("", 0)

    def writeMessageBegin(self, name: str, type: int, seqid: int) -> None:  # noqa: N802 - thrift's name
        self._sent = (name, self._sent[1] + 1)
        super().writeMessageBegin(name, type, self._sent[1])

    def readMessageBegin(self) -> tuple[str, int, int]:  # noqa: N802 - thrift's name
        name, kind, number = super().readMessageBegin()
        if (name, number) != self._sent:
            raise TProtocolException(
                TProtocolException.INVALID_DATA,
                f"response {number} of {name} arrived for call {self._sent[1]} of {self._sent[0]}",
            )
        answer: tuple[str, int, int] = name, kind, number
        return answer

    def readMessageEnd(self) -> None:  # noqa: N802 - thrift's name
        super().readMessageEnd()
        # There is only one call at a time. So any remaining bytes belong to this response, and it
        # was decoded wrongly.
        if self.trans.cstringio_buf.read(1):
            raise TProtocolException(
                TProtocolException.INVALID_DATA,
                f"response {self._sent[1]} has extra bytes",
            )
