"""Splits are assigned while files are listed. The listing stops when its results are not needed."""

from __future__ import annotations

import asyncio
import gc
import itertools
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import closing

import pyarrow as pa
import pytest

import splitlib
from splitlib import SplitlibError
from splitlib.coordination import coordinator as coordinator_module
from splitlib.coordination import prefetch
from splitlib.coordination.coordinator import (
    DynamicFileSplitEnumerator,
    NoMoreSplits,
    RequestIgnored,
    WaitForSplits,
)
from splitlib.coordination.prefetch import ARRIVAL_SPLITS, BUFFERED_SPLITS, Arrival, SplitPrefetcher
from splitlib.enumeration.enumerator import complete
from splitlib.model import PartitionBatch
from splitlib.spi import SupportsHosts
from tests.support.coordinators import (
    ask,
    assert_no_thread_is_left,
    coordinator_of,
    keys,
    read_all,
    take,
)
from tests.support.memory_connector import DetailedConnector, MemoryConnector, enumerator_of, ks

THREADS = 4


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    yield
    assert_no_thread_is_left()


class Gate:
    """A gate that blocks listings until the test opens it.

    Args:
        passing: Number of listings that pass without waiting.
    """

    def __init__(self, passing: int = 0) -> None:
        self.passing = passing
        self.opened = threading.Event()
        self.waiting = 0
        self._lock = threading.Lock()

    def __call__(self, k: int) -> None:
        with self._lock:
            self.waiting += 1
            held = self.waiting > self.passing
        if held:
            assert self.opened.wait(30)

    def wait_for(self, listings: int) -> None:
        wait_until(lambda: self.waiting >= listings)


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.001)


def test_a_filter_ends_slow_listings_but_for_those_under_way_and_those_that_match():
    started: list[tuple[float, int]] = []

    def slow(k):
        started.append((time.monotonic(), k))
        time.sleep(0.05)

    connector = MemoryConnector(400, 1, on_list=slow)
    matching = (5, 390, 395)
    with coordinator_of(connector, listing_threads=THREADS) as coordinator:
        coordinator.register_reader("r")
        first = take(coordinator)
        wait_until(lambda: len(started) > 10)
        coordinator.handle_source_event(keys(0, *matching))
        arrived = time.monotonic()
        rest = read_all(coordinator)
    before = {k for at, k in started if at <= arrived}
    after = {k for at, k in started if at > arrived}
    assert len(before) <= 400 - 2 - THREADS
    assert len(after) <= THREADS + len(matching)
    assert len(after - set(matching)) <= THREADS
    assert ks([first, *rest]) == [0, *matching]


def test_the_buffer_does_not_grow_with_the_table():
    connector = MemoryConnector(2000, 10)
    with coordinator_of(connector) as coordinator:
        coordinator.register_reader("r")
        take(coordinator)
        wait_until(lambda: coordinator.waiting_splits >= BUFFERED_SPLITS - 1)  # one is taken
        time.sleep(0.05)  # a thread that did not stop would go on
        assert coordinator.waiting_splits < BUFFERED_SPLITS + ARRIVAL_SPLITS
        assert len(connector.listed) < (BUFFERED_SPLITS + ARRIVAL_SPLITS) / 10 + 2 * 32 + 32
        assert len(read_all(coordinator)) == 19_999


def test_a_table_in_one_large_listing_is_split_only_as_far_as_it_is_needed():
    with coordinator_of(MemoryConnector(1, 20_000)) as coordinator:
        coordinator.register_reader("r")
        first = take(coordinator)
        wait_until(lambda: coordinator.waiting_splits >= BUFFERED_SPLITS - 1)  # one is taken
        time.sleep(0.05)  # a thread that did not stop would go on
        assert coordinator.waiting_splits < BUFFERED_SPLITS + ARRIVAL_SPLITS
        coordinator.handle_source_event(keys(77))
        assert ask(coordinator) == NoMoreSplits()
        assert first.partition_values == {"k": 0}


