"""Connectors that list too early, too often or in changing order, or use filters wrongly."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import MissingPartition
from splitlib.filtering.predicate import Predicate
from splitlib.model import FileBatch, PartitionBatch, Requests
from tests.conformance.memory_connectors import AbleConnector, PinnedConnector, PlainConnector
from tests.conformance.memory_harness import PlainHarness
from tests.conformance.planted_bugs.plant import TEXT, Batches, Files, caught_by, in_row, mapped


@caught_by("one_value_reads_its_partition_alone", types=TEXT)
class PrunesWithoutCase(PlainConnector):
    """Compares partition values in lower case, as if they were column names."""

    def list_partitions(self, predicate):
        for batch in super().list_partitions(predicate):
            matching = predicate.match(mapped(batch, str.lower).values)
            yield batch.take(pc.indices_nonzero(matching)) if predicate.keys else batch


@caught_by(
    "no_match_is_lost",
    "one_value_reads_its_partition_alone",
    "filter_on_a_part_of_the_keys",
    "unpartitioned_table",
)
class PrunesNull(PlainConnector):
    """Drops null partitions for every filter, even if null is among the keys."""

    def list_partitions(self, predicate):
        for batch in super().list_partitions(predicate):
            known = pc.indices_nonzero(pc.is_valid(batch.values.column(0)))
            yield batch.take(known) if predicate.keys else batch


@caught_by("several_filters_at_once")
class KeepsThePredicate(PlainConnector):
    """Lists files with the predicate of the latest listing, even if another scan made it."""

    def list_partitions(self, predicate):
        for batch in super().list_partitions(predicate):
            self._predicate = predicate
            yield batch
            time.sleep(0.02)

    def list_files(self, partitions, predicate):
        keep = self._predicate.match(partitions.values, partitions.fields)
        for row in pc.indices_nonzero(keep).to_pylist() if self._predicate.keys else [0]:
            for batch in super().list_files(partitions.slice(row, 1), predicate):
                yield in_row(batch, row)


@caught_by("order_is_the_same_every_time", "same_splits_in_the_same_order", "small_pages_join_up")
class SwapsEverySecondTime(Batches):
    """Reverses the order in every second batch, as if several threads had filled it."""

    times = itertools.count()

    def change(self, batch):
        first = [1, 0] if next(self.times) % 2 and len(batch) > 1 else [0, 1][: len(batch)]
        order = pa.array([*first, *range(2, len(batch))], pa.int64())
        return replace(batch.take(order), requests=batch.requests)


@caught_by("order_is_the_same_every_time")
class OrdersByTheFilter(PlainConnector):
    def list_partitions(self, predicate):
        for batch in super().list_partitions(predicate):
            backwards = batch.take(pa.array(range(len(batch))[::-1], pa.int64()))
            yield replace(backwards, requests=batch.requests) if predicate.keys else batch


@caught_by("pages_hold_many_partitions", "requests_are_those_made")
class AsksForSmallPages(PlainConnector):
    def __init__(self, client, name, table, page):
        super().__init__(client, name, table, min(page, 2))


@caught_by("pages_hold_many_partitions")
class YieldsPartitionsOneByOne(PlainConnector):
    def list_partitions(self, predicate):
        for batch in super().list_partitions(predicate):
            requests = batch.requests
            for row in range(len(batch)):
                yield replace(batch.slice(row, 1), requests=requests)
                requests = Requests()


@caught_by("small_pages_join_up", "large_pages_join_up")
class StopsAfterTheFirstPage(PlainConnector):
    def names(self, after):
        return super().names(after) if after == 0 else []


@caught_by("small_pages_join_up", "large_pages_join_up")
class OverlapsPages(PlainConnector):
    def names(self, after):
        return super().names(max(0, after - after // self.page))


@caught_by("small_pages_join_up")
class CountsTheFirstPageAlone(PlainConnector):
    def list_partitions(self, predicate):
        requests = Requests(catalog=1)
        for batch in super().list_partitions(predicate):
            yield replace(batch, requests=requests)
            requests = Requests()


@caught_by("small_pages_join_up", "large_pages_join_up")
class LosesAFullLastPage(PlainConnector):
    """Treats every later page that is not full as empty."""

    def names(self, after):
        found = super().names(after)
        return found if after == 0 or len(found) == self.page else []


@caught_by("large_pages_join_up", harness=PlainHarness)
class StopsAfterAPageThatIsNotSmall(StopsAfterTheFirstPage):
    """Has pages of a size that the harness cannot change."""


@caught_by("large_pages_join_up", harness=PlainHarness)
class LosesALargeLastPage(LosesAFullLastPage):
    """Has pages of a size that the harness cannot change."""


@caught_by("large_pages_join_up")
class FailsAfterAFullLastPage(PlainConnector):
    """Expects a partition on every page, but the page after a full last one is empty."""

    def names(self, after):
        found = super().names(after)
        if found or not after:
            return found
        raise IndexError("the page is empty")


class _ListsAllFirst(PlainConnector):
    """Lists all files of the table while it lists the partitions."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._known = {}

    def batch_of(self, names):
        batch = super().batch_of(names)
        everything = Predicate(self.metadata.partition_schema)
        for row, ref in enumerate(batch.refs.to_pylist()):
            one = batch.slice(row, 1)
            self._known[ref] = list(super().list_files(one, everything))
        return replace(batch, requests=Requests(catalog=1, storage=self.counted * len(batch)))

    counted = 1

    def list_files(self, partitions, predicate) -> Iterator[FileBatch]:
        for row, ref in enumerate(partitions.refs.to_pylist()):
            for batch in self._known[ref]:
                yield replace(in_row(batch, row), requests=Requests())


