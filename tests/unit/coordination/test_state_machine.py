"""Random calls to a coordinator have the same results as in a simple model of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from splitlib import InvalidFilter
from splitlib.coordination import prefetch
from splitlib.coordination.coordinator import (
    AssignedSplit,
    NoMoreSplits,
    RequestIgnored,
)
from splitlib.coordination.coordinator import DynamicFileSplitEnumerator as Coordinator
from splitlib.model import FileSplit
from tests.support.coordinators import ask, assert_no_thread_is_left, coordinator_of, keys
from tests.support.memory_connector import MemoryConnector, enumerator_of

PARTITIONS, FILES, THREADS = 12, 2, 2
ALL = frozenset(range(PARTITIONS))
READERS = st.sampled_from("abc")
SOME_KEYS = st.frozensets(st.integers(0, PARTITIONS - 1), min_size=PARTITIONS // 2)


@pytest.fixture(autouse=True)
def _most_of_the_table_lies_ahead(monkeypatch):
    """Use small buffers, so that filters arrive at every stage of the listing."""
    monkeypatch.setattr(prefetch, "BUFFERED_SPLITS", 6)
    monkeypatch.setattr(prefetch, "ARRIVAL_SPLITS", 4)


def new_connector() -> MemoryConnector:
    # A file of 25 bytes becomes three splits of different sizes.
    return MemoryConnector(PARTITIONS, FILES, size=25)


def enumerated(connector: MemoryConnector):
    return enumerator_of(connector, listing_threads=THREADS, target_split_bytes=10)


EVERY = {split.split_id: split for split in enumerated(new_connector()).enumerate_splits()}


def key_of(split: FileSplit) -> int:
    return int(split.partition_values["k"])


class Model:
    """The expected state of the coordinator, as a few sets."""

    def __init__(self) -> None:
        self.accepted = ALL
        self.by_producer: dict[str, frozenset[int]] = {}
        self.done: set[str] = set()
        self.held: dict[str, str] = {}
        """Readers that hold splits, by the name of the split."""

    def copy(self) -> Model:
        other = Model()
        other.accepted, other.by_producer = self.accepted, dict(self.by_producer)
        other.done, other.held = set(self.done), dict(self.held)
        return other

    def left(self) -> set[str]:
        """Return the names of splits that the coordinator must still assign."""
        wanted = {name for name, split in EVERY.items() if key_of(split) in self.accepted}
        return wanted - self.done - self.held.keys()

    def released(self, reader: str) -> None:
        self.held = {name: by for name, by in self.held.items() if by != reader}


class Coordination(RuleBasedStateMachine):
    """A test with requests, filters, failures, attempts, snapshots and restores in random order."""

    @initialize()
    def begin(self):
        self.connector = new_connector()
        self.started_from: bytes | None = None
        self.model = Model()
        self.attempts: dict[str, int] = {}
        """Current attempt of each registered reader."""
        self.latest: dict[str, int] = {}
        """Latest attempt of each reader, including readers that are no longer registered."""
        self.coordinator = self.started(self.connector)
        self.saved: tuple[bytes, Model] | None = None
        self.trace: list[tuple[Callable[..., object], tuple[object, ...], object]] = []
        self.listings_seen = 0
        self.since_filter: set[int] = set()

    # --- Calls of readers.

    @rule(reader=READERS)
    def register(self, reader):
        self.attempts[reader] = self.latest.setdefault(reader, 0)
        self.do(Coordinator.register_reader, reader, None, self.attempts[reader])

    @rule(reader=READERS)
    def start_a_newer_attempt(self, reader):
        self.attempts[reader] = self.latest[reader] = self.latest.get(reader, 0) + 1
        self.do(Coordinator.register_reader, reader, None, self.attempts[reader])
        self.model.released(reader)

    @precondition(lambda self: self.attempts)
    @rule(data=st.data(), times=st.integers(1, 8))
    def request(self, data, times):
        reader = data.draw(st.sampled_from(sorted(self.attempts)))
        for _ in range(times):
            match self.do(ask, reader):
                case AssignedSplit(split):
                    assert split == EVERY[split.split_id]
                    assert split.split_id in self.model.left()
                    self.model.held[split.split_id] = reader
                case NoMoreSplits():
                    assert self.model.left() == set()
                case other:
                    pytest.fail(f"{other} for a registered reader")

    @precondition(lambda self: self.model.held)
    @rule(data=st.data())
    def acknowledge(self, data):
        name = data.draw(st.sampled_from(sorted(self.model.held)))
        self.do(Coordinator.acknowledge, [EVERY[name]], self.model.held.pop(name))
        self.model.done.add(name)

    @precondition(lambda self: self.model.held)
    @rule(data=st.data())
    def fail_with_some_splits(self, data):
        reader = data.draw(st.sampled_from(sorted(set(self.model.held.values()))))
        lost = sorted(name for name, by in self.model.held.items() if by == reader)[:2]
        self.do(Coordinator.add_splits_back, [EVERY[name] for name in lost], reader)
        for name in lost:
            del self.model.held[name]

    @precondition(lambda self: self.attempts)
    @rule(data=st.data())
    def go(self, data):
        reader = data.draw(st.sampled_from(sorted(self.attempts)))
        self.do(Coordinator.remove_reader, reader)
        self.model.released(reader)
        assert isinstance(self.coordinator.handle_split_request(reader), RequestIgnored)
        del self.attempts[reader]

    # --- Calls that the coordinator must ignore.

    @precondition(lambda self: any(self.attempts.values()) and self.model.held)
    @rule(data=st.data())
    def an_older_attempt_speaks(self, data):
        reader = data.draw(st.sampled_from(sorted(r for r, n in self.attempts.items() if n)))
        older = self.attempts[reader] - 1
        answer = self.coordinator.handle_split_request(reader, attempt=older)
        assert isinstance(answer, RequestIgnored)
        every = [EVERY[name] for name in sorted(self.model.held)]
        self.do(Coordinator.acknowledge, every, reader, older)
        self.do(Coordinator.add_splits_back, every, reader, older)
        self.do(Coordinator.remove_reader, reader, older)
        self.do(Coordinator.register_reader, reader, None, older)

    @precondition(lambda self: self.model.held)
    @rule(data=st.data(), reader=READERS)
    def one_who_does_not_hold_it_speaks(self, data, reader):
        name = data.draw(st.sampled_from(sorted(self.model.held)))
        if self.model.held[name] != reader:
            self.do(Coordinator.acknowledge, [EVERY[name]], reader)
            self.do(Coordinator.add_splits_back, [EVERY[name]], reader)

    @rule()
    def a_stranger_speaks(self):
        assert isinstance(self.coordinator.handle_split_request("stranger"), RequestIgnored)

    # --- Filters.

    @rule(accepted=SOME_KEYS, producer=st.sampled_from(["x", "y", "z"]))
    def a_filter_arrives(self, accepted, producer):
        known = self.model.by_producer.setdefault(producer, accepted)
        event = keys(*sorted(accepted), producer=producer)
        if known != accepted:
            with pytest.raises(InvalidFilter):
                self.coordinator.handle_source_event(event)
            return
        self.do(Coordinator.handle_source_event, event)
        self.listings_seen = len(self.connector.listed)
        self.model.accepted &= accepted

    # --- Checkpoints, restores and the end of the coordinator.

    @rule()
    def save(self):
        self.saved = self.coordinator.snapshot_state(), self.model.copy()

    @rule()
    def save_and_go_on(self):
        self.save()
        self.die_and_go_on()

    @precondition(lambda self: self.saved is not None)
    @rule()
    def die_and_go_on(self):
        assert self.saved is not None
        self.started_from, self.model = self.saved[0], self.saved[1].copy()
        self.model.held.clear()
        self.coordinator.close()
        self.attempts.clear()
        self.latest.clear()
        self.connector, self.listings_seen = new_connector(), 0
        self.coordinator = self.started(self.connector)
        self.trace = []

    # --- Conditions that are checked after each step.

    @invariant()
    def nothing_is_listed_that_could_have_been_pruned(self):
        """Partitions that a filter drops are not listed, except in listings that had begun."""
        listed = self.connector.listed[self.listings_seen :]
        assert sum(k not in self.model.accepted for k in listed) <= THREADS
        assert len(set(self.connector.listed)) == len(self.connector.listed)

    @invariant()
    def it_is_finished_when_all_is_acknowledged(self):
        assert self.coordinator.unacknowledged_splits == len(self.model.held)
        if self.coordinator.finished:
            assert not self.model.left()
            assert not self.model.held

    def teardown(self):
        if not hasattr(self, "coordinator"):
            return
        for reader in sorted(self.attempts):
            self.do(Coordinator.remove_reader, reader)
            self.model.released(reader)
        self.do(Coordinator.register_reader, "last")
        while isinstance(answer := self.do(ask, "last"), AssignedSplit):
            assert answer.split.split_id in self.model.left()
            self.do(Coordinator.acknowledge, [answer.split], "last")
            self.model.done.add(answer.split.split_id)
        assert self.model.left() == set()
        assert self.coordinator.finished
        self.coordinator.close()
        # Repeat all steps. Their results must not depend on how fast the files are listed.
        with self.started(new_connector()) as again:
            for function, arguments, result in self.trace:
                assert function(again, *arguments) == result
        assert_no_thread_is_left()

    def started(self, connector: MemoryConnector) -> Coordinator:
        if self.started_from is None:
            return Coordinator(enumerated(connector))
        return Coordinator.restore(self.started_from, enumerated(connector))

    def do(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function with the coordinator, and record the call so that it can be repeated."""
        result = function(self.coordinator, *arguments)
        self.trace.append((function, arguments, result))
        return result


TestCoordination = Coordination.TestCase
TestCoordination.settings = settings(
    max_examples=20,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def test_the_model_knows_the_table():
    assert len(EVERY) == PARTITIONS * FILES * 3
    with coordinator_of(new_connector(), target_split_bytes=10) as coordinator:
        coordinator.register_reader("r")
        assert ask(coordinator) == AssignedSplit(next(iter(EVERY.values())))
