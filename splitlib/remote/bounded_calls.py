"""Calls of catalogs and storages, and waits for them that end whatever the calls do."""

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
    """The calls of one enumeration; every wait for one ends at a deadline or when cancelled.

    Args:
        config: How long a call may take, how long all waits together, how many run at once.
        cancelled: Done when the enumeration is to end.
    """

    def __init__(self, config: SplitConfig, cancelled: Future[None]) -> None:
        self._call_seconds = config.call_deadline_seconds
        self._deadline_seconds = config.enumeration_deadline_seconds
        self._left_seconds = min(self._deadline_seconds or FOREVER_SECONDS, FOREVER_SECONDS)
        self._cancelled = cancelled
        pace = Pace(config.listing_threads)
        self._listings = Workers(config.listing_threads, "splitlib-list", pace)
        # of its own, or the next partitions would wait behind all listings of the last ones
        self._catalog = Workers(1, "splitlib-catalog")
        # whoever waits for nothing just now would not notice, and what is queued would begin
        stop = weakref.WeakMethod(self._stop)

        def stop_if_in_use(_: Future[None]) -> None:
            if (stop_now := stop()) is not None:
                stop_now()

        cancelled.add_done_callback(stop_if_in_use)

    def submit(self, work: Callable[[], T]) -> Task[T]:
        """Begin a listing as soon as a thread is free; :meth:`result` waits for it."""
        return self._listings.submit(work, self._call_seconds)

    def run(self, work: Callable[[], T]) -> T:
        """The result of a call of the catalog, made now."""
        self.check_cancelled()
        return self.result(self._catalog.submit(work, self._call_seconds))

    def result(self, task: Task[T]) -> T:
        """Wait for a task.

        Raises:
            SplitlibError: at once when the enumeration is cancelled.
            SourceUnavailable: when the deadline of the call or of the enumeration is over.
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
        """Raise if the enumeration was cancelled.

        Raises:
            SplitlibError: if so.
        """
        if self._cancelled.done():
            raise SplitlibError("The enumeration was cancelled.")

    def __enter__(self) -> BoundedCalls:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # the error is not to wait for calls that may hang
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
    """The result of one call in a thread of its own, with the deadline of a call.

    Raises:
        SourceUnavailable: when the deadline is over.
    """
    with BoundedCalls(config, Future()) as calls:
        return calls.run(work)
