"""Run the fault tests, and print a table of the results."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from splitlib.testing import HiveMetastore
from tests.chaos import runs
from tests.chaos.cells import (
    OF_GLUE,
    OF_METASTORE,
    ON_BOTH,
    ON_DISK,
    ON_STORE,
    cells_of,
    disk_subjects,
    glue_subjects,
    hive_on_store,
    is_selected,
    metastore_subjects,
    store_subjects,
)
from tests.chaos.kept import KeptRows
from tests.chaos.measure import Row, measure
from tests.chaos.processes import INTERRUPTED, Interrupts, Kills
from tests.chaos.restarts import Restarts, Server
from tests.chaos.results import as_markdown, totals, write_into
from tests.chaos.servers import ObjectStore
from tests.chaos.subjects import LyingSubject, ProxiedSubject, Subject
from tests.support.glue_server import GlueServer

DOCUMENT = Path(__file__).parents[2] / "docs" / "chaos.md"
EVERY = "*"
_START_SECONDS = 300
"""Maximum time until the metastore has started, in seconds. The machine may be busy."""
_DEAR = 5
"""Cost of a run that starts processes or a server. An ordinary run costs 1."""


class _Measurement(NamedTuple):
    name: str
    measure: Callable[[int, int, int, Callable[[], None]], Row]
    cost: int = 1
    """Relative duration of one run. An ordinary run has 1."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the selected cells. Return 1 if a run violates a promise or if no cell is selected."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--runs", type=int, default=25, help="of each cell")
    parser.add_argument("--seed", type=int, default=1, help="of the first run of each cell")
    parser.add_argument("--cells", default=EVERY, help="such as 'hive* / names / cut'")
    parser.add_argument("--at-once", type=int, default=8, help="runs at the same time")
    parser.add_argument(
        "--slack", type=float, default=runs.SLACK_SECONDS, help="seconds beyond a deadline"
    )
    parser.add_argument("--write", action="store_true", help=f"the table into {DOCUMENT.name}")
    given = parser.parse_args(arguments)
    runs.SLACK_SECONDS = given.slack
    logging.disable(logging.WARNING)  # the results already contain all errors
    # An ordinary exit also stops the servers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    rows = []
    kept = KeptRows(given.runs, given.seed, given.slack)
    with ExitStack() as servers, tempfile.TemporaryDirectory() as scratch:
        chosen = _measurements(given.cells, Path(scratch), servers)
        for place, each in enumerate(chosen, 1):
            row = kept.get(each.name)
            if row is None:
                progress = _Progress(f"{place}/{len(chosen)} {each.name}")
                count = max(1, given.runs // each.cost)
                row = each.measure(count, given.seed, given.at_once, progress.one_more)
                progress.end(row)
                kept.add(row)
            rows.append(row)
    command = f"make chaos RUNS={given.runs} SEED={given.seed} SLACK={given.slack:g}"
    if given.cells != EVERY:
        command += f" CELLS='{given.cells}'"
    markdown = as_markdown(rows, command)
    print(markdown)
    if given.write and given.cells == EVERY:
        write_into(DOCUMENT, markdown)
    violations = [violation for row in rows for violation in row.violations]
    print("", totals(rows), sep="\n")
    return 1 if violations or not rows else 0


def _measurements(pattern: str, scratch: Path, servers: ExitStack) -> list[_Measurement]:
    """Return the selected measurements, and start only the servers they need."""
    subject_pattern = pattern.split(" / ", maxsplit=1)[0]

    def wanted(*names: str) -> bool:
        return any(is_selected(name, subject_pattern) for name in names)

    subjects: list[Subject] = []
    restarted: dict[str, Server] = {}
    if wanted(*ON_DISK):
        subjects += disk_subjects(scratch / "disk")
    if wanted(*OF_GLUE):
        glue = servers.enter_context(GlueServer().running())
        subjects += glue_subjects(glue, scratch / "glue")
    if wanted(*OF_METASTORE, *ON_BOTH):
        metastore = servers.enter_context(
            HiveMetastore(scratch / "metastore", start_timeout_seconds=_START_SECONDS)
        )
        subjects += metastore_subjects(metastore, scratch / "hive")
        restarted["hive"] = metastore
    if wanted(*ON_STORE, *ON_BOTH):
        store = servers.enter_context(ObjectStore(scratch / "store"))
        subjects += store_subjects(store, scratch / "s3")
        restarted["files on S3"] = store
    if wanted(*ON_BOTH):
        subjects += hive_on_store(metastore, store, scratch / "both")
    found = [each for subject in subjects for each in _of_subject(subject, restarted)]
    return [each for each in found if is_selected(each.name, pattern)]


def _of_subject(subject: Subject, restarted: Mapping[str, Server]) -> Iterator[_Measurement]:
    for cell in cells_of(subject):
        yield _Measurement(cell.name, partial(measure, cell))
    if subject.name in INTERRUPTED:
        interrupts = Interrupts(subject, INTERRUPTED[subject.name])
        yield _Measurement(interrupts.name, interrupts.measure, _DEAR)
    if isinstance(subject, LyingSubject) and subject.name in ON_DISK:
        kills = Kills(subject)
        yield _Measurement(kills.name, kills.measure, _DEAR)
    if isinstance(subject, ProxiedSubject) and subject.name in restarted:
        restarts = Restarts(subject, restarted[subject.name])
        yield _Measurement(restarts.name, restarts.measure, _DEAR)


class _Progress:
    """Progress of one cell. Prints a counter on a terminal, and a summary at the end."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._runs = 0
        self._started = time.monotonic()

    def one_more(self) -> None:
        """Count a finished run."""
        self._runs += 1
        if sys.stderr.isatty():
            print(f"\r{self._what}: {self._runs}", end="", file=sys.stderr, flush=True)

    def end(self, row: Row) -> None:
        """Print the summary of all runs and the violations."""
        seconds = time.monotonic() - self._started
        counts = f"{row.complete} complete, {row.errors} errors, {len(row.violations)} violations"
        start = "\r" if sys.stderr.isatty() else ""
        print(f"{start}{self._what}: {counts}, {seconds:.0f} s", file=sys.stderr, flush=True)
        for violation in row.violations:
            print(f"  {violation}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
