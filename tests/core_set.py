"""The core set, which ``pytest --core`` runs: few tests that cover every feature."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LISTED = ROOT / "tests" / "core.txt"
ONE_CASE_IN = 5
"""Only every fifth parameter set of a listed test runs."""
MOST_CASES = 2
"""Maximum number of parameter sets of a listed test that run, evenly spread over all of them."""


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
    all_cases = Counter(map(_function, items))
    seen: Counter[str] = Counter()
    core: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        function = _function(item)
        if function in listed:
            taken = seen[function] % max(ONE_CASE_IN, -(-all_cases[function] // MOST_CASES)) == 0
            seen[function] += 1
        else:
            heavy = item.get_closest_marker("spark") or item.get_closest_marker("long")
            taken = not heavy and not function.startswith("tests/interop/")
        (core if taken else others).append(item)
    return core, others


def _function(item: pytest.Item) -> str:
    """Return the test function of an item as ``file::function``."""
    file = item.path.relative_to(ROOT).as_posix()
    return f"{file}::{getattr(item, 'originalname', item.name)}"
