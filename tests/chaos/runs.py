"""Run a fault test once: enumerate a table while a fault strikes, and check the outcome."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import splitlib
from splitlib import DynamicFileEnumerator, DynamicFilteringData, SplitConfig, SplitlibError
from splitlib.coordination.coordinator import (
    AssignedSplit,
    DynamicFileSplitEnumerator,
    WaitForSplits,
)
from splitlib.model import FileSplit
from tests.chaos.subjects import Access, KnownFile, Subject

SLACK_SECONDS = 1.0
"""Seconds by which a step may exceed its deadline, on a busy machine."""
_CLOSE_SECONDS = 0.5


class Step(NamedTuple):
    """A part of a run that must end before a deadline."""

    seconds: float
    deadline: float

    @property
    def is_late(self) -> bool:
        """Whether the step ended after its deadline plus ``SLACK_SECONDS``."""
        return self.seconds > self.deadline + SLACK_SECONDS


class WrongSplits(Exception):
    """Raised if splitlib returned wrong splits without an error."""


@dataclass
class Outcome:
    """The outcome of one run of a fault test."""

    seed: int
    struck: int = 0
    steps: list[Step] = field(default_factory=list)
    error: SplitlibError | None = None
    different: str = ""
    """Description of wrong splits. Empty if they are right."""
    violation: str = ""
    """Description of any other violation. Empty without a violation."""

    @property
    def is_complete(self) -> bool:
        """Whether the run ended with the right splits."""
        return not (self.error or self.different or self.violation)

    @contextmanager
    def timed(self, deadline: float) -> Iterator[None]:
        """Measure the ``with`` block as a step with a deadline."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.steps.append(Step(time.monotonic() - started, deadline))
            if self.steps[-1].is_late:
                self.violation = f"{self.steps[-1].seconds:.2f} s, deadline {deadline:g} s"


def run(subject: Subject, stage: str, access: Access, seed: int, rng: random.Random) -> Outcome:
    """Enumerate a table with a random filter, while a fault strikes at one stage.

    Args:
        subject: The table.
        stage: Stage of the enumeration at which the fault strikes.
        access: Access to the table with the fault.
        seed: Seed of the run, for the outcome.
        rng: Random numbers of the run.
    """
    outcome = Outcome(seed)
    keys = _drawn_filter(subject, rng)
    try:
        restored = stage == "restore"
        read = (_through_two_coordinators if restored else _in_one_go)(
            subject, stage, access, keys, outcome, rng
        )
        _compare(read, _expected(subject, keys))
    except SplitlibError as error:
        outcome.error = error
        if (error.connector, error.table) != (subject.connector, subject.table):
            outcome.violation = f"an error that does not say where: {error!r}"
    except WrongSplits as difference:
        outcome.different = str(difference)
    except BaseException as error:
        outcome.violation = f"{type(error).__name__}: {error}"
    outcome.struck = access.strikes.struck
    return outcome


def _in_one_go(
    subject: Subject,
    stage: str,
    access: Access,
    keys: DynamicFilteringData,
    outcome: Outcome,
    rng: random.Random,
) -> list[FileSplit]:
    access.strikes.armed = stage == "open"
    with _opened(subject, access, outcome) as table:
        access.strikes.armed = stage != "open"
        enumerator = DynamicFileEnumerator(table, subject.config)
        enumerator.set_dynamic_filtering_data(keys)
        with outcome.timed(subject.config.enumeration_deadline_seconds):
            return list(enumerator.enumerate_splits())


def _through_two_coordinators(
    subject: Subject,
    stage: str,
    access: Access,
    keys: DynamicFilteringData,
    outcome: Outcome,
    rng: random.Random,
) -> list[FileSplit]:
    """Read some splits from a coordinator, and the rest from one restored from its checkpoint.

    The fault strikes only after the restore begins.
    """
    access.strikes.armed = False
    with (
        _opened(subject, access, outcome) as table,
        _coordinator(table, keys, subject.config) as coordinator,
    ):
        taken = list(_taken(coordinator, rng.randrange(8)))
        done = taken[: rng.randint(0, len(taken))]
        coordinator.acknowledge(done, "reader")
        state = coordinator.snapshot_state()
    access.strikes.armed = True
    with (
        _opened(subject, access, outcome) as table,
        outcome.timed(subject.config.enumeration_deadline_seconds),
        DynamicFileSplitEnumerator.restore(
            state, DynamicFileEnumerator(table, subject.config)
        ) as restored,
    ):
        restored.register_reader("reader")
        return [*done, *_taken(restored)]


@contextmanager
def _opened(subject: Subject, access: Access, outcome: Outcome) -> Iterator[splitlib.Table]:
    with outcome.timed(subject.config.call_deadline_seconds):
        table = splitlib.load_table(
            subject.table, subject.connector, config=subject.config, **access.options
        )
    try:
        yield table
    finally:
        with outcome.timed(_CLOSE_SECONDS):
            table.close()


def _coordinator(
    table: splitlib.Table, keys: DynamicFilteringData, config: SplitConfig
) -> DynamicFileSplitEnumerator:
    enumerator = DynamicFileEnumerator(table, config)
    enumerator.set_dynamic_filtering_data(keys)
    coordinator = DynamicFileSplitEnumerator(enumerator)
    coordinator.register_reader("reader")
    return coordinator


def _taken(coordinator: DynamicFileSplitEnumerator, most: int | None = None) -> Iterator[FileSplit]:
    """Yield the splits that a coordinator assigns to a reader, up to a maximum number."""
    until = time.monotonic() + coordinator.enumerator.config.enumeration_deadline_seconds
    until += 2 * SLACK_SECONDS
    count = 0
    while (most is None or count < most) and time.monotonic() < until:
        match coordinator.handle_split_request("reader"):
            case AssignedSplit(split):
                count += 1
                yield split
            case WaitForSplits(delay):
                time.sleep(delay)
            case _:
                return


def _drawn_filter(subject: Subject, rng: random.Random) -> DynamicFilteringData:
    files = list(subject.files.values())
    column = rng.choice(sorted(files[0].matches))
    values = sorted({file.matches[column] for file in files})
    return DynamicFilteringData.from_values(
        {column: rng.sample(values, rng.randint(1, len(values)))}
    )


def _expected(subject: Subject, keys: DynamicFilteringData) -> dict[str, KnownFile]:
    (column,) = keys.fields
    return {
        path: file
        for path, file in subject.files.items()
        if keys.contains({column: file.matches[column]})
    }


def _compare(splits: Iterable[FileSplit], expected: Mapping[str, KnownFile]) -> None:
    """Check that the splits cover each byte of the expected files once, and no other files.

    Raises:
        WrongSplits: The splits are wrong.
    """
    ranges: dict[str, list[tuple[int, int]]] = {}
    known: dict[str, Any] = {}
    for split in splits:
        ranges.setdefault(split.path, []).append((split.start, split.length))
        deletes = tuple(delete.path for delete in split.deletes)
        known[split.path] = split.file_size, dict(split.partition_values), deletes
    missing, more = expected.keys() - ranges.keys(), ranges.keys() - expected.keys()
    if missing or more:
        raise WrongSplits(f"missing {sorted(missing)}, too many {sorted(more)}")
    for path, file in expected.items():
        end = 0
        for start, length in sorted(ranges[path]):
            if start != end:
                raise WrongSplits(f"{path} is read by {Counter(ranges[path])}")
            end += length
        if end != file.size or known[path] != (file.size, dict(file.values), file.deletes):
            raise WrongSplits(f"{path} is {known[path]} up to {end}, not {file}")
