"""Contenders run in turns, so that what the machine does besides hits all of them alike."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Sample(NamedTuple):
    """One run of one contender."""

    value: float
    """In the unit of its comparison."""
    counts: Mapping[str, int] = {}
    """What it did, such as files listed; the same in every run."""


@dataclass(frozen=True, slots=True)
class Contender:
    """Something to be measured."""

    name: str
    run: Callable[[], Sample]
    """Prepares what it needs, off the clock, and measures itself once."""
    settings: Mapping[str, str] = field(default_factory=dict)
    may_fail: bool = False
    """Whether failing is a result, as of a peer that is pushed beyond its limits."""


@dataclass(frozen=True, slots=True)
class Measured:
    """All runs of one contender."""

    name: str
    settings: Mapping[str, str]
    samples: tuple[float, ...]
    counts: Mapping[str, int]
    error: str | None
    """Why it failed; then there may be no samples."""

    @property
    def median(self) -> float:
        """Median of the samples."""
        return statistics.median(self.samples)


def in_turns(title: str, contenders: Sequence[Contender], repeat: int) -> list[Measured]:
    """Run A B C, C B A, A B C … and so on.

    Every second round runs backwards, so that no contender always follows the one that leaves most
    garbage behind.

    Raises:
        RuntimeError: A contender did not do the same in each round.
    """
    samples: dict[str, list[Sample]] = {contender.name: [] for contender in contenders}
    errors: dict[str, str] = {}
    for turn in range(repeat):
        for contender in contenders if turn % 2 == 0 else reversed(contenders):
            name = contender.name
            if name in errors:
                continue
            try:
                samples[name].append(contender.run())
            except Exception as error:  # of any class: a peer's failure is part of the result
                if not contender.may_fail:
                    raise
                errors[name] = str(error).strip().partition("\n")[0]
            told = errors.get(name) or f"{samples[name][-1].value:.4g}"
            print(f"{title}, round {turn + 1} of {repeat}, {name}: {told}", file=sys.stderr)
            if any(sample.counts != samples[name][0].counts for sample in samples[name]):
                raise RuntimeError(f"{name} does not do the same each time: {samples[name]}")
    return [
        Measured(
            contender.name,
            contender.settings,
            tuple(sample.value for sample in samples[contender.name]),
            samples[contender.name][0].counts if samples[contender.name] else {},
            errors.get(contender.name),
        )
        for contender in contenders
    ]


def timed(call: Callable[[], object]) -> Sample:
    """The seconds that ``call`` takes."""
    started = time.perf_counter()
    call()
    return Sample(time.perf_counter() - started)
