"""A simulated metastore and its sockets. Answers may be late, in pieces or missing.

Thrift's own code decodes the requests and encodes the answers. Only the network is simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from hmsclient.genthrift.hive_metastore.ttypes import (
    GetTableResult,
    MetaException,
    NoSuchObjectException,
    Partition,
    Table,
)
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TApplicationException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TMemoryBuffer

from tests.simulation.history import Span
from tests.simulation.setting import Setting

GONE, REFUSED = "gone", "refused"
"""Names of two tables: one does not exist, and access to the other is denied."""
MOST_NAMES = 3
"""Maximum number of partitions described in one answer."""
_RESET: Any = object()


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Possible faults of the servers and of the network in one run."""

    faults: tuple[str, ...]
    rate: float
    """Probability that a connection or a request has a fault."""
    healthy: frozenset[str] = frozenset()
    """Hosts that never have a fault."""
    old: frozenset[str] = frozenset()
    """Hosts with Hive before 2.3, which do not support ``get_table_req``."""
    idle_seconds: float = float("inf")
    """Time after which servers close an idle connection, in seconds."""


FAULTS = ("slow", "late", "trickle", "cut", "reset", "hang", "garbage", "refuse", "interrupt")


def names_of(table: str) -> list[str]:
    """Return the names of a table's partitions, which contain the table's name."""
    return [f"k={table}-{number}" for number in range(len(table) % 5)]


class _Handler:
    """The calls that the simulated metastore supports.

    Args:
        old: Whether to behave like Hive before 2.3.
    """

    def __init__(self, *, old: bool) -> None:
        self._old = old

    def get_table_req(self, request: Any) -> GetTableResult:
        if self._old:
            raise TApplicationException(TApplicationException.UNKNOWN_METHOD)
        return GetTableResult(table=self.get_table(request.dbName, request.tblName))

    def get_table(self, database: str, table: str) -> Table:
        _check(table)
        return Table(dbName=database, tableName=table)

    def get_partition_names(self, database: str, table: str, most: int) -> list[str]:
        if table == GONE:
            return []  # Hive returns an empty list for a missing table
        _check(table)
        return names_of(table)

    def get_partitions_by_names(self, database: str, table: str, names: list[str]) -> Any:
        _check(table)
        if len(names) > MOST_NAMES:
            raise MetaException(f"Number of partitions {len(names)} exceeds the limit {MOST_NAMES}")
        return [Partition(values=[name], tableName=table) for name in names]


def _check(table: str) -> None:
    if table == GONE:
        raise NoSuchObjectException(f"no table {table}")
    if table == REFUSED:
        raise MetaException("Permission denied: user nobody")


class Network:
    """Creates simulated sockets, and keeps a list of the open ones.

    Args:
        setting: Setting of the run, with its clock and history.
        behaviour: Possible faults.
        asking: Function that returns the request of the running thread, or None.
    """

    def __init__(
        self, setting: Setting, behaviour: Behaviour, asking: Callable[[], Span | None]
    ) -> None:
        self.setting, self.behaviour, self.asking = setting, behaviour, asking
        self.open: list[SimulatedSocket] = []

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Make Thrift use sockets of this network within the ``with`` block."""

        def resolve(socket: TSocket) -> list[Any]:
            return [(None, None, None, None, (socket.host, socket.port))]

        def make(_: TSocket, *family_and_type: Any) -> SimulatedSocket:
            return SimulatedSocket(self)

        with mock.patch.multiple(TSocket, _resolveAddr=resolve, _do_open=make):
            yield

    def fault(self, host: str) -> str:
        """Return a random fault for a connection or a request to a host, or "" for no fault."""
        behaviour, random = self.behaviour, self.setting.random
        if host in behaviour.healthy or random.random() >= behaviour.rate:
            return ""
        return random.choice(behaviour.faults)

    def note(self, kind: str, host: str, **data: Any) -> None:
        """Record an event of the running thread's request in the history."""
        asked = self.asking()
        number = None if asked is None else asked.begin.number
        self.setting.history.note(kind, ask=number, host=host, **data)


