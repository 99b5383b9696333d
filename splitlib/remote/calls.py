"""Run connector calls, which may hang, in worker threads with deadlines."""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from splitlib.config import SplitConfig
from splitlib.errors import SourceUnavailable, SplitlibError
from splitlib.remote.pace import Pace

T = TypeVar("T")
R = TypeVar("R")

# Seconds to wait for running calls when an enumeration ends. Most listings end in this time.
TIDY_SECONDS = 0.2
# Timeout that means "no deadline". It must be below the longest timeout that the threading module
# accepts.
FOREVER_SECONDS = threading.TIMEOUT_MAX / 2
_POLL_SECONDS = 0.1
_current = threading.local()


if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property  # noqa: PLC0414 - an export
else:

    class cached_property:  # noqa: N801 - the name in functools
        """``functools.cached_property`` as in Python 3.12, without a lock.

        The lock in 3.11 is shared by all instances. So a slow computation would block other
        sessions, and a fork during a computation would leave the lock locked in the child process.
        If threads compute a value at the same time, all of them get the first result.
        """

        def __init__(self, compute: Callable[[Any], Any]) -> None:
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            return vars(instance).setdefault(self._name, self._compute(instance))


class UnforkedCondition(threading.Condition):
    """A condition variable that can be entered only in the process that created it.

    In a forked process, entering it raises an error. The lock may be locked there by a thread that
    exists only in the parent process, and would never be released.
    """

    def __init__(self) -> None:
        super().__init__()
        self._process = os.getpid()

    @property
    def is_of_another_process(self) -> bool:
        """Whether the current process is a fork of the one that created this condition."""
        return os.getpid() != self._process

    def __enter__(self) -> bool:
        if self.is_of_another_process:
            raise SplitlibError(
                "This object was made before a fork, so its threads do not exist in this process.",
                hint="make it in this process, or start the process with 'spawn'.",
            )
        return super().__enter__()


class Task(Generic[T]):
    """A function call that a thread of :class:`Workers` runs, and its outcome."""

    def __init__(self, work: Callable[[], T], seconds: float, pace: Pace | None = None) -> None:
        self.call = Call(seconds, pace)
        self.outcome: Future[T] = Future()
        self._work = work
        self._context = copy_context()  # contains the caller's allowed storage locations

    def run(self) -> None:
        """Do the work and store its result or error, unless the task was already abandoned."""
        if not self.outcome.set_running_or_notify_cancel():
            return
        try:
            with working_on(self.call):
                result = self._context.run(self._work)
        except BaseException as error:  # raised again in the thread that reads the outcome
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(result)

    def abandon(self) -> None:
        """Signal that the result is no longer needed. A task that is still queued never starts."""
        self.call.abandoned.set()
        self.outcome.cancel()


