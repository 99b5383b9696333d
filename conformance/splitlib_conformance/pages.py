"""Tests that partitions are listed completely, in large pages, and always in the same order."""

from __future__ import annotations

from splitlib import DynamicFilteringData
from splitlib.spi import Predicate
from splitlib_conformance.base import (
    ONE_KEY,
    KitBase,
    Subject,
    enumerator,
    everything,
    listed_values,
    partition,
)
from splitlib_conformance.expectations import expect, expect_files, expect_partitions
from splitlib_conformance.harness import Harness

_MANY = 64
# Real pages are far larger. A source with one request per partition would need requests even for
# pruned partitions.
_LEAST_PARTITIONS_PER_PAGE = 4
_SMALL_PAGE = 3
# Partitions in a full page and in the next page. Many sources have pages of 1,000 partitions.
# The last partition is added later, so the test also covers a full last page.
_SEVERAL_PAGES = (1000, 1)


class PagesTests(KitBase):
    """Tests of partition batches: their order, their number and their request counts."""

    def test_order_is_the_same_every_time(self, harness: Harness) -> None:
        """Partitions always have the same order, even with a filter or after reopening."""
        subject = self.create_numbered(harness, _MANY)
        orders = []
        for _ in range(2):
            with self.open(subject.address) as table:
                orders += [
                    listed_values(table, table.list_partitions(everything(table))) for _ in range(2)
                ]
                some = DynamicFilteringData.from_range({"k": (5, 40)})
                filtered = Predicate(table.metadata.filter_schema, [some])
                narrower = listed_values(table, table.list_partitions(filtered))
        for order in orders[1:]:
            expect(
                order == orders[0],
                f"listed the same partitions in different orders: first {orders[0][:3]} …, then "
                f"{order[:3]} …",
                "the same order every time; sort them if the source has no order",
            )
        within = [values for values in orders[0] if values in set(narrower)]
        expect(
            narrower == within,
            f"listed partitions in the order {narrower[:3]} … with a filter, and in the order "
            f"{within[:3]} … without it",
            "the same order, without the filtered partitions",
        )

    def test_pages_hold_many_partitions(self, harness: Harness) -> None:
        """Pages are as large as the source allows, so one request returns many partitions.

        The test tables are small, so pages with a few partitions are accepted.
        """
        subject = self.create_numbered(harness, _MANY)
        with self.open(subject.address) as table:
            batches = list(table.list_partitions(everything(table)))
        most = _MANY // _LEAST_PARTITIONS_PER_PAGE
        requests = sum(sum(batch.requests) for batch in batches)
        rule = (
            f"at most {most}: request pages as large as the source offers, thousands of partitions "
            "if possible, and yield a batch for each page"
        )
        expect(requests <= most, f"listed {_MANY} partitions in {requests} requests", rule)
        expect(len(batches) <= most, f"listed {_MANY} partitions in {len(batches)} batches", rule)

    def test_large_pages_join_up(self, harness: Harness) -> None:
        """No partition of a large table is lost or repeated between pages."""
        subject = self.create(harness, ONE_KEY, [])
        for number in _SEVERAL_PAGES:
            there = len(subject.files)
            subject.add(*(partition({"k": k}) for k in range(there, there + number)))
            with self.open(subject.address) as table:
                # Read from the connector, because the table removes duplicates.
                batches = table.connector.list_partitions(everything(table))
                listed = listed_values(table, batches)
            expect_partitions(listed, [f.values for f in subject.files], "list_partitions")

    def test_small_pages_join_up(self, harness: Harness) -> None:
        """With small pages, no partition is lost or repeated, and each page counts as a request."""
        subject = self.create_numbered(harness, 3 * _SMALL_PAGE + 1)
        paged = harness.in_pages(subject.address, _SMALL_PAGE)
        with self.open(subject.address) as table:
            whole = listed_values(table, table.list_partitions(everything(table)))
        with self.open(paged) as table:
            # Read from the connector, because the table removes duplicates.
            batches = list(table.connector.list_partitions(everything(table)))
            listed = listed_values(table, batches)
            expect_partitions(
                listed, [f.values for f in subject.files], f"pages of {_SMALL_PAGE} partitions"
            )
            expect_files(
                enumerator(table).enumerate_splits(),
                subject.files,
                f"in pages of {_SMALL_PAGE} partitions",
            )
            opening = sum(table.metadata.requests)
        expect(
            listed == whole,
            "listed partitions in another order in small pages than in a large one",
            "the same order",
        )
        requests = sum(sum(batch.requests) for batch in batches) + opening
        expect(
            requests > _SMALL_PAGE,
            f"reports {requests} requests for {len(listed)} partitions in pages of {_SMALL_PAGE}",
            "a request for each page",
        )

    def test_same_splits_in_the_same_order(self, subject: Subject) -> None:
        """Splits have the same order with any number of threads, and after reopening the table."""
        runs = []
        for threads in (1, 16, 16):
            with self.open(subject.address) as table:
                splits = enumerator(table, listing_threads=threads).enumerate_splits()
                runs.append([split.split_id for split in splits])
        for run in runs[1:]:
            expect(
                run == runs[0],
                f"led to other splits, or another order, in a second run: {len(runs[0])} splits, "
                f"then {len(run)}",
                "the same splits in the same order every time",
            )
