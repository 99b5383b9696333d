"""The enumerator's requests to a connector, and the splits and metrics that it returns."""

from __future__ import annotations

import gc
import pickle
import threading
import time
import weakref
from collections import Counter
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

import splitlib
from splitlib import DynamicFileEnumerator, DynamicFilteringData
from splitlib.enumeration.enumerator import ReceivedFilters
from splitlib.enumeration.splitting import split_id
from splitlib.filtering.predicate import Predicate
from splitlib.model import PartitionBatch
from splitlib.table import Table
from tests.support.memory_connector import DetailedConnector, MemoryConnector, enumerator_of, ks


def keys(*values):
    return DynamicFilteringData.from_values({"k": list(values)})


def test_no_filter_gives_everything_in_order():
    splits = list(enumerator_of(MemoryConnector()).enumerate_splits())
    assert [s.path for s in splits] == [f"/t/k={k}/{n:05}" for k in range(10) for n in range(2)]
    ids = [split_id(s.path, f"k={k}", 0, 10) for s, k in zip(splits, ks(splits), strict=True)]
    assert [s.split_id for s in splits] == ids
    assert pickle.loads(pickle.dumps(splits)) == splits


def test_only_matching_partitions_are_listed():
    connector = DetailedConnector(10_000, batch=1000)
    enumerator = enumerator_of(connector)
    enumerator.set_dynamic_filtering_data(keys(*range(0, 3000, 100), 77_777))
    enumerator.set_dynamic_filtering_data(keys(*range(0, 10_000, 50)))
    splits = list(enumerator.enumerate_splits())
    assert sorted(connector.listed) == list(range(0, 3000, 100))
    m = enumerator.metrics
    assert (m.partitions_total, m.partitions_matched) == (10_000, 30)
    assert (m.files_listed, m.files_selected, m.splits, m.bytes_selected) == (60, 60, 60, 600)
    assert m.storage_requests == 30
    # There are ten batches of names. The first three have ten matches each, for which at most
    # ceil(10 / 4) requests load details.
    assert m.metastore_requests == 10 + 3 * 3
    assert len(splits) == 60


@pytest.mark.parametrize("threads", [1, 16])
def test_deterministic_whatever_the_parallelism(threads):
    def slow_some(k):
        time.sleep(0.002 if k % 3 == 0 else 0)

    def ids():
        connector = MemoryConnector(60, on_list=slow_some)
        return list(enumerator_of(connector, listing_threads=threads).enumerate_splits())

    assert ids() == list(enumerator_of(MemoryConnector(60)).enumerate_splits())


def test_lazy():
    connector = MemoryConnector(100_000)
    splits: Any = enumerator_of(connector, listing_threads=4).enumerate_splits()
    assert connector.batches == 0
    next(splits)
    assert len(connector.listed) <= 9
    assert connector.batches == 1
    splits.close()
    listed = len(connector.listed)
    time.sleep(0.05)
    assert len(connector.listed) == listed


def test_a_filter_that_comes_late_prunes_what_is_not_handed_out():
    connector = MemoryConnector(1000)
    enumerator = enumerator_of(connector, listing_threads=2)
    splits = enumerator.enumerate_splits()
    first = [next(splits), next(splits)]
    enumerator.set_dynamic_filtering_data(keys(0, 500))
    rest = list(splits)
    assert ks(first) == [0, 0]
    assert ks(rest) == [500, 500]
    # At most four listings run before the filter arrives. The matching partition needs another.
    assert len(connector.listed) <= 4 + 2
    assert enumerator.metrics.partitions_matched == 2


def test_an_empty_filter_asks_nothing_at_all():
    connector = MemoryConnector()
    enumerator = enumerator_of(connector)
    enumerator.set_dynamic_filtering_data(keys())
    assert list(enumerator.enumerate_splits()) == []
    assert (connector.batches, connector.listed) == (0, [])


def test_switched_off():
    enumerator = enumerator_of(MemoryConnector(), dynamic_filtering_enabled=False)
    enumerator.set_dynamic_filtering_data(keys(1))
    assert len(list(enumerator.enumerate_splits())) == 20
    assert "switched off" in str(enumerator.explain())


def test_a_producer_sends_one_filter():
    enumerator = enumerator_of(MemoryConnector())
    enumerator.set_dynamic_filtering_data(keys(1), producer="join 1")
    enumerator.set_dynamic_filtering_data(keys(1), producer="join 1")
    with pytest.raises(splitlib.InvalidFilter, match="different"):
        enumerator.set_dynamic_filtering_data(keys(2), producer="join 1")