class Workers:
    """A pool of daemon threads, started on demand. The process can exit while they run.

    Args:
        most: Maximum number of threads.
        name: Name of the threads in a thread dump.
        pace: Limit of parallel calls while the source throttles; None means no limit.
    """

    def __init__(self, most: int, name: str, pace: Pace | None = None) -> None:
        self._pace = pace
        self._most = most
        self._name = name
        self._changed = UnforkedCondition()
        self._queue: deque[Task[Any]] = deque()
        self._unfinished: set[Task[Any]] = set()
        self._hanging: set[Task[Any]] = set()
        """Abandoned tasks that are still running. Their threads do not count towards the maximum
        number of threads, so other threads can take their place."""
        self._threads = 0
        self._idle = 0
        self._stopped = False

    def submit(self, work: Callable[[], T], call_seconds: float = 0) -> Task[T]:
        """Queue ``work`` and return its task. After :meth:`stop`, the task is abandoned at once.

        Args:
            work: Function to call.
            call_seconds: Time limit in seconds, counted from the start of the call; 0 means no
                limit.
        """
        task = Task(work, call_seconds, self._pace)
        with self._changed:
            if self._stopped:
                task.abandon()
                return task
            self._queue.append(task)
            self._unfinished.add(task)
            if self._idle >= len(self._queue):
                self._changed.notify()
            else:
                try:
                    self._start_thread()
                except RuntimeError:
                    self._queue.pop()
                    self._unfinished.discard(task)
                    raise
        return task

    def abandon(self, task: Task[Any]) -> None:
        """Abandon ``task``. If it is running and hangs, another thread runs the next task."""
        with self._changed:
            task.abandon()
            if task in self._unfinished and task.outcome.running():
                self._hanging.add(task)
                if self._queue:
                    self._start_thread()
        if self._pace is not None:
            self._pace.wake()

    def _start_thread(self) -> None:
        if self._threads - len(self._hanging) < self._most:
            thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            self._threads += 1
            try:
                thread.start()
            except RuntimeError:  # The system allows no further thread.
                self._threads -= 1
                if self._threads <= len(self._hanging):  # No other thread runs the queued tasks.
                    raise

    def map(self, work: Callable[[T], R], arguments: Iterable[T]) -> Iterator[R]:
        """Submit a task for every argument, and return an iterator of the results in order."""
        tasks = [self.submit(partial(work, one)) for one in arguments]
        return (task.outcome.result() for task in tasks)

    def check_process(self) -> None:
        """Check that this is not a forked process, where no thread would run submitted tasks.

        Raises:
            SplitlibError: in a forked process.
        """
        with self._changed:
            pass

    def stop(self, tidy_seconds: float = 0) -> None:
        """Abandon all tasks, and wait up to ``tidy_seconds`` for the running ones to end."""
        if self._changed.is_of_another_process:
            return  # a forked process has no running tasks
        with self._changed:
            self._stopped = True
            self._queue.clear()
            for task in self._unfinished:
                task.abandon()
            self._changed.notify_all()
        if self._pace is not None:
            self._pace.wake()
        with self._changed:
            if tidy_seconds:
                self._changed.wait_for(lambda: not self._threads, tidy_seconds)

    def _serve(self) -> None:
        _current.in_pool = True
        while (task := self._next()) is not None:
            task.run()
            with self._changed:
                self._unfinished.discard(task)
                if task in self._hanging:
                    self._hanging.remove(task)
                    break  # another thread may have replaced this one
            del task  # otherwise an idle thread would keep the result alive
        with self._changed:
            self._threads -= 1
            self._changed.notify_all()

    def _next(self) -> Task[Any] | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._queue or self._stopped)
            self._idle -= 1
            return self._queue.popleft() if self._queue else None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop(TIDY_SECONDS if kind in (None, GeneratorExit) else 0)


class BoundedCalls:
    """Runs the calls of one enumeration. Every wait ends at a deadline or on cancellation.

    Args:
        config: Settings for the deadline of one call, the deadline of all waits together, and the
            number of parallel calls.
        cancelled: Future that is done when the enumeration is cancelled.
    """

    def __init__(self, config: SplitConfig, cancelled: Future[None]) -> None:
        self._call_seconds = config.call_deadline_seconds
        self._deadline_seconds = config.enumeration_deadline_seconds
        self._left_seconds = min(self._deadline_seconds or FOREVER_SECONDS, FOREVER_SECONDS)
        self._cancelled = cancelled
        pace = Pace(config.listing_threads)
        self._listings = Workers(config.listing_threads, "splitlib-list", pace)
        # Catalog calls have their own thread, so that they do not wait behind listings.
        self._catalog = Workers(1, "splitlib-catalog")
        # The callback stops queued calls on cancellation, even while no thread waits for a result.
        # It holds a weak reference, so that the future does not keep this object in memory.
        stop = weakref.WeakMethod(self._stop)

        def stop_if_in_use(_: Future[None]) -> None:
            if (stop_now := stop()) is not None:
                stop_now()

        cancelled.add_done_callback(stop_if_in_use)

    def submit(self, work: Callable[[], T], most_seconds: float = 0) -> Task[T]:
        """Queue a listing, which starts when a thread is free; :meth:`result` waits for it.

        Args:
            work: Function to call.
            most_seconds: Deadline in seconds, if it is shorter than the configured call deadline;
                0 means the configured call deadline.
        """
        limits = [limit for limit in (most_seconds, self._call_seconds) if limit]
        return self._listings.submit(work, min(limits, default=0))

    def abandon(self, task: Task[Any]) -> None:
        """Abandon a listing. If it hangs, another thread runs the next one."""
        self._listings.abandon(task)

    def run(self, work: Callable[[], T]) -> T:
        """Run a catalog call, wait for it, and return its result."""
        self.check_cancelled()
        return self.result(self._catalog.submit(work, self._call_seconds))

    def result(self, task: Task[T]) -> T:
        """Wait for a task and return its result.

        Raises:
            SplitlibError: immediately, if the enumeration is cancelled.
            SourceUnavailable: if the call's or the enumeration's deadline has passed.
        """
        either: list[Future[Any]] = [task.outcome, self._cancelled]
        self._listings.check_process()
        while not task.outcome.done():
            started = time.monotonic()
            remaining = task.call.remaining_seconds()
            wait(either, min(remaining, self._left_seconds), return_when=FIRST_COMPLETED)
            self._left_seconds -= time.monotonic() - started
            self.check_cancelled()
            if not task.outcome.done():
                self._check_deadlines(task)
        self.check_cancelled()
        return task.outcome.result()

    def check_deadline(self) -> None:
        """Raise an error if the enumeration's deadline has passed.

        Raises:
            SourceUnavailable: if the enumeration's deadline has passed.
        """
        if self._left_seconds <= 0:
            raise SourceUnavailable(
                "The enumeration has waited for catalog and storage longer than its deadline of "
                f"{self._deadline_seconds:g} seconds.",
                hint="filter more, or raise enumeration_deadline_seconds.",
            )

    def check_cancelled(self) -> None:
        """Raise an error if the enumeration was cancelled.

        Raises:
            SplitlibError: if the enumeration was cancelled.
        """
        if self._cancelled.done():
            raise SplitlibError("The enumeration was cancelled.")

    def __enter__(self) -> BoundedCalls:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After an error, do not wait for calls that may hang.
        tidy = kind in (None, GeneratorExit) and not self._cancelled.done()
        self._stop(TIDY_SECONDS if tidy else 0)

    def _stop(self, tidy_seconds: float = 0) -> None:
        for workers in (self._catalog, self._listings):
            workers.stop(tidy_seconds)

    def _check_deadlines(self, task: Task[Any]) -> None:
        self.check_deadline()
        if not task.call.remaining_seconds():
            raise task.call.overdue()


