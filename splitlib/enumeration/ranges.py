"""Ranges of partitions that are read, for the picture in a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from splitlib.hive.partition_values import name_of
from splitlib.model import PartitionBatch
from splitlib.redaction import redact
from splitlib.report import PartitionRange

_MOST: Final = 120
_Place = tuple[PartitionBatch, int]


class _Cell(NamedTuple):
    """Neighbouring partitions; ``first`` and ``last`` are as in :class:`PartitionRange`."""

    first: _Place
    last: _Place
    read: int
    total: int

    def joined(self, other: _Cell) -> _Cell:
        """Return both as one cell."""
        known = [cell for cell in (self, other) if cell.read] or [self, other]
        read, total = self.read + other.read, self.total + other.total
        return _Cell(known[0].first, known[-1].last, read, total)


class PartitionRanges:
    """Collects which partitions are read. Its size does not depend on their number."""

    def __init__(self) -> None:
        self._cells: list[_Cell] = []
        self._width = 1
        """Maximum number of partitions in a cell."""

    def add(self, partitions: PartitionBatch, mask: pa.BooleanArray) -> None:
        """Add the next partitions of the catalog, with a flag for each: whether it is read."""
        while len(self._cells) + -(-len(mask) // self._width) > _MOST:
            self._width *= 2
            cells, self._cells = self._cells, []
            self._append(cells)
        self._append(self._cells_of(partitions, mask))

    def found(self) -> tuple[PartitionRange, ...]:
        """Return ranges that alternate: partitions that are read, and others."""
        ranges = []
        for _, cells in groupby(self._cells, lambda cell: cell.read > 0):
            one = reduce(_Cell.joined, cells)
            first, last = (redact(name_of(*place)) for place in (one.first, one.last))
            ranges.append(PartitionRange(first, last, one.read, one.total))
        return tuple(ranges)

    def _append(self, cells: Iterable[_Cell]) -> None:
        """Append cells, joined with the cell before them where both fit into one."""
        for cell in cells:
            if self._cells and self._cells[-1].total + cell.total <= self._width:
                self._cells[-1] = self._cells[-1].joined(cell)
            else:
                self._cells.append(cell)

    def _cells_of(self, partitions: PartitionBatch, mask: pa.BooleanArray) -> Iterator[_Cell]:
        kept = mask.to_numpy(zero_copy_only=False)
        bounds, counts = [], []
        for start in range(0, len(kept), self._width):
            part = kept[start : start + self._width]
            read = np.flatnonzero(part)
            ends = (read[0], read[-1]) if len(read) else (0, len(part) - 1)
            bounds += [start + end for end in ends]
            counts.append((len(read), len(part)))
        # A copy of these rows, because a slice would keep the whole batch in memory.
        named = partitions.take(pa.array(bounds, pa.int64()))
        for number, (some, total) in enumerate(counts):
            yield _Cell((named, 2 * number), (named, 2 * number + 1), some, total)
