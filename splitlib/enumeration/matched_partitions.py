"""Matched partitions that wait to be listed, and that a later filter may still drop."""

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
    """A batch of partitions that matched a predicate. A later predicate may drop some."""

    def __init__(
        self,
        partitions: PartitionBatch,
        places: Places,
        predicate: Predicate,
        tally: ScanTally,
    ) -> None:
        self.partitions = partitions
        self.places = places
        """Ascending position of each partition in the catalog's listing."""
        self._tally = tally
        self._lock = threading.Lock()
        self._predicate = predicate
        # Computed on demand, because most of these objects are only sliced.
        self._keep: pa.BooleanArray | None = None

    def __len__(self) -> int:
        return len(self.partitions)

    def slice(self, offset: int, length: int | None = None) -> MatchedPartitions:
        """Return a part of the batch to use instead of it; each part counts its own drops."""
        places = self.places[offset:][:length]
        partitions = self.partitions.slice(offset, len(places))
        with self._lock:
            cut = MatchedPartitions(partitions, places, self._predicate, self._tally)
            cut._keep = None if self._keep is None else self._keep.slice(offset, len(places))
            return cut

    def joined(self, later: MatchedPartitions) -> MatchedPartitions:
        """Return these partitions and later ones as one batch, before any later one was listed."""
        partitions = self.partitions.joined(later.partitions)
        places = np.concatenate([self.places, later.places])
        # The older predicate: its result is known for both batches, the newer one's is not.
        both = MatchedPartitions(partitions, places, self._predicate, self._tally)
        if self._keep is not None:
            both._keep = pa.concat_arrays([self._keep, later.keeps(self._predicate)])
        return both

    def keeps(self, predicate: Predicate) -> pa.BooleanArray:
        """Return a flag per partition, computed once per predicate for the whole batch."""
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
