"""The registry of reference tables. Each table is a function that writes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.interop.reference.lake import Lake


@dataclass(frozen=True, slots=True)
class Recipe:
    """One reference table."""

    write: Callable[[Lake], None]
    format_version: int
    keys: tuple[tuple[str, ...], ...]
    """Columns of each join that filters the table."""
    refused: str = ""
    """Regular expression of the error if splitlib refuses the table; empty if splitlib reads it."""
    misleading: frozenset[str] = frozenset()
    """Columns whose file statistics may belong to another column.

    Iceberg's planning uses them anyway and loses rows.
    """


TABLES: dict[str, Recipe] = {}


def recipe(
    *keys: str | tuple[str, ...],
    formats: tuple[int, ...] = (2,),
    refused: str = "",
    misleading: frozenset[str] = frozenset(),
) -> Callable[[Callable[[Lake], None]], Callable[[Lake], None]]:
    """Register a function as a table for each format version, joined on ``keys``."""
    joins = tuple((key,) if isinstance(key, str) else key for key in keys)

    def register(write: Callable[[Lake], None]) -> Callable[[Lake], None]:
        for version in formats:
            name = f"{write.__name__}_v{version}"
            add(name, Recipe(write, version, joins, refused, misleading))
        return write

    return register


def add(name: str, table: Recipe) -> None:
    """Register one table."""
    assert name not in TABLES, name
    TABLES[name] = table
