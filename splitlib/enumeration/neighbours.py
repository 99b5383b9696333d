"""Group matched partitions so that one listing page covers each group.

A filter that arrives later can still drop partitions that are not listed yet.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.enumeration.tally import ScanTally
from splitlib.filtering.predicate import Predicate
from splitlib.model import PartitionBatch

Places: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


class MatchedPartitions:
    """A batch of partitions that matched a predicate. A later predicate may drop some."""

    def __init__(
        self, partitions: PartitionBatch, places: Places, predicate: Predicate, tally: ScanTally
    ) -> None:
        self.partitions = partitions
        self.places = places
        """Index of each partition in the catalog's listing, ascending."""
        self._tally = tally
        self._lock = threading.Lock()
        self._predicate = predicate
        # This mask is computed on demand, because most of these objects are only sliced.
        self._keep: pa.BooleanArray | None = None

    def __len__(self) -> int:
        return len(self.partitions)

    def slice(self, offset: int, length: int | None = None) -> MatchedPartitions:
        """Return a part of the batch. From then on, use the parts instead of the batch.

        Each part counts the partitions that later filters drop from it.
        """
        places = self.places[offset:][:length]
        partitions = self.partitions.slice(offset, len(places))
        with self._lock:
            cut = MatchedPartitions(partitions, places, self._predicate, self._tally)
            cut._keep = None if self._keep is None else self._keep.slice(offset, len(places))
            return cut

    def joined(self, later: MatchedPartitions) -> MatchedPartitions:
        """Return one batch with these partitions, followed by those in ``later``."""
        partitions = self.partitions.joined(later.partitions)
        places = np.concatenate([self.places, later.places])
        # The older of the two predicates is used, because only its result is known for both.
        both = MatchedPartitions(partitions, places, self._predicate, self._tally)
        if self._keep is not None:
            both._keep = pa.concat_arrays([self._keep, later.keeps(self._predicate)])
        return both

    def keeps(self, predicate: Predicate) -> pa.BooleanArray:
        """Return for each partition whether it matches ``predicate``.

        The result is computed only once per predicate.
        """
        with self._lock:
            keep = pa.repeat(True, len(self.partitions)) if self._keep is None else self._keep
            if predicate is not self._predicate:
                newer = self._tally.match(self.partitions, predicate, self._predicate)
                newer = pc.and_(keep, newer)
                lost = pc.sum(keep, min_count=0).as_py() - pc.sum(newer, min_count=0).as_py()
                self._tally.count(partitions_matched=-lost)
                keep, self._predicate = newer, predicate
            self._keep = keep
            return keep


class Neighbours:
    """Groups partitions for storage where one page can list files from several directories.

    A group contains partitions that are close together: their files, including the files of
    partitions in between, probably fit in one page. A partition that is far from the others is a
    group of its own. If the number of files or of partitions in between is unknown, groups are as
    large as a page could cover. The response then shows how many partitions the page covered.

    Args:
        batches: Batches of matched partitions.
        files_per_page: Maximum number of files in one page.
        files_each: Function that returns the average number of files per partition; 0 means
            unknown. It is called before each group.
    """

    def __init__(
        self,
        batches: Iterator[MatchedPartitions],
        files_per_page: int,
        files_each: Callable[[], float],
    ) -> None:
        self._batches = batches
        self._files_per_page = files_per_page
        self._files_each = files_each
        self._rest: MatchedPartitions | None = None

    def __iter__(self) -> Iterator[MatchedPartitions]:
        for batch in self._batches:
            if batch.partitions.has_gaps:
                yield from self._groups(to_end=True)
                yield batch
                continue
            self._rest = batch if self._rest is None else self._rest.joined(batch)
            yield from self._groups(to_end=False)
        yield from self._groups(to_end=True)

    def put_back(self, uncovered: MatchedPartitions) -> None:
        """Take back the last group's partitions that its page did not cover."""
        self._rest = uncovered if self._rest is None else uncovered.joined(self._rest)

    def _groups(self, *, to_end: bool) -> Iterator[MatchedPartitions]:
        while (rest := self._rest) is not None:
            files_each = self._files_each()
            length = self._together(rest, files_each)
            if length == len(rest) and files_each and not to_end:
                return  # the next batch may contain more partitions of this group
            self._rest = rest.slice(length) if length < len(rest) else None
            yield rest.slice(0, length)

    def _together(self, matched: MatchedPartitions, files_each: float) -> int:
        """Return the number of leading partitions that form a group."""
        if not files_each:
            return min(self._files_per_page, len(matched))
        # A full page does not show whether more files follow, so one entry is left free.
        span = int((self._files_per_page - 1) / files_each)
        end = matched.places[0] + max(span, 1)
        return int(matched.places.searchsorted(end))
