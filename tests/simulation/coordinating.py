"""A scenario in which readers share a coordinator, which assigns splits to them.

Readers fail and register again. The coordinator is closed, killed or restored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from splitlib.coordination.assigners import (
    FifoAssigner,
    LargestFirstAssigner,
    LocalityAssigner,
    SplitAssigner,
)
from splitlib.coordination.coordinator import (
    AssignedSplit,
    DynamicFileSplitEnumerator,
    NoMoreSplits,
    RequestIgnored,
    WaitForSplits,
)
from splitlib.filtering.data import DynamicFilteringEvent
from splitlib.model import FileSplit
from tests.simulation.enumerating import announce
from tests.simulation.setting import Setting
from tests.simulation.table_model import Filter
from tests.simulation.users import Producer, attempt, change_table

# Limit for the time without an event. It is longer than every delay of a connector call.
_MOST_SILENCE_SECONDS = 200.0
_LAST = "last"
_ASSIGNERS: list[type[SplitAssigner]] = [FifoAssigner, LocalityAssigner, LargestFirstAssigner]


def coordinate(setting: Setting) -> None:
    """Run readers and a coordinator until all splits are read."""
    random = setting.random
    cluster = Cluster(setting)
    for number in range(random.choice([0, 1, 1, 2])):
        producer = Producer(
            setting, f"p{number}" if random.random() < 0.8 else None, cluster.deliver
        )
        if producer.name and random.random() < 0.6:
            announce(setting, cluster.scan, cluster.coordinator, producer.name)
        setting.start("producer", producer)
    if random.random() < 0.4:
        setting.start("changes", lambda: change_table(setting))
    for number in range(random.randint(1, 4)):
        setting.start(f"reader{number}", Reader(cluster, f"r{number}"))
    if random.random() < 0.5:
        setting.start("checkpoints", lambda: checkpoints(cluster))
    if random.random() < 0.1:
        setting.start("closer", lambda: close(cluster))
    setting.scheduler.sleep(random.choice([0.1, 1, 5]) * random.random())
    cluster.ends = True
    setting.join()
    drain(cluster)


class Cluster:
    """The current coordinator. Its calls are recorded in the history."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.ends = False
        """Whether readers must stop."""
        self.attempts: dict[str, int] = {}
        self.handed: list[FileSplit] = []
        """Splits assigned to readers by this coordinator and by earlier ones."""
        self._assigner = setting.random.choice(_ASSIGNERS)
        self.scan, enumerator = setting.enumerator()
        self.coordinator = DynamicFileSplitEnumerator(enumerator, self._assigner())

    def restore(self, state: bytes, snapshot: int) -> None:
        """Replace the coordinator with one restored from a checkpoint, as after a crash."""
        scan, enumerator = self.setting.enumerator()
        restored = attempt(
            self.setting,
            "restore",
            lambda: DynamicFileSplitEnumerator.restore(state, enumerator, self._assigner()),
            scan=scan,
            snapshot=snapshot,
            killed=self.scan,
        )
        assert restored is not None, self.setting.history
        if self.setting.random.random() < 0.5:
            # With a reference cycle, only the garbage collector frees the coordinator.
            vars(self.coordinator)["itself"] = self.coordinator
        self.scan, self.coordinator = scan, restored

    def refuses(self, state: bytes) -> None:
        """Try to restore a coordinator from damaged bytes."""
        _, enumerator = self.setting.enumerator()
        attempt(
            self.setting,
            "restore damaged",
            lambda: DynamicFileSplitEnumerator.restore(state, enumerator) and None,
        )

    def deliver(self, sent: Filter, producer: str | None) -> None:
        event = DynamicFilteringEvent(sent.data, producer)
        self.do("deliver", "handle_source_event", event, producer=producer, filter=sent)

    def do(self, kind: str, method: str, *arguments: Any, **data: Any) -> Any:
        """Call a method of the current coordinator, and record the call in the history."""
        # No variable may refer to the coordinator. Otherwise a killed coordinator is not freed.
        call = lambda: getattr(self.coordinator, method)(*arguments)  # noqa: E731
        return attempt(self.setting, kind, call, scan=self.scan, **data)


