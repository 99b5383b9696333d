"""Which requests a fault strikes."""

from __future__ import annotations

import re
import threading

NOTHING = "(?!)"
"""A pattern that no request has in it."""


class Strikes:
    """Counts requests that match, and says of each whether it is struck. Thread-safe.

    Args:
        pattern: What a request has in it that may be struck.
        first: How many of them pass before.
        times: How many are struck then.
    """

    def __init__(self, pattern: str, first: int = 0, times: int = 1) -> None:
        self._pattern = re.compile(pattern)
        self._first = first
        self._times = times
        self._seen = 0
        self._lock = threading.Lock()
        self.armed = True
        """While it is not, nothing is counted or struck."""
        self.struck = 0
        """How many have been."""

    def hit(self, request: str) -> bool:
        """Whether this request is struck."""
        if not self.armed or not self._pattern.search(request):
            return False
        with self._lock:
            self._seen += 1
            hit = self._first < self._seen <= self._first + self._times
            self.struck += hit
            return hit
