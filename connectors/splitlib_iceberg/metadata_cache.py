"""What was decoded of a table's files, shared by all tables of the process.

That is manifest lists, manifests, and the names of columns in data files. None of these files is
ever written again, so what was decoded stays true. The same path may still mean another file where
it is reached with other properties (credentials, endpoints).
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Hashable
from typing import Any, NamedTuple

from cachetools import LRUCache
from pyiceberg.io import FileIO

_MAX_BYTES = 256 * 2**20


class Cached(NamedTuple):
    """Something decoded and what it takes in memory."""

    value: Any
    nbytes: int


class MetadataCache:
    """Drops what was used least recently when it is full. Thread-safe.

    Args:
        max_bytes: Of all that is kept.
    """

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._kept: LRUCache[Hashable, Cached] = LRUCache(max_bytes, lambda kept: kept.nbytes)

    def get(self, key: Hashable) -> Any:
        """The value that was kept; None if there is none any more."""
        with self._lock:
            found = self._kept.get(key)
        return None if found is None else found.value

    def put(self, key: Hashable, value: Any, nbytes: int) -> None:
        """Keep a value, if there is room for it at all."""
        if nbytes <= self._max_bytes:
            with self._lock:
                self._kept[key] = Cached(value, nbytes)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()


def identity_of(files: FileIO) -> str:
    """A text that two have in common if they reach the same files.

    A digest, since properties hold secrets.
    """
    told = repr((type(files).__qualname__, sorted(map(repr, files.properties.items()))))
    return hashlib.sha256(told.encode()).hexdigest()


shared = MetadataCache()
