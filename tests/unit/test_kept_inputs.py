"""The decoders of untrusted input handle all inputs that fuzzing has stored."""

from __future__ import annotations

import importlib

import pytest

from tests.fuzzing import targets
from tests.fuzzing.__main__ import CORPUS, TARGETS, kept


@pytest.mark.parametrize("name", TARGETS)
def test_they_are_used_or_refused(name):
    target = importlib.import_module(f"{targets.__name__}.{name}")
    used = [target.run(data) for data in [*target.seeds(), *kept(name)]]
    assert any(used)


def test_each_belongs_to_a_target():
    assert {path.name for path in CORPUS.iterdir()} <= set(TARGETS)
    assert sum(path.stat().st_size for path in CORPUS.rglob("*")) < 500_000
