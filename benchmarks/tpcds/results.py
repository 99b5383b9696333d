"""Results of the TPC-DS benchmark, as JSON and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.results import Target
from benchmarks.tpcds.explained import is_pruned, reasons_not_to_prune
from benchmarks.tpcds.left_alone import JoinCounts
from benchmarks.tpcds.modes import MODES, SPLITLIB
from benchmarks.tpcds.overhead import Overhead
from benchmarks.tpcds.pruning import QueryRuns
from benchmarks.tpcds.summary import (
    Spread,
    bytes_read,
    cpu_seconds,
    seconds,
    spread,
    targets,
    total,
)

_MEGA = 1e6


@dataclass(frozen=True, slots=True)
class Results:
    """Results of all benchmarks at one scale."""

    scale: float
    rounds: int
    environment: Mapping[str, Any]
    queries: Sequence[QueryRuns]
    joins: Sequence[JoinCounts]
    overheads: Sequence[Overhead]

    @property
    def targets(self) -> list[Target]:
        """Performance targets of splitlib, with the measured values."""
        slowest = max(overhead.median for overhead in self.overheads)
        nothing = Target("seconds of planning where there is nothing to prune", slowest, 0.3)
        return [*targets(self.queries), nothing]

    def to_dict(self) -> dict[str, Any]:
        """Return all results, with every run, as plain values for JSON."""
        return {
            "environment": dict(self.environment),
            "scale": self.scale,
            "rounds": self.rounds,
            "targets": [{**asdict(target), "reached": target.reached} for target in self.targets],
            "queries": [
                {
                    "name": query.name,
                    "rows": query.rows,
                    "runs": [asdict(run) for run in query.runs],
                    "report": query.report.to_dict(),
                    "pruned": is_pruned(query.report),
                    "reasons": reasons_not_to_prune(query.report),
                }
                for query in self.queries
            ],
            "joins": [asdict(join) for join in self.joins],
            "overheads": [asdict(overhead) for overhead in self.overheads],
        }

    def markdown(self) -> str:
        """Return the results as Markdown tables of medians, with minimum and maximum."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield f"# TPC-DS at scale {self.scale:g}, {self.rounds} rounds"
        once = " and ".join(mode.name for mode in MODES if mode.once)
        yield f"\n{once}: the first round alone, and cold.\n"
        for target in self.targets:
            verdict = "reached" if target.reached else "**not reached**"
            yield f"- {target.text}: {target.value:.3g}, target <= {target.at_most:g}: {verdict}"
        yield from self._seconds("Seconds, cold", warm=False)
        yield from self._seconds("Seconds, warm", warm=True)
        yield from self._work()
        yield from self._not_pruned()
        yield from self._joins()
        yield from self._overheads()

    def _seconds(self, title: str, *, warm: bool) -> Iterator[str]:
        modes = [mode for mode in MODES if not (warm and mode.once)]
        yield from head(title, "query", "rows", *(mode.name for mode in modes))
        for query in self.queries:
            spreads = (spread(query, mode, seconds, warm=warm) for mode in modes)
            yield row(query.name, query.rows, *map(_spread, spreads))
        sums = (f"{total(self.queries, mode, seconds, warm=warm):.1f}" for mode in modes)
        yield row("all", "", *sums)

    def _work(self) -> Iterator[str]:
        modes = [mode.name for mode in MODES]
        yield from head(
            "Work, cold: partitions fetched by Spark, files listed by Spark, MB read, CPU seconds",
            "query",
            "partitions kept by splitlib",
            *modes,
        )
        for query in self.queries:
            cells = []
            for mode in MODES:
                cost = query.costs(mode, warm=False)[0]
                mega = spread(query, mode, bytes_read).median / _MEGA
                cpu = spread(query, mode, cpu_seconds).median
                cells.append(
                    f"{cost.partitions_fetched:,} / {cost.files_discovered:,} / "
                    f"{mega:.1f} / {cpu:.1f}"
                )
            yield row(query.name, _kept(query), *cells)

    def _not_pruned(self) -> Iterator[str]:
        left = [query for query in self.queries if not is_pruned(query.report)]
        yield f"\n## Pruned: {len(self.queries) - len(left)} of {len(self.queries)} queries\n"
        for query in left:
            reasons = "; ".join(reasons_not_to_prune(query.report))
            yield f"- {query.name}: {reasons or 'no reason is given'}"

    def _joins(self) -> Iterator[str]:
        yield from head(
            "Joins that Spark's DPP leaves alone: partitions of store_sales that are read",
            *("join", "rows", "of", "Spark's DPP", SPLITLIB.name, "why not"),
        )
        for join in self.joins:
            read = (join.partitions, join.read_by_spark, join.read_by_splitlib)
            yield row(join.title, join.rows, *read, "; ".join(join.reasons))

    def _overheads(self) -> Iterator[str]:
        yield from head("Nothing to prune: seconds of planning", "query", "seconds", "why not")
        for overhead in self.overheads:
            yield row(overhead.title, f"{overhead.median:.3f}", "; ".join(overhead.reasons))


def _kept(query: QueryRuns) -> str:
    kept = (
        # Partitions are not counted for a scan that is not read at all.
        "not read"
        if scan.partitions.total is None
        else f"{scan.partitions.matched:,} of {scan.partitions.total:,}"
        for scan in query.report.scans
        if scan.partitions.matched is not None
    )
    return ", ".join(dict.fromkeys(kept)) or "-"


def _spread(values: Spread) -> str:
    return f"{values.median:.2f} ({values.low:.2f}-{values.high:.2f})"


def head(title: str, *columns: str) -> Iterator[str]:
    """Yield the title of a table, its column names and the separator line."""
    yield f"\n## {title}\n"
    yield row(*columns)
    yield row("---", *("---:" for _ in columns[1:]))


def row(*cells: object) -> str:
    """Return one line of a table."""
    return f"| {' | '.join(f'{c:,}' if isinstance(c, int) else str(c) for c in cells)} |"
