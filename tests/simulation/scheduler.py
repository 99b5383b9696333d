"""A scheduler that runs one thread at a time, in an order drawn from a seed.

Every simulated thread is a real thread that waits for its turn. It calls :meth:`Scheduler.pause`
where it may be interrupted, and :meth:`Scheduler.block` where it has to wait. While any thread can
run, the virtual clock does not move. When all threads wait, the clock jumps to the earliest time
for which a thread waits.
"""

from __future__ import annotations

import gc
import sys
import traceback
from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Callable
from functools import partial
from random import Random
from types import FrameType
from typing import Any

MOST_STEPS = 400_000
# Limit for the simulated time of a run. It is far longer than every deadline and pause.
MOST_SECONDS = 100_000.0
# Minimum length of a wait. A shorter one could be lost to rounding, and take no time.
CLOCK_STEP_SECONDS = 1e-9
_EPOCH_SECONDS = 1000.0


class SimulationOver(BaseException):
    """Raised in threads that are still alive when the run ends."""


class Fiber:
    """A simulated thread."""

    def __init__(self, number: int, name: str, work: Callable[[], object]) -> None:
        self.number = number
        self.name = name
        self.work = work
        self.turn = allocate_lock()
        self.turn.acquire()
        self.waits_for: object = None
        """Object on which the thread is blocked. None if it can run."""
        self.until: float | None = None
        """Time at which the wait ends at the latest. None if the wait has no limit."""
        self.dozes = False
        """Whether the thread could run, but the scheduler suspended it for some time."""
        self.done = False
        self.priority = 0.0
        self.ident: int | None = None

    def __repr__(self) -> str:
        return f"{self.name}#{self.number}"


