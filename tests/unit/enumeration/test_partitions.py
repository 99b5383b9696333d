"""Enumerations that return partitions instead of files, and calls that list several directories."""

from dataclasses import replace
from typing import Literal

import pyarrow as pa
import pytest

import splitlib
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.model import FileBatch, PartitionBatch, Requests
from tests.support.memory_connector import DetailedConnector, MemoryConnector, enumerator_of, ks

SOME = splitlib.DynamicFilteringData.from_values({"k": [3, 7]})


def test_match_partitions_asks_for_names_alone():
    connector = DetailedConnector(10, batch=4)
    enumerator = enumerator_of(connector)
    enumerator.set_dynamic_filtering_data(SOME)
    found = list(enumerator.match_partitions())
    kept = [k for batch, mask in found for k in batch.refs.filter(mask).to_pylist()]
    assert ([len(batch) for batch, _ in found], kept) == ([4, 4, 2], ["3", "7"])
    assert (connector.detailed, connector.listed) == ([], [])


def test_match_partitions_of_no_keys_names_all_and_keeps_none():
    enumerator = enumerator_of(MemoryConnector(5))
    none = splitlib.DynamicFilteringData.from_arrow(pa.table({"k": pa.array([], pa.int32())}))
    enumerator.set_dynamic_filtering_data(none)
    ((batch, mask),) = enumerator.match_partitions()
    assert (len(batch), mask.true_count) == (5, 0)
    assert enumerator.metrics.partitions_total == 5


def test_select_partitions_loads_details_and_lists_nothing():
    connector = DetailedConnector(10, dropped=[7])
    enumerator = enumerator_of(connector, missing_partition="skip")
    enumerator.set_dynamic_filtering_data(SOME)
    found = list(enumerator.select_partitions())
    assert [k for batch in found for k in batch.refs.to_pylist()] == ["3"]
    assert (connector.detailed, connector.listed) == ([3, 7], [])


def test_select_partitions_keeps_to_the_limit():
    with pytest.raises(splitlib.TooManyPartitions):
        list(enumerator_of(MemoryConnector(5), max_partitions=4).select_partitions())


class SeveralAtATime(MemoryConnector):
    """A connector that lists up to four directories per call. Some of them do not exist."""

    partitions_per_listing = 4

    def __init__(self, *args, missing, **more):
        def list_one(k):
            if k in missing:
                raise splitlib.MissingPartition("Its directory does not exist.", partition=f"k={k}")

        super().__init__(*args, on_list=list_one, **more)


@pytest.mark.parametrize("missing", [{1}, {0, 9}, {4, 5, 6, 7}, set(range(10)), set()])
def test_missing_directories_among_others_are_skipped_alone(missing):
    connector = SeveralAtATime(10, missing=missing)
    enumerator = enumerator_of(connector, missing_partition="skip")
    splits = list(enumerator.enumerate_splits())
    assert ks(splits) == [k for k in range(10) if k not in missing for _ in range(2)]
    assert {split.path.split("/")[2] for split in splits} == {f"k={k}" for k in set(ks(splits))}


def test_missing_directory_among_others_is_named():
    enumerator = enumerator_of(SeveralAtATime(10, missing={6}))
    with pytest.raises(splitlib.MissingPartition, match="partition=k=6"):
        list(enumerator.enumerate_splits())


class AskedConnector(MemoryConnector):
    """A connector that sets ``asked_for`` of its batches of partitions."""

    asked_for: Literal["all", "names", "prefix"] = "names"

    def list_partitions(self, predicate):
        for batch in super().list_partitions(predicate):
            yield replace(batch, asked_for=self.asked_for)


MORE = "so the number of all partitions is unknown; 8 others were returned too)"


@pytest.mark.parametrize(
    ("asked_for", "batch", "told"),
    [
        ("all", 10, "partitions 2 of 10"),
        ("names", 10, f"partitions 2 (requested by name, {MORE}"),
        (
            "prefix",
            10,
            f"partitions 2 (requested by the start of their names: 1 prefix, {MORE}",
        ),
        (
            "prefix",
            4,
            f"partitions 2 (requested by the start of their names: 3 prefixes, {MORE}",
        ),
    ],
)
def test_how_partitions_were_asked_for_is_told(asked_for, batch, told):
    connector = AskedConnector(10, batch=batch)
    connector.asked_for = asked_for
    enumerator = enumerator_of(connector)
    enumerator.set_dynamic_filtering_data(SOME)
    assert len(list(enumerator.enumerate_splits())) == 4
    report = enumerator.explain()
    assert f"├─ {told}\n" in str(report)
    assert f"<p>{told}</p>" in report._repr_html_()
    assert bool(report.ranges) is (asked_for == "all")
    assert report.to_dict()["asked_for"] == report.asked_for
    assert bool(report.asked_for) is (asked_for != "all")


def test_partitions_that_all_match_are_told_alone():
    enumerator = enumerator_of(AskedConnector(2))
    assert len(list(enumerator.enumerate_splits())) == 4
    assert (
        "├─ partitions 2 (requested by name, so the number of all partitions is unknown)\n"
        in str(enumerator.explain())
    )


class PagesConnector(AskedConnector):
    """A connector that lists files in pages. A page covers partitions less than ten places apart.

    Attributes:
        pages: For each listing, the first partition and the number of requested partitions.
    """

    files_per_page = 10

    def __init__(self, names, **more):
        texts = pa.array(map(str, names))
        super().__init__([PartitionBatch(pa.record_batch({"k": texts}), texts)], **more)
        self.pages: list[tuple[int, int]] = []

    def list_files(self, partitions, predicate):
        places = [int(k) for k in partitions.refs.to_pylist()]
        self.pages.append((places[0], len(places)))
        told = [place < places[0] + 10 for place in places]
        listed = told.index(False) if False in told else len(told)
        batches = list(super().list_files(partitions.slice(0, listed), predicate))
        structs = pa.concat_arrays([b.files.to_struct_array() for b in batches])
        files = pa.RecordBatch.from_struct_array(structs)
        took = Requests(storage=1)
        yield FileBatch(files, batches[0].read_format, took, partitions_listed=listed)


