"""Does the connector work only when asked, the same way each time, on the table as it is now?"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from splitlib import MissingPartition
from splitlib.spi import SupportsPartitionDetails
from splitlib_conformance.base import (
    KitBase,
    Subject,
    enumerator,
    everything,
    frozen,
    listed_values,
    partition,
    read_from,
    written,
)
from splitlib_conformance.harness import Harness

_MANY = 64
_THREADS = 4


class EconomyTests(KitBase):
    """Laziness, determinism, threads, and tables that change.

    Laziness is tested by its effect: files that are written at some moment are found only by a
    listing made after it. A table with a snapshot must never show them.
    """

    def test_opening_lists_no_files(self, simple: Subject) -> None:
        """Files written after the table was opened are found."""
        before = list(simple.files)
        with self.open(simple.address) as table:
            simple.add(partition({"k": 0}))
            pinned = table.metadata.snapshot_id is not None
            found = read_from(enumerator(table).enumerate_splits())
        assert found == written(before if pinned else simple.files)

    def test_partitions_are_listed_when_asked_for(self, simple: Subject) -> None:
        """Calling ``list_partitions`` does nothing until its first batch is taken."""
        before = len({frozen(file.values) for file in simple.files})
        with self.open(simple.address) as table:
            listing = table.connector.list_partitions(everything(table))
            simple.add(partition({"k": 99}))
            pinned = table.metadata.snapshot_id is not None
            assert len(listed_values(table, listing)) == before + (not pinned)

    def test_first_split_waits_for_few_listings(self, harness: Harness) -> None:
        """The first split is there before most partitions are listed."""
        subject = self.create_numbered(harness, _MANY)
        last = self.splits(subject)[-1].partition_values
        with self.open(subject.address) as table:
            lazy = enumerator(table, listing_threads=1)
            splits = lazy.enumerate_splits()
            next(splits)
            assert lazy.metrics.storage_requests < _MANY / 4
            [late] = subject.add(partition(last))
            pinned = table.metadata.snapshot_id is not None
            assert (late.path in {split.path for split in splits}) == (not pinned)

    def test_requests_are_counted(self, simple: Subject) -> None:
        """Batches say what they cost: reports and limits add that up."""
        with self.open(simple.address) as table:
            whole = enumerator(table)
            assert len(list(whole.enumerate_splits())) == len(simple.files)
            assert whole.metrics.storage_requests + whole.metrics.metastore_requests > 0

    def test_same_splits_in_the_same_order(self, subject: Subject) -> None:
        """Whatever the parallelism, and however often the table is opened."""
        runs = []
        for threads in (1, 16, 16):
            with self.open(subject.address) as table:
                splits = enumerator(table, listing_threads=threads).enumerate_splits()
                runs.append([split.split_id for split in splits])
        assert len(set(runs[0])) == len(subject.files)
        assert runs[1] == runs[0]
        assert runs[2] == runs[0]

    def test_several_threads_at_once(self, simple: Subject) -> None:
        """One open table serves several enumerations at the same time."""
        start = threading.Barrier(_THREADS)
        with self.open(simple.address) as table, ThreadPoolExecutor(_THREADS) as pool:

            def run(_: int) -> object:
                start.wait()
                return read_from(enumerator(table).enumerate_splits())

            for found in pool.map(run, range(_THREADS)):
                assert found == written(simple.files)

    def test_opening_again_shows_what_is_new(self, simple: Subject) -> None:
        """Nothing is remembered from one opening to the next."""
        assert read_from(self.splits(simple)) == written(simple.files)
        simple.add(partition({"k": 0}), partition({"k": 99}))
        assert read_from(self.splits(simple)) == written(simple.files)

    def test_open_table_stays_as_described(self, simple: Subject) -> None:
        """``describe`` is as of when the table was opened."""
        with self.open(simple.address) as table:
            before = table.connector.describe()
            simple.add(partition({"k": 99}))
            assert len(list(enumerator(table).enumerate_splits())) > 0
            assert table.connector.describe() == before

    def test_dropped_partition_is_no_silent_hole(self, simple: Subject) -> None:
        """A partition that is dropped before its files are listed does not count as empty.

        Either ``list_files`` raises, or ``load_details`` leaves the partition out, which the engine
        counts, or the snapshot still has it.
        """
        with self.open(simple.address) as table:
            listed = list(table.list_partitions(everything(table)))
            simple.harness.drop(simple.address, {"k": 2})
            try:
                batches = [files for batch in listed for files in self.files_of(table, batch)]
            except MissingPartition:
                return
            left_out = isinstance(table.connector, SupportsPartitionDetails)
        found = sorted(path for batch in batches for path in batch.files["path"].to_pylist())
        expected = simple.files_where({"k": k} for k in range(4) if not (left_out and k == 2))
        assert found == sorted(file.path for file in expected)
