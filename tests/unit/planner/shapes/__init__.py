"""Query shapes with the planner's decisions about each, in SQL files.

A shape consists of a line ``-- name``, a query, and lines ``--> decision``. For the words of the
decisions see :func:`tests.unit.planner.sentences.sentences`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
_TABLES = _HERE / "tables.sql"


@dataclass(frozen=True, slots=True)
class Shape:
    """A query and its expected decisions."""

    name: str
    sql: str
    decided: tuple[str, ...]


def tables() -> list[str]:
    """Return the statements that create the tables of all shapes."""
    lines = _TABLES.read_text().splitlines()
    return [line.rstrip(";") for line in lines if not line.startswith("--")]


def shapes() -> Iterator[Shape]:
    """Yield all shapes."""
    for path in sorted(_HERE.glob("*.sql")):
        if path != _TABLES:
            for text in path.read_text().removeprefix("-- ").split("\n-- "):
                name, *lines = text.splitlines()
                decided = tuple(line[4:] for line in lines if line.startswith("--> "))
                sql = "\n".join(line for line in lines if line and not line.startswith("--> "))
                yield Shape(f"{path.stem}: {name}", sql.rstrip(";"), decided)
