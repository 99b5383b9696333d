"""Queries by their shape, and what the planner decides about each: files of SQL.

A shape is a line ``-- its name``, a query, and lines ``--> what is decided``; see
:func:`tests.unit.planner.sentences.sentences` for the words of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
_TABLES = _HERE / "tables.sql"


@dataclass(frozen=True, slots=True)
class Shape:
    """One query."""

    name: str
    sql: str
    decided: tuple[str, ...]


def tables() -> list[str]:
    """The statements that make the tables of all shapes."""
    lines = _TABLES.read_text().splitlines()
    return [line.rstrip(";") for line in lines if not line.startswith("--")]


def shapes() -> Iterator[Shape]:
    """All shapes."""
    for path in sorted(_HERE.glob("*.sql")):
        if path != _TABLES:
            for text in path.read_text().removeprefix("-- ").split("\n-- "):
                name, *lines = text.splitlines()
                decided = tuple(line[4:] for line in lines if line.startswith("--> "))
                sql = "\n".join(line for line in lines if line and not line.startswith("--> "))
                yield Shape(f"{path.stem}: {name}", sql.rstrip(";"), decided)
