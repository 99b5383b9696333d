"""Threads for calls that may hang.

Python cannot interrupt a thread. So calls of catalogs and storages run in daemon threads: a
deadline, a cancellation or Ctrl-C ends the wait, and the thread ends when its call does.
:mod:`concurrent.futures` is unsuitable, because Python joins its threads at exit.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import Any, Generic, TypeVar

from splitlib.errors import SplitlibError
from splitlib.remote.calls import Call, working_on
from splitlib.remote.pace import Pace

T = TypeVar("T")
R = TypeVar("R")

# Long enough for most running listings to end, too short to be noticed.
TIDY_SECONDS = 0.2


class UnforkedCondition(threading.Condition):
    """A condition that raises in forked processes, where its lock might never be released."""

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
                "This object was made before a fork; its threads do not exist in this process.",
                hint="make the object in this process, or start the process with 'spawn'.",
            )
        return super().__enter__()


class Task(Generic[T]):
    """A unit of work for a thread of :class:`Workers`."""

    def __init__(self, work: Callable[[], T], seconds: float, pace: Pace | None = None) -> None:
        self.call = Call(seconds, pace)
        self.outcome: Future[T] = Future()
        self._work = work
        self._context = copy_context()  # carries the allowed locations

    def run(self) -> None:
        """Do the work, unless the task was abandoned before."""
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
        """Signal that the result is no longer needed. A task that has not started never does."""
        self.call.abandoned.set()
        self.outcome.cancel()


class Workers:
    """A pool of daemon threads, started on demand. Process exit does not wait for them.

    Args:
        most: Maximum number of threads.
        name: Name of the threads in a thread dump.
        pace: Limit of parallel calls while the source throttles; None = no limit.
    """

    def __init__(self, most: int, name: str, pace: Pace | None = None) -> None:
        self._pace = pace
        self._most = most
        self._name = name
        self._changed = UnforkedCondition()
        self._queue: deque[Task[Any]] = deque()
        self._unfinished: set[Task[Any]] = set()
        self._threads = 0
        self._idle = 0
        self._stopped = False

    def submit(self, work: Callable[[], T], call_seconds: float = 0) -> Task[T]:
        """Queue ``work``. After :meth:`stop`, the task is abandoned at once.

        Args:
            work: Function to call.
            call_seconds: Deadline of the call in seconds from its start; 0 = none.
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
            elif self._threads < self._most:
                self._threads += 1
                threading.Thread(target=self._serve, name=self._name, daemon=True).start()
        return task

    def map(self, work: Callable[[T], R], arguments: Iterable[T]) -> Iterator[R]:
        """Submit a task for each argument at once, and return the results in the same order."""
        tasks = [self.submit(partial(work, one)) for one in arguments]
        return (task.outcome.result() for task in tasks)

    def check_process(self) -> None:
        """Raise in a forked process, where no thread runs the submitted tasks.

        Raises:
            SplitlibError: in a forked process.
        """
        with self._changed:
            pass

    def stop(self, tidy_seconds: float = 0) -> None:
        """Start no further task, and wait up to ``tidy_seconds`` for running ones."""
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
        while (task := self._next()) is not None:
            task.run()
            with self._changed:
                self._unfinished.discard(task)
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
