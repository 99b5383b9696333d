"""Choose which split a reader gets next, and group splits into tasks.

An assigner is a queue that may consider the reader's host. It contains the splits that have been
listed but not handed out. Listing pauses while there are many of them, so the queue is small even
for a large table.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Protocol

from splitlib.model import FileSplit


class SplitAssigner(Protocol):
    """A queue of splits. It need not be thread-safe, because the coordinator holds a lock."""

    def add(self, splits: Iterable[FileSplit]) -> None:
        """Add splits, in the table's order."""

    def add_back(self, splits: Iterable[FileSplit]) -> None:
        """Add splits that were handed out before but not acknowledged."""

    def take(self, hostname: str | None) -> FileSplit | None:
        """Remove and return the next split for a reader on this host, or None if none is left."""

    def remove(self, split_ids: Collection[str]) -> None:
        """Remove splits that need not be read any more. Ids not in the queue are ignored."""

    def __iter__(self) -> Iterator[FileSplit]:
        """Iterate over the splits in the queue, in no particular order."""

    def __len__(self) -> int:
        """Return the number of splits in the queue."""


class FifoAssigner:
    """Hands out splits in the table's order. Splits of failed readers are handed out first.

    The order does not depend on how fast the files are listed.
    """

    def __init__(self) -> None:
        self._waiting: deque[FileSplit] = deque()

    def add(self, splits: Iterable[FileSplit]) -> None:
        """Add splits, in the table's order."""
        self._waiting.extend(splits)

    def add_back(self, splits: Iterable[FileSplit]) -> None:
        """Put back the splits of a failed reader. They are handed out before all others."""
        self._waiting.extendleft(reversed(list(splits)))

    def take(self, hostname: str | None) -> FileSplit | None:
        """Remove and return the next split for a reader on this host, or None if none is left."""
        return self._waiting.popleft() if self._waiting else None

    def remove(self, split_ids: Collection[str]) -> None:
        """Remove splits by id. Ids not in the queue are ignored."""
        self._waiting = deque(s for s in self._waiting if s.split_id not in split_ids)

    def __iter__(self) -> Iterator[FileSplit]:
        return iter(self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)


class LocalityAssigner:
    """Hands out splits on the reader's host first, and then splits whose hosts are not known.

    If there are none, the reader gets a split on another host. Among equally good splits, the one
    that was added first is taken. Hosts are compared by name, ignoring case. Racks are not
    considered.
    """

    def __init__(self) -> None:
        # Dicts keep the order in which splits were added.
        self._waiting: dict[str, FileSplit] = {}
        self._of_host: dict[str, dict[str, None]] = {}

    def add(self, splits: Iterable[FileSplit]) -> None:
        """Add splits, in the table's order."""
        for split in splits:
            self._waiting[split.split_id] = split
            for host in _hosts(split):
                self._of_host.setdefault(host, {})[split.split_id] = None

    add_back = add

    def take(self, hostname: str | None) -> FileSplit | None:
        """Remove and return the next split for a reader on this host, or None if none is left."""
        local = self._of_host.get(hostname.lower()) if hostname else None
        first = next(iter(local or self._of_host.get(_NOWHERE) or self._waiting), None)
        return None if first is None else self._forget(first)

    def remove(self, split_ids: Collection[str]) -> None:
        """Remove splits by id. Ids not in the queue are ignored."""
        for split_id in split_ids:
            if split_id in self._waiting:
                self._forget(split_id)

    def _forget(self, split_id: str) -> FileSplit:
        split = self._waiting.pop(split_id)
        for host in _hosts(split):
            here = self._of_host[host]
            del here[split_id]
            if not here:
                del self._of_host[host]
        return split

    def __iter__(self) -> Iterator[FileSplit]:
        return iter(self._waiting.values())

    def __len__(self) -> int:
        return len(self._waiting)


_NOWHERE = ""


def _hosts(split: FileSplit) -> set[str]:
    return {host.lower() for host in split.hosts} or {_NOWHERE}


class LargestFirstAssigner:
    """Hands out the longest split first, so that readers finish at about the same time.

    This is Graham's LPT (longest processing time) rule, applied to the splits listed so far.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, FileSplit]] = []
        self._added = 0

    def add(self, splits: Iterable[FileSplit]) -> None:
        """Add splits, in the table's order."""
        for split in splits:
            self._added += 1  # This number breaks ties, because splits cannot be compared.
            heappush(self._heap, (-split.length, self._added, split))

    add_back = add

    def take(self, hostname: str | None) -> FileSplit | None:
        """Remove and return the next split for a reader on this host, or None if none is left."""
        return heappop(self._heap)[2] if self._heap else None

    def remove(self, split_ids: Collection[str]) -> None:
        """Remove splits by id. Ids not in the queue are ignored."""
        self._heap = [entry for entry in self._heap if entry[2].split_id not in split_ids]
        heapify(self._heap)

    def __iter__(self) -> Iterator[FileSplit]:
        return (split for _, _, split in self._heap)

    def __len__(self) -> int:
        return len(self._heap)


def pack(
    splits: Iterable[FileSplit], target_bytes: int, open_cost_bytes: int = 4 * 2**20
) -> list[list[FileSplit]]:
    """Group splits into tasks of about ``target_bytes``. Every split is in exactly one task.

    As in Spark's file sources, splits are packed in order of length, the longest first. A new task
    starts when the next split does not fit in the current one. The same splits in the same order
    give the same tasks.

    Args:
        splits: Splits to group.
        target_bytes: Maximum size of a task in bytes, unless it has a single longer split.
        open_cost_bytes: Cost of opening a file, as the number of bytes that could be read in the
            same time. It is added to each split, so that a task does not get thousands of tiny
            files.
    """
    tasks: list[list[FileSplit]] = []
    space_left = -1
    for split in sorted(splits, key=lambda split: -split.length):
        if split.length > space_left:
            tasks.append([])
            space_left = target_bytes
        tasks[-1].append(split)
        space_left -= split.length + open_cost_bytes
    return tasks
