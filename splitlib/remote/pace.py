"""Limit the number of parallel calls while a source throttles.

As in TCP congestion control, a throttled call halves the limit. While calls succeed, the limit
grows slowly: a limit of 8 becomes 9 after 8 successful calls. So an enumeration adapts to its
source without a setting.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from splitlib.errors import SourceUnavailable


class Limit:
    """The current limit on the number of parallel calls.

    It only computes the limit: it neither waits nor reads the clock. It is not thread-safe.

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

        A call that began before the last halving is ignored, because it ran under the old limit.

        Args:
            began: Time when the call began, in seconds.
            now: Current time in seconds, from the same clock.
        """
        if began > self._slowed_at:
            self._value = max(1.0, self._value / 2)
            self._slowed_at = now


class Pace:
    """Limits the parallel calls to one source. Calls above the limit wait. Thread-safe.

    Args:
        most: Maximum number of parallel calls.
    """

    def __init__(self, most: int) -> None:
        self._limit = Limit(most)
        self._changed = threading.Condition()
        self._running: list[threading.Event] = []
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
            abandoned: Event that ends the wait. To end it, set the event, then call :meth:`wake`.
            seconds: Maximum wait in seconds.

        Raises:
            SourceUnavailable: if the call was abandoned, or waited longer than ``seconds``.
        """
        with self._changed:
            self._changed.wait_for(lambda: abandoned.is_set() or self._is_free, seconds)
            if abandoned.is_set() or not self._is_free:
                raise SourceUnavailable(
                    "The source throttles, and this call could not start in time."
                )
            self._running.append(abandoned)
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
                self._running.remove(abandoned)
                if throttled:
                    self._limit.throttled(began, time.monotonic())
                if answered:
                    self._limit.succeeded()
                    self._succeeded_at = time.monotonic()
                self._changed.notify_all()

    @property
    def _is_free(self) -> bool:
        # An abandoned call may hang, so it does not count towards the limit.
        return sum(not event.is_set() for event in self._running) < self._limit.calls

    def wake(self) -> None:
        """Wake the waiting threads, so that they check whether a call was abandoned."""
        with self._changed:
            self._changed.notify_all()
