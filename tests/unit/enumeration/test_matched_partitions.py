"""Groups of matched partitions are split and joined while filters arrive."""

import numpy as np
import pyarrow as pa

from splitlib.enumeration.pipeline import MatchedPartitions
from splitlib.enumeration.tally import ScanTally
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.predicate import Predicate
from splitlib.model import PartitionBatch

SCHEMA = pa.schema([("k", pa.int32())])
ALL = Predicate(SCHEMA)
EVEN = Predicate(SCHEMA, [DynamicFilteringData.from_values({"k": [0, 2, 4, 6, 8]})])


def matched(keys: range, predicate: Predicate, tally: ScanTally) -> MatchedPartitions:
    texts = pa.array(map(str, keys), pa.string())
    batch = PartitionBatch(pa.record_batch({"k": texts}), texts)
    return MatchedPartitions(batch, np.array(keys), predicate, tally)


def counted(tally: ScanTally) -> int:
    return tally.metrics().partitions_matched


def test_what_was_dropped_stays_dropped_in_parts():
    tally = ScanTally()
    whole = matched(range(6), ALL, tally)
    assert whole.keeps(EVEN).to_pylist() == [True, False] * 3
    parts = whole.slice(0, 3), whole.slice(3)
    assert [part.keeps(EVEN).to_pylist() for part in parts] == [
        [True, False, True],
        [False, True, False],
    ]
    assert [part.places.tolist() for part in parts] == [[0, 1, 2], [3, 4, 5]]
    assert counted(tally) == -3  # each dropped partition is counted once


def test_what_was_dropped_stays_dropped_with_others():
    tally = ScanTally()
    first, later = matched(range(4), ALL, tally), matched(range(4, 8), ALL, tally)
    first.keeps(EVEN)
    both = first.slice(2).joined(later)
    assert both.keeps(EVEN).to_pylist() == [True, False] * 3
    assert both.places.tolist() == [2, 3, 4, 5, 6, 7]
    assert counted(tally) == -4


def test_a_filter_that_came_before_the_later_ones_matched_is_not_forgotten():
    tally = ScanTally()
    first, later = matched(range(4), ALL, tally), matched(range(4, 8, 2), EVEN, tally)
    both = first.joined(later)
    assert both.keeps(EVEN).to_pylist() == [True, False, True, False, True, True]
    assert counted(tally) == -2
