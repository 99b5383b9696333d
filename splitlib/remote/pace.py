"""Limit the number of parallel calls to a source while the source throttles.

As in TCP congestion control, a throttled call halves the limit. When as many calls as the limit
have succeeded, the limit increases by one. So an enumeration adapts to its source without a
setting.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from splitlib.errors import SourceUnavailable


class Limit:
    """The number of calls that may run in parallel. This class uses neither threads nor a clock.

    Args:
        most: Initial and maximum value of the limit.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._value = float(most)
        self._slowed_at = float("-inf")

    @property
    def calls(self) -> int:
        """The number of calls that may run in parallel; at least 1."""
        return int(self._value)

    def succeeded(self) -> None:
        """Record a successful call."""
        self._value = min(self._most, self._value + 1 / self._value)

    def throttled(self, began: float, now: float) -> None:
        """Record a throttled call, and halve the limit.

        A call that began before the last reduction is ignored, because it ran under the old limit.

        Args:
            began: Time when the call began, in seconds.
            now: Current time in seconds, of the same clock.
        """
        if began > self._slowed_at:
            self._value = max(1.0, self._value / 2)
            self._slowed_at = now


class Pace:
    """Starts calls to one source only while fewer than the limit run. Thread-safe.

    Args:
        most: Maximum number of parallel calls.
    """

    def __init__(self, most: int) -> None:
        self._limit = Limit(most)
        self._changed = threading.Condition()
        self._running = 0
        self._succeeded_at = float("-inf")

    @property
    def succeeded_at(self) -> float:
        """Time of the last successful call, from the clock :func:`time.monotonic`."""
        with self._changed:
            return self._succeeded_at

    @contextmanager
    def turn(self, abandoned: threading.Event, seconds: float) -> Iterator[None]:
        """Wait until the limit allows one more call, then run the ``with`` block as that call.

        Args:
            abandoned: Event that ends the wait. Set it and then call :meth:`wake`.
            seconds: Maximum wait in seconds.

        Raises:
            SourceUnavailable: if the call could not start.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: abandoned.is_set() or self._running < self._limit.calls, seconds
            )
            if abandoned.is_set() or self._running >= self._limit.calls:
                raise SourceUnavailable(
                    "The source throttles, and this call could not start in time."
                )
            self._running += 1
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
                self._running -= 1
                if throttled:
                    self._limit.throttled(began, time.monotonic())
                if answered:
                    self._limit.succeeded()
                    self._succeeded_at = time.monotonic()
                self._changed.notify_all()

    def wake(self) -> None:
        """Make waiting threads check whether their call was abandoned."""
        with self._changed:
            self._changed.notify_all()