def test_an_empty_filter_ends_the_listing_of_partitions():
    connector = MemoryConnector(1_000_000, 0)
    enumerator = enumerator_of(connector)
    splits = iter(enumerator.enumerate_splits())
    stop = threading.Timer(0.05, enumerator.set_dynamic_filtering_data, (keys().data,))
    stop.start()
    assert list(splits) == []
    assert connector.batches < 10_000


def test_details_are_not_loaded_of_partitions_that_a_late_filter_drops():
    connector = DetailedConnector(100, 1)
    enumerator = enumerator_of(connector, listing_threads=1)
    splits = enumerator.enumerate_splits()
    next(splits)
    already = len(connector.detailed)
    enumerator.set_dynamic_filtering_data(keys(0, 50, 51, 99).data)
    assert ks(splits) == [50, 51, 99]
    assert already <= 4
    assert connector.detailed[already:] == [50, 51, 99]


def test_closing_ends_the_listing_at_once():
    gate = Gate(passing=3)
    connector = MemoryConnector(1000, 1, on_list=gate)
    coordinator = coordinator_of(connector, listing_threads=THREADS)
    coordinator.register_reader("r")
    take(coordinator)
    gate.wait_for(3 + THREADS)
    closing = threading.Thread(target=coordinator.close)
    closing.start()
    closing.join(4)
    assert not closing.is_alive(), "closing waits for listings that hang"
    assert isinstance(coordinator.handle_split_request("r"), RequestIgnored)
    gate.opened.set()
    assert_no_thread_is_left()
    assert len(connector.listed) == 3 + THREADS


def test_cancelling_wakes_whoever_waits_for_a_listing_and_is_no_end():
    gate = Gate()
    enumerator = enumerator_of(MemoryConnector(on_list=gate))
    caught: list[BaseException] = []

    def consume():
        try:
            list(enumerator.enumerate_splits())
        except SplitlibError as error:
            caught.append(error)

    consumer = threading.Thread(target=consume)
    consumer.start()
    gate.wait_for(10)
    enumerator.cancel()
    enumerator.cancel()
    consumer.join(30)
    assert ["was cancelled" in str(error) for error in caught] == [True]
    gate.opened.set()
    with pytest.raises(SplitlibError, match="was cancelled"):
        list(enumerator.enumerate_splits())


def test_cancelling_ends_the_wait_for_a_filter():
    enumerator = enumerator_of(MemoryConnector(), filter_wait_seconds=3600)
    enumerator.announce_dynamic_filter("join")
    threading.Timer(0.05, enumerator.cancel).start()
    with pytest.raises(SplitlibError, match="was cancelled"):
        list(enumerator.enumerate_splits())


def test_an_error_does_not_wait_for_listings_that_hang():
    gate = Gate()

    def on_list(k):
        if k == 0:
            gate.wait_for(1)
            raise PermissionError("not yours")
        gate(k)

    with coordinator_of(MemoryConnector(3, on_list=on_list)) as coordinator:
        coordinator.register_reader("r")
        with pytest.raises(PermissionError):
            read_all(coordinator)
        gate.opened.set()


def test_storage_that_is_offline(monkeypatch):
    monkeypatch.setattr("splitlib.remote.retry.random.uniform", lambda *_: 0)

    def offline(k):
        raise splitlib.SourceUnavailable("The storage does not answer.")

    connector = MemoryConnector(100, on_list=offline)
    settings = {"listing_threads": THREADS, "retry_attempts": 3}
    with coordinator_of(connector, **settings) as coordinator:
        coordinator.register_reader("r")
        for _ in range(2):
            with pytest.raises(splitlib.SourceUnavailable, match="does not answer"):
                ask(coordinator)
        assert_no_thread_is_left()
    assert len(connector.listed) <= 3 * 2 * THREADS