@caught_by("first_split_waits_for_few_listings", "pages_hold_many_partitions")
class ListsAllFirst(_ListsAllFirst):
    pass


@caught_by("first_split_waits_for_few_listings", "requests_are_those_made")
class ListsAllFirstInSecret(_ListsAllFirst):
    counted = 0


@caught_by(
    "opening_lists_no_files",
    "first_split_waits_for_few_listings",
    "partitions_are_listed_when_asked_for",
    "requests_are_those_made",
    "broken_opening_gives_connections_back",
    "cancel_in_the_middle",
    "hanging_call_ends_at_its_deadline",
)
class ListsAllWhenOpened(_ListsAllFirst):
    counted = 0
    batches: list[PartitionBatch]

    @classmethod
    def open(cls, name, options):
        opened = super().open(name, options)
        everything = Predicate(opened.metadata.partition_schema)
        opened.batches = list(_ListsAllFirst.list_partitions(opened, everything))
        return opened

    def list_partitions(self, predicate):
        yield from self.batches


@caught_by("pruned_partitions_are_not_listed", "requests_are_those_made")
class LoadsAllDetails(AbleConnector):
    def load_details(self, partitions):
        loaded = super().load_details(partitions)
        names = self.names(0)
        for name in names:
            self.client.partitions(self.name, [name])
        return replace(loaded, requests=Requests(catalog=1 + len(names)))


@caught_by("partitions_are_listed_when_asked_for")
class ListsWhenCalled(PlainConnector):
    def list_partitions(self, predicate):
        return iter(list(super().list_partitions(predicate)))


@caught_by("requests_are_counted", "requests_are_those_made", "small_pages_join_up")
class CountsNothing(PlainConnector):
    def list_partitions(self, predicate):
        for batch in super().list_partitions(predicate):
            yield replace(batch, requests=Requests())

    def list_files(self, partitions, predicate):
        for batch in super().list_files(partitions, predicate):
            yield replace(batch, requests=Requests())


@caught_by("requests_are_those_made")
class CountsNoListings(Files):
    def change(self, batch):
        return replace(batch, requests=Requests())


@caught_by("requests_are_those_made")
class CountsStorageAsCatalog(Files):
    def change(self, batch):
        return replace(batch, requests=Requests(catalog=batch.requests.storage))


@caught_by("requests_are_counted", "small_pages_join_up")
class CountsNothingOfASnapshot(PinnedConnector):
    def describe(self):
        return replace(self.metadata, requests=Requests())


@caught_by("requests_of_opening_are_those_made", "small_pages_join_up")
class CountsASnapshotAsOneRequest(PinnedConnector):
    def describe(self):
        return replace(self.metadata, requests=Requests(catalog=1))


@caught_by("requests_are_counted", "requests_of_opening_are_those_made")
class CountsOpeningWithoutASnapshot(PlainConnector):
    def describe(self):
        return replace(self.metadata, requests=Requests(catalog=7))


@caught_by("requests_are_those_made")
class AsksTwice(PlainConnector):
    def list_files(self, partitions, predicate):
        list(super().list_files(partitions, predicate))
        yield from super().list_files(partitions, predicate)


@caught_by("opening_again_shows_what_is_new", "first_split_waits_for_few_listings")
class RemembersListings(PlainConnector):
    listings: ClassVar[dict[object, FileBatch]] = {}

    def list_files(self, partitions, predicate):
        files = list(super().list_files(partitions, predicate))
        for ref, batch in zip(partitions.refs.to_pylist(), files, strict=True):
            yield self.listings.setdefault((self.client.source, self.name, ref), batch)


@caught_by("open_table_stays_as_described")
class DescribesAnew(PlainConnector):
    def describe(self):
        return replace(self.metadata, location=str(time.time_ns()))


@caught_by("dropped_partition_is_no_silent_hole")
class IgnoresMissingDirectories(PlainConnector):
    def list_files(self, partitions, predicate):
        with suppress(MissingPartition):
            yield from super().list_files(partitions, predicate)


@caught_by("marker_reads_everything", "no_match_is_lost", "statistics_lose_no_match")
class TakesTheMarkerForNoKeys(PlainConnector):
    """Lists nothing if there are filters, but no filter compares a column."""

    def list_partitions(self, predicate):
        if predicate.keys or not predicate.filters:
            yield from super().list_partitions(predicate)
