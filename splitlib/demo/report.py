"""Format the results of the demo as text."""

from __future__ import annotations

from collections.abc import Sequence

from splitlib.demo.data import QUERY, DemoData
from splitlib.demo.run import Run
from splitlib.report import size_text, strip

_CELLS = 60
_NOTES = """\
partitions  details fetched from the metastore; splitlib first lists all names, in one call
listed      directories of both tables
files       files read from the fact table, and their size; a count(*) reads only their footers"""


def report(data: DemoData, runs: Sequence[Run]) -> str:
    """Return a table of the runs. For runs that list their partitions, add a strip of them."""
    head = ("", "partitions", "listed", "files", "bytes", "seconds")
    rows = [
        (
            run.name,
            f"{run.partitions_fetched:,}",
            f"{run.directories_listed:,}",
            f"{run.files_read:,}",
            size_text(run.bytes_read),
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
            lines += ["", strip([key in run.partitions for key in data.keys], _CELLS)]
            lines.append(
                f"{run.name} kept {len(run.partitions):,} of {len(data.keys):,} partitions (█)"
            )
    return "\n".join([*lines, "", verdict(data, runs)])


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
