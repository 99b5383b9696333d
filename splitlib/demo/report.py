"""Format the results of the demo as text."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from splitlib.demo.data import QUERY, DemoData
from splitlib.demo.run import Run

_CELLS = 60
_NOTES = """\
partitions  details fetched from the metastore; splitlib first lists all names, in one call
listed      directories of both tables
files       files read from the fact table, and their size; a count(*) reads only their footers"""


def report(data: DemoData, runs: Sequence[Run]) -> str:
    """Return a table of the runs. For runs that list their partitions, add a strip of them."""
    head = ("", "partitions", "listed", "files", "KiB", "seconds")
    rows = [
        (
            run.name,
            f"{run.partitions_fetched:,}",
            f"{run.directories_listed:,}",
            f"{run.files_read:,}",
            f"{run.bytes_read / 1024:,.0f}",
            f"{run.seconds:.1f}",
        )
        for run in runs
    ]
    lines = ["", QUERY, ""]
    for name, *numbers in (head, *rows):
        lines.append(f"{name:<17}" + "".join(f"{number:>12}" for number in numbers))
    lines += ["", _NOTES]
    for run in runs:
        if run.partitions is not None:
            lines += ["", strip(data.keys, run.partitions)]
            lines.append(
                f"{run.name} kept {len(run.partitions):,} of {len(data.keys):,} partitions (█)"
            )
    return "\n".join([*lines, "", verdict(data, runs)])


def strip(keys: Sequence[str | None], kept: Collection[str]) -> str:
    """Return one line of text that shows all partitions in order; kept ones are filled cells."""
    cells = min(_CELLS, len(keys))
    marked = {i * cells // len(keys) for i, key in enumerate(keys) if key in kept}
    return "".join("█" if cell in marked else "·" for cell in range(cells))


def wrong(data: DemoData, runs: Sequence[Run]) -> list[Run]:
    """Return the runs whose result differs from DuckDB's."""
    return [run for run in runs if run.count != data.expected_count]


def verdict(data: DemoData, runs: Sequence[Run]) -> str:
    """Return a sentence that compares all results with DuckDB's."""
    expected = f"{data.expected_count:,}"
    mismatches = [f"{run.name} counts {run.count:,}" for run in wrong(data, runs)]
    if mismatches:
        return f"WRONG: {', '.join(mismatches)}; DuckDB counts {expected}."
    return f"All count {expected} rows, as DuckDB does."
