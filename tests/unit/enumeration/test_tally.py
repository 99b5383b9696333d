"""Counts of an enumeration while several threads list partitions and filters arrive."""

import pyarrow as pa
import pytest

from splitlib.config import SplitConfig
from splitlib.enumeration.splitting import SelectedFiles
from splitlib.enumeration.tally import ScanTally
from splitlib.filtering.predicate import Predicate
from splitlib.model import FILE_SCHEMA, FileBatch, PartitionBatch
from splitlib.table import Table
from tests.support.memory_connector import PARQUET, MemoryConnector

RANGES = pa.list_(pa.struct([("start", pa.int64()), ("end", pa.int64())]))


def files(*sizes):
    rows = [{"path": "/f", "size": size, "modified": 0, "partition": 0} for size in sizes]
    return FileBatch(pa.RecordBatch.from_pylist(rows, FILE_SCHEMA), PARQUET)


def test_files_count_only_together_with_their_partitions():
    tally = ScanTally()
    tally.listed([2] * 10, together=True)
    # Another thread counts the files of a listing just before it counts the listed partitions.
    tally.files(files(1, 1))
    assert tally.files_each() == 2
    tally.listed([2], together=True)
    assert tally.files_each() == 2


@pytest.mark.parametrize(
    ("listed", "mean", "is_exact"),
    [
        ([[2, 2], [2]], 2, True),
        ([[2], [1]], 1.5, False),
        ([[2], [3]], 2.5, False),
        ([[0, 0]], 1, True),
    ],
)
def test_files_of_uneven_partitions_are_estimated_a_little_above_their_average(
    listed, mean, is_exact
):
    tally = ScanTally()
    assert tally.files_each() == 0
    for files_of_each in listed:
        tally.listed(files_of_each, together=True)
    found = tally.files_each()
    assert found == mean if is_exact else mean < found < 2 * mean


def test_withdrawn_files_are_not_counted_any_more():
    """Only files with known row groups count towards the row groups."""
    tally, whole = ScanTally(), PartitionBatch.whole(pa.array([""]))
    ranges = [[{"start": 0, "end": 5}, {"start": 5, "end": 9}], None, []]
    every = SelectedFiles(whole, files(3, 4, 5), places=pa.array(ranges, RANGES))
    tally.count(row_groups_matched=2)
    tally.selected(every)
    assert (tally.metrics().files_selected, tally.metrics().bytes_selected) == (3, 12)
    for row, left in ((1, (2, 8, 2)), (0, (1, 5, 0)), (2, (0, 0, 0))):
        tally.withdrawn(every.take(pa.array([row])))
        found = tally.metrics()
        assert (found.files_selected, found.bytes_selected, found.row_groups_matched) == left
    assert tally.metrics().files_dropped == {"late_filters": 3}
    tally.withdrawn(SelectedFiles(whole, files()))
    assert (tally.metrics().files_selected, tally.metrics().bytes_selected) == (0, 0)


def test_the_report_says_how_partitions_were_listed():
    tally, table = ScanTally(), Table("t", "memory", MemoryConnector())

    def notes():
        return list(tally.report(table, Predicate(pa.schema([])), SplitConfig()).notes)

    tally.listed([1, 2], together=False)
    assert notes() == []
    for files in ([1, 2], [1, 2, 3], [1]):
        tally.listed(files, together=True)
    assert notes() == [
        "5 neighbouring partitions were listed together, in 2 groups",
        "1 partitions were listed one by one",
    ]
