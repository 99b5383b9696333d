"""The deadline of one connector call, and whether its result is still needed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from splitlib.errors import SourceUnavailable
from splitlib.remote.pace import Pace

# Practically no deadline, but within the limit of threading's timeouts.
FOREVER_SECONDS = threading.TIMEOUT_MAX / 2

_current = threading.local()


class Call:
    """State of one call in a worker thread. All its attempts share one deadline.

    Args:
        seconds: Deadline in seconds from the start of the call; 0 = none.
        pace: Limit of parallel calls of the same source; None = no limit.
    """

    def __init__(self, seconds: float, pace: Pace | None = None) -> None:
        self.pace = pace
        self.failed_attempts = 0
        """Number of attempts that failed."""
        self.seconds = min(seconds or FOREVER_SECONDS, FOREVER_SECONDS)
        self.abandoned = threading.Event()
        """Set when the result is no longer needed: no further attempt starts."""
        self._ends: float | None = None

    def begin(self) -> None:
        """Start the clock."""
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


def current_call() -> Call | None:
    """Return the call that this thread runs. A connector that waits should observe its deadline."""
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
