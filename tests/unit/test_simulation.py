"""The simulation finds no bugs in splitlib, finds planted bugs, and is reproducible.

The simulation runs in new processes, because it replaces the locks and the clock of its process.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.planted_bugs import BUGS

ROOT = Path(__file__).parents[2]
# Planted bugs that are found quickly, with some of each kind. ``make simulate-bugs`` plants all.
SOON = [
    "threads of an enumeration are never stopped",
    "an idle thread is not woken",
    "one listing too many at once",
    "an error is a result",
    "a deadline does not say of which table",
    "an acknowledged split is kept",
    "a restored coordinator lists nothing",
    "a connection that failed is used again",
]


def simulation(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("seeds", [60, pytest.param(300, marks=pytest.mark.long)])
def test_nothing_is_found(seeds):
    ran = simulation("--seeds", f"0:{seeds}")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.startswith(f"{seeds} seeds, ")
    assert ran.stdout.endswith("nothing found\n")


def test_what_is_planted_is_found():
    ran = simulation("--seeds", "0:50", "--bugs", *SOON)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{len(SOON)} of {len(SOON)} planted bugs found" in ran.stdout


@pytest.mark.parametrize("name", BUGS)
def test_each_bug_can_be_planted(name):
    with BUGS[name]():
        pass


@pytest.mark.long
def test_a_seed_is_the_same_run_every_time():
    runs = [[simulation("--replay", seed).stdout for seed in ("3", "4")] for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[0][1]
    assert all("list_partitions" in history for history in runs[0])
    for seed in map(str, range(10)):  # which seeds find the bug changes with the code
        found = simulation("--replay", seed, "--bug", SOON[0]).stdout
        if "everything_ends: " in found:
            assert simulation("--replay", seed, "--bug", SOON[0]).stdout == found
            return
    pytest.fail("The bug was not found.")
