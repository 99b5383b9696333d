"""Rule: functions and files are not longer than some limits."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOTS = ("splitlib", "connectors", "conformance", "tests", "benchmarks")
FUNCTION_LINES = 60
FILE_LINES = 450


def too_long(source: str) -> Iterator[str]:
    """Yield the lengths of a file and of its functions that exceed the limits."""
    lines = len(source.splitlines())
    if lines >= FILE_LINES:
        yield f"{lines} lines"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            # decorators do not count: test parameters are data
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines >= FUNCTION_LINES:
                yield f"function {node.name}: {lines} lines"


def problems() -> Iterator[str]:
    """Yield files and functions that are too long."""
    paths = [path for root in ROOTS for path in sorted((ROOT / root).rglob("*.py"))]
    assert len(paths) > 250
    for path in paths:
        for length in too_long(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(ROOT)}: {length}"