def test_a_catalog_that_fails_half_way():
    batches = itertools.count()

    def fail_at_the_second(method):
        if method == "list_partitions" and next(batches) == 1:
            raise ConnectionResetError("gone")

    with coordinator_of(MemoryConnector(1000, on_call=fail_at_the_second)) as coordinator:
        coordinator.register_reader("r")
        with pytest.raises(splitlib.SourceUnavailable, match="gone"):
            read_all(coordinator)


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("where", ["list_partitions", "list_files"])
def test_whatever_ends_the_enumeration_readers_are_told(error, where):
    def stop(method):
        if method == where:
            raise error("stop")

    with coordinator_of(MemoryConnector(on_call=stop)) as coordinator:
        coordinator.register_reader("r")
        for _ in range(2):
            with pytest.raises(splitlib.SourceError, match=f"{error.__name__}: stop"):
                ask(coordinator)
        assert not coordinator.finished


def test_a_coordinator_that_was_dropped_leaves_no_thread():
    coordinator = coordinator_of(MemoryConnector(2000, 10))
    coordinator.register_reader("r")
    take(coordinator)
    dropped = weakref.ref(coordinator)
    del coordinator
    gc.collect()
    assert dropped() is None
    assert_no_thread_is_left()


def test_the_collector_may_find_it_in_a_thread_that_holds_any_lock(monkeypatch):
    coordinator = coordinator_of(MemoryConnector(2000, 10))
    coordinator.register_reader("r")
    take(coordinator)
    cancelled_in = list[int]()

    def note(cancelled):
        cancelled_in.append(threading.get_ident())
        complete(cancelled)

    monkeypatch.setattr(prefetch, "complete", note)
    vars(coordinator)["itself"] = coordinator
    del coordinator
    gc.collect()
    assert_no_thread_is_left()
    assert len(cancelled_in) == 1
    assert threading.get_ident() not in cancelled_in


@pytest.mark.parametrize("end", ["close", "drop"])
def test_the_enumerator_outlives_its_coordinator(end):
    enumerator = enumerator_of(MemoryConnector(200, 10))
    with DynamicFileSplitEnumerator(enumerator) as expected:
        expected.register_reader("r")
        every = {split.path for split in read_all(expected)}
    coordinator = DynamicFileSplitEnumerator(enumerator)
    coordinator.register_reader("r")
    first = take(coordinator)
    coordinator.acknowledge([first], "r")
    state = coordinator.snapshot_state()
    if end == "close":
        coordinator.close()
    del coordinator
    gc.collect()
    assert_no_thread_is_left()
    with DynamicFileSplitEnumerator.restore(state, enumerator) as restored:
        restored.register_reader("r")
        assert {split.path for split in read_all(restored)} | {first.path} == every
    assert {split.path for split in enumerator.enumerate_splits()} == every


def test_a_closed_coordinator_is_not_complete():
    coordinator = coordinator_of(MemoryConnector(2000, 10))
    coordinator.register_reader("r")
    take(coordinator)
    coordinator.close()
    assert not coordinator.finished
    prefetcher = SplitPrefetcher(enumerator_of(MemoryConnector(2000, 10)))
    prefetcher.start(prefetcher)
    prefetcher.close()
    assert not prefetcher.complete or prefetcher.error is not None


def test_one_slow_partition_does_not_hold_back_those_before_it():
    gate = Gate(passing=2)
    with coordinator_of(MemoryConnector(3, 1, on_list=gate), listing_threads=1) as coordinator:
        coordinator.register_reader("r")
        assert ks([take(coordinator), take(coordinator)]) == [0, 1]
        assert isinstance(coordinator.handle_split_request("r"), WaitForSplits)
        gate.opened.set()
        assert ks(read_all(coordinator)) == [2]


class Located(MemoryConnector):
    def hosts(self, paths):
        return [[f"host{int(path[-5:]) % 3}", "Spare"] for path in paths]


