"""Cache of decoded metadata, shared by all tables of the process.

The cache contains manifest lists, manifests, and the column names of data files. Iceberg never
changes a file, so entries never become stale. Cache keys include the FileIO's properties, because
with other credentials or another endpoint, the same path may refer to a different file.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Hashable
from typing import Any, NamedTuple

from cachetools import LRUCache
from pyiceberg.io import FileIO

from splitlib.storage import in_forks_of_this

_MAX_BYTES = 256 * 2**20


class Cached(NamedTuple):
    """A decoded value and its memory use in bytes."""

    value: Any
    nbytes: int


class MetadataCache:
    """A cache that evicts the least recently used entries. Thread-safe.

    Args:
        max_bytes: Maximum total size of the values, in bytes.
    """

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._renew()
        in_forks_of_this(self, MetadataCache._renew)

    def _renew(self) -> None:
        # A forked process starts with a new lock and an empty cache. At the time of the fork,
        # another thread may have held the lock and been changing the cache.
        self._lock = threading.Lock()
        self._kept: LRUCache[Hashable, Cached] = LRUCache(self._max_bytes, lambda kept: kept.nbytes)

    def get(self, key: Hashable) -> Any:
        """Return the value that is cached for ``key``, or None if there is none."""
        with self._lock:
            found = self._kept.get(key)
        return None if found is None else found.value

    def put(self, key: Hashable, value: Any, nbytes: int) -> None:
        """Add a value of ``nbytes`` bytes, unless it is larger than the whole cache."""
        if nbytes <= self._max_bytes:
            with self._lock:
                self._kept[key] = Cached(value, nbytes)

    def clear(self) -> None:
        """Remove all values."""
        with self._lock:
            self._kept.clear()


def identity_of(files: FileIO) -> str:
    """Return a digest that is equal for FileIOs with the same class and properties.

    The properties themselves are not returned, because they contain secrets.
    """
    settings = repr((type(files).__qualname__, sorted(map(repr, files.properties.items()))))
    return hashlib.sha256(settings.encode()).hexdigest()


shared = MetadataCache()
