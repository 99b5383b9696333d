"""The results of a measurement, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path

from splitlib import SplitConfig
from tests.chaos.measure import Row
from tests.chaos.subjects import CONFIG

_BEGIN, _END = "<!-- results: written by make chaos -->", "<!-- end of results -->"
_HEAD = (
    "| what / stage / fault | runs | struck | complete | errors | slowest end, s | deadline, s |\n"
    "|---|---|---|---|---|---|---|"
)
_MEASURED_HEAD = (
    "| what / stage / fault | runs | struck | complete | errors | different, unnoticed |\n"
    "|---|---|---|---|---|---|"
)


def as_markdown(rows: Iterable[Row], command: str) -> str:
    """Return two tables of results: cells with detectable faults, and all other cells."""
    rows = list(rows)
    promised = [_line(row) for row in rows if row.is_promised]
    measured = [_measured_line(row) for row in rows if not row.is_promised]
    settings = ", ".join(
        f"`{spec.name}={getattr(CONFIG, spec.name):g}`"
        for spec in fields(SplitConfig)
        if getattr(CONFIG, spec.name) != spec.default
    )
    parts = [f"`{command}`, with {settings}:", "\n".join([_HEAD, *promised])]
    if measured:
        parts += ["Measured, not promised:", "\n".join([_MEASURED_HEAD, *measured])]
    return "\n\n".join(parts)


def write_into(document: Path, markdown: str) -> None:
    """Replace the text between the begin and end marks in a document."""
    text = document.read_text("utf-8")
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    document.write_text(f"{before}{_BEGIN}\n\n{markdown}\n\n{_END}{after}", "utf-8")


def totals(rows: Sequence[Row]) -> str:
    """Return a line with the numbers of cells, runs and violations."""
    runs = sum(len(row.outcomes) for row in rows)
    violations = sum(len(row.violations) for row in rows)
    return f"{len(rows)} cells, {runs} runs, {violations} violations"


def _line(row: Row) -> str:
    slowest = row.slowest
    return (
        f"| {row.name} | {len(row.outcomes)} | {row.struck} | {row.complete} | {row.errors} "
        f"| {slowest.seconds:.2f} | {slowest.deadline:g} |"
    )


def _measured_line(row: Row) -> str:
    return (
        f"| {row.name} | {len(row.outcomes)} | {row.struck} | {row.complete} | {row.errors} "
        f"| {row.different} |"
    )
