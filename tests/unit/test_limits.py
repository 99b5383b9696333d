"""No function and no file grows beyond what can be read at a sitting."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOTS = ("splitlib", "connectors", "conformance", "tests", "benchmarks")
FUNCTION_LINES = 60
FILE_LINES = 450

SOURCES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for root in ROOTS
    for path in sorted((ROOT / root).rglob("*.py"))
}


def too_long(source):
    """What of a file is too long."""
    lines = len(source.splitlines())
    found = [f"{lines} lines"] if lines >= FILE_LINES else []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            # decorators are not counted: cases of a test are data
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines >= FUNCTION_LINES:
                found.append(f"{node.name}: {lines} lines")
    return found


def test_the_sources_are_found():
    assert {name.partition("/")[0] for name in SOURCES} == set(ROOTS)
    assert len(SOURCES) > 250


@pytest.mark.parametrize("name", SOURCES)
def test_lengths(name):
    assert too_long(SOURCES[name]) == []