def test_waits_for_an_announced_filter_but_not_for_ever():
    enumerator = enumerator_of(MemoryConnector(), filter_wait_seconds=30)
    enumerator.announce_dynamic_filter("join")
    late = threading.Timer(0.05, enumerator.set_dynamic_filtering_data, (keys(3), "join"))
    late.start()
    assert ks(enumerator.enumerate_splits()) == [3, 3]
    never = enumerator_of(MemoryConnector(), filter_wait_seconds=0.01)
    never.announce_dynamic_filter("join")
    assert len(list(never.enumerate_splits())) == 20
    late_filters = (
        "announced filters that did not arrive within {} seconds (filter_wait_seconds): 1."
    )
    assert late_filters.format(0.01) in str(never.explain())
    assert "filter_wait_seconds" not in str(enumerator.explain())


def test_too_many_partitions():
    enumerator = enumerator_of(MemoryConnector(50), max_partitions=20)
    with pytest.raises(splitlib.TooManyPartitions, match="raise max_partitions"):
        list(enumerator.enumerate_splits())
    enumerator.set_dynamic_filtering_data(keys(*range(20)))
    assert len(list(enumerator.enumerate_splits())) == 40


@pytest.mark.parametrize("error", [PermissionError("no"), splitlib.SourceError("broken")])
def test_an_error_of_one_listing_reaches_the_consumer(error):
    def fail(k):
        if k == 5:
            raise error

    with pytest.raises(splitlib.SplitlibError, match="connector=memory, table=t"):
        list(enumerator_of(MemoryConnector(on_list=fail)).enumerate_splits())


def test_a_listing_that_is_unavailable_is_tried_again(monkeypatch):
    monkeypatch.setattr("splitlib.remote.retry.random.uniform", lambda *_: 0)
    failed: list[int] = []

    def fail_once(k):
        if k == 5 and not failed:
            failed.append(k)
            raise ConnectionResetError("gone")

    enumerator = enumerator_of(MemoryConnector(on_list=fail_once))
    assert len(list(enumerator.enumerate_splits())) == 20
    assert failed == [5]
    plain = enumerator_of(MemoryConnector())
    list(plain.enumerate_splits())
    assert enumerator.metrics.storage_requests == plain.metrics.storage_requests + 1
    assert "1 requests to the storage failed and were retried" in enumerator.explain().notes


def test_a_catalog_that_is_unavailable_is_tried_again_until_something_was_listed(monkeypatch):
    monkeypatch.setattr("splitlib.remote.retry.random.uniform", lambda *_: 0)

    def failing_once(*calls):
        """Return a callback that raises an error once in each given call.

        A call is a text such as ``"load_details 0"``.
        """
        made: Counter[str] = Counter()
        left = set(calls)

        def on_call(method):
            call = f"{method} {made[method]}"
            if call in left:
                left.remove(call)
                raise TimeoutError(call)
            made[method] += 1

        return on_call

    twice = failing_once("list_partitions 0", "load_details 0")
    assert len(list(enumerator_of(DetailedConnector(10, on_call=twice)).enumerate_splits())) == 20
    half_way = failing_once("list_partitions 1")
    with pytest.raises(splitlib.SourceUnavailable, match="list_partitions 1"):
        list(enumerator_of(DetailedConnector(2000, on_call=half_way)).enumerate_splits())


class Replaced(DetailedConnector):
    """A connector for a table that was dropped. Another table has the same name now."""

    checks = 0

    def check_identity(self):
        self.checks += 1
        raise splitlib.TableNotFound("another table")


@pytest.mark.parametrize("gone", ["details", "directory", "names"])
def test_partitions_that_have_gone_with_their_table_are_an_error(gone):
    def on_list(k):
        if gone == "directory" and k == 3:
            raise splitlib.MissingPartition("There is no directory.")

    dropped = (3, 4, 5, 6, 7) if gone == "details" else ()
    connector = Replaced(0 if gone == "names" else 10, on_list=on_list, dropped=dropped)
    with pytest.raises(splitlib.TableNotFound, match="another table"):
        list(enumerator_of(connector, missing_partition="skip").enumerate_splits())
    assert connector.checks == 1


def test_the_identity_is_not_checked_for_nothing():
    connector = Replaced()
    assert len(list(enumerator_of(connector).enumerate_splits())) == 20
    assert connector.checks == 0


@pytest.mark.parametrize("policy", ["error", "skip"])
def test_missing_directories(policy):
    def gone(k):
        if k == 5:
            raise splitlib.MissingPartition("There is no directory.")

    enumerator = enumerator_of(MemoryConnector(on_list=gone), missing_partition=policy)
    if policy == "skip":
        assert 5 not in ks(enumerator.enumerate_splits())
    else:
        with pytest.raises(splitlib.MissingPartition, match=r"partition=k=5.*missing_partition"):
            list(enumerator.enumerate_splits())


