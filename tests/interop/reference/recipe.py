"""The registry of reference tables. A recipe is a function that writes one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.interop.reference.lake import Lake


@dataclass(frozen=True, slots=True)
class Recipe:
    """A function that writes a reference table, and the facts that tests need about the table."""

    write: Callable[[Lake], None]
    format_version: int
    keys: tuple[tuple[str, ...], ...]
    """Columns of each join that filters the table."""
    refused: str = ""
    """Regular expression for splitlib's error. Empty if splitlib can read the table."""
    misleading: frozenset[str] = frozenset()
    """Columns with file statistics that may belong to another column.

    Iceberg's own planning uses these statistics and therefore loses rows.
    """


TABLES: dict[str, Recipe] = {}


def recipe(
    *keys: str | tuple[str, ...],
    formats: tuple[int, ...] = (2,),
    refused: str = "",
    misleading: frozenset[str] = frozenset(),
) -> Callable[[Callable[[Lake], None]], Callable[[Lake], None]]:
    """Register a function as a recipe for each format version. Tests join its table on ``keys``."""
    joins = tuple((key,) if isinstance(key, str) else key for key in keys)

    def register(write: Callable[[Lake], None]) -> Callable[[Lake], None]:
        for version in formats:
            name = f"{write.__name__}_v{version}"
            add(name, Recipe(write, version, joins, refused, misleading))
        return write

    return register


def add(name: str, table: Recipe) -> None:
    """Register the recipe of one table."""
    assert name not in TABLES, name
    TABLES[name] = table
