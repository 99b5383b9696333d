"""The simulated table. Its partitions and files change while readers read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa

from splitlib.filtering.data import DynamicFilteringData
from tests.simulation.history import Event, History


@dataclass(slots=True)
class File:
    """A file of partition ``k``. Its values of column ``a`` are between ``low`` and ``high``."""

    path: str
    k: int
    size: int
    low: int
    high: int
    born: int
    """Number of the event that created the file; -1 if the file existed before the run."""
    gone: int | None = None

    @property
    def stable(self) -> bool:
        """Whether the file existed during the whole run."""
        return self.born < 0 and self.gone is None


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter on the column ``k`` or ``a``."""

    column: str
    values: frozenset[int]

    def drops(self, file: File) -> bool:
        """Return whether the filter drops the file because none of its rows can match."""
        if self.column == "k":
            return file.k not in self.values
        return not any(file.low <= value <= file.high for value in self.values)

    @property
    def data(self) -> DynamicFilteringData:
        """Return the filter as :class:`DynamicFilteringData`."""
        values = pa.array(sorted(self.values), pa.int64())
        return DynamicFilteringData.from_arrow(pa.table({self.column: values}))

    def __str__(self) -> str:
        return f"{self.column} in {sorted(self.values)}"


class TableModel:
    """The contents of the simulated catalog and storage.

    Args:
        random: Random numbers of the run.
        history: History that records every change.
        most_partitions: Maximum number of partitions at the start.
    """

    def __init__(self, random: Random, history: History, most_partitions: int) -> None:
        self._random = random
        self._history = history
        self._made = 0
        self.files: dict[str, File] = {}
        """All files that ever existed, by path."""
        self.partitions: dict[int, list[File]] = {}
        """Files of each current partition, by the value of ``k``."""
        self.dropped: dict[int, int] = {}
        """Number of the event that dropped each partition."""
        self.recreated: Event | None = None
        self._batches_left = random.choice([*[0] * 12, 1, 1, 2])
        for k in range(random.randint(0 if random.random() < 0.1 else 1, most_partitions)):
            self._add_partition(k, -1)

    def _add_partition(self, k: int, born: int) -> None:
        self.partitions[k] = []
        for _ in range(self._random.choice([0, 1, 2, 3, 4])):
            self._add_file(k, born)

    def _add_file(self, k: int, born: int) -> None:
        random = self._random
        low = random.randrange(20)
        size = random.choice([0, 1, 9, 10, 10, 25, 40])
        path = f"/t/k={k}/{random.randrange(100):02}-{self._made}"
        self._made += 1
        file = File(path, k, size, low, low + random.randrange(6), born)
        self.files[path] = file
        self.partitions[k].append(file)

    def batch_was_listed(self) -> None:
        """Count a listed batch of partitions. After a random number of them, recreate the table."""
        self._batches_left -= 1
        if self._batches_left == 0 and self.recreated is None:
            self._recreate()

    def change(self, *, recreate: bool) -> None:
        """Make a random change to the table."""
        random = self._random
        what = random.choice(["add partition", "drop partition", "add file", "remove file"])
        if recreate and random.random() < 0.5:
            what = "recreate"
        if self.recreated is not None:
            return
        known = sorted(self.partitions)
        if what == "add partition":
            k = max([*known, *self.dropped, -1]) + 1
            self._add_partition(k, self._history.note(what, k=k).number)
        elif what == "recreate":
            self._recreate()
        elif known:
            k = random.choice(known)
            event = self._history.note(what, k=k)
            if what == "drop partition":
                self._drop(k, event)
            elif what == "add file":
                self._add_file(k, event.number)
            elif self.partitions[k]:
                self.partitions[k].pop().gone = event.number

    def _recreate(self) -> None:
        self.recreated = self._history.note("recreate")
        for k in sorted(self.partitions):
            self._drop(k, self.recreated)
        for k in range(100, 102):
            self._add_partition(k, self.recreated.number)

    def _drop(self, k: int, event: Event) -> None:
        for file in self.partitions.pop(k):
            file.gone = event.number
        self.dropped[k] = event.number

    def filter(self, *, statistics: bool) -> Filter:
        """Return a random filter. It may drop all files."""
        random = self._random
        if statistics and random.random() < 0.4:
            return Filter("a", frozenset(random.sample(range(26), random.randint(1, 12))))
        known = sorted({file.k for file in self.files.values()}) or [0]
        least = 0 if random.random() < 0.1 else (len(known) + 1) // 2
        return Filter("k", frozenset(random.sample(known, random.randint(least, len(known)))))

    def stable(self) -> Iterator[File]:
        """Return the non-empty files that existed during the whole run."""
        return (file for file in self.files.values() if file.stable and file.size)

    def of_split(self, path: str) -> File | None:
        """Return the file with a path, even if it was deleted. None if it never existed."""
        return self.files.get(path)


def bounds(files: list[File], what: str) -> Any:
    """Return the lower or the upper bound of each file, as an Arrow array."""
    return pa.array([getattr(file, what) for file in files], pa.int64())
