"""Run contenders in turns, so that other load on the machine slows all of them equally."""

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
    """Measured value, in the unit of the comparison."""
    counts: Mapping[str, int] = {}
    """Counts of the work done, such as files listed. They must be the same in every run."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A program or query that a benchmark measures and compares with others."""

    name: str
    run: Callable[[], Sample]
    """Function that prepares one run, measures it, and returns the sample.

    The preparation is not part of the measured time.
    """
    settings: Mapping[str, str] = field(default_factory=dict)
    may_fail: bool = False
    """Whether a failure is a result. Another tool may fail on input beyond its limits."""


@dataclass(frozen=True, slots=True)
class Measured:
    """All runs of one contender."""

    name: str
    settings: Mapping[str, str]
    samples: tuple[float, ...]
    counts: Mapping[str, int]
    error: str | None
    """First line of the error message if a run failed, else None.

    After a failure, ``samples`` may be empty.
    """

    @property
    def median(self) -> float:
        """The median of the samples."""
        return statistics.median(self.samples)


def in_turns(title: str, contenders: Sequence[Contender], repeat: int) -> list[Measured]:
    """Run all contenders once per round, every second round in reverse order.

    If the order were always the same, a contender would always pay for the garbage of the same
    other contender.

    Raises:
        RuntimeError: The counts of a contender differ between rounds.
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
            except Exception as error:  # Another tool may raise any exception.
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
    """Return the seconds that a call takes."""
    started = time.perf_counter()
    call()
    return Sample(time.perf_counter() - started)
