"""Calls of a metastore over thrift: several addresses, timeouts, the accelerated protocol.

The generated classes are hmsclient's; the transport is ours, because hmsclient's has one address,
no timeout and decodes several times slower.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from hmsclient.genthrift.hive_metastore.ttypes import (
    GetTableRequest,
    MetaException,
    NoSuchObjectException,
)
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from splitlib.errors import ConfigError, SourceError, SourceUnavailable, TableNotFound
from splitlib.redaction import redact

T = TypeVar("T")

DEFAULT_PORT = 9083
_READ_BUFFER = 1 << 16
# Thrift's own bound of 16 MB for one string is below what one wide table's parameters may take.
_STRING_LIMIT = 2**31 - 1
_URI = re.compile(r"(?:thrift://)?(?P<host>\[[0-9a-fA-F:]+\]|[^:/\s]+)(?::(?P<port>\d+))?/?")


class Address(NamedTuple):
    """Where a metastore listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"thrift://{self.host}:{self.port}"


def parse_uris(uris: str) -> list[Address]:
    """``thrift://a:9083,thrift://b`` as addresses, in the order in which they are tried.

    Raises:
        ConfigError: for anything else.
    """
    addresses = []
    for uri in filter(None, (part.strip() for part in uris.split(","))):
        found = _URI.fullmatch(uri)
        if not found or int(found["port"] or 1) not in range(1, 65536):
            raise ConfigError(
                f"{redact(uri)!r} is no address of a metastore.",
                hint="write thrift://host:9083, several separated by commas.",
            )
        addresses.append(Address(found["host"].strip("[]"), int(found["port"] or DEFAULT_PORT)))
    if not addresses:
        raise ConfigError(
            "No address of a metastore is given.", hint="pass uri='thrift://host:9083'."
        )
    return addresses


class MetastoreClient:
    """The few read-only calls that splitlib makes. Thread-safe: one call at a time.

    Every call is repeated on the next address when the connection fails, each address once; all of
    them are reads, so repeating is safe.

    Args:
        addresses: Tried in turn, starting with the one that worked last.
        connect_timeout_seconds: For a connection to be accepted.
        timeout_seconds: For each read of an answer; a metastore may think long before it writes.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        *,
        connect_timeout_seconds: float = 10,
        timeout_seconds: float = 600,
    ) -> None:
        self._addresses = list(addresses)
        self._connect_timeout = connect_timeout_seconds
        self._timeout = timeout_seconds
        self._lock = threading.Lock()
        self._client: ThriftHiveMetastore.Client | None = None
        self._transport: TBufferedTransport | None = None

    def get_table(self, database: str, table: str) -> Any:
        """The thrift ``Table``.

        Raises:
            TableNotFound: if there is no such table.
        """

        def newest_first(client: ThriftHiveMetastore.Client) -> Any:
            try:
                return client.get_table_req(GetTableRequest(database, table)).table
            except TApplicationException as error:
                # Known since Hive 2.3; the older get_table is gone from 4.0.1 on.
                if error.type != TApplicationException.UNKNOWN_METHOD:
                    raise
                return client.get_table(database, table)

        try:
            return self._call(newest_first)
        except NoSuchObjectException as error:
            raise TableNotFound(
                f"The metastore has no table {database}.{table}.",
                hint="splitlib tables lists what it has.",
            ) from error

    def get_tables(self, database: str) -> list[str]:
        """Names of the tables of a database."""
        return self._call(lambda client: client.get_all_tables(database))

    def get_databases(self) -> list[str]:
        """Names of the databases."""
        return self._call(lambda client: client.get_all_databases())

    def get_partition_names(self, database: str, table: str) -> list[str]:
        """All names like ``k1=v1/k2=v2``, in the metastore's order, in one call."""
        return self._call(lambda client: client.get_partition_names(database, table, -1))

    def get_partitions_by_names(self, database: str, table: str, names: Sequence[str]) -> list[Any]:
        """Thrift ``Partition``s, in any order; a name that has gone is left out.

        A server may refuse more than so many at once; then they are asked for in halves.
        """
        try:
            return self._call(
                lambda client: client.get_partitions_by_names(database, table, list(names))
            )
        except SourceError as error:
            if len(names) == 1 or "limit" not in str(error).lower():
                raise
        half = len(names) // 2
        return [
            *self.get_partitions_by_names(database, table, names[:half]),
            *self.get_partitions_by_names(database, table, names[half:]),
        ]

    def close(self) -> None:
        """Close the connection; a later call opens another."""
        with self._lock:
            self._disconnect()

    def _call(self, call: Callable[[ThriftHiveMetastore.Client], T]) -> T:
        failures = []
        with self._lock:
            # One more than there are addresses: a connection that was idle may have been closed
            # by the server, which says nothing about its being alive.
            idle = self._client is not None
            for _ in range(len(self._addresses) + idle):
                address = self._addresses[0]
                try:
                    return call(self._client or self._connect(address))
                except NoSuchObjectException:
                    raise
                except MetaException as error:
                    raise SourceError(f"The metastore refuses: {error.message}") from error
                except (TTransportException, TProtocolException, OSError, EOFError) as error:
                    failures.append(f"{address}: {error or type(error).__name__}")
                    self._disconnect()
                    if not idle:
                        self._addresses.append(self._addresses.pop(0))
                    idle = False
                except TException as error:
                    self._disconnect()  # what is left of the answer would be taken for the next
                    raise SourceError(
                        f"The metastore's answer is not understood: {error}"
                    ) from error
        raise SourceUnavailable(
            f"No metastore answers ({'; '.join(failures)}).",
            hint="check the uri and that the metastore is running.",
        )

    def _connect(self, address: Address) -> ThriftHiveMetastore.Client:
        socket = TSocket(address.host, address.port)
        socket.setTimeout(self._connect_timeout * 1000)
        transport = TBufferedTransport(socket, _READ_BUFFER)
        transport.open()
        socket.setTimeout(self._timeout * 1000)
        protocol = TBinaryProtocolAccelerated(transport, string_length_limit=_STRING_LIMIT)
        self._transport = transport
        self._client = ThriftHiveMetastore.Client(protocol)
        return self._client

    def _disconnect(self) -> None:
        if self._transport is not None:
            self._transport.close()
        self._client = self._transport = None