@pytest.mark.parametrize(
    ("names", "pages"),
    [
        (range(10), 1),
        (range(40), 4),
        (range(0, 200, 5), 20),
        (range(0, 1000, 20), 50),
        ([0, *range(500, 540)], 5),  # the first page covers only the first partition
        ([*range(9), *range(100, 200, 20)], 6),
        ([7], 1),
    ],
)
def test_neighbours_by_name_are_found_out_by_the_first_page(names, pages):
    connector = PagesConnector(names)
    enumerator = enumerator_of(connector, listing_threads=4)
    assert ks(enumerator.enumerate_splits()) == [k for k in names for _ in range(2)]
    assert connector.pages[0] == (names[0], len(names))
    assert len(connector.pages) == enumerator.metrics.storage_requests <= pages
    assert sorted(connector.listed) == list(names)
    alone = len(names) if pages == len(names) else 0
    assert (f"{alone} partitions were listed one by one" in str(enumerator.explain())) == bool(
        alone
    )


def test_of_partitions_by_name_a_missing_directory_is_skipped_alone():
    def list_one(k):
        if k in (3, 25):
            raise splitlib.MissingPartition("Its directory does not exist.", partition=f"k={k}")

    names = range(0, 60, 5)
    connector = PagesConnector([3, *names], on_list=list_one)
    enumerator = enumerator_of(connector, missing_partition="skip")
    kept = [k for k in names if k != 25]
    assert ks(enumerator.enumerate_splits()) == [k for k in kept for _ in range(2)]


@pytest.mark.parametrize("listed", [0, 1, 3, -1])
def test_a_listing_that_says_it_has_come_nowhere_is_refused(listed):
    class Wrong(PagesConnector):
        def list_files(self, partitions, predicate):
            for batch in super().list_files(partitions, predicate):
                yield replace(batch, partitions_listed=listed)

    with pytest.raises(splitlib.CorruptMetadata, match="listed"):
        list(enumerator_of(Wrong([1, 2])).enumerate_splits())


def test_neighbours_are_found_out_by_the_first_page_where_nothing_is_known_of_them():
    connector = PagesConnector(range(0, 200, 5))
    connector.asked_for = "all"
    enumerator = enumerator_of(connector)
    assert ks(enumerator.enumerate_splits()) == [k for k in range(0, 200, 5) for _ in range(2)]
    # The first request has ten partitions. As its page covers only two, later ones have fewer.
    assert connector.pages[0] == (0, 10)
    assert {length for _, length in connector.pages[1:]} <= {4, 3, 2, 1}


@pytest.mark.parametrize("files", [0, 1])
def test_groups_of_small_partitions_nearly_fill_their_pages(files):
    connector = PagesConnector(range(50), files=files)
    connector.asked_for = "all"
    enumerator = enumerator_of(connector, listing_threads=1)  # so pages are in order
    assert len(list(enumerator.enumerate_splits())) == 50 * files
    # A full page would not show whether more files follow. So later groups leave one entry free.
    assert [length for _, length in connector.pages] == [10, 9, 9, 9, 9, 4]


def test_a_filter_that_comes_with_the_first_page_holds_for_the_rest():
    enumerators: list[DynamicFileEnumerator] = []

    def list_one(k):
        enumerators[0].set_dynamic_filtering_data(SOME)

    connector = PagesConnector(range(1, 81, 2), on_list=list_one)
    connector.asked_for = "all"
    enumerators.append(enumerator_of(connector))
    assert set(ks(enumerators[0].enumerate_splits())) == {3, 7}
    assert (enumerators[0].metrics.partitions_matched, len(connector.pages)) == (2, 1)


def test_partitions_that_come_one_by_one_are_not_asked_for_one_after_the_other():
    class OneByOne(PagesConnector):
        def list_files(self, partitions, predicate):
            asked.append(len(partitions))
            yield from super().list_files(partitions.slice(0, 1), predicate)

    asked: list[int] = []
    connector = OneByOne(range(40))
    connector.asked_for = "all"
    connector.files_per_page = 100
    enumerator = enumerator_of(connector, listing_threads=4)
    assert ks(enumerator.enumerate_splits()) == [k for k in range(40) for _ in range(2)]
    # The first two requests have all remaining partitions. As a page covers only one of them, the
    # rest is shared by four threads.
    assert (asked[:2], max(asked[2:])) == ([40, 39], 10)


def test_partitions_that_have_all_gone_before_a_page_is_asked_for():
    connector = DetailedConnector(10, dropped=range(10))
    connector.files_per_page = 10
    enumerator = enumerator_of(connector, missing_partition="skip")
    enumerator.set_dynamic_filtering_data(SOME)
    assert list(enumerator.enumerate_splits()) == []
    assert (connector.detailed, connector.listed) == ([3, 7], [])


def test_what_is_listed_in_part_is_one_batch():
    class Twice(PagesConnector):
        def list_files(self, partitions, predicate):
            for batch in super().list_files(partitions, predicate):
                yield from (batch, batch)

    with pytest.raises(splitlib.CorruptMetadata, match="more than one batch"):
        list(enumerator_of(Twice([1, 2])).enumerate_splits())
