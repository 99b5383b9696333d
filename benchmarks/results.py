"""Results of benchmarks, as JSON and as a table for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.measure import Measured


@dataclass(frozen=True, slots=True)
class Comparison:
    """The measured contenders of one task."""

    title: str
    unit: str
    reference: str
    """Name of the contender by whose median the other medians are divided."""
    contenders: list[Measured]

    def __getitem__(self, name: str) -> Measured:
        return next(measured for measured in self.contenders if measured.name == name)

    def ratio(self, measured: Measured) -> float | None:
        """Return a contender's median divided by the reference's, or None if either failed."""
        reference = self[self.reference]
        if not (measured.samples and reference.samples):
            return None
        return measured.median / reference.median

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values for JSON."""
        return {
            "title": self.title,
            "unit": self.unit,
            "reference": self.reference,
            "contenders": [
                {
                    "name": measured.name,
                    "settings": dict(measured.settings),
                    "counts": dict(measured.counts),
                    "error": measured.error,
                    "samples": list(measured.samples),
                    "median": measured.median if measured.samples else None,
                    "min": min(measured.samples, default=None),
                    "max": max(measured.samples, default=None),
                    "ratio": self.ratio(measured),
                }
                for measured in self.contenders
            ],
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines of a table: median, minimum, maximum and ratio of each contender."""
        yield f"{self.title} [{self.unit}]"
        width = max(len(measured.name) for measured in self.contenders)
        for measured in self.contenders:
            if not measured.samples:
                yield f"  {measured.name:{width}}  failed: {measured.error}"
                continue
            low, high = min(measured.samples), max(measured.samples)
            ratio = self.ratio(measured)
            yield (
                f"  {measured.name:{width}}  {measured.median:9.4g}  ({low:.4g} - {high:.4g})"
                + (f"  x {ratio:.3g}" if ratio is not None else "")
            )


@dataclass(frozen=True, slots=True)
class Target:
    """A measured value, such as a ratio of medians, and its upper bound."""

    text: str
    value: float | None
    """Measured value. None if the other contender failed; then the target counts as reached."""
    at_most: float
    """The upper bound."""

    @property
    def reached(self) -> bool:
        """Whether the value is at most ``at_most``, or the other contender failed."""
        return self.value is None or self.value <= self.at_most


def within(text: str, one: Measured, other: Measured, at_most: float) -> Target:
    """Return a target for the median of ``one`` divided by the median of ``other``."""
    return Target(text, one.median / other.median if other.samples else None, at_most)


@dataclass(frozen=True, slots=True)
class Result:
    """The comparisons and targets of one benchmark."""

    name: str
    comparisons: list[Comparison]
    targets: list[Target] = field(default_factory=list)
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Other results, written to the JSON only."""

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values for JSON."""
        return {
            "comparisons": [comparison.to_dict() for comparison in self.comparisons],
            "targets": [{**asdict(target), "reached": target.reached} for target in self.targets],
            "facts": dict(self.facts),
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines of a table for the terminal."""
        for comparison in self.comparisons:
            yield from comparison.lines()
        for target in self.targets:
            word = "reached" if target.reached else "NOT REACHED"
            value = "the peer failed" if target.value is None else f"{target.value:.4g}"
            yield f"  {word}: {target.text}: {value}, target <= {target.at_most:.4g}"
