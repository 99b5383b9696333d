"""SQL files with test queries for the planner, called shapes, and the expected decisions.

A shape consists of a line ``-- name``, a query, and lines ``--> decision``. The function
:func:`tests.unit.planner.sentences.sentences` documents the notation of decisions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
_TABLES = _HERE / "tables.sql"


@dataclass(frozen=True, slots=True)
class Shape:
    """A test query and the planner's expected decisions about it."""

    name: str
    sql: str
    decided: tuple[str, ...]


def tables() -> list[str]:
    """Return the statements that create the tables of all shapes."""
    lines = _TABLES.read_text().splitlines()
    return [line.rstrip(";") for line in lines if not line.startswith("--")]


def shapes() -> Iterator[Shape]:
    """Yield the shapes of all SQL files."""
    for path in sorted(_HERE.glob("*.sql")):
        if path != _TABLES:
            for text in path.read_text().removeprefix("-- ").split("\n-- "):
                name, *lines = text.splitlines()
                decided = tuple(line[4:] for line in lines if line.startswith("--> "))
                sql = "\n".join(line for line in lines if line and not line.startswith("--> "))
                yield Shape(f"{path.stem}: {name}", sql.rstrip(";"), decided)
