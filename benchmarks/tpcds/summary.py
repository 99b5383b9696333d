"""Medians, totals and targets of the measured runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.results import Target
from benchmarks.tpcds.explained import is_pruned
from benchmarks.tpcds.metering import Cost
from benchmarks.tpcds.modes import BASELINE, SHIPPED, SPLITLIB, SPLITLIB_TUNED, TUNED, Mode
from benchmarks.tpcds.pruning import QueryRuns

Quantity = Callable[[Cost], float]


def seconds(cost: Cost) -> float:
    """Return the elapsed time, in seconds."""
    return cost.seconds


def cpu_seconds(cost: Cost) -> float:
    """Return the CPU time of tasks, in seconds."""
    return cost.cpu_seconds


def bytes_read(cost: Cost) -> float:
    """Return the number of bytes that tasks read."""
    return cost.bytes_read


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, minimum and maximum of several runs."""

    median: float
    low: float
    high: float


def spread(query: QueryRuns, mode: Mode, quantity: Quantity, *, warm: bool = False) -> Spread:
    """Return median, minimum and maximum of a quantity over the rounds of one query and mode."""
    values = [quantity(cost) for cost in query.costs(mode, warm=warm)]
    return Spread(statistics.median(values), min(values), max(values))


def total(
    queries: Iterable[QueryRuns], mode: Mode, quantity: Quantity, *, warm: bool = False
) -> float:
    """Return the sum of the queries' medians."""
    return sum(spread(query, mode, quantity, warm=warm).median for query in queries)


def targets(queries: Sequence[QueryRuns]) -> Iterator[Target]:
    """Yield the performance targets of splitlib for these queries."""
    more = [
        spread(query, SPLITLIB, bytes_read).median / spread(query, SHIPPED, bytes_read).median
        for query in queries
    ]
    yield Target("bytes read by splitlib / by Spark's DPP, the worst query", max(more), 1.0)
    if pruned := [query for query in queries if is_pruned(query.report)]:
        text = f"bytes read by splitlib / without DPP, {len(pruned)} pruned queries"
        read = total(pruned, SPLITLIB, bytes_read)
        yield Target(text, read / total(pruned, BASELINE, bytes_read), 0.34)
    for ours, theirs, warm, at_most in (
        (SPLITLIB, SHIPPED, False, 0.5),
        (SPLITLIB_TUNED, TUNED, False, 1.0),
        (SPLITLIB_TUNED, TUNED, True, 1.05),
    ):
        text = f"seconds of {ours.name} / {theirs.name}, {'warm' if warm else 'cold'}, all queries"
        spent = total(queries, ours, seconds, warm=warm)
        yield Target(text, spent / total(queries, theirs, seconds, warm=warm), at_most)
