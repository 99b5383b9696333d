"""Results of the S3 listing benchmark, as JSON and as a table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class Runs:
    """All runs of one contender in one case. Lists have one item for each run."""

    requests: list[int] = field(default_factory=list)
    """Number of listing requests, counted by the proxy."""
    others: list[int] = field(default_factory=list)
    """Number of other requests."""
    in_flight: list[int] = field(default_factory=list)
    """Maximum number of concurrent requests."""
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    answer_seconds: list[float] = field(default_factory=list)
    """Average time from a request to its response, in seconds."""
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the runs as plain values for JSON."""
        return asdict(self)


@dataclass(slots=True)
class CaseResult:
    """All contenders' runs in one case."""

    name: str
    matching: int
    least: int
    """Smallest possible number of listing requests."""
    threads: int
    latency_seconds: float
    runs: dict[str, Runs]

    def ideal_seconds(self, requests: float) -> float:
        """Return the time that the requests take if all threads are always busy, in seconds.

        The latency of the storage is the only cost that counts.
        """
        return math.ceil(requests / self.threads) * self.latency_seconds

    def row(self, name: str, bare: str) -> list[str]:
        """Return the table cells of one contender.

        Args:
            name: Name of the contender.
            bare: Name of the contender whose CPU time is compared.
        """
        runs = self.runs[name]
        if runs.error is not None:
            return [self.name, name, f"failed: {runs.error}", *[""] * 8]
        requests = statistics.median(runs.requests)
        ideal = self.ideal_seconds(requests)
        cpu = statistics.median(self.runs[bare].cpu_seconds)
        return [
            self.name,
            name,
            f"{requests:g}" + (f" + {o:g}" if (o := statistics.median(runs.others)) else ""),
            f"{self.least}",
            f"{requests / self.least:.2f}",
            f"{max(runs.in_flight)}",
            _spread(runs.seconds),
            f"{ideal:.2f}",
            f"{statistics.median(runs.seconds) / ideal:.2f}",
            _spread(runs.cpu_seconds),
            f"{statistics.median(runs.cpu_seconds) / cpu:.2f}",
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the case as plain values for JSON."""
        runs = {name: runs.to_dict() for name, runs in self.runs.items()}
        return {**asdict(self), "runs": runs}


HEADINGS = (
    "matching",
    "contender",
    "requests",
    "least",
    "ratio",
    "in flight",
    "seconds",
    "ideal",
    "ratio",
    "CPU seconds",
    "of obstore's",
)


def markdown(results: Sequence[CaseResult], bare: str) -> str:
    """Return a Markdown table of all results."""
    rows = [list(HEADINGS), ["---"] * len(HEADINGS)]
    rows += [result.row(name, bare) for result in results for name in result.runs]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})"
