"""A scenario in which threads share a metastore client and its connections fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from splitlib.remote.calls import Call, working_on
from splitlib_hive.client import MetastoreClient
from splitlib_hive.security import Address
from tests.simulation.history import Span
from tests.simulation.network import FAULTS, GONE, REFUSED, Behaviour, Network, names_of
from tests.simulation.scheduler import Fiber
from tests.simulation.setting import Setting
from tests.simulation.users import described

_TABLES = ["t", "t2", "tab", "table", GONE, REFUSED]


def ask_a_metastore(setting: Setting) -> None:
    """Send random requests from several threads through one metastore client."""
    _Callers(setting).run()


class _Callers:
    """Threads that send requests, and the metastore client that they share."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._asking: dict[Fiber | None, Span] = {}
        random = setting.random
        hosts = [f"host{number}" for number in range(random.choice([1, 2, 2, 3]))]
        behaviour = Behaviour(
            faults=tuple(random.sample(FAULTS, random.choice([1, 2, 2, 3]))),
            rate=random.choice([0.0, 0.2, 0.5, 0.8]),
            healthy=frozenset(host for host in hosts[1:] if random.random() < 0.5),
            old=frozenset(host for host in hosts if random.random() < 0.2),
            idle_seconds=random.choice([0.5, 5.0, float("inf")]),
        )
        self._network = Network(setting, behaviour, self._asked)
        self._client = MetastoreClient(
            [Address(host, 9083) for host in hosts],
            connect_timeout_seconds=random.choice([0.5, 10.0]),
            timeout_seconds=random.choice([1.0, 300.0]),
        )
        setting.history.note("metastore", hosts=hosts, behaviour=behaviour)

    def run(self) -> None:
        setting = self._setting
        with self._network.installed():
            for number in range(setting.random.choice([1, 2, 3])):
                setting.start(f"caller{number}", self._ask_often)
            setting.join()
            self._client.close()
        setting.history.note("closed", sockets=len(self._network.open))

    def _asked(self) -> Span | None:
        return self._asking.get(self._setting.scheduler.running)

    def _ask_often(self) -> None:
        random = self._setting.random
        for _ in range(random.randint(1, 5)):
            self._setting.sleep_up_to(random.choice([0.1, 3.0]))
            self._ask(random.choice(_TABLES))

    def _ask(self, table: str) -> None:
        """Send one request with a deadline. Another thread may abandon it."""
        setting, random = self._setting, self._setting.random
        call = Call(random.choice([0, 0.4, 2.0, 10.0]))
        question, expected = self._question(table)
        span = setting.history.begin("ask", of=table, expected=expected, deadline=call.seconds)
        self._asking[setting.scheduler.running] = span
        with working_on(call):
            if random.random() < 0.15:
                setting.start("abandons", lambda: self._abandon(span, call))
            try:
                setting.history.end(span, answer=question())
            except (Exception, KeyboardInterrupt) as error:
                setting.history.end(span, **described(error))

    def _abandon(self, span: Span, call: Call) -> None:
        self._setting.sleep_up_to(2)
        self._setting.history.note("abandoned", ask=span.begin.number)
        call.abandoned.set()

    def _question(self, table: str) -> tuple[Callable[[], Any], Any]:
        """Return a function that sends a random request about a table, and the right answer."""
        client, names = self._client, names_of(table)
        kind = self._setting.random.choice(["table", "names", "partitions"])
        if kind == "names":
            expected = [] if table == GONE else names
            return lambda: client.get_partition_names("db", table).to_pylist(), expected
        if kind == "table":
            return lambda: client.get_table("db", table).tableName, table
        return (
            lambda: [each.values[0] for each in client.get_partitions_by_names("db", table, names)],
            names,
        )
