"""Run a scenario on a simulated scheduler, and return the results."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any
from unittest import mock

import splitlib
import splitlib_hive
from splitlib.coordination import prefetch
from splitlib.remote.calls import Task
from tests.simulation.coordinating import coordinate
from tests.simulation.enumerating import enumerate_concurrently
from tests.simulation.history import History, Span
from tests.simulation.metastore import ask_a_metastore
from tests.simulation.primitives import simulated
from tests.simulation.scheduler import Scheduler, SimulationOver
from tests.simulation.setting import Setting

EPSILON = 1e-6
"""Tolerance for sums of times, in seconds."""
CALLS = ("list_partitions", "load_details", "list_files", "hosts", "check_identity")
"""Kinds of connector calls in the history."""

# Time that a run waits at its end. All slow calls end within it, and no retry begins after it.
_GRACE_SECONDS = 200.0
# One of this many runs uses the metastore client instead of an enumerator or a coordinator.
_METASTORE_EVERY = 8
_ROOT = Path(splitlib.__file__).parent
# Code in which threads may be interrupted at every line. It never runs while a real lock is held.
_TRACED = (
    *(_ROOT / room for room in ("coordination", "enumeration", "remote", "table.py")),
    Path(splitlib_hive.__file__).parent,
)


@dataclass(slots=True)
class Run:
    """The results of a run."""

    seed: int
    setting: Setting
    left: list[str] = field(default_factory=list)
    """Threads that did not end."""
    held: list[str] = field(default_factory=list)
    """Locks that were still held at the end."""

    @property
    def history(self) -> History:
        return self.setting.history

    @property
    def scheduler(self) -> Scheduler:
        return self.setting.scheduler

    @property
    def scans(self) -> range:
        """Numbers of the scans."""
        return range(1, self.setting.scans + 1)

    def calls(self, scan: int | None = None) -> Iterator[Span]:
        """Yield the connector calls of one scan, or of all scans."""
        for span in self.history.spans:
            if span.begin.kind in CALLS and scan in (None, span.scan):
                yield span


def simulate(seed: int) -> Run:
    """Run the scenario of a seed. The same seed always gives the same run."""
    random = Random(f"{seed} schedule")
    scheduler = Scheduler(
        random,
        switch=random.choice([1.0, 1.0, 0.3, 0.1, None, None]),
        stall=random.choice([0.0, 0.0, 0.003, 0.03]),
        doze=random.choice([0.0, 0.0, 0.0, 0.003, 0.03]),
        collect=random.choice([0.0, 0.0, 0.0, 0.0, 0.02]),
        trace=_tracing(random),
    )
    draws = Random(f"{seed} world")
    history = History(scheduler)
    with simulated(scheduler, f"{seed} jitter"), _quiet(), _noting_tasks(history):
        setting = Setting.drawn(draws, scheduler, history)
        run = Run(seed, setting)
        with mock.patch.multiple(
            prefetch, BUFFERED_SPLITS=setting.ahead, ARRIVAL_SPLITS=max(1, setting.ahead // 2)
        ):
            scenario = draws.choice([enumerate_concurrently, coordinate])
            if seed % _METASTORE_EVERY == 0:
                scenario = ask_a_metastore
            scheduler.run(lambda: _play(run, scenario))
    gc.collect()
    return run


def _play(run: Run, scenario: Callable[[Setting], None]) -> None:
    setting, scheduler = run.setting, run.scheduler
    scenario(setting)
    setting.join()
    setting.history.note("hanging calls go on")
    setting.over.set()
    gc.collect()
    # The clock may jump to the end of one sleep while threads can run. So sleep several times.
    for _ in range(10):
        scheduler.sleep(_GRACE_SECONDS / 10)
    run.left = [str(f) for f in scheduler.fibers if not f.done and f is not scheduler.running]
    if run.left:
        scheduler.fail(f"threads are left: {', '.join(run.left)}\n{scheduler.stacks()}")
    run.held = [str(lock) for lock in scheduler.locks if lock.held]


@contextmanager
def _quiet() -> Iterator[None]:
    """Disable logging and automatic garbage collection within the ``with`` block."""
    logging.disable(logging.CRITICAL)
    gc.disable()
    try:
        with mock.patch.object(sys, "unraisablehook", _unless_over):
            yield
    finally:
        gc.enable()
        logging.disable(logging.NOTSET)


def _unless_over(unraisable: Any) -> None:
    """Print an error raised in a finalizer, unless the end of the run caused the error."""
    if not isinstance(unraisable.exc_value, SimulationOver):
        sys.__unraisablehook__(unraisable)


@contextmanager
def _noting_tasks(history: History) -> Iterator[None]:
    """Record in the history when a worker thread begins and ends a task.

    Checks need these times, because a task's deadline is counted from its beginning.
    """
    run = Task.run

    def noting(task: Task[Any]) -> None:
        span = history.begin("task", of=task.__hash__())
        run(task)
        history.end(span)

    with mock.patch.object(Task, "run", noting):
        yield


def _tracing(random: Random) -> Callable[[Scheduler, FrameType, str, Any], Any] | None:
    """Return a trace function that interrupts threads between lines or instructions of splitlib.

    Return None in some runs. Threads are then interrupted only where they use locks or the clock.
    """
    kind = random.choice([None, None, None, "line", "opcode", "doze", "doze"])
    if kind is None:
        return None
    chance = random.choice({"line": [0.05, 0.3], "opcode": [0.05], "doze": [0.05]}[kind])
    rooms = _TRACED[:1] if kind == "doze" else _TRACED
    traced: dict[str, bool] = {}

    def trace(scheduler: Scheduler, frame: FrameType, event: str, _: Any) -> Any:
        if event == "call":
            name = frame.f_code.co_filename
            if name not in traced:
                traced[name] = any(Path(name).is_relative_to(room) for room in rooms)
            if not traced[name]:
                return None
            frame.f_trace_opcodes = kind == "opcode"
        elif event == ("opcode" if kind == "opcode" else "line") and random.random() < chance:
            (scheduler.doze if kind == "doze" else scheduler.pause)()
        return lambda *given: trace(scheduler, *given)

    return trace


def prepare() -> None:
    """Run a few seeds, so that one-time work such as imports does not change later runs."""
    for seed in range(-12, 0):
        simulate(seed)