@pytest.mark.parametrize("policy", ["error", "skip"])
def test_partitions_dropped_while_listing(policy):
    enumerator = enumerator_of(DetailedConnector(dropped=[3]), missing_partition=policy)
    if policy == "skip":
        assert sorted(set(ks(enumerator.enumerate_splits()))) == [0, 1, 2, *range(4, 10)]
    else:
        with pytest.raises(splitlib.MissingPartition, match="1 partitions were dropped"):
            list(enumerator.enumerate_splits())


def test_large_files_are_split_and_empty_ones_left_out():
    enumerator = enumerator_of(MemoryConnector(1, size=250), target_split_bytes=100)
    assert len(list(enumerator.enumerate_splits())) == 6
    enumerator = enumerator_of(MemoryConnector(1, size=0))
    assert list(enumerator.enumerate_splits()) == []
    assert (enumerator.metrics.files_listed, enumerator.metrics.files_selected) == (2, 0)


def test_filters_that_look_the_same_are_counted_apart():
    enumerator = enumerator_of(MemoryConnector(10, batch=5))
    for values in ((1, 2), (2, 3)):
        enumerator.set_dynamic_filtering_data(keys(*values))
    assert ks(enumerator.enumerate_splits()) == [2, 2]
    assert [used.partitions_dropped for used in enumerator.explain().filters] == [8, 8]
    enumerator = enumerator_of(MemoryConnector(10))
    enumerator.set_dynamic_filtering_data(keys(1, 2, 3))
    splits = enumerator.enumerate_splits()
    next(splits)
    enumerator.set_dynamic_filtering_data(keys(1, 3, 5))
    assert 2 not in ks(splits)
    first, late = enumerator.explain().filters
    assert (first.partitions_dropped, late.partitions_dropped) == (7, 1)


def test_a_key_that_is_null_in_all_partitions(tmp_path):
    """The type of such a key is inferred as null."""
    place = tmp_path / "k=__HIVE_DEFAULT_PARTITION__"
    place.mkdir()
    for value in (1, 2):
        pq.write_table(pa.table({"x": [value]}), place / f"{value}.parquet")
    with splitlib.load_table(str(tmp_path), "files") as table:
        enumerator = DynamicFileEnumerator(table)
        enumerator.set_dynamic_filtering_data({"k": [None], "x": [1]})
        assert [s.path.rpartition("/")[2] for s in enumerator.enumerate_splits()] == ["1.parquet"]


def test_the_report():
    enumerator = enumerator_of(MemoryConnector(100))
    enumerator.set_dynamic_filtering_data(keys(1, 2, 3))
    enumerator.set_dynamic_filtering_data(DynamicFilteringData.from_values({"x": [1]}))
    list(enumerator.enumerate_splits())
    report = enumerator.explain()
    text = str(report)
    assert "k: 3 values (24 B) - drops 97 of 100 partitions" in text
    assert (
        "x: 1 value (8 B) - not used: The table has no partition key and no statistics for x"
        in text
    )
    assert "partitions 3 of 100" in text
    assert report.to_dict()["metrics"]["partitions_matched"] == 3
    assert report.to_dict()["connector"] == "memory"
    assert report.to_dict()["filters"][0]["partitions_dropped"] == 97
    assert [one[2:] for one in report.ranges] == [(0, 1), (3, 3), (0, 96)]


def test_filters_may_be_given_at_the_start():
    table = Table("t", "memory", MemoryConnector(100))
    filters = [keys(1, 2, 3), {"k": [3, 4]}]
    enumerator = splitlib.DynamicFileEnumerator(table, filters=filters)
    assert {split.partition_values["k"] for split in enumerator.enumerate_splits()} == {3}
    assert [event.data for event in enumerator.received_filters()] == [
        DynamicFilteringData.of(each) for each in filters
    ]
    with pytest.raises(splitlib.InvalidFilter):
        splitlib.DynamicFileEnumerator(table, filters=[{"x": [1]}], strict=True)


def test_the_report_has_the_time_of_each_stage():
    enumerator = enumerator_of(DetailedConnector(10))
    enumerator.set_dynamic_filtering_data(keys(1))
    list(enumerator.enumerate_splits())
    stages = {"list_partitions", "match", "load_details", "list_files"}
    assert stages <= enumerator.metrics.seconds.keys()


def test_before_it_begins_there_is_nothing_to_report():
    assert not any(splitlib.ScanMetrics().to_dict().values())
    enumerator = enumerator_of(MemoryConnector())
    enumerator.set_dynamic_filtering_data(keys(3))
    (of_filter,) = enumerator.explain().filters
    assert of_filter.partitions_dropped == 0


