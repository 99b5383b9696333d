"""Results of the TPC-DS benchmark on S3, as JSON and as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.results import Target
from benchmarks.tpcds.modes import SPLITLIB_TUNED, TUNED
from benchmarks.tpcds.on_s3 import S3QueryRuns, S3Run
from benchmarks.tpcds.results import head, row
from benchmarks.tpcds.summary import Spread

_MEGA = 1e6
_MODES = (TUNED.name, SPLITLIB_TUNED.name)
Quantity = Callable[[S3Run], float]


def _seconds(run: S3Run) -> float:
    return run.cost.seconds


def _requests(run: S3Run) -> float:
    return run.requests.listings + run.requests.others


@dataclass(frozen=True, slots=True)
class S3Results:
    """Results of all queries at one scale."""

    scale: float
    rounds: int
    slots: int
    delay_milliseconds: int
    server: str
    environment: Mapping[str, Any]
    queries: Sequence[S3QueryRuns]

    @property
    def targets(self) -> list[Target]:
        """Targets for the ratios of splitlib's totals to Spark's, over all queries."""
        return [
            Target(f"{what} of {_MODES[1]} / {_MODES[0]}, {len(self.queries)} queries", r, at_most)
            for what, r, at_most in (
                ("seconds", self.ratio(_seconds).median, 0.4),
                ("requests", self.ratio(_requests).median, 0.3),
            )
        ]

    def ratio(self, quantity: Quantity) -> Spread:
        """Return the ratio of splitlib's total to Spark's, as median and range over the rounds."""
        ratios = []
        for turn in range(self.rounds):
            theirs, ours = (
                sum(quantity(run) for run in self._runs(mode) if run.round == turn)
                for mode in _MODES
            )
            ratios.append(ours / theirs)
        return Spread(statistics.median(ratios), min(ratios), max(ratios))

    def to_dict(self) -> dict[str, Any]:
        """Return all results, with every run, as plain values for JSON."""
        return {
            **{key: value for key, value in asdict(self).items() if key != "queries"},
            "targets": [{**asdict(target), "reached": target.reached} for target in self.targets],
            "queries": [asdict(query) for query in self.queries],
        }

    def markdown(self) -> str:
        """Return medians as Markdown."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield f"# TPC-DS on S3 at scale {self.scale:g}, {self.rounds} rounds, cold"
        yield f"\n{self.server}, {self.delay_milliseconds} ms a request, {self.slots} task slots.\n"
        for target in self.targets:
            verdict = "reached" if target.reached else "**not reached**"
            yield f"- {target.text}: {target.value:.3g}, target <= {target.at_most:g}: {verdict}"
        for what, quantity in (("seconds", _seconds), ("requests", _requests)):
            r = self.ratio(quantity)
            yield f"- {what}, by round: {r.median:.3f} ({r.low:.3f}-{r.high:.3f})"
        yield from head(
            f"{_MODES[0]} / {_MODES[1]}",
            *("query", "rows", "seconds", "requests", "listings", "HEAD", "GET", "MB", "ratio"),
        )
        for query in self.queries:
            yield row(query.name, query.rows, *_cells(query.runs))
        yield row("all", "", *_cells([run for query in self.queries for run in query.runs]))

    def _runs(self, mode: str) -> Iterator[S3Run]:
        for query in self.queries:
            yield from (run for run in query.runs if run.mode == mode)


def _cells(runs: Sequence[S3Run]) -> Iterator[str]:
    """Yield the table cells of some runs: medians over the rounds for each mode, then ratios."""
    columns: tuple[tuple[Quantity, str], ...] = (
        (_seconds, ".1f"),
        (_requests, ",.0f"),
        (lambda run: run.requests.listings, ",.0f"),
        (lambda run: run.requests.heads, ",.0f"),
        (lambda run: run.requests.reads, ",.0f"),
        (lambda run: run.requests.bytes_sent / _MEGA, ",.1f"),
    )
    for quantity, form in columns:
        yield " / ".join(f"{_total(runs, mode, quantity):{form}}" for mode in _MODES)
    yield ", ".join(
        f"{_total(runs, _MODES[1], quantity) / _total(runs, _MODES[0], quantity):.2f}"
        for quantity in (_seconds, _requests)
    )


def _total(runs: Sequence[S3Run], mode: str, quantity: Quantity) -> float:
    by_round: dict[int, float] = {}
    for run in runs:
        if run.mode == mode:
            by_round[run.round] = by_round.get(run.round, 0.0) + quantity(run)
    return statistics.median(by_round.values())
