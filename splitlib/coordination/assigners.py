"""Which split goes to whom next, and which splits make one task.

An assigner is a queue that may look at the host that asks. It sees only what has been enumerated
and not handed out, never the whole table.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Protocol

from splitlib.model import FileSplit


class SplitAssigner(Protocol):
    """Splits that wait for a reader. Not thread-safe: the coordinator calls it under its lock."""

    def add(self, splits: Iterable[FileSplit]) -> None:
        """Take in splits, in the table's order."""

    def add_back(self, splits: Iterable[FileSplit]) -> None:
        """Take in splits that were handed out before."""

    def take(self, hostname: str | None) -> FileSplit | None:
        """The next split for a reader on ``hostname``; None only if no split waits."""

    def remove(self, split_ids: Collection[str]) -> None:
        """Forget splits that no reader needs any more; those that do not wait here are ignored."""

    def __iter__(self) -> Iterator[FileSplit]:
        """What waits, in no particular order."""

    def __len__(self) -> int:
        """How many wait."""


class FifoAssigner:
    """In the table's order; what comes back goes first.

    The order depends only on the table, the filters and which readers have failed, not on how fast
    the listing is.
    """

    def __init__(self) -> None:
        self._waiting: deque[FileSplit] = deque()

    def add(self, splits: Iterable[FileSplit]) -> None:
        """See :meth:`SplitAssigner.add`."""
        self._waiting.extend(splits)

    def add_back(self, splits: Iterable[FileSplit]) -> None:
        """See :meth:`SplitAssigner.add_back`."""
        self._waiting.extendleft(reversed(list(splits)))

    def take(self, hostname: str | None) -> FileSplit | None:
        """See :meth:`SplitAssigner.take`."""
        return self._waiting.popleft() if self._waiting else None

    def remove(self, split_ids: Collection[str]) -> None:
        """See :meth:`SplitAssigner.remove`."""
        self._waiting = deque(s for s in self._waiting if s.split_id not in split_ids)

    def __iter__(self) -> Iterator[FileSplit]:
        return iter(self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)


class LocalityAssigner:
    """The oldest split that lies on the asking host, else one that lies nowhere, else any.

    Hosts are compared by name, ignoring case. Racks are not known.
    """

    def __init__(self) -> None:
        # dicts serve as ordered sets
        self._waiting: dict[str, FileSplit] = {}
        self._of_host: dict[str, dict[str, None]] = {}

    def add(self, splits: Iterable[FileSplit]) -> None:
        """See :meth:`SplitAssigner.add`."""
        for split in splits:
            self._waiting[split.split_id] = split
            for host in _hosts(split):
                self._of_host.setdefault(host, {})[split.split_id] = None

    add_back = add

    def take(self, hostname: str | None) -> FileSplit | None:
        """See :meth:`SplitAssigner.take`."""
        local = self._of_host.get(hostname.lower()) if hostname else None
        first = next(iter(local or self._of_host.get(_NOWHERE) or self._waiting), None)
        return None if first is None else self._forget(first)

    def remove(self, split_ids: Collection[str]) -> None:
        """See :meth:`SplitAssigner.remove`."""
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
    """The longest split first, so that readers end at about the same time.

    That is Graham's LPT rule, applied to what has been listed so far.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, FileSplit]] = []
        self._added = 0

    def add(self, splits: Iterable[FileSplit]) -> None:
        """See :meth:`SplitAssigner.add`."""
        for split in splits:
            self._added += 1  # orders equally long splits, which have no order of their own
            heappush(self._heap, (-split.length, self._added, split))

    add_back = add

    def take(self, hostname: str | None) -> FileSplit | None:
        """See :meth:`SplitAssigner.take`."""
        return heappop(self._heap)[2] if self._heap else None

    def remove(self, split_ids: Collection[str]) -> None:
        """See :meth:`SplitAssigner.remove`."""
        self._heap = [entry for entry in self._heap if entry[2].split_id not in split_ids]
        heapify(self._heap)

    def __iter__(self) -> Iterator[FileSplit]:
        return (split for _, _, split in self._heap)

    def __len__(self) -> int:
        return len(self._heap)


def pack(
    splits: Iterable[FileSplit], target_bytes: int, open_cost_bytes: int = 4 * 2**20
) -> list[list[FileSplit]]:
    """Splits gathered into tasks of about ``target_bytes`` each; every split in exactly one.

    As Spark's file sources pack: the longest first, and a task is full when the next split would
    exceed it. Pure; the same splits in the same order give the same tasks.

    Args:
        splits: What to pack; within a task they are ordered by length, the longest first.
        target_bytes: A task holds more only if a single split does.
        open_cost_bytes: What opening a file costs, in bytes that could be read in that time; it
            keeps thousands of tiny files from becoming one task.
    """
    tasks: list[list[FileSplit]] = []
    room = -1
    for split in sorted(splits, key=lambda split: -split.length):
        if split.length > room:
            tasks.append([])
            room = target_bytes
        tasks[-1].append(split)
        room -= split.length + open_cost_bytes
    return tasks
