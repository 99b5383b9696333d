"""Run a cell many times, and check for threads and connections left over."""

from __future__ import annotations

import gc
import random
import threading
import time
from collections.abc import Callable, Container
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tests.chaos.cells import Cell
from tests.chaos.runs import Outcome, Step, run
from tests.chaos.subjects import Access

TIDY_SECONDS = 60.0
"""Maximum time until hanging calls end after their release, in seconds.

The time is long because s3fs retries five times before it fails.
"""
_ENOUGH = 20
"""Number of runs of a cell after which its fault must have struck at least once."""
CLOSING_SECONDS = 1.5
"""Maximum time until a connection is closed, in seconds, even if the server hangs."""


@dataclass
class Row:
    """The results of one cell."""

    name: str
    is_promised: bool = True
    outcomes: list[Outcome] = field(default_factory=list)
    left_behind: str = ""
    """Names of threads that did not end after hanging calls were released."""

    @property
    def complete(self) -> int:
        """Number of runs with the right splits."""
        return sum(outcome.is_complete for outcome in self.outcomes)

    @property
    def errors(self) -> int:
        """Number of runs with an error that names the connector and the table."""
        return sum(o.error is not None and not o.violation for o in self.outcomes)

    @property
    def different(self) -> int:
        """Number of runs with wrong splits."""
        return sum(bool(outcome.different) for outcome in self.outcomes)

    @property
    def struck(self) -> int:
        """Number of runs in which the fault affected at least one request."""
        return sum(outcome.struck > 0 for outcome in self.outcomes)

    @property
    def slowest(self) -> Step:
        """Step that used the largest part of its deadline."""
        steps = [step for outcome in self.outcomes for step in outcome.steps]
        return max(steps, key=lambda step: step.seconds / step.deadline, default=Step(0, 1))

    @property
    def violations(self) -> list[str]:
        """Descriptions of all violations, with their seeds."""
        found = [f"seed {o.seed}: {o.violation}" for o in self.outcomes if o.violation]
        if self.is_promised:
            found += [f"seed {o.seed}: {o.different}" for o in self.outcomes if o.different]
        if self.left_behind:
            found.append(f"threads left behind: {self.left_behind}")
        if len(self.outcomes) >= _ENOUGH and not self.struck:
            found.append("the fault never struck")
        return [f"{self.name}: {what}" for what in found]


def measure(cell: Cell, runs: int, seed: int, at_once: int, progress: Callable[[], None]) -> Row:
    """Run a cell many times, with several runs in parallel.

    Args:
        cell: The cell.
        runs: Number of runs.
        seed: Seed of the first run. The next runs have the next seeds.
        at_once: Number of parallel runs. It may exceed the number of cores, as runs mostly wait.
        progress: Function that is called after each run.
    """
    before = set(threading.enumerate())

    def once(number: int) -> Outcome:
        rng = random.Random(f"{cell.name} {number}")
        with cell.subject.reached(cell.stage, cell.fault, rng) as way:
            outcome = run(cell.subject, cell.stage, way, number, rng)
            if left := _connections_left(way):
                outcome.violation = f"{left} connections are left"
        return outcome

    row = measured(cell.name, once, runs, seed, at_once, progress)
    row.is_promised = cell.is_promised
    row.left_behind = threads_left(before)
    return row


def measured(
    name: str,
    once: Callable[[int], Outcome],
    runs: int,
    seed: int,
    at_once: int,
    progress: Callable[[], None],
) -> Row:
    """Call ``once`` with each seed, and return a row with the outcomes.

    The other arguments have the same meaning as in :func:`measure`.
    """

    def counted(number: int) -> Outcome:
        outcome = once(number)
        progress()
        return outcome

    with ThreadPoolExecutor(at_once, thread_name_prefix="chaos") as pool:
        return Row(name, outcomes=list(pool.map(counted, range(seed, seed + runs))))


def threads_left(before: Container[threading.Thread] = ()) -> str:
    """Return the names of splitlib's threads that do not end within ``TIDY_SECONDS``."""
    until = time.monotonic() + TIDY_SECONDS
    while threads := [t.name for t in threading.enumerate() if _is_ours(t) and t not in before]:
        if time.monotonic() > until:
            return ", ".join(sorted(threads))
        gc.collect()
        time.sleep(0.02)
    return ""


def _connections_left(way: Access) -> int:
    until = time.monotonic() + CLOSING_SECONDS
    while way.connections and time.monotonic() < until:
        time.sleep(0.01)
    return way.connections


def _is_ours(thread: threading.Thread) -> bool:
    return thread.name.startswith("splitlib")