class SimulatedSocket:
    """A socket with the methods that Thrift calls."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._setting = network.setting
        self._scheduler = network.setting.scheduler
        self._timeout: float | None = None
        self._host = ""
        self._server: Any = None
        self._used_at = 0.0
        self._coming: list[tuple[float, Any]] = []
        """Pieces of the answer with their times of arrival. b"" is the end; errors are raised."""
        network.open.append(self)

    def settimeout(self, seconds: float | None) -> None:
        self._timeout = seconds

    def connect(self, address: tuple[str, int]) -> None:
        self._host = address[0]
        fault = self._network.fault(self._host)
        self._network.note("connect", self._host, fault=fault)
        if fault in ("hang", "late"):
            self._wait(float("inf"))
        elif fault == "slow":
            self._wait(self._scheduler.now + self._setting.random.uniform(0.05, 3.0))
        elif fault in ("refuse", "reset"):
            raise ConnectionRefusedError(111, "Connection refused")
        elif fault == "interrupt":
            self.close()  # a real socket without references is closed when it is freed
            raise KeyboardInterrupt
        handler = _Handler(old=self._host in self._network.behaviour.old)
        self._server = ThriftHiveMetastore.Processor(handler)
        self._used_at = self._scheduler.now

    def sendall(self, data: bytes) -> None:
        self._scheduler.pause()
        unread = bool(self._coming)
        fault = self._network.fault(self._host)
        idle = self._scheduler.now - self._used_at > self._network.behaviour.idle_seconds
        self._network.note(
            "question", self._host, fault=fault or ("idle" if idle else ""), unread=unread
        )
        if idle:
            self._coming = [(self._scheduler.now, self._setting.random.choice([b"", _RESET]))]
            return
        if fault == "interrupt" and self._setting.random.random() < 0.5:
            raise KeyboardInterrupt
        self._coming += self._pieces(self._answer(data), fault)

    def recv(self, size: int) -> bytes:
        self._scheduler.pause()
        at, what = self._coming[0] if self._coming else (float("inf"), b"")
        self._wait(at)
        if what is _RESET:
            raise ConnectionResetError(104, "Connection reset by peer")
        if isinstance(what, BaseException):
            del self._coming[0]
            raise what
        taken, rest = what[:size], what[size:]
        if rest:
            self._coming[0] = at, rest
        elif what:  # the end of the stream stays, so later reads return b"" too
            del self._coming[0]
        self._used_at = self._scheduler.now
        return bytes(taken)

    def close(self) -> None:
        if self in self._network.open:
            self._network.open.remove(self)

    def _wait(self, until: float) -> None:
        """Sleep until a time, or until the socket's timeout.

        Raises:
            TimeoutError: The timeout comes first.
        """
        now = self._scheduler.now
        most = float("inf") if self._timeout is None else now + self._timeout
        self._scheduler.sleep(min(until, most) - now)
        if until > most:
            raise TimeoutError("timed out")

    def _answer(self, question: bytes) -> bytes:
        answer = TMemoryBuffer()
        asked = TBinaryProtocolAccelerated(TMemoryBuffer(question))
        self._server.process(asked, TBinaryProtocolAccelerated(answer))
        return bytes(answer.getvalue())

    def _pieces(self, answer: bytes, fault: str) -> list[tuple[float, Any]]:
        """Return the pieces of an answer with their times of arrival."""
        random, now = self._setting.random, self._scheduler.now
        at = now + random.choice([0.0, 0.001, 0.05])
        middle = random.randrange(len(answer))
        match fault:
            case "slow":
                return [(now + random.uniform(0.05, 2.0), answer)]
            case "late":
                return [(now + random.choice([1.9, 2.0, 2.1, 20.0]), answer)]
            case "trickle":
                pace = random.choice([0.01, 0.2])
                parts = [answer[i : i + 7] for i in range(0, len(answer), 7)]
                return [(at + number * pace, part) for number, part in enumerate(parts)]
            case "cut":
                return [(at, answer[:middle]), (at, b"")][not middle :]
            case "reset" | "refuse":
                return [(at, answer[:middle]), (at, _RESET)][not middle :]
            case "hang":
                return []
            case "garbage":
                return [(at, bytes(random.randrange(256) for _ in answer[middle:])), (at, b"")]
            case "interrupt":
                return [(at, KeyboardInterrupt()), (at, answer)]
        return [(at, answer)]