def test_a_filter_that_prunes_nothing_is_reported_while_it_runs():
    enumerator = enumerator_of(MemoryConnector())
    enumerator.set_dynamic_filtering_data(DynamicFilteringData.from_values({"other": [1]}))
    splits = enumerator.enumerate_splits()
    next(splits)
    assert any("prunes nothing" in note for note in enumerator.explain().notes)


class WithHosts(MemoryConnector):
    def __init__(self) -> None:
        super().__init__(2)
        self.asked = 0

    def hosts(self, paths):
        self.asked += 1
        return [["a"] for _ in paths]


def test_hosts_are_asked_for_where_they_matter():
    connector = WithHosts()
    assert len(list(enumerator_of(connector).select_files())) == 2
    assert connector.asked == 0
    splits = list(enumerator_of(connector).enumerate_splits())
    assert {split.hosts for split in splits} == {("a",)}
    assert connector.asked > 0


def test_unparsable_values_are_kept_and_noted(caplog):
    odd = PartitionBatch(pa.record_batch({"k": ["1", "one"]}), pa.array(["1", "2"]))
    enumerator = enumerator_of(MemoryConnector([odd]))
    enumerator.set_dynamic_filtering_data(keys(1))
    assert ks(enumerator.enumerate_splits()) == [1, 1, "one", "one"]
    assert "1 values of k do not have its type" in str(enumerator.explain())
    assert len(caplog.records) == 1


def test_paths():
    table = Table("t", "memory", MemoryConnector())
    assert splitlib.paths(table, keys(4)) == ["/t/k=4/00000", "/t/k=4/00001"]


@pytest.mark.parametrize(
    ("size", "told"),
    [
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (3 << 19, "1.5 MiB"),
        (5 << 29, "2.5 GiB"),
        (9 << 39, "4.5 TiB"),
    ],
)
def test_sizes_are_told_in_units(size, told):
    enumerator = enumerator_of(MemoryConnector(1, 1, size=size))
    list(enumerator.select_files())
    assert f"files 1, {told}<" in enumerator.explain()._repr_html_()


@pytest.mark.parametrize("given", ["filters", "static"])
def test_keys_that_are_instants_follow_the_time_zone_of_the_table(
    tmp_path: Path, given: str
) -> None:
    for day in (1, 2):
        (tmp_path / f"d=2020-01-0{day}").mkdir()
        pq.write_table(pa.table({"v": [day]}), tmp_path / f"d=2020-01-0{day}/f.parquet")
    midnight = pa.array([datetime(2020, 1, 1, 5, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    keys = DynamicFilteringData.from_arrow(pa.table({"d": midnight}))
    schema = pa.schema([("d", pa.date32())])
    with splitlib.load_table(str(tmp_path), "files", partition_schema=schema) as table:
        in_zone = table.in_time_zone("America/New_York")
        options: Any = {given: [keys]}
        (split,) = DynamicFileEnumerator(in_zone, **options).enumerate_splits()
    assert "d=2020-01-01" in split.path


def test_keys_that_are_not_valid_utf8(tmp_path: Path) -> None:
    """Spark does not check that strings are valid UTF-8."""
    pq.write_table(pa.table({"name": ["a", "b"]}), tmp_path / "f.parquet")
    keys = pa.array([b"a\xff", b"b"], pa.binary()).view(pa.string())
    data = DynamicFilteringData.from_arrow(pa.table({"name": keys}))
    with splitlib.load_table(str(tmp_path), "files") as table:
        by_range = DynamicFilteringData.from_range({"name": (keys[1], keys[0])})
        for one in (data, by_range):
            (split,) = DynamicFileEnumerator(table, filters=[one]).enumerate_splits()
            assert split.path.endswith("f.parquet")
        assert table.to_arrow_dataset(data).to_table().to_pydict() == {"name": ["b"]}


def test_a_filter_that_cannot_be_combined_is_not_kept():
    def build(filters):
        if filters:
            raise RuntimeError("no predicate")
        return Predicate(pa.schema([("k", pa.int32())]), [])

    received = ReceivedFilters(build)
    received.announce("dates")
    with pytest.raises(RuntimeError):
        received.add(keys(1), "dates", [])
    assert received.events() == []
    assert received.await_announced(0, Future()) == 1


def test_a_finished_enumeration_leaves_nothing_behind():
    enumerator = enumerator_of(MemoryConnector())
    cancelled: Future[None] = Future()
    finished = weakref.ref(cancelled)
    assert list(enumerator.select_files(cancelled=cancelled))
    del cancelled
    gc.collect()
    assert finished() is None
    enumerator.cancel()
    with pytest.raises(splitlib.SplitlibError, match="cancelled"):
        list(enumerator.select_files())
