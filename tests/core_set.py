"""The core set, which ``pytest --core`` runs: few tests that cover every feature."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LISTED = ROOT / "tests" / "core.txt"
ONE_CASE_IN = 5
"""Only every fifth parameter set of a listed test runs."""


def core_functions() -> set[str]:
    """Return the listed tests as ``file::function``."""
    found = set()
    file = ""
    for line in LISTED.read_text().splitlines():
        if line.startswith("tests/"):
            file = line
        elif line.startswith(" "):
            found.add(f"{file}::{line.strip()}")
    return found


def select_core(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Split collected tests into the core set and all others.

    The core set contains the listed tests, and all tests that need no Java and are not marked
    ``long``. Tests in ``tests/interop`` belong to it only if they are listed.
    """
    listed = core_functions()
    cases: Counter[str] = Counter()
    core: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        file = item.path.relative_to(ROOT).as_posix()
        function = f"{file}::{getattr(item, 'originalname', item.name)}"
        if function in listed:
            taken = cases[function] % ONE_CASE_IN == 0
            cases[function] += 1
        else:
            heavy = item.get_closest_marker("spark") or item.get_closest_marker("long")
            taken = not heavy and not file.startswith("tests/interop/")
        (core if taken else others).append(item)
    return core, others
