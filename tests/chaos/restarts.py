"""Tests that kill and restart a server while its table is enumerated."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

from tests.chaos.measure import Row, threads_left
from tests.chaos.runs import Outcome, run
from tests.chaos.subjects import ProxiedSubject

_BEFORE_SECONDS = 1.0
_AFTER_SECONDS = 2.0
_STAGE = "any"
_FAULT = "restart"


class Server(Protocol):
    """A server that can be restarted."""

    def kill(self) -> None:
        """Kill the server."""

    def start(self) -> None:
        """Start the server, and return when it answers."""


class Restarts:
    """Tests that restart a table's server.

    Args:
        subject: The table.
        server: The server that lists the table.
    """

    def __init__(self, subject: ProxiedSubject, server: Server) -> None:
        self.name = f"{subject.name} / {_STAGE} / {_FAULT}"
        self._subject = subject
        self._server = server
        self._down_at = 0.0
        self._up_at = 0.0

    def measure(self, runs: int, seed: int, at_once: int, progress: Callable[[], None]) -> Row:
        """Restart the server ``runs`` times, each time during ``at_once`` parallel enumerations."""
        row = Row(self.name)
        for number in range(seed, seed + runs):
            self._down_at = self._up_at = 0.0
            with ThreadPoolExecutor(at_once) as pool:
                seeds = range(number * at_once, (number + 1) * at_once)
                several = pool.map(partial(self._enumerate, progress=progress), seeds)
                time.sleep(_BEFORE_SECONDS)
                self._down_at = time.monotonic()
                self._server.kill()
                self._server.start()
                self._up_at = time.monotonic()
                row.outcomes += [outcome for found in several for outcome in found]
        row.left_behind = threads_left()
        return row

    def _enumerate(self, number: int, progress: Callable[[], None]) -> list[Outcome]:
        """Enumerate the table again and again until some time after the restart."""
        found: list[Outcome] = []
        rng = random.Random(f"{self.name} {number}")
        while not self._up_at or time.monotonic() < self._up_at + _AFTER_SECONDS:
            with self._subject.reached(_STAGE, _FAULT, rng) as way:
                was_up = bool(self._up_at)
                found.append(run(self._subject, _STAGE, way, number, rng))
                found[-1].struck = int(self._down_at > 0 and not was_up)
            progress()
        return found
