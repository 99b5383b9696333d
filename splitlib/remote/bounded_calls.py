"""Calls of catalogs and storages with deadlines: every wait ends, even if a call hangs."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, TypeVar

from splitlib.config import SplitConfig
from splitlib.errors import SourceUnavailable, SplitlibError
from splitlib.remote.calls import FOREVER_SECONDS
from splitlib.remote.pace import Pace
from splitlib.remote.workers import TIDY_SECONDS, Task, Workers

T = TypeVar("T")


class BoundedCalls:
    """The calls of one enumeration. Every wait ends at a deadline or on cancellation.

    Args:
        config: Deadline of a call and of all waits together, and number of parallel calls.
        cancelled: A future that is done when the enumeration is cancelled.
    """

    def __init__(self, config: SplitConfig, cancelled: Future[None]) -> None:
        self._call_seconds = config.call_deadline_seconds
        self._deadline_seconds = config.enumeration_deadline_seconds
        self._left_seconds = min(self._deadline_seconds or FOREVER_SECONDS, FOREVER_SECONDS)
        self._cancelled = cancelled
        pace = Pace(config.listing_threads)
        self._listings = Workers(config.listing_threads, "splitlib-list", pace)
        # A separate thread, so that the next partitions do not queue behind all listings.
        self._catalog = Workers(1, "splitlib-catalog")
        # Stops queued calls on cancellation, even if nothing waits for a result at that moment.
        stop = weakref.WeakMethod(self._stop)

        def stop_if_in_use(_: Future[None]) -> None:
            if (stop_now := stop()) is not None:
                stop_now()

        cancelled.add_done_callback(stop_if_in_use)

    def submit(self, work: Callable[[], T]) -> Task[T]:
        """Start a listing once a thread is free; :meth:`result` waits for it."""
        return self._listings.submit(work, self._call_seconds)

    def run(self, work: Callable[[], T]) -> T:
        """Call the catalog now, and return the result."""
        self.check_cancelled()
        return self.result(self._catalog.submit(work, self._call_seconds))

    def result(self, task: Task[T]) -> T:
        """Wait for a task and return its result.

        Raises:
            SplitlibError: immediately, if the enumeration is cancelled.
            SourceUnavailable: if the deadline of the call or of the enumeration has passed.
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
        if self._left_seconds <= 0:
            raise SourceUnavailable(
                "The enumeration has waited for catalog and storage longer than its deadline of "
                f"{self._deadline_seconds:g} seconds.",
                hint="filter more, or raise enumeration_deadline_seconds.",
            )
        if not task.call.remaining_seconds():
            raise task.call.overdue()


def run_bounded(work: Callable[[], T], config: SplitConfig) -> T:
    """Run one call in its own thread, with the deadline of a call.

    Raises:
        SourceUnavailable: if the deadline has passed.
    """
    with BoundedCalls(config, Future()) as calls:
        return calls.run(work)
