"""Limit the number of parallel calls of a source, with fewer calls while it throttles.

As in TCP congestion control, throttling halves the limit, and a round of successes adds one. So an
enumeration adapts to its source without a setting.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from splitlib.errors import SourceUnavailable


class Limit:
    """The limit as a number, without threads or clock.

    Args:
        most: Initial and maximum value.
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

        Calls that began before the last reduction do not count: they ran under the old limit.

        Args:
            began: Start of the call, in seconds.
            now: Current time of the same clock.
        """
        if began > self._slowed_at:
            self._value = max(1.0, self._value / 2)
            self._slowed_at = now


class Pace:
    """Grants turns to calls that share one source. Thread-safe.

    Args:
        most: Maximum number of parallel calls.
    """

    def __init__(self, most: int) -> None:
        self._limit = Limit(most)
        self._changed = threading.Condition()
        self._under_way = 0
        self._succeeded_at = float("-inf")

    @property
    def succeeded_at(self) -> float:
        """Time of the last success, as of :func:`time.monotonic`."""
        with self._changed:
            return self._succeeded_at

    @contextmanager
    def turn(self, abandoned: threading.Event, seconds: float) -> Iterator[None]:
        """Wait until the limit allows one more call, then run the block as that call.

        Args:
            abandoned: Ends the wait when set, once :meth:`wake` is called.
            seconds: Maximum wait in seconds.

        Raises:
            SourceUnavailable: if the wait ends without a turn.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: abandoned.is_set() or self._under_way < self._limit.calls, seconds
            )
            if abandoned.is_set() or self._under_way >= self._limit.calls:
                raise SourceUnavailable(
                    "The source throttles, and this call could not start in time."
                )
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
        """Make waiting threads check whether their call was abandoned."""
        with self._changed:
            self._changed.notify_all()