def test_hosts_of_a_connector_that_knows_them():
    assert isinstance(Located(), SupportsHosts)
    assert not isinstance(MemoryConnector(), SupportsHosts)
    known = list(enumerator_of(Located(1, 3)).enumerate_splits())
    assert [s.hosts for s in known] == [("host0", "Spare"), ("host1", "Spare"), ("host2", "Spare")]
    # Hosts are only a hint, so splits that differ only in hosts are equal.
    assert known == list(enumerator_of(MemoryConnector(1, 3)).enumerate_splits())
    # By default, ``select_files`` does not request hosts.
    (selected,) = enumerator_of(Located(1, 3)).select_files()
    assert "hosts" not in selected.files.files.schema.names


def test_readers_get_what_lies_with_them():
    assigner = splitlib.coordination.assigners.LocalityAssigner()
    with coordinator_of(Located(1, 9), assigner) as coordinator:
        coordinator.register_reader("r", hostname="HOST1")
        coordinator.register_reader("s")
        ask(coordinator, "s")  # when this request returns, all nine splits are listed
        one = [take(coordinator, "r") for _ in range(3)]
        other = take(coordinator, "s", hostname="host2")
        assert [split.hosts[0] for split in one] == ["host1"] * 3
        assert other.hosts[0] == "host2"
        assert len(read_all(coordinator, "r")) == 4
        assert ask(coordinator, "s") == NoMoreSplits()


def test_hosts_that_cannot_be_found_out_are_an_error_of_the_listing():
    class Broken(Located):
        def hosts(self, paths):
            raise KeyError("no such block")

    with pytest.raises(splitlib.SourceError, match="no such block"):
        list(enumerator_of(Broken()).enumerate_splits())


def test_partitions_without_values():
    class Unpartitioned(MemoryConnector):
        def describe(self):
            known = super().describe()
            schema = pa.schema([known.schema.field("a")])
            return splitlib.model.TableMetadata(schema, (), known.read_format)

        def list_partitions(self, predicate):
            yield PartitionBatch.whole(pa.array(["0"]))

    with coordinator_of(Unpartitioned(files=300)) as coordinator:
        coordinator.register_reader("r")
        first = take(coordinator)
        coordinator.handle_source_event(keys(1))
        assert len([first, *read_all(coordinator)]) == 300


class Pause(threading.Event):
    """An event that records that a thread waits for it."""

    def __init__(self):
        super().__init__()
        self.is_awaited = threading.Event()

    def wait(self, timeout=None):
        self.is_awaited.set()
        return super().wait(timeout)


def test_a_full_buffer_pauses_the_thread_and_does_not_keep_it_busy(monkeypatch):
    enumerator = enumerator_of(MemoryConnector(1, 2 * BUFFERED_SPLITS))
    pause = Pause()
    with monkeypatch.context() as made:
        made.setattr(threading, "Event", lambda: pause)
        prefetcher = SplitPrefetcher(enumerator)
    with closing(prefetcher):
        prefetcher.start(prefetcher)
        assert pause.is_awaited.wait(10)
        assert sum(len(arrival.splits) for arrival in prefetcher.arrived) >= BUFFERED_SPLITS


def test_the_end_is_not_seen_before_the_last_split(monkeypatch):
    """A reader gets the last splits even if they arrive just after it found the queue empty."""
    gate = Gate()
    enumerator = enumerator_of(MemoryConnector(1, 1, on_list=gate))
    prefetcher = SplitPrefetcher(enumerator)
    monkeypatch.setattr(coordinator_module, "SplitPrefetcher", lambda _: prefetcher)
    coordinator = DynamicFileSplitEnumerator(enumerator)

    class Arrived(deque[Arrival]):
        def __len__(self):
            found = super().__len__()
            if not gate.opened.is_set():
                gate.opened.set()
                wait_until(lambda: prefetcher.complete)
            return found

    prefetcher.arrived = Arrived()
    with coordinator:
        coordinator.register_reader("r")
        assert isinstance(coordinator.handle_split_request("r"), WaitForSplits)
        assert len(read_all(coordinator)) == 1
