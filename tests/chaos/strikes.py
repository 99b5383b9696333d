"""Selection of the requests that a fault strikes."""

from __future__ import annotations

import re
import threading

NOTHING = "(?!)"
"""A pattern that matches no request."""


class Strikes:
    """Counts the matching requests, and selects those that the fault strikes. Thread-safe.

    Args:
        pattern: Regular expression for requests that may be struck.
        first: Number of matching requests that pass before the first strike.
        times: Number of matching requests that are then struck.
    """

    def __init__(self, pattern: str, first: int = 0, times: int = 1) -> None:
        self._pattern = re.compile(pattern)
        self._first = first
        self._times = times
        self._seen = 0
        self._lock = threading.Lock()
        self.armed = True
        """Whether requests are counted and struck."""
        self.struck = 0
        """Number of requests struck so far."""

    def hit(self, request: str) -> bool:
        """Count a request, and return whether the fault strikes it."""
        if not self.armed or not self._pattern.search(request):
            return False
        with self._lock:
            self._seen += 1
            hit = self._first < self._seen <= self._first + self._times
            self.struck += hit
            return hit
