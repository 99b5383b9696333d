"""Partitions that matched, until their files are listed: a filter may still come."""

from __future__ import annotations

import threading
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.enumeration.tally import ScanTally
from splitlib.filtering.predicate import Predicate
from splitlib.model import PartitionBatch

Places: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


class MatchedPartitions:
    """A batch of partitions that a predicate has kept, which a newer one may drop again."""

    def __init__(
        self,
        partitions: PartitionBatch,
        places: Places,
        predicate: Predicate,
        tally: ScanTally,
    ) -> None:
        self.partitions = partitions
        self.places = places
        """Where each stood among all partitions as the catalog gave them; ascending."""
        self._tally = tally
        self._lock = threading.Lock()
        self._predicate = predicate
        # made when it is asked for: most of these objects are only cut into smaller ones
        self._keep: pa.BooleanArray | None = None

    def __len__(self) -> int:
        return len(self.partitions)

    def slice(self, offset: int, length: int | None = None) -> MatchedPartitions:
        """Some of them, to be asked in the place of these: what is dropped is counted by each."""
        places = self.places[offset:][:length]
        partitions = self.partitions.slice(offset, len(places))
        with self._lock:
            cut = MatchedPartitions(partitions, places, self._predicate, self._tally)
            cut._keep = None if self._keep is None else self._keep.slice(offset, len(places))
            return cut

    def joined(self, later: MatchedPartitions) -> MatchedPartitions:
        """These and those that come later, before any of the later ones was listed."""
        partitions = self.partitions.joined(later.partitions)
        places = np.concatenate([self.places, later.places])
        # the older predicate: what it has kept, the newer one is still to be asked about
        both = MatchedPartitions(partitions, places, self._predicate, self._tally)
        if self._keep is not None:
            both._keep = pa.concat_arrays([self._keep, later.keeps(self._predicate)])
        return both

    def keeps(self, predicate: Predicate) -> pa.BooleanArray:
        """A flag per partition; computed once per predicate, for the batch as a whole."""
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
