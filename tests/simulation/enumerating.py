"""A scenario with one enumeration, while filters arrive and other threads cancel the scan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from splitlib.enumeration.enumerator import DynamicFileEnumerator
from tests.simulation.setting import Setting
from tests.simulation.table_model import Filter
from tests.simulation.users import Producer, attempt, change_table, described


def enumerate_concurrently(setting: Setting) -> None:
    """Enumerate one table while other threads send filters, change the table or cancel the scan."""
    random = setting.random
    scan, enumerator = setting.enumerator()

    def deliver(sent: Filter, producer: str | None) -> None:
        attempt(
            setting,
            "deliver",
            lambda: enumerator.set_dynamic_filtering_data(sent.data, producer),
            scan=scan,
            producer=producer,
            filter=sent,
        )

    for number in range(random.choice([0, 1, 1, 2, 3])):
        producer = Producer(setting, f"p{number}" if random.random() < 0.8 else None, deliver)
        if producer.name and random.random() < 0.6:
            announce(setting, scan, enumerator, producer.name)
        setting.start("producer", producer)
    if random.random() < 0.4:
        setting.start("changes", lambda: change_table(setting))
    if random.random() < 0.2:
        setting.start("canceller", lambda: cancel(setting, scan, enumerator))
    for _ in range(random.choice([1, 1, 2])):
        setting.sleep_up_to(0.5)
        consume(setting, scan, enumerator)


def announce(setting: Setting, scan: int, enumerator: Any, producer: str) -> None:
    """Announce a filter on random fields, some of which cannot prune."""
    fields = setting.random.choice([None, ["K"], ["k", "z"], ["z"]])
    attempt(
        setting,
        "announce",
        lambda: enumerator.announce_dynamic_filter(producer, fields),
        scan=scan,
        producer=producer,
        useless=fields == ["z"],
    )


def cancel(setting: Setting, scan: int, enumerator: DynamicFileEnumerator) -> None:
    setting.sleep_up_to(3)
    attempt(setting, "cancel", enumerator.cancel, scan=scan)


def consume(setting: Setting, scan: int, enumerator: DynamicFileEnumerator) -> None:
    """Run one enumeration, close it early at random, and record each step in the history."""
    random = setting.random
    how = random.choice(list(_WAYS))
    closes_after = random.choice([None, None, None, 0, 1, 3])
    whole = setting.history.begin("enumerate", scan=scan, how=how)
    found = _WAYS[how](enumerator)
    taken = 0
    while taken != closes_after:
        if random.random() < 0.3:
            setting.sleep_up_to(2)
        step = setting.history.begin("next", scan=scan, how=how, of=whole.begin.number)
        try:
            answer = next(found)
        except StopIteration:
            setting.history.end(step, answer=None)
            metrics = enumerator.metrics
            setting.history.end(whole, outcome="complete", metrics=metrics)
            return
        except Exception as error:
            setting.history.end(step, **described(error))
            setting.history.end(whole, outcome="error", **described(error))
            return
        setting.history.end(step, answer=answer)
        taken += 1
    attempt(setting, "close iterator", found.close, scan=scan)
    setting.history.end(whole, outcome="closed")


def _splits(enumerator: DynamicFileEnumerator) -> Iterator[list[tuple[str, int, int]]]:
    for split in enumerator.enumerate_splits():
        yield [(split.path, split.start, split.length)]


def _files(enumerator: DynamicFileEnumerator) -> Iterator[list[tuple[str, int, int]]]:
    for selected in enumerator.select_files():
        files = selected.files.files
        yield [
            (p, 0, n)
            for p, n in zip(*(files[c].to_pylist() for c in ("path", "size")), strict=True)
        ]


def _partitions(enumerator: DynamicFileEnumerator) -> Iterator[list[tuple[int, bool]]]:
    for batch in enumerator.select_partitions():
        yield [(int(k), True) for k in batch.values["k"].to_pylist()]


def _matches(enumerator: DynamicFileEnumerator) -> Iterator[list[tuple[int, bool]]]:
    for batch, flags in enumerator.match_partitions():
        yield [
            (int(k), f)
            for k, f in zip(batch.values["k"].to_pylist(), flags.to_pylist(), strict=True)
        ]


_WAYS: dict[str, Callable[[DynamicFileEnumerator], Any]] = {
    "splits": _splits,
    "files": _files,
    "partitions": _partitions,
    "matches": _matches,
}
