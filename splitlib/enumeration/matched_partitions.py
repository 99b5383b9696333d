"""Partitions that matched, until their files are listed: a filter may still come."""

from __future__ import annotations

import threading

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.enumeration.tally import ScanTally
from splitlib.filtering.predicate import Predicate
from splitlib.model import PartitionBatch


class MatchedPartitions:
    """A batch of partitions that a predicate has kept, which a newer one may drop again."""

    def __init__(self, partitions: PartitionBatch, predicate: Predicate, tally: ScanTally) -> None:
        self.partitions = partitions
        self._tally = tally
        self._lock = threading.Lock()
        self._predicate = predicate
        self._keep: pa.BooleanArray = pa.repeat(True, len(partitions))

    def keeps(self, predicate: Predicate) -> pa.BooleanArray:
        """A flag per partition; computed once per predicate, for the batch as a whole."""
        with self._lock:
            if predicate is not self._predicate:
                newer = self._tally.match(self.partitions, predicate, self._predicate)
                newer = pc.and_(self._keep, newer)
                lost = pc.sum(self._keep, min_count=0).as_py() - pc.sum(newer, min_count=0).as_py()
                self._tally.count(partitions_matched=-lost)
                self._keep, self._predicate = newer, predicate
            return self._keep
