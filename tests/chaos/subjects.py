"""Tables for fault tests, and ways to access them with a fault."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, NamedTuple

from splitlib import SplitConfig
from tests.chaos.lying_filesystem import Spec, lies_of
from tests.chaos.proxies import Proxies, Proxy
from tests.chaos.strikes import NOTHING, Strikes
from tests.chaos.treatments import OTHERS, Treatment

CONFIG = SplitConfig(
    call_deadline_seconds=1.0,
    enumeration_deadline_seconds=2.0,
    retry_attempts=3,
    retry_max_seconds=0.6,
    listing_threads=4,
    target_split_bytes=600,
)
"""Settings with short deadlines, so that hanging calls end soon.

The deadlines are long enough for normal calls on a busy machine.
"""

PATIENT = replace(
    CONFIG, call_deadline_seconds=3.0, enumeration_deadline_seconds=6.0, retry_max_seconds=2.0
)
"""Settings with longer deadlines for object stores, because their clients start slowly."""

_proxies = Proxies()

FOR_EVER = 10**9

LIES = ("late", "hang", "error", "gone")
READING_LIES = ("short", "zeros")
"""Faults that change the bytes that a read returns."""


class KnownFile(NamedTuple):
    """The expected properties of a file of the table."""

    size: int
    values: Mapping[str, Any]
    """Partition values of the file, by partition key."""
    matches: Mapping[str, Any]
    """Values that filters on the table's columns compare, by column."""
    deletes: tuple[str, ...] = ()


class Access:
    """The access to a table in one run. At the end of the run, hanging calls are released."""

    options: Mapping[str, Any]
    strikes: Strikes

    @property
    def connections(self) -> int:
        """Number of open connections. It must be 0 after the table is closed."""
        return 0


@dataclass(frozen=True)
class Subject(ABC):
    """A table for fault tests."""

    name: str
    connector: str
    table: str
    files: Mapping[str, KnownFile]
    """Expected files of the table, by path."""
    stages: Mapping[str, str]
    """Regular expressions for requests to the source, by the stage of the enumeration."""
    options: Callable[[str], Mapping[str, Any]]
    """Function that returns the connector's options.

    The argument is the address of a proxy, or a fault from
    :meth:`tests.chaos.lying_filesystem.Spec.text`.
    """
    unnoticed: Mapping[str, tuple[str, ...]]
    """Faults that no client can detect, by the stage of the enumeration."""
    _: KW_ONLY
    config: SplitConfig = CONFIG

    @property
    @abstractmethod
    def faults(self) -> tuple[str, ...]:
        """Faults that must never cause wrong splits."""

    @abstractmethod
    def reached(self, stage: str, fault: str, rng: random.Random) -> AbstractContextManager[Access]:
        """Return an access to the table with a fault at one stage.

        The fault affects requests only while ``strikes.armed`` of the access is True.
        """


def drawn_times(rng: random.Random) -> tuple[int, int]:
    """Return random values for the arguments ``first`` and ``times`` of :class:`Strikes`."""
    return rng.choice([0, 0, 0, 0, 1, 2, 4]), rng.choice([1, 2, FOR_EVER])


@dataclass(frozen=True)
class ProxiedSubject(Subject):
    """A table on a server. Runs access it through a proxy."""

    _: KW_ONLY
    server: Callable[[], tuple[str, int]]
    treatments: Mapping[str, type[Treatment]]
    keeps_connections: bool = False
    """Whether the client keeps connections after the table is closed, as s3fs does."""

    @property
    def faults(self) -> tuple[str, ...]:
        return tuple(self.treatments)

    @contextmanager
    def reached(self, stage: str, fault: str, rng: random.Random) -> Iterator[Access]:
        strikes = Strikes(self.stages.get(stage, NOTHING), *drawn_times(rng))
        treatment = {**self.treatments, **OTHERS}[fault]
        seconds = self.config.call_deadline_seconds
        with _proxies.borrowed(self.server()) as proxy:
            proxy.set_up(strikes, lambda: treatment(rng, seconds))
            options = self.options(f"127.0.0.1:{proxy.port}")
            yield ProxyAccess(proxy, options, keeps_connections=self.keeps_connections)


class ProxyAccess(Access):
    """Access to a table through a proxy."""

    def __init__(
        self, proxy: Proxy, options: Mapping[str, Any], *, keeps_connections: bool
    ) -> None:
        self._proxy = proxy
        self._keeps_connections = keeps_connections
        self.strikes = proxy.strikes
        self.options = options

    @property
    def connections(self) -> int:
        return 0 if self._keeps_connections else self._proxy.connections


@dataclass(frozen=True)
class LyingSubject(Subject):
    """A table on a faulty local disk."""

    _: KW_ONLY
    lies: tuple[str, ...]

    @property
    def faults(self) -> tuple[str, ...]:
        return self.lies

    @contextmanager
    def reached(self, stage: str, fault: str, rng: random.Random) -> Iterator[Access]:
        first, times = drawn_times(rng)
        seconds = self.config.call_deadline_seconds
        seed = rng.randrange(2**63)
        text = Spec(fault, self.stages[stage], seed, seconds, first, times).text()
        lies = lies_of(text)
        try:
            yield LyingAccess(lies.strikes, self.options(text))
        finally:
            lies.let_go.set()


class LyingAccess(Access):
    """Access to a table on a faulty local disk."""

    def __init__(self, strikes: Strikes, options: Mapping[str, Any]) -> None:
        self.strikes = strikes
        self.options = options
