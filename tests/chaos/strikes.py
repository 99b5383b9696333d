"""Selection of the requests that a fault affects, or strikes."""

from __future__ import annotations

import re
import threading

NOTHING = "(?!)"
"""A pattern that matches no request."""


class Strikes:
    """A counter of requests that selects the requests that a fault affects. Thread-safe.

    Args:
        pattern: Regular expression for requests that the fault may affect.
        first: Number of matching requests before the first affected one.
        times: Number of matching requests that are then affected.
    """

    def __init__(self, pattern: str, first: int = 0, times: int = 1) -> None:
        self._pattern = re.compile(pattern)
        self._first = first
        self._times = times
        self._seen = 0
        self._lock = threading.Lock()
        self.armed = True
        """Whether the fault is active. If not, requests are neither counted nor affected."""
        self.struck = 0
        """Number of affected requests so far."""

    def hit(self, request: str) -> bool:
        """Count a request if it matches, and return whether the fault affects it."""
        if not self.armed or not self._pattern.search(request):
            return False
        with self._lock:
            self._seen += 1
            hit = self._first < self._seen <= self._first + self._times
            self.struck += hit
            return hit
