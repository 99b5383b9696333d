"""Many runs of one cell, and what they have left behind."""

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
"""After that long, what was let go has ended: s3fs tries five times more before it gives up."""
_ENOUGH = 20
"""So many runs in which nothing was struck are no accident."""
CLOSING_SECONDS = 1.5
"""After that long a connection is closed, whatever hangs at its other end."""


@dataclass
class Row:
    """A cell and what came of its runs."""

    name: str
    is_promised: bool = True
    outcomes: list[Outcome] = field(default_factory=list)
    left_behind: str = ""
    """Threads that did not end after all that hung was let go."""

    @property
    def complete(self) -> int:
        """Runs with the right splits."""
        return sum(outcome.is_complete for outcome in self.outcomes)

    @property
    def errors(self) -> int:
        """Runs with an error that says where."""
        return sum(o.error is not None and not o.violation for o in self.outcomes)

    @property
    def different(self) -> int:
        """Runs with other splits than those of the table."""
        return sum(bool(outcome.different) for outcome in self.outcomes)

    @property
    def struck(self) -> int:
        """Runs in which the fault struck at all."""
        return sum(outcome.struck > 0 for outcome in self.outcomes)

    @property
    def slowest(self) -> Step:
        """What ended latest, by its deadline."""
        steps = [step for outcome in self.outcomes for step in outcome.steps]
        return max(steps, key=lambda step: step.seconds / step.deadline, default=Step(0, 1))

    @property
    def violations(self) -> list[str]:
        """What must not be, each with the seed that it came of."""
        found = [f"seed {o.seed}: {o.violation}" for o in self.outcomes if o.violation]
        if self.is_promised:
            found += [f"seed {o.seed}: {o.different}" for o in self.outcomes if o.different]
        if self.left_behind:
            found.append(f"threads left behind: {self.left_behind}")
        if len(self.outcomes) >= _ENOUGH and not self.struck:
            found.append("the fault never struck")
        return [f"{self.name}: {what}" for what in found]


def measure(cell: Cell, runs: int, seed: int, at_once: int, progress: Callable[[], None]) -> Row:
    """Run a cell many times, several at once.

    Args:
        cell: Which.
        runs: How many times.
        seed: Of the first run; the others count on.
        at_once: Runs at the same time; most of a run is waiting.
        progress: Called after each.
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
    """The outcomes of calls of ``once``; the arguments as of :func:`measure`."""

    def counted(number: int) -> Outcome:
        outcome = once(number)
        progress()
        return outcome

    with ThreadPoolExecutor(at_once, thread_name_prefix="chaos") as pool:
        return Row(name, outcomes=list(pool.map(counted, range(seed, seed + runs))))


def threads_left(before: Container[threading.Thread] = ()) -> str:
    """The names of splitlib's threads that do not end, though nothing hangs any more."""
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
