"""One call of a connector: how long it may take, and whether anybody still waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from splitlib.errors import SourceUnavailable
from splitlib.remote.pace import Pace

# As good as no deadline, and short enough for every lock that is to wait for so long.
FOREVER_SECONDS = threading.TIMEOUT_MAX / 2

_current = threading.local()


class Call:
    """What a thread does for somebody who may stop waiting; all attempts share one deadline.

    Args:
        seconds: How long it may take from when it begins; 0 = as long as it likes.
        pace: What it shares with other calls of the same source; None = nothing.
    """

    def __init__(self, seconds: float, pace: Pace | None = None) -> None:
        self.pace = pace
        self.failed_attempts = 0
        """Those that were made again, or are to be."""
        self.seconds = min(seconds or FOREVER_SECONDS, FOREVER_SECONDS)
        self.abandoned = threading.Event()
        """Set when nobody waits any longer: nothing further is to begin."""
        self._ends: float | None = None

    def begin(self) -> None:
        """Start the clock."""
        self._ends = time.monotonic() + self.seconds

    def remaining_seconds(self) -> float:
        """What is left; 0 = the deadline has passed."""
        if self._ends is None:
            return self.seconds
        return max(0.0, self._ends - time.monotonic())

    def overdue(self) -> SourceUnavailable:
        """The error of a call that its deadline has ended."""
        return SourceUnavailable(
            f"A call took longer than its deadline of {self.seconds:g} seconds.",
            hint="find out why the source is slow, or raise call_deadline_seconds.",
        )


def current_call() -> Call | None:
    """The call that this thread works on. A connector that waits should end when it has to."""
    return getattr(_current, "call", None)


@contextmanager
def working_on(call: Call) -> Iterator[None]:
    """Make ``call`` the one that this thread works on, and start its clock."""
    outer = current_call()
    call.begin()
    _current.call = call
    try:
        yield
    finally:
        _current.call = outer