class Reader:
    """A reader that requests splits, and reads them or fails."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name
        self._attempt = cluster.attempts[name] = cluster.attempts.get(name, -1) + 1
        self._scan = 0
        self._held: list[FileSplit] = []

    def __call__(self) -> None:
        cluster, setting, random = (
            self._cluster,
            self._cluster.setting,
            self._cluster.setting.random,
        )
        waited = 0
        setting.sleep_up_to(0.5)
        while not cluster.ends:
            if cluster.scan != self._scan:
                self._held = []
                self._scan = cluster.scan
                self._register()
            answer = self._request()
            match answer:
                case AssignedSplit(split):
                    waited = 0
                    self._held.append(split)
                    cluster.handed.append(split)
                    if not self._go_on():
                        return
                case WaitForSplits(seconds):
                    waited += 1
                    setting.scheduler.sleep(
                        seconds * random.choice([waited > 20, 1, 2, 5 * waited])
                    )
                case NoMoreSplits() if not self._held:
                    setting.sleep_up_to(4)
                    if random.random() < 0.3:
                        return
                case RequestIgnored() | None:
                    if random.random() < 0.5:
                        return
                    setting.sleep_up_to(3)
                    self._register()
            if self._held and random.random() < 0.35:
                self._acknowledge(self._some())

    def _request(self) -> Any:
        host = self._cluster.setting.random.choice([None, "host0", "HOST1"])
        return self._do("request", "handle_split_request", self._name, host, self._attempt)

    def _register(self) -> None:
        host = self._cluster.setting.random.choice([None, "host1"])
        self._do("register", "register_reader", self._name, host, self._attempt)

    def _acknowledge(self, some: list[FileSplit]) -> None:
        self._held = [split for split in self._held if split not in some]
        self._do("acknowledge", "acknowledge", some, self._name, self._attempt, splits=_ids(some))

    def _some(self) -> list[FileSplit]:
        return self._held[: self._cluster.setting.random.randint(1, len(self._held))]

    def _go_on(self) -> bool:
        """Read a split or fail at random. Return whether this attempt continues."""
        setting, random = self._cluster.setting, self._cluster.setting.random
        setting.sleep_up_to(0.5)
        chance = random.random()
        if chance < 0.08:
            some = self._some()
            if random.random() < 0.7:  # otherwise the reader may acknowledge them later by mistake
                self._held = [split for split in self._held if split not in some]
            self._do(
                "give back", "add_splits_back", some, self._name, self._attempt, splits=_ids(some)
            )
        elif chance < 0.14:
            if random.random() < 0.7:
                self._held = []
            which = random.choice([None, self._attempt])
            self._do("remove", "remove_reader", self._name, which, attempt=which)
            self._register()
        elif chance < 0.22:
            # A newer attempt of the same reader starts, and the old attempt may continue.
            setting.start(f"{self._name} again", Reader(self._cluster, self._name))
            return random.random() < 0.6
        elif chance < 0.25:
            return False  # the reader fails without being removed from the coordinator
        elif chance < 0.28:
            # The split may belong to another reader.
            self._acknowledge([random.choice(self._cluster.handed)])
        return True

    def _do(self, kind: str, method: str, *arguments: Any, **data: Any) -> Any:
        told = {"reader": self._name, "attempt": self._attempt, **data}
        return self._cluster.do(kind, method, *arguments, **told)


def checkpoints(cluster: Cluster) -> None:
    """Take checkpoints, and sometimes kill the coordinator and restore it."""
    setting, random = cluster.setting, cluster.setting.random
    taken: list[tuple[int, bytes]] = []
    pace = random.choice([0.1, 1, 3])
    for _ in range(random.randint(1, 5)):
        setting.sleep_up_to(pace)
        number = len(taken)
        state: bytes = cluster.do("snapshot", "snapshot_state", name=number)
        taken.append((number, state))
        if random.random() < 0.2:
            cluster.refuses(damaged(state, setting))
        if random.random() < 0.5 and not cluster.ends:
            setting.sleep_up_to(pace)
            number, state = taken[-1] if random.random() < 0.8 else random.choice(taken)
            cluster.restore(state, number)


def damaged(state: bytes, setting: Setting) -> bytes:
    """Return a copy of a checkpoint that is truncated or has one changed bit."""
    random = setting.random
    place = random.randrange(len(state))
    if random.random() < 0.5:
        return state[:place]
    return state[:place] + bytes([state[place] ^ 1 << random.randrange(8)]) + state[place + 1 :]


def close(cluster: Cluster) -> None:
    cluster.setting.sleep_up_to(6)
    cluster.do("close", "close")


def drain(cluster: Cluster) -> None:
    """Remove all readers, and read the remaining splits with a new one."""
    setting = cluster.setting
    for name in cluster.attempts:
        cluster.do("remove", "remove_reader", name, reader=name, attempt=None)
    told = {"reader": _LAST, "attempt": 0}
    cluster.do("register", "register_reader", _LAST, None, 0, **told)
    while True:
        match cluster.do("request", "handle_split_request", _LAST, None, 0, **told):
            case AssignedSplit(split):
                cluster.do(
                    "acknowledge", "acknowledge", [split], _LAST, 0, splits=_ids([split]), **told
                )
            case WaitForSplits(seconds):
                silence = setting.scheduler.now - setting.history.progressed_at
                if silence > _MOST_SILENCE_SECONDS:
                    setting.scheduler.fail(f"nothing happens.\n{setting.scheduler.stacks()}")
                setting.scheduler.sleep(seconds + silence / 4)
            case NoMoreSplits():
                finished = cluster.coordinator.finished
                setting.history.note("drained", scan=cluster.scan, finished=finished)
                break
            case _:
                break
    if setting.random.random() < 0.7:
        cluster.do("close", "close")
    del cluster.coordinator


def _ids(splits: Iterable[FileSplit]) -> list[tuple[str, int, int]]:
    return [(split.path, split.start, split.length) for split in splits]