class Scheduler:
    """A scheduler that decides which thread runs next.

    Args:
        random: Random numbers for every decision.
        switch: Probability that a pause switches to another thread. With None, the thread with the
            highest random priority runs, and priorities sometimes change (probabilistic
            concurrency testing).
        stall: Probability that the clock jumps in a pause although threads could run, as on a slow
            machine.
        doze: Probability that a pause suspends the thread for some time.
        collect: Probability that a pause collects garbage. Finalizers then run in that thread.
        trace: Function for :func:`sys.settrace` in each thread. Its first argument is this
            scheduler.
    """

    def __init__(
        self,
        random: Random,
        *,
        switch: float | None = 1.0,
        stall: float = 0.0,
        doze: float = 0.0,
        collect: float = 0.0,
        trace: Callable[[Scheduler, FrameType, str, Any], Any] | None = None,
    ) -> None:
        self.now = _EPOCH_SECONDS
        self.stalled = 0.0
        """Total time that passed although a thread could run, in seconds."""
        self.steps = 0
        self.failure: str | None = None
        """Reason why the run ended while threads were alive. None if all threads ended."""
        self.crashes: list[str] = []
        """Tracebacks of uncaught errors."""
        self.fibers: list[Fiber] = []
        self.running: Fiber | None = None
        self.locks: list[Any] = []
        """Locks that record which thread holds them."""
        self._random = random
        self._switch = switch
        self._stall = stall
        self._doze = doze
        self._collect = collect
        self._trace = trace
        self._over = False
        self._alive: list[Fiber] = []
        self._ended = allocate_lock()
        self._ended.acquire()

    # The code that starts a run calls the following methods.

    def run(self, work: Callable[[], object]) -> None:
        """Run ``work`` and every thread that it starts, until all have ended or the run fails."""
        self.spawn("main", work)
        self._hand_over()
        self._ended.acquire()
        self.running = None

    def fail(self, why: str) -> None:
        """End the run. Every thread then raises :class:`SimulationOver`."""
        if self.failure is None:
            self.failure = why
        self._over = True

    def stacks(self) -> str:
        """Return the stack of every thread, as text."""
        frames = sys._current_frames()
        lines = []
        for fiber in self._alive:
            until = "" if fiber.until is None else f" until {fiber.until:.3f}"
            lines.append(f"{fiber}: waits for {fiber.waits_for}{until}")
            frame = frames.get(fiber.ident or 0)
            for where in traceback.extract_stack(frame) if frame else ():
                if not where.filename.endswith(("scheduler.py", "primitives.py")):
                    short = "/".join(where.filename.split("/")[-3:])
                    lines.append(f"    {short}:{where.lineno} {where.name}: {where.line}")
        return "\n".join(lines)

    # Simulated threads call the following methods.

    def spawn(self, name: str, work: Callable[[], object]) -> Fiber:
        """Start a simulated thread. It begins when the scheduler chooses it."""
        fiber = Fiber(len(self.fibers), name, work)
        fiber.priority = self._random.random()
        self.fibers.append(fiber)
        self._alive.append(fiber)
        start_new_thread(self._live, (fiber,))
        return fiber

    def pause(self) -> None:
        """Switch to another thread, or continue, at random."""
        if self.running is None or self._over:
            return
        self.steps += 1
        if self.steps > MOST_STEPS:
            self.fail(f"{MOST_STEPS} steps were not enough:\n{self.stacks()}")
            raise SimulationOver
        if self._stall and self._random.random() < self._stall:
            self._jump(stalling=True)
        if self._collect and self._random.random() < self._collect:
            gc.collect()
        if self._doze and self._random.random() < self._doze:
            self.doze()
            return
        if self._switch is None:
            if self._random.random() < 0.02:
                self.running.priority = -self.steps  # lower than all others
        elif self._switch < 1 and self._random.random() >= self._switch:
            return
        self._hand_over()

    def doze(self) -> None:
        """Suspend the running thread for some time, so that others run."""
        fiber = self.running
        if fiber is None or self._over:
            return
        fiber.dozes = True
        self.block("its processor", self.now + self._random.choice([0.01, 0.3, 3.0]))
        fiber.dozes = False

    def block(self, what: object, until: float | None = None) -> bool:
        """Wait until :meth:`wake` is called with ``what``, or until the time ``until``.

        Returns:
            Whether :meth:`wake` was called before ``until``.
        """
        fiber = self.running
        assert fiber is not None, f"{what} is waited for outside of a run"
        if self._over:
            raise SimulationOver
        fiber.waits_for, fiber.until = what, until
        self._hand_over()
        woken = fiber.until is not None or until is None
        fiber.until = None
        return woken

    def wake(self, what: object) -> None:
        """Wake the threads that wait for ``what``."""
        for fiber in self._alive:
            if fiber.waits_for is what:
                fiber.waits_for = None

    def sleep(self, seconds: float) -> None:
        """Sleep in virtual time."""
        if seconds > 0:
            self.block("time", self.now + seconds)
        else:
            self.pause()

    # The following methods choose and start the next thread.

    def _live(self, fiber: Fiber) -> None:
        fiber.turn.acquire()
        fiber.ident = get_ident()
        try:
            if not self._over:
                if self._trace is not None:
                    sys.settrace(partial(self._trace, self))
                fiber.work()
        except SimulationOver:
            pass
        except BaseException:
            self.crashes.append(f"{fiber}: {traceback.format_exc()}")
        finally:
            sys.settrace(None)
            fiber.work = _nothing
            fiber.done = True
            self._alive.remove(fiber)
            self.wake(fiber)
            self._hand_over()

    def _hand_over(self) -> None:
        """Choose the next thread, start its turn, and wait for the next turn of this thread."""
        before, chosen = self.running, self._choose()
        if chosen is before and before is not None and not before.done:
            return
        self.running = chosen
        if chosen is None:
            self._ended.release()
            return
        chosen.turn.release()
        if before is not None and not before.done:
            before.turn.acquire()
            if self._over:
                raise SimulationOver

    def _choose(self) -> Fiber | None:
        while True:
            alive = self._alive
            if not alive or self._over:
                return alive[0] if alive else None
            ready = [fiber for fiber in alive if fiber.waits_for is None]
            if ready:
                if self._switch is None:
                    return max(ready, key=lambda fiber: fiber.priority)
                return ready[self._random.randrange(len(ready))]
            if not self._jump():
                self.fail(f"deadlock: nobody can go on.\n{self.stacks()}")

    def _jump(self, *, stalling: bool = False) -> bool:
        """Move the clock to the next time for which a thread waits. Return False if none waits."""
        timed = [f for f in self._alive if f.waits_for is not None and f.until is not None]
        if not timed:
            return False
        until = min(f.until for f in timed if f.until is not None)
        if until > _EPOCH_SECONDS + MOST_SECONDS:
            return False
        if stalling or any(fiber.dozes for fiber in self._alive):
            self.stalled += max(0.0, until - self.now)
        self.now = max(self.now, until)
        for fiber in timed:
            if fiber.until is not None and fiber.until <= self.now:
                fiber.waits_for, fiber.until = None, None
        return True


def _nothing() -> None:
    """Do nothing. This replaces a thread's finished work, which might keep objects alive."""
