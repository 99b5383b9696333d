"""How many calls of a source are under way at once: fewer when it says that they are too many.

As TCP does it: half as many when the source throttles, and one more after a round of successes. So
the calls of an enumeration find what their source bears, and nobody has to set it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from splitlib.errors import SourceUnavailable


class Limit:
    """The number alone: it knows no threads and no clock.

    Args:
        most: What it never exceeds; it begins there.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._value = float(most)
        self._slowed_at = float("-inf")

    @property
    def calls(self) -> int:
        """How many may be under way; at least one."""
        return int(self._value)

    def succeeded(self) -> None:
        """Take note that a call was answered."""
        self._value = min(self._most, self._value + 1 / self._value)

    def throttled(self, began: float, now: float) -> None:
        """Take note that a call was too many.

        Those that began before the number was last lowered say nothing of the lower one.

        Args:
            began: When the call began, in seconds.
            now: By the same clock.
        """
        if began > self._slowed_at:
            self._value = max(1.0, self._value / 2)
            self._slowed_at = now


class Pace:
    """The turns of calls that share one source. Thread-safe.

    Args:
        most: How many calls at once at most.
    """

    def __init__(self, most: int) -> None:
        self._limit = Limit(most)
        self._changed = threading.Condition()
        self._under_way = 0
        self._succeeded_at = float("-inf")

    @property
    def succeeded_at(self) -> float:
        """When a call was last answered, by :func:`time.monotonic`."""
        with self._changed:
            return self._succeeded_at

    @contextmanager
    def turn(self, abandoned: threading.Event, seconds: float) -> Iterator[None]:
        """Wait until one more call may be made, for the block to make it.

        Args:
            abandoned: Ends the wait, once :meth:`wake` is called.
            seconds: How long to wait at most.

        Raises:
            SourceUnavailable: if the wait has ended otherwise.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: abandoned.is_set() or self._under_way < self._limit.calls, seconds
            )
            if abandoned.is_set() or self._under_way >= self._limit.calls:
                raise SourceUnavailable("The source throttles, and the call's turn did not come.")
            self._under_way += 1
        began = time.monotonic()
        throttled = answered = False
        try:
            yield
            answered = True
        except SourceUnavailable as error:
            throttled = error.is_throttled
            raise
        finally:
            with self._changed:
                self._under_way -= 1
                if throttled:
                    self._limit.throttled(began, time.monotonic())
                if answered:
                    self._limit.succeeded()
                    self._succeeded_at = time.monotonic()
                self._changed.notify_all()

    def wake(self) -> None:
        """Have those who wait look whether they were abandoned."""
        with self._changed:
            self._changed.notify_all()
