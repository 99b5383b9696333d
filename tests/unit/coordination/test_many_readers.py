"""Many concurrent readers share a large table, and a filter arrives at a random time."""

from __future__ import annotations

import random
import threading
import time
import tracemalloc
from collections import Counter

import pytest

from splitlib.coordination.coordinator import AssignedSplit, NoMoreSplits, WaitForSplits
from splitlib.coordination.prefetch import ARRIVAL_SPLITS, BUFFERED_SPLITS
from tests.support.coordinators import assert_no_thread_is_left, coordinator_of, keys
from tests.support.memory_connector import MemoryConnector

READERS = 64


class Reader(threading.Thread):
    """A reader thread that runs until no splits remain. It may fail at random and start again."""

    def __init__(self, coordinator, number: int, *, may_fail: bool) -> None:
        super().__init__(name=f"reader-{number}")
        self.coordinator, self.number, self.may_fail = coordinator, number, may_fail
        self.random = random.Random(number)
        self.acknowledged: list[tuple[str, int]] = []
        self.problems: list[object] = []
        self.most_waiting = 0

    def run(self) -> None:
        attempt = 0
        self.coordinator.register_reader(self.number)
        while True:
            answer = self.coordinator.handle_split_request(self.number, attempt=attempt)
            match answer:
                case AssignedSplit(split):
                    if self.may_fail and self.random.random() < 0.01:
                        if self.random.random() < 0.5:
                            self.coordinator.add_splits_back([split], self.number, attempt)
                        attempt += 1
                        self.coordinator.register_reader(self.number, attempt=attempt)
                        continue
                    self.coordinator.acknowledge([split], self.number, attempt)
                    self.acknowledged.append((split.split_id, split.partition_values["k"]))
                    if len(self.acknowledged) % 100 == 0:
                        waiting = self.coordinator.waiting_splits
                        self.most_waiting = max(self.most_waiting, waiting)
                case WaitForSplits(delay):
                    time.sleep(delay)
                case NoMoreSplits():
                    if self.coordinator.finished or not self.may_fail:
                        return
                    time.sleep(0.001)  # another reader may still fail and give its splits back
                case other:
                    self.problems.append(other)
                    return


def read_by_many(coordinator, *, may_fail: bool) -> list[Reader]:
    readers = [Reader(coordinator, number, may_fail=may_fail) for number in range(READERS)]
    for reader in readers:
        reader.start()
    return readers


def results_of(readers: list[Reader]) -> Counter[tuple[str, int]]:
    for reader in readers:
        reader.join(300)
        assert not reader.is_alive()
        assert reader.problems == []
    return Counter(done for reader in readers for done in reader.acknowledged)


@pytest.mark.parametrize("may_fail", [False, True], ids=["healthy", "failing"])
def test_a_filter_amid_a_hundred_thousand_splits_loses_and_doubles_nothing(may_fail):
    chance = random.Random(f"{may_fail}")
    partitions, files = 500, 200
    matching = set(chance.sample(range(partitions), 250))
    with coordinator_of(MemoryConnector(partitions, files)) as coordinator:
        readers = read_by_many(coordinator, may_fail=may_fail)
        time.sleep(chance.uniform(0, 0.5))
        coordinator.handle_source_event(keys(*matching, producer="join"))
        done = results_of(readers)
        assert coordinator.finished
    assert set(done.values()) == {1}
    assert sum(k in matching for _, k in done) == len(matching) * files
    # Splits that were assigned before the filter arrived may not match it.
    assert len(done) < partitions * files
    most = max(reader.most_waiting for reader in readers)
    # Besides the splits enumerated ahead, the queue contains splits of failed readers.
    assert most < BUFFERED_SPLITS + ARRIVAL_SPLITS + (READERS if may_fail else 0)
    assert_no_thread_is_left()


def test_memory_is_that_of_the_buffer_not_of_the_table():
    def peak(partitions: int) -> int:
        with coordinator_of(MemoryConnector(partitions, 100), listing_threads=4) as coordinator:
            coordinator.register_reader("r")
            tracemalloc.start()
            read = 0
            while not isinstance(answer := coordinator.handle_split_request("r"), NoMoreSplits):
                if isinstance(answer, AssignedSplit):
                    coordinator.acknowledge([answer.split], "r")
                    read += 1
                elif isinstance(answer, WaitForSplits):
                    time.sleep(answer.delay_seconds)
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert read == partitions * 100
            return most

    small, large = peak(20), peak(120)
    # A finished split takes 16 bytes in the coordinator. As objects, 10,000 splits would take 8 MB.
    assert large - small < 10_000 * 16 * 2 + 2_000_000
