"""A Hive metastore client that supports several addresses, and makes one call at a time.

The generated Thrift classes are from hmsclient. hmsclient's own connection is not used, because it
supports only one address and no timeouts, and decodes responses several times slower.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pyarrow as pa
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from hmsclient.genthrift.hive_metastore.ttypes import (
    GetTableRequest,
    MetaException,
    NoSuchObjectException,
)
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TTransport import TTransportException

from splitlib.errors import (
    AccessDenied,
    ConfigError,
    CorruptMetadata,
    SourceError,
    SourceUnavailable,
    TableNotFound,
)
from splitlib.redaction import redact
from splitlib.remote.calls import FOREVER_SECONDS, current_call
from splitlib.storage import in_forks_of_this
from splitlib_hive.connection import Connection
from splitlib_hive.security import Address, Security, refused, tls_error

T = TypeVar("T")

DEFAULT_PORT = 9083
CONNECT_TIMEOUT_SECONDS, TIMEOUT_SECONDS = 10.0, 300.0
_URI = re.compile(
    r"(?:(?P<scheme>thrift|https?)://)?(?P<host>\[[0-9a-fA-F:]+\]|[^:/\s]+)(?::(?P<port>\d+))?"
    r"(?P<path>/[^\s?#]*)?"
)
_PORTS = {"thrift": DEFAULT_PORT, "http": 80, "https": 443}
_HTTP_PATH = "/metastore"
# Texts of denials. Metastore authorizers report a denial only in the text of a MetaException.
_DENIED = re.compile(
    r"AccessControlException|permission denied|no privilege|not authorized|unauthorized",
    re.IGNORECASE,
)


def parse_uris(uris: str) -> list[Address]:
    """Parse addresses such as ``thrift://a:9083,thrift://b``. The client tries them in this order.

    The default path of an HTTP address is Hive's default, ``/metastore``.

    Raises:
        ConfigError: if an address is invalid, or there is no address.
    """
    addresses = []
    for uri in filter(None, (part.strip() for part in uris.split(","))):
        found = _URI.fullmatch(uri)
        scheme = (found and found["scheme"]) or "thrift"
        path = "" if not found else (found["path"] or "").rstrip("/")
        if (
            not found
            or int(found["port"] or 1) not in range(1, 65536)
            or (path and scheme == "thrift")
        ):
            raise ConfigError(
                f"{redact(uri)!r} is not a metastore address.",
                hint="write thrift://host:9083, several separated by commas.",
            )
        if scheme != "thrift":
            path = path or _HTTP_PATH
        port = int(found["port"] or _PORTS[scheme])
        addresses.append(Address(found["host"].strip("[]"), port, scheme, path))
    if not addresses:
        raise ConfigError("No metastore address was given.", hint="pass uri='thrift://host:9083'.")
    return addresses


class MetastoreClient:
    """The read-only metastore calls that splitlib needs. Thread-safe: one call at a time.

    When a connection fails, the call is repeated once at each of the other addresses. This is safe,
    because no call changes anything.

    Args:
        addresses: Addresses to try in turn. Each call starts with the address that worked last.
        security: How connections are secured.
        catalog: Catalog of the metastore, or None for the server's default catalog.
        connect_timeout_seconds: Time limit for opening a connection, in seconds.
        timeout_seconds: Time limit for a complete response, in seconds. If the call has a deadline,
            the remaining time is divided among the remaining attempts.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        *,
        security: Security | None = None,
        catalog: str | None = None,
        connect_timeout_seconds: float = CONNECT_TIMEOUT_SECONDS,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._addresses = list(addresses)
        self._security = security or Security()
        self._catalog = catalog
        self._connect_timeout = connect_timeout_seconds
        self._timeout = timeout_seconds
        self._renew()
        in_forks_of_this(self, MetastoreClient._renew)

    def _renew(self) -> None:
        # After a fork, the parent process still uses the connection. If this process used it too,
        # it could receive responses to the parent's calls.
        self._lock = threading.Lock()
        self._connection: Connection | None = None

    def get_table(self, database: str, table: str) -> Any:
        """Return a table as a Thrift ``Table`` object.

        Raises:
            TableNotFound: if there is no such table.
        """

        def newest_first(client: ThriftHiveMetastore.Client) -> Any:
            try:
                request = GetTableRequest(database, table)
                request.catName = self._catalog
                return client.get_table_req(request).table
            except TApplicationException as error:
                # Hive 2.3 added get_table_req. Hive 4.0.1 removed the older get_table.
                if error.type != TApplicationException.UNKNOWN_METHOD:
                    raise
                return client.get_table(self._in_catalog(database), table)

        with _of_table(database, table):
            return self._call(newest_first)

    def get_tables(self, database: str) -> list[str]:
        """Return the names of all tables in a database."""
        return self._call(lambda client: client.get_all_tables(self._in_catalog(database)))

    def get_databases(self) -> list[str]:
        """Return the names of all databases."""
        if self._catalog is None:
            return self._call(lambda client: client.get_all_databases())
        return self._call(lambda client: client.get_databases(self._in_catalog("")))

    def get_partition_names(
        self, database: str, table: str, values: Sequence[str] = ()
    ) -> pa.StringArray:
        """Return the names of partitions, such as ``k1=v1/k2=v2``, in the metastore's order.

        Args:
            database: The table's database.
            table: The table.
            values: One value per key, in which an empty string matches every value. The result may
                contain other partitions too, because servers treat some characters as wildcards. By
                default, the names of all partitions are returned.

        Raises:
            TableNotFound: if there is no such table. Some metastores raise another error instead,
                or return no names.
            CorruptMetadata: if a name is not valid UTF-8.
        """

        def names(client: ThriftHiveMetastore.Client) -> Any:
            place = self._in_catalog(database), table
            if values:
                return client.get_partition_names_ps(*place, list(values), -1)
            return client.get_partition_names(*place, -1)

        with _of_table(database, table):
            found = self._call(names)
        try:
            return found.cast(pa.string())
        except pa.ArrowInvalid as error:
            raise CorruptMetadata("The name of a partition is not valid UTF-8.") from error

    def get_partitions_by_names(self, database: str, table: str, names: Sequence[str]) -> list[Any]:
        """Return a Thrift ``Partition`` for each name that exists, in any order.

        If the server rejects the call because of too many names, each half of the names is
        requested separately.

        Raises:
            TableNotFound: if there is no such table.
        """
        try:
            with _of_table(database, table):
                return self._call(
                    lambda client: client.get_partitions_by_names(
                        self._in_catalog(database), table, list(names)
                    )
                )
        except SourceError as error:
            if len(names) == 1 or "limit" not in str(error).lower():
                raise
        half = len(names) // 2
        return [
            *self.get_partitions_by_names(database, table, names[:half]),
            *self.get_partitions_by_names(database, table, names[half:]),
        ]

    def _in_catalog(self, database: str) -> str:
        """Return a database's name with the catalog as a prefix, in the syntax of Hive 3."""
        return database if self._catalog is None else f"@{self._catalog}#{database}"

    def close(self) -> None:
        """Close the connection. A later call opens a new one."""
        with self._alone():
            self._disconnect()

    def _call(self, call: Callable[[ThriftHiveMetastore.Client], T]) -> T:
        failures = []
        last: Exception | None = None
        with self._alone():
            # If a connection is open, allow one more attempt than there are addresses. The server
            # may have closed the idle connection, but still accept a new one.
            idle = self._connection is not None
            for tries in range(len(self._addresses) + idle, 0, -1):
                if not _remaining_seconds():
                    failures.append("the deadline has passed")
                    break
                address = self._addresses[0]
                try:
                    return call(self._client(address, tries))
                except NoSuchObjectException:
                    raise
                except MetaException as error:
                    denied = _DENIED.search(error.message or "") is not None
                    kind = AccessDenied if denied else SourceError
                    raise kind(f"The metastore rejects the call: {error.message}") from error
                except (AccessDenied, SourceError):  # a retry would not help
                    self._disconnect()
                    raise
                except Exception as error:
                    # Catch every class of exception, because the decoder may raise any of them if
                    # the response is truncated.
                    self._disconnect()
                    last = error
                    if (of_tls := tls_error(error)) is not None:
                        raise refused(address, of_tls) from error
                    if _is_answer(error):
                        raise SourceError(f"The metastore fails unexpectedly: {error}") from error
                    failures.append(f"{address}: {_message_of(error)}")
                    if not idle:
                        self._addresses.append(self._addresses.pop(0))
                    idle = False
                except BaseException:
                    # After Ctrl-C the response may still arrive. On the same connection, the next
                    # call would read it instead of its own response.
                    self._disconnect()
                    raise
        raise SourceUnavailable(
            f"No metastore answers ({'; '.join(failures)}).",
            hint="check the uri, that the metastore is running, and whether it requires TLS "
            "(tls, tls_ca, tls_certificate) or Kerberos.",
        ) from last

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock in the ``with`` block, because a connection handles one call at a time."""
        if not self._lock.acquire(timeout=_remaining_seconds()):
            raise SourceUnavailable(
                "Another metastore call was still running when the deadline of this call passed."
            )
        try:
            yield
        finally:
            self._lock.release()

    def _client(self, address: Address, tries: int) -> ThriftHiveMetastore.Client:
        """Return Thrift's generated client, after opening a connection if there is none.

        Args:
            address: Address to connect to.
            tries: Number of remaining attempts, which share the call's remaining time.
        """
        call = current_call()
        seconds = min(self._timeout, _remaining_seconds() / tries)
        until = time.monotonic() + seconds
        if self._connection is None:
            connecting = min(self._connect_timeout, seconds)
            self._connection = Connection(address, self._security, connecting)
        return self._connection.client(until, None if call is None else call.abandoned)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


@contextmanager
def _of_table(database: str, table: str) -> Iterator[None]:
    try:
        yield
    except NoSuchObjectException as error:
        raise TableNotFound(
            f"The metastore has no table {database}.{table}.",
            hint="run 'splitlib tables' to list its tables.",
        ) from error


def _remaining_seconds() -> float:
    """Return the seconds until the current call's deadline, or 0 if the call was abandoned."""
    call = current_call()
    if call is None:
        return FOREVER_SECONDS
    return 0.0 if call.abandoned.is_set() else call.remaining_seconds()


def _is_answer(error: Exception) -> bool:
    """Return whether an error is a response of the metastore, not a failure of the connection."""
    broken = isinstance(error, TTransportException | TProtocolException)
    return isinstance(error, TException) and not broken


def _message_of(error: Exception) -> str:
    text = str(error)
    if isinstance(error, OSError | TTransportException | TProtocolException) and text:
        return text
    return f"{type(error).__name__}: {text}".removesuffix(": ")
