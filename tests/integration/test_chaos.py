"""The chaos tool, which makes services fail during reads, must detect planted bugs.

It also runs a few of its cases.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace

import pytest

import splitlib
from splitlib.remote.calls import Workers
from splitlib.storage import Storage
from tests.chaos import measure as measuring
from tests.chaos import processes, runs
from tests.chaos.cells import (
    Cell,
    cells_of,
    disk_subjects,
    glue_subjects,
    is_selected,
    metastore_subjects,
)
from tests.chaos.measure import Row, measure
from tests.chaos.processes import Interrupts, Kills
from tests.chaos.results import as_markdown, totals, write_into
from tests.chaos.strikes import NOTHING
from tests.chaos.subjects import CONFIG, LyingSubject
from tests.support.glue_server import GlueServer

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

RUNS = 4
CELLS = [
    "hive / open / cut",
    "hive / names / garble",
    "hive / details / swap",
    "hive / restore / refuse",
    "hive, two metastores / names / hang",
    "hive on a disk / files / gone",
    "glue / list / garble",
    "glue / restore / hang",
    "files on a disk / open / late",
    "files on a disk / partitions / error",
    "files on a disk / files / swap",
    "files on a disk / restore / hang",
    "iceberg on a disk / manifest list / short",
    "iceberg on a disk / manifests / zeros",
]


@pytest.fixture(autouse=True)
def _patience(monkeypatch):
    """Raise the time limits, so that slow machines pass, and only endless runs fail."""
    monkeypatch.setattr(runs, "SLACK_SECONDS", 30)
    monkeypatch.setattr(measuring, "CLOSING_SECONDS", 30)
    monkeypatch.setattr(processes, "INTERRUPT_SECONDS", 10)


@pytest.fixture(scope="module")
def subjects(tmp_path_factory):
    directory = tmp_path_factory.mktemp("chaos")
    return {each.name: each for each in disk_subjects(directory)}


@pytest.fixture(scope="module")
def hive_subjects(metastore, tmp_path_factory):
    directory = tmp_path_factory.mktemp("chaos")
    return {each.name: each for each in metastore_subjects(metastore, directory)}


@pytest.fixture(scope="module")
def subjects_of_glue(tmp_path_factory):
    with GlueServer().running() as server:
        found = glue_subjects(server, tmp_path_factory.mktemp("chaos"))
        yield {each.name: each for each in found}


@pytest.fixture
def cell(request):
    def find(name: str) -> Cell:
        of = {"hive": "hive_subjects", "glue": "subjects_of_glue"}
        needed = of.get(name[:4], "subjects")
        subjects = request.getfixturevalue(needed).values()
        (found,) = [cell for each in subjects for cell in cells_of(each) if cell.name == name]
        return found

    return find


def many(cell: Cell, seed: int = 1, count: int = RUNS) -> Row:
    return measure(cell, count, seed, count, lambda: None)


@pytest.mark.parametrize("name", CELLS)
def test_a_cell(cell, name):
    row = many(cell(name))
    assert row.violations == []
    assert row.complete + row.errors == RUNS
    assert row.struck


def test_a_part_of_a_listing_that_nobody_misses_is_seen(cell):
    row = many(replace(cell("files on a disk / files / left out"), is_promised=True))
    assert row.different
    assert f"{row.name}: seed " in row.violations[0]


def test_a_listing_that_is_believed_whoever_it_is_of_is_seen(cell, monkeypatch):
    told = Storage.level
    monkeypatch.setattr(
        Storage,
        "level",
        lambda self, at, **how: told(self, at.replace("k=1", "k=2"), **how),
    )
    row = many(replace(cell("files on a disk / files / late")))
    assert any("part-0.parquet" in violation for violation in row.violations)


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        (KeyError("size"), "KeyError"),
        (splitlib.SourceError("failed"), "does not say where"),
    ],
)
def test_an_error_that_does_not_say_where_is_seen(cell, monkeypatch, raised, says):
    def fail(*_, **__):
        raise raised

    monkeypatch.setattr(splitlib, "load_table", fail)
    violations = many(cell(CELLS[-1])).violations
    assert [says in violation for violation in violations] == [True] * RUNS


def test_what_ends_too_late_is_seen(cell, monkeypatch):
    monkeypatch.setattr(runs, "SLACK_SECONDS", 0.1)
    load = splitlib.load_table

    def late(*args, **options):
        time.sleep(CONFIG.call_deadline_seconds + runs.SLACK_SECONDS)
        return load(*args, **options)

    monkeypatch.setattr(splitlib, "load_table", late)
    assert "deadline" in many(cell("files on a disk / files / error"), count=1).violations[0]


def test_a_thread_that_is_left_is_seen(monkeypatch):
    monkeypatch.setattr(measuring, "TIDY_SECONDS", 0.1)
    workers, let_go = Workers(1, "splitlib-test"), threading.Event()
    before = set(threading.enumerate())
    workers.submit(let_go.wait)
    assert measuring.threads_left(before) == "splitlib-test"
    let_go.set()
    workers.stop(1)


def test_a_fault_that_never_strikes_is_seen(cell, subjects):
    subject = subjects["files on a disk"]
    assert isinstance(subject, LyingSubject)
    quiet = replace(subject, stages={"files": NOTHING})
    (violation,) = many(Cell(quiet, "files", "gone"), count=20).violations
    assert "never struck" in violation


def test_killed_processes_hand_out_every_split_once(subjects):
    row = Kills(subjects["files on a disk"]).measure(2, 1, 2, lambda: None)
    assert row.violations == []


def test_an_interrupted_process_ends(subjects):
    row = Interrupts(subjects["iceberg on a disk"], "manifests").measure(1, 1, 1, lambda: None)
    assert row.violations == []


def test_the_table_is_written_between_its_marks(cell, tmp_path):
    rows = [many(cell(CELLS[-1])), many(cell("files on a disk / files / left out"))]
    document = tmp_path / "chaos.md"
    marks = "<!-- results: written by make chaos -->\n<!-- end of results -->"
    document.write_text(f"before\n{marks}\nafter\n")
    for _ in range(2):
        write_into(document, as_markdown(rows, "make chaos"))
    text = document.read_text()
    assert text.startswith("before\n<!--")
    assert text.endswith("-->\nafter\n")
    for row in rows:
        assert text.count(f"| {row.name} | {RUNS} |") == 1
    assert totals(rows) == f"2 cells, {2 * RUNS} runs, 0 violations"


def test_cells_are_selected_by_their_parts():
    assert is_selected("hive / names / cut", "hive*")
    assert is_selected("hive / names / cut", "* / names / c*")
    assert not is_selected("hive / names / cut", "hive / details")


def test_times_are_drawn_from_the_seed(hive_subjects):
    subject = hive_subjects["hive"]
    drawn = []
    for _ in range(2):
        with subject.reached("names", "cut", random.Random(3)) as way:
            drawn.append([way.strikes.hit("get_partition_names") for _ in range(8)])
    assert drawn[0] == drawn[1]
