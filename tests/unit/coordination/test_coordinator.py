"""Responses of the coordinator to its readers, with filters, failures and restores in between."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from splitlib import (
    ConfigError,
    DynamicFileEnumerator,
    DynamicFilteringData,
    InvalidFilter,
    SplitlibError,
)
from splitlib.coordination.assigners import (
    FifoAssigner,
    LargestFirstAssigner,
    LocalityAssigner,
)
from splitlib.coordination.coordinator import (
    AssignedSplit,
    DynamicFileSplitEnumerator,
    NoMoreSplits,
    RequestIgnored,
    WaitForSplits,
)
from splitlib.filtering.data import DynamicFilteringEvent
from tests.support.coordinators import (
    ask,
    assert_no_thread_is_left,
    coordinator_of,
    keys,
    own_threads,
    read_all,
    take,
)
from tests.support.memory_connector import MemoryConnector, enumerator_of, ks


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    yield
    assert_no_thread_is_left()


def test_without_a_filter_all_splits_in_the_tables_order():
    with coordinator_of(MemoryConnector()) as coordinator:
        coordinator.register_reader("r")
        assert read_all(coordinator) == list(enumerator_of(MemoryConnector()).enumerate_splits())
        assert coordinator.finished


def test_nothing_is_listed_before_the_first_request():
    connector = MemoryConnector()
    with coordinator_of(connector) as coordinator:
        coordinator.register_reader("r")
        assert not coordinator.finished
        assert (connector.batches, connector.listed) == (0, [])


def test_a_filter_before_the_first_request_leaves_the_subset():
    connector = MemoryConnector()
    with coordinator_of(connector) as coordinator:
        coordinator.register_reader("r")
        coordinator.handle_source_event(keys(3, 7, 99))
        assert ks(read_all(coordinator)) == [3, 3, 7, 7]
        assert sorted(connector.listed) == [3, 7]


def test_a_filter_after_the_first_request_leaves_the_rest_of_the_subset():
    with coordinator_of(MemoryConnector()) as coordinator:
        coordinator.register_reader("r")
        first = take(coordinator)
        coordinator.handle_source_event(keys(0, 7))
        rest = read_all(coordinator)
        assert ks([first, *rest]) == [0, 0, 7, 7]
        assert len({split.split_id for split in [first, *rest]}) == 4


def test_several_filters_hold_together():
    with coordinator_of(MemoryConnector()) as coordinator:
        coordinator.register_reader("r")
        coordinator.handle_source_event(keys(1, 2, 3, producer="a"))
        coordinator.handle_source_event(keys(2, 3, 4, producer="b"))
        assert ks(read_all(coordinator)) == [2, 2, 3, 3]


def test_an_empty_filter_ends_it():
    with coordinator_of(MemoryConnector()) as coordinator:
        coordinator.register_reader("r")
        take(coordinator)
        coordinator.handle_source_event(keys())
        assert ask(coordinator) == NoMoreSplits()


def test_a_second_equal_filter_is_ignored_and_a_different_one_is_an_error():
    with coordinator_of(MemoryConnector()) as coordinator:
        coordinator.register_reader("r")
        coordinator.handle_source_event(keys(1, producer="join"))
        passed = coordinator.enumerator.predicate
        coordinator.handle_source_event(keys(1, producer="join"))
        assert coordinator.enumerator.predicate is passed
        with pytest.raises(InvalidFilter, match="different"):
            coordinator.handle_source_event(keys(2, producer="join"))
        assert ks(read_all(coordinator)) == [1, 1]


def test_a_filter_over_no_partition_column_is_neither_waited_for_nor_matched():
    with coordinator_of(MemoryConnector(), filter_wait_seconds=3600) as coordinator:
        coordinator.register_reader("r")
        coordinator.announce_dynamic_filter("join", fields=["X"])
        first = take(coordinator)
        data = DynamicFilteringData.from_values({"x": [1]})
        coordinator.handle_source_event(DynamicFilteringEvent(data, "join"))
        assert len([first, *read_all(coordinator)]) == 20
        assert "match" not in coordinator.enumerator.metrics.seconds


def test_a_filter_that_was_announced_is_waited_for():
    connector = MemoryConnector()
    with coordinator_of(connector, filter_wait_seconds=3600) as coordinator:
        coordinator.register_reader("r")
        for producer in "ab":
            coordinator.announce_dynamic_filter(producer, fields=["K"])
        assert isinstance(coordinator.handle_split_request("r"), WaitForSplits)
        coordinator.handle_source_event(keys(1, 2, producer="a"))
        assert isinstance(coordinator.handle_split_request("r"), WaitForSplits)
        assert connector.batches == 0
        coordinator.handle_source_event(keys(2, 3, producer="b"))
        assert ks(read_all(coordinator)) == [2, 2]
        assert connector.listed == [2]


def test_a_filter_that_never_comes_is_waited_for_no_longer_than_configured():
    with coordinator_of(MemoryConnector(), filter_wait_seconds=0.05) as coordinator:
        coordinator.register_reader("r")
        coordinator.announce_dynamic_filter("join")
        assert len(read_all(coordinator)) == 20
        assert "(filter_wait_seconds): 1." in str(coordinator.enumerator.explain())


@pytest.mark.parametrize("polite", [True, False], ids=["gives its place", "keeps its place"])
def test_one_worker_for_the_reader_and_for_the_producer_of_its_filter(polite):
    """The reader runs first and occupies the only slot, which the filter's producer needs too.

    If the reader waits outside of the slot, the producer can run and deliver its filter. If the
    reader keeps the slot, it receives all splits after the wait, and the filter comes too late.
    """
    wait = 3600 if polite else 0.1
    read: list[int] = []
    with (
        coordinator_of(MemoryConnector(), filter_wait_seconds=wait) as coordinator,
        ThreadPoolExecutor(1) as worker,
    ):
        done = threading.Event()
        coordinator.register_reader("r")
        coordinator.announce_dynamic_filter("join")

        def reader_task():
            while True:
                match coordinator.handle_split_request("r"):
                    case AssignedSplit(split):
                        read.append(split.partition_values["k"])
                        coordinator.acknowledge([split], "r")
                    case WaitForSplits(delay):
                        time.sleep(delay)
                        if polite:
                            worker.submit(reader_task)
                            return
                    case _:
                        done.set()
                        return

        worker.submit(reader_task)
        worker.submit(coordinator.handle_source_event, keys(4, producer="join"))
        assert done.wait(30)
        assert read == ([4, 4] if polite else [k for k in range(10) for _ in range(2)])


def test_no_split_left():
    with coordinator_of(MemoryConnector(1, 1)) as coordinator:
        coordinator.register_reader("a")
        coordinator.register_reader("b")
        split = take(coordinator, "a")
        assert ask(coordinator, "b") == NoMoreSplits()
        assert not coordinator.finished
        coordinator.acknowledge([split], "a")
        assert coordinator.finished


def test_who_is_no_reader_gets_nothing_and_disturbs_nobody():
    with coordinator_of(MemoryConnector(1, 1)) as coordinator:
        assert isinstance(coordinator.handle_split_request("stranger"), RequestIgnored)
        coordinator.remove_reader("stranger")
        coordinator.register_reader("r")
        split = take(coordinator)
        coordinator.acknowledge([split], "stranger")
        coordinator.add_splits_back([split], "stranger")
        assert ask(coordinator) == NoMoreSplits()
        coordinator.remove_reader("r")
        assert isinstance(coordinator.handle_split_request("r"), RequestIgnored)
        coordinator.acknowledge([split], "r")
        assert not coordinator.finished


def test_splits_come_back_first_and_only_if_they_still_match():
    with coordinator_of(MemoryConnector()) as coordinator:
        coordinator.register_reader("a")
        coordinator.register_reader("b")
        lost = [take(coordinator, "a") for _ in range(4)]  # their values of k are 0, 0, 1, 1
        coordinator.handle_source_event(keys(1, 5))
        coordinator.add_splits_back(lost, "a")
        coordinator.add_splits_back(lost, "a")
        assert coordinator.unacknowledged_splits == 0
        assert read_all(coordinator, "b")[:2] == lost[2:]
        assert coordinator.finished


def test_only_the_holder_gives_a_split_back_or_acknowledges_it():
    with coordinator_of(MemoryConnector(1, 2)) as coordinator:
        coordinator.register_reader("a")
        coordinator.register_reader("b")
        first, second = take(coordinator, "a"), take(coordinator, "b")
        coordinator.add_splits_back([first], "b")
        coordinator.acknowledge([second], "a")
        assert coordinator.unacknowledged_splits == 2
        coordinator.acknowledge([first], "a")
        coordinator.add_splits_back([first], "a")
        assert ask(coordinator, "a") == NoMoreSplits()


def test_a_reader_that_goes_leaves_its_splits_to_others():
    with coordinator_of(MemoryConnector(1, 3)) as coordinator:
        coordinator.register_reader("a")
        coordinator.register_reader("b")
        held = [take(coordinator, "a"), take(coordinator, "a")]
        coordinator.acknowledge(held[:1], "a")
        coordinator.remove_reader("a")
        assert read_all(coordinator, "b")[0] == held[1]
        assert coordinator.finished


def test_a_newer_attempt_takes_over():
    with coordinator_of(MemoryConnector(1, 2)) as coordinator:
        coordinator.register_reader("r", attempt=1)
        old = take(coordinator, attempt=1)
        coordinator.register_reader("r", attempt=2)
        assert isinstance(coordinator.handle_split_request("r", attempt=1), RequestIgnored)
        assert take(coordinator, attempt=2) == old
        # Calls of the older attempt have no effect from now on.
        coordinator.acknowledge([old], "r", attempt=1)
        coordinator.add_splits_back([old], "r", attempt=1)
        coordinator.remove_reader("r", attempt=1)
        coordinator.register_reader("r", attempt=1)
        assert isinstance(coordinator.handle_split_request("r", attempt=1), RequestIgnored)
        assert coordinator.unacknowledged_splits == 1
        coordinator.acknowledge([old], "r", attempt=2)
        assert len(read_all(coordinator)) == 1
        assert coordinator.finished


def test_a_late_attempt_of_a_reader_that_has_gone_is_ignored():
    with coordinator_of(MemoryConnector()) as coordinator:
        coordinator.register_reader("r", attempt=2)
        coordinator.remove_reader("r")
        coordinator.register_reader("r", attempt=1)
        assert isinstance(coordinator.handle_split_request("r"), RequestIgnored)


def test_the_same_attempt_may_register_again_and_keeps_its_splits():
    with coordinator_of(MemoryConnector(1, 1)) as coordinator:
        coordinator.register_reader("r")
        split = take(coordinator)
        coordinator.register_reader("r")
        assert ask(coordinator) == NoMoreSplits()
        coordinator.acknowledge([split], "r")
        assert coordinator.finished


@pytest.mark.parametrize("wrong", [None, "t", MemoryConnector()])
def test_only_an_enumerator_can_be_coordinated(wrong):
    with pytest.raises(ConfigError, match=f"a {type(wrong).__name__}, not a DynamicFileEnum"):
        DynamicFileSplitEnumerator(wrong)


def test_filtering_data_is_an_event_of_an_unknown_producer():
    with coordinator_of(MemoryConnector(3, 1)) as coordinator:
        coordinator.handle_source_event(DynamicFilteringData.from_values({"p": [1]}))
        assert [e.producer for e in coordinator.enumerator.received_filters()] == [None]
        with pytest.raises(InvalidFilter, match="A int is not filtering data"):
            coordinator.handle_source_event(5)  # type: ignore[arg-type]


def test_large_files_are_split_as_by_the_enumerator():
    with coordinator_of(MemoryConnector(2, 1, size=1000), target_split_bytes=100) as coordinator:
        coordinator.register_reader("r")
        read = read_all(coordinator)
    alone = enumerator_of(MemoryConnector(2, 1, size=1000), target_split_bytes=100)
    assert read == list(alone.enumerate_splits())
    assert len(read) == 20


def test_requests_after_closing_are_ignored_and_do_not_look_like_the_end():
    coordinator = coordinator_of(MemoryConnector())
    coordinator.register_reader("r")
    take(coordinator)
    coordinator.close()
    assert coordinator.handle_split_request("r") == RequestIgnored("the coordinator is closed")
    assert not coordinator.finished


class FailsOnce:
    """A condition that is true for all partitions, and raises the error in ``error`` once."""

    fields = ("k",)

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def describe(self) -> str:
        return "a condition that may fail"

    def match(self, values: pa.RecordBatch) -> pa.BooleanArray:
        error, self.error = self.error, None
        if error is not None:
            raise error
        return pa.repeat(True, values.num_rows)


@pytest.mark.parametrize("error", [SplitlibError("once"), KeyboardInterrupt()])
def test_no_split_is_lost_if_a_condition_fails_once(error):
    condition = FailsOnce()
    enumerator = DynamicFileEnumerator(enumerator_of(MemoryConnector()).table, static=[condition])
    with DynamicFileSplitEnumerator(enumerator) as coordinator:
        coordinator.register_reader("a")
        coordinator.register_reader("b")
        whole = list(enumerator_of(MemoryConnector()).enumerate_splits())
        take(coordinator, "a")
        while "splitlib-prefetch" in own_threads():
            time.sleep(0.001)  # until all splits have arrived
        for event in (keys(*range(100)), keys(*range(101))):
            coordinator.handle_source_event(event)
            condition.error = error
            with pytest.raises(type(error)):
                coordinator.waiting_splits  # noqa: B018 - receives splits
        condition.error = error
        with pytest.raises(type(error)):
            coordinator.remove_reader("a")
        coordinator.remove_reader("a")
        assert sorted(s.split_id for s in read_all(coordinator, "b")) == sorted(
            split.split_id for split in whole
        )
        assert coordinator.finished


def test_the_suggested_delay_grows_while_there_is_nothing():
    with coordinator_of(MemoryConnector(), filter_wait_seconds=3600) as coordinator:
        coordinator.register_reader("r")
        coordinator.announce_dynamic_filter("join")
        answers = [coordinator.handle_split_request("r") for _ in range(6)]
        assert answers == [WaitForSplits(s) for s in (0.01, 0.02, 0.04, 0.08, 0.16, 0.16)]


def test_an_error_of_a_listing_is_the_answer_to_every_later_request():
    def fail(k):
        if k == 5:
            raise PermissionError("not yours")

    with coordinator_of(MemoryConnector(on_list=fail)) as coordinator:
        for reader in "ab":
            coordinator.register_reader(reader)
        with pytest.raises(PermissionError, match=r"not yours.*connector=memory, table=t"):
            read_all(coordinator, "a")
        for reader in "aba":
            with pytest.raises(SplitlibError, match="not yours"):
                coordinator.handle_split_request(reader)
        assert not coordinator.finished
        # The restored coordinator must not treat the failed, partial listing as complete.
        state = coordinator.snapshot_state()
        restored = DynamicFileSplitEnumerator.restore(state, enumerator_of(MemoryConnector()))
    with restored:
        restored.register_reader("r")
        assert 9 in ks(read_all(restored))


class Repeating(MemoryConnector):
    """A snapshot that contains each file twice."""

    def list_files(self, partitions, predicate):
        for batch in super().list_files(partitions, predicate):
            yield batch
            yield batch


@pytest.mark.parametrize("assigner", [FifoAssigner, LargestFirstAssigner, LocalityAssigner])
def test_a_file_that_a_snapshot_contains_twice_is_read_twice(assigner):
    connector = Repeating(3, 1, snapshot="1")
    with coordinator_of(connector, assigner()) as coordinator:
        coordinator.register_reader("r")
        first = take(coordinator)
        state = coordinator.snapshot_state()
        rest = read_all(coordinator)
    assert sorted(ks([first, *rest])) == [0, 0, 1, 1, 2, 2]
    assert len({split.split_id for split in [first, *rest]}) == 6
    again = DynamicFileSplitEnumerator.restore(state, enumerator_of(connector), assigner())
    with again as coordinator:
        coordinator.register_reader("r")
        assert sorted(ks(read_all(coordinator))) == [0, 0, 1, 1, 2, 2]