def run_bounded(work: Callable[[], T], config: SplitConfig) -> T:
    """Run one call in its own thread, with the deadlines from ``config``, and return its result.

    Raises:
        SourceUnavailable: if the deadline has passed.
    """
    with BoundedCalls(config, Future()) as calls:
        return calls.run(work)


class Call:
    """State of one call in a worker thread. All attempts of the call share one deadline.

    Args:
        seconds: Time limit in seconds, counted from the start of the call; 0 means no limit.
        pace: Limit of parallel calls to the same source; None means no limit.
    """

    def __init__(self, seconds: float, pace: Pace | None = None) -> None:
        self.pace = pace
        self.failed_attempts = 0
        """Number of attempts that failed."""
        self.seconds = min(seconds or FOREVER_SECONDS, FOREVER_SECONDS)
        self.abandoned = threading.Event()
        """Set when the result is no longer needed. After that, no further attempt starts."""
        self._ends: float | None = None

    def begin(self) -> None:
        """Set the deadline, counted from now."""
        self._ends = time.monotonic() + self.seconds

    def remaining_seconds(self) -> float:
        """Return the seconds left; 0 means that the deadline has passed."""
        if self._ends is None:
            return self.seconds
        return max(0.0, self._ends - time.monotonic())

    def overdue(self) -> SourceUnavailable:
        """Return the error for a call that exceeded its deadline."""
        return SourceUnavailable(
            f"A call took longer than its deadline of {self.seconds:g} seconds.",
            hint="find out why the source is slow, or raise call_deadline_seconds.",
        )


def in_pool() -> bool:
    """Return whether the current thread belongs to a :class:`Workers` pool."""
    return getattr(_current, "in_pool", False)


def current_call() -> Call | None:
    """Return the call that this thread runs, or None outside of a call.

    A connector that waits for a response should stop at the deadline of this call.
    """
    return getattr(_current, "call", None)


@contextmanager
def working_on(call: Call) -> Iterator[None]:
    """Make ``call`` the current call of this thread, and start its deadline."""
    outer = current_call()
    call.begin()
    _current.call = call
    try:
        yield
    finally:
        _current.call = outer


def in_parallel(call: Callable[[T], R], arguments: Sequence[T], threads: int = 16) -> list[R]:
    """Call a function for each argument in threads, and return the results in argument order.

    If this thread itself runs a call, the new calls have the same deadline, and are abandoned
    together with it.

    Raises:
        SourceUnavailable: if the deadline has passed, or the current call was abandoned.
    """
    if len(arguments) < 2:
        return [call(argument) for argument in arguments]
    outer = current_call()
    seconds = 0.0 if outer is None else outer.remaining_seconds()
    with Workers(threads, "splitlib-parallel") as workers:
        tasks = [workers.submit(partial(call, argument), seconds) for argument in arguments]
        pending = {task.outcome for task in tasks}
        while pending:
            done, pending = wait(pending, _POLL_SECONDS, FIRST_EXCEPTION)
            for outcome in done:
                outcome.result()  # raises the error of a call
            if outer and (outer.abandoned.is_set() or not outer.remaining_seconds()):
                raise SourceUnavailable("Parallel calls did not end in time.")
        return [task.outcome.result() for task in tasks]
