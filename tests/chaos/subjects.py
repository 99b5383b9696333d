"""What is struck: a table, where it is, and how it is reached with a fault on the way."""

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
"""Short, so that what hangs costs little; long enough for all else on a busy machine."""

PATIENT = replace(
    CONFIG, call_deadline_seconds=3.0, enumeration_deadline_seconds=6.0, retry_max_seconds=2.0
)
"""For an object store: to make its client alone takes some tenths of a second of work."""

_proxies = Proxies()

FOR_EVER = 10**9

LIES = ("late", "hang", "error", "gone")
READING_LIES = ("short", "zeros")
"""Of the bytes of a file; those of its directory are ``LIES`` and ``swap``."""


class KnownFile(NamedTuple):
    """A file of the table, as whoever wrote it knows it."""

    size: int
    values: Mapping[str, Any]
    """Of its partition."""
    matches: Mapping[str, Any]
    """The value of each column by which it can be selected."""
    deletes: tuple[str, ...] = ()


class Access:
    """The way to a table during one run. What hangs is let go at its end."""

    options: Mapping[str, Any]
    strikes: Strikes

    @property
    def connections(self) -> int:
        """How many there are that should be none once the table is closed."""
        return 0


@dataclass(frozen=True)
class Subject(ABC):
    """A table."""

    name: str
    connector: str
    table: str
    files: Mapping[str, KnownFile]
    """By path."""
    stages: Mapping[str, str]
    """By name, what the requests have in them that are made there."""
    options: Callable[[str], Mapping[str, Any]]
    """Of the connector, for the address of a proxy or the text of a lie."""
    unnoticed: Mapping[str, tuple[str, ...]]
    """By stage, faults that leave answers which no client can tell from right ones."""
    _: KW_ONLY
    config: SplitConfig = CONFIG

    @property
    @abstractmethod
    def faults(self) -> tuple[str, ...]:
        """What can strike it, and has to be noticed."""

    @abstractmethod
    def reached(self, stage: str, fault: str, rng: random.Random) -> AbstractContextManager[Access]:
        """A way to it on which a fault strikes at a stage, once the strikes are armed."""


def drawn_times(rng: random.Random) -> tuple[int, int]:
    """How many requests pass before the first strike, and how many are struck then."""
    return rng.choice([0, 0, 0, 0, 1, 2, 4]), rng.choice([1, 2, FOR_EVER])


@dataclass(frozen=True)
class ProxiedSubject(Subject):
    """A table of a server, with a proxy in between."""

    _: KW_ONLY
    server: Callable[[], tuple[str, int]]
    treatments: Mapping[str, type[Treatment]]
    keeps_connections: bool = False
    """Whether its client keeps them for others after the table is closed, as s3fs does."""

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
    """Through a proxy."""

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
    """A table on a disk that lies."""

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
    """Through the lies that are told of a disk."""

    def __init__(self, strikes: Strikes, options: Mapping[str, Any]) -> None:
        self.strikes = strikes
        self.options = options
