"""Tests that a connector sends few requests, as late as possible, counts them, and sees changes."""

from __future__ import annotations

import pytest

from splitlib.spi import MissingPartition, Requests, SupportsPartitionDetails
from splitlib_conformance.base import (
    KitBase,
    Subject,
    enumerator,
    everything,
    listed_values,
    partition,
)
from splitlib_conformance.expectations import expect, expect_files, frozen
from splitlib_conformance.harness import Harness
from splitlib_conformance.source_calls import SourceCalls

_MANY = 32


class EconomyTests(KitBase):
    """Tests of lazy listing, of request counts, and of tables that change.

    To test whether listing is lazy, some tests add a file after a call. If the connector returns
    the file, it listed the partition after that call. If the table has a snapshot, the connector
    must not return the file.
    """

    def test_opening_lists_no_files(self, simple: Subject) -> None:
        """Files written after opening are found, except in a table with a snapshot."""
        before = list(simple.files)
        with self.open(simple.address) as table:
            simple.add(partition({"k": 0}))
            pinned = table.metadata.snapshot_id is not None
            splits = list(enumerator(table).enumerate_splits())
        when = "after a file was added to the open table, whose metadata has "
        when += "a snapshot_id" if pinned else "no snapshot_id"
        expect_files(splits, before if pinned else simple.files, when)

    def test_partitions_are_listed_when_asked_for(self, simple: Subject) -> None:
        """``list_partitions`` sends no request until the caller takes its first batch."""
        with self.open(simple.address) as table:
            listing = table.connector.list_partitions(everything(table))
            simple.add(partition({"k": 99}))
            pinned = table.metadata.snapshot_id is not None
            listed = listed_values(table, listing)
        expect(
            (frozen({"k": 99}) in listed) != pinned,
            f"{'returned' if pinned else 'did not return'} a partition that was added between the "
            "call of list_partitions and its first batch",
            "a table with a snapshot_id to stay as it is"
            if pinned
            else "no listing before the first batch is requested, as in a generator",
        )

    def test_first_split_waits_for_few_listings(self, harness: Harness) -> None:
        """The first split is available before the files of most partitions are listed."""
        subject = self.create_numbered(harness, _MANY)
        last = self.splits(subject)[-1].partition_values
        with self.open(subject.address) as table:
            lazy = enumerator(table, listing_threads=1)
            splits = lazy.enumerate_splits()
            next(splits)
            requests = lazy.metrics.storage_requests
            [late] = subject.add(partition(last))
            pinned = table.metadata.snapshot_id is not None
            found = late.path in {split.path for split in splits}
        expect(
            requests < _MANY / 4,
            f"made {requests} storage requests before the first of {_MANY} splits",
            f"fewer than {_MANY // 4}: files are listed when list_files is called, not before",
        )
        expect(
            found != pinned,
            f"{'found' if found else 'did not find'} a file that was added to the last partition "
            "after the first split was returned",
            "a table with a snapshot_id to stay as it is"
            if pinned
            else "files to be listed when list_files is called for their partition",
        )

    def test_requests_are_counted(self, simple: Subject) -> None:
        """Batches contain the number of requests that were made for them.

        A table with a snapshot may be loaded when it is opened. Then its metadata contains the
        number of requests, and the batches may contain none.
        """
        with self.open(simple.address) as table:
            whole = enumerator(table)
            expect_files(whole.enumerate_splits(), simple.files)
            made = whole.metrics.storage_requests + whole.metrics.metastore_requests
            opening = table.metadata.requests
            pinned = table.metadata.snapshot_id is not None
        expect(
            made or (pinned and sum(opening)),
            "reports 0 requests for all of its batches",
            "Requests(...) in each batch, or in TableMetadata.requests if open loads a snapshot",
        )
        expect(
            pinned or not sum(opening),
            f"reports {opening} in TableMetadata.requests, but has no snapshot_id",
            "requests of open there only if they load a snapshot",
        )

    def test_requests_are_those_made(self, harness: Harness, simple: Subject) -> None:
        """Batches report exactly the requests that the harness counts, by kind."""
        calls = SourceCalls()
        with self.open(simple.address) as table, harness.watch(calls):
            whole = enumerator(table)
            for _ in whole.select_files():  # Splits may also request hosts, which are not counted.
                pass
            metrics = whole.metrics
        _expect_requests(
            Requests(metrics.metastore_requests, metrics.storage_requests),
            calls,
            "listing all partitions and files",
        )

    def test_requests_of_opening_are_those_made(self, harness: Harness, simple: Subject) -> None:
        """If ``open`` loads a snapshot, it reports exactly the requests that the harness counts."""
        calls = SourceCalls()
        with harness.watch(calls), self.open(simple.address) as table:
            found = table.metadata.requests
        if not sum(found):
            pytest.skip("not tried: the connector loads nothing in open that it would list")
        _expect_requests(found, calls, "opening the table")

    def test_opening_again_shows_what_is_new(self, simple: Subject) -> None:
        """A table that is opened again contains new files, so no old listing was cached."""
        expect_files(self.splits(simple), simple.files)
        simple.add(partition({"k": 0}), partition({"k": 99}))
        when = "after files were added and the table was opened again"
        expect_files(self.splits(simple), simple.files, when)

    def test_open_table_stays_as_described(self, simple: Subject) -> None:
        """``describe`` returns the same metadata in every call, even if the table changes."""
        with self.open(simple.address) as table:
            before = table.connector.describe()
            simple.add(partition({"k": 99}))
            for _ in enumerator(table).enumerate_splits():
                pass
            after = table.connector.describe()
        expect(
            after == before,
            f"described the open table as {before}, and later as {after}",
            "the same description as when it was opened",
        )

    def test_dropped_partition_is_no_silent_hole(self, simple: Subject) -> None:
        """A partition that is dropped before its files are listed is not treated as empty.

        Three results are correct: ``list_files`` raises ``MissingPartition``, ``load_details``
        leaves out the partition, or the table's snapshot still has the partition's files.
        """
        with self.open(simple.address) as table:
            listed = list(table.list_partitions(everything(table)))
            simple.harness.drop(simple.address, {"k": 2})
            try:
                found = [each for batch in listed for each in self.files_of(table, batch)]
            except MissingPartition:
                return
            left_out = isinstance(table.connector, SupportsPartitionDetails)
            given = {v for pieces, _ in found for v in listed_values(table, [pieces])}
        paths = sorted(path for _, batch in found for path in batch.files["path"].to_pylist())
        dropped = left_out and frozen({"k": 2}) not in given
        expected = simple.files_where({"k": k} for k in range(4) if not (dropped and k == 2))
        expect(
            paths == sorted(file.path for file in expected),
            f"listed {len(paths)} files of four partitions, one of which was dropped after it was "
            "listed, as if this one were empty",
            "MissingPartition from list_files, or a load_details that leaves out the partition; "
            "with a snapshot, all of its files",
        )


def _expect_requests(reported: Requests, calls: SourceCalls, what: str) -> None:
    expect(
        reported == calls.requests,
        f"reports {_counts(reported)} for {what}",
        f"{_counts(calls.requests)}, as the harness counted",
    )


def _counts(requests: Requests) -> str:
    return f"{requests.catalog} catalog and {requests.storage} storage requests"
