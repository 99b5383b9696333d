"""Simulated versions of :mod:`threading` and :mod:`time`, based on a :class:`Scheduler`.

Conditions, events and futures are not replaced. They are written in Python and use the simulated
locks.
"""

from __future__ import annotations

import _thread
import concurrent.futures._base as futures
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest import mock

from splitlib.remote.calls import Task
from tests.simulation.scheduler import CLOCK_STEP_SECONDS, Fiber, Scheduler


class SimulatedLock:
    """A simulated ``threading.Lock``."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        self._scheduler.pause()
        until = None if timeout < 0 else self._scheduler.now + max(timeout, CLOCK_STEP_SECONDS)
        while self._held:
            if not blocking or timeout == 0 or not self._scheduler.block(self, until):
                return False
        self._held = True
        return True

    def release(self) -> None:
        if not self._held:
            raise RuntimeError("release unlocked lock")
        self._held = False
        self._scheduler.wake(self)
        self._scheduler.pause()

    def locked(self) -> bool:
        return self._held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return "a lock"


class SimulatedRLock:
    """A simulated ``threading.RLock``."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._lock = SimulatedLock(scheduler)
        self._owner: Fiber | None = None
        self._times = 0
        scheduler.locks.append(self)

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if not self._is_owned() and not self._lock.acquire(blocking, timeout):
            return False
        self._owner = self._scheduler.running
        self._times += 1
        return True

    def release(self) -> None:
        if not self._is_owned():
            raise RuntimeError("cannot release un-acquired lock")
        self._times -= 1
        if not self._times:
            self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def held(self) -> bool:
        """Whether a thread holds the lock."""
        return self._times > 0

    def __repr__(self) -> str:
        return f"a lock of {self._owner}"

    # ``threading.Condition`` calls the following methods of its lock.

    def _is_owned(self) -> bool:
        return self.held and self._owner is self._scheduler.running

    def _release_save(self) -> int:
        times, self._times = self._times, 0
        self._lock.release()
        return times

    def _acquire_restore(self, times: int) -> None:
        self._lock.acquire()
        self._owner, self._times = self._scheduler.running, times


class SimulatedThread:
    """A simulated ``threading.Thread``, with the methods that splitlib uses."""

    def __init__(
        self,
        *,
        target: Callable[..., object],
        name: str | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        daemon: bool | None = None,
        scheduler: Scheduler,
    ) -> None:
        self.name, self.daemon = name or "thread", daemon
        self._work = lambda: target(*args, **(kwargs or {}))
        self._scheduler = scheduler
        self._fiber: Fiber | None = None

    def start(self) -> None:
        self._fiber = self._scheduler.spawn(self.name, self._work)
        del self._work
        self._scheduler.pause()

    def join(self, timeout: float | None = None) -> None:
        fiber = self._fiber
        assert fiber is not None, "join before start"
        self._scheduler.pause()
        if not fiber.done and (timeout is None or timeout > 0):
            self._scheduler.block(fiber, None if timeout is None else self._scheduler.now + timeout)

    def is_alive(self) -> bool:
        return self._fiber is not None and not self._fiber.done


@contextmanager
def simulated(scheduler: Scheduler, seed: str) -> Iterator[None]:
    """Replace Python's threads, locks and clock with simulated ones within the ``with`` block."""

    numbers: dict[str, int] = {}

    def number(thing: Any) -> int:
        """Return a number that identifies an object. Its address would differ in every run."""
        known: int | None = thing.__dict__.get("_number")
        if known is None:
            known = numbers["last"] = numbers.get("last", 0) + 1
            thing.__dict__["_number"] = known
        return known

    def lock() -> SimulatedLock:
        return SimulatedLock(scheduler)

    def reentrant() -> SimulatedRLock:
        return SimulatedRLock(scheduler)

    def thread(**arguments: Any) -> SimulatedThread:
        return SimulatedThread(scheduler=scheduler, **arguments)

    def clock() -> float:
        return scheduler.now

    def start(work: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        scheduler.spawn("a thread", partial(work, *arguments))

    places: list[tuple[Any, dict[str, Any]]] = [
        (threading, {"Lock": lock, "_allocate_lock": lock, "RLock": reentrant, "Thread": thread}),
        (threading, {"_time": clock}),
        (_thread, {"start_new_thread": start}),
        (time, {"monotonic": clock, "perf_counter": clock, "time": clock}),
        (time, {"sleep": scheduler.sleep}),
        (futures.Future, {"__hash__": number}),
        (Task, {"__hash__": number}),
        (futures, {"id": number}),
    ]
    state = random.getstate()
    with ExitStack() as stack:
        for place, replacements in places:
            stack.enter_context(mock.patch.multiple(place, create=True, **replacements))
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(state)
