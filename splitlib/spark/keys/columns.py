"""Resolve the names of join keys to columns of a dimension, or to fields of its structs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, YearMonthIntervalType

from splitlib.errors import InvalidFilter
from splitlib.spark.sql_text import collation_of, quoted, unquoted


class KeyColumn(NamedTuple):
    """A column of a dimension, or a field of one of its structs."""

    column: Column
    field: StructField

    @property
    def collation(self) -> str | None:
        """Collation by which strings are compared; None = by their bytes."""
        return collation_of(self.field.dataType)

    @property
    def why_no_keys(self) -> str | None:
        """Why the column cannot be a join key, to follow the column's name; None if it can."""
        if self.collation is not None:
            # Spark may use this collation for the join, whatever the fact's column is.
            return f"is compared by its collation {self.collation}"
        return None

    @property
    def is_of_months(self) -> bool:
        """Whether the column is a year-month interval, collected as a number of months."""
        return isinstance(self.field.dataType, YearMonthIntervalType)


def in_months(interval: Column) -> Column:
    """Return a year-month interval as months, because Spark cannot convert it to Arrow."""
    whole = interval.cast(YearMonthIntervalType())  # an INTERVAL YEAR has no months
    return F.extract(F.lit("YEAR"), whole) * 12 + F.extract(F.lit("MONTH"), whole)


def key_columns(dimension: DataFrame, names: Iterable[str]) -> dict[str, KeyColumn]:
    """Resolve each name to a column, or to a field ``a.b`` of a struct.

    A column whose name contains dots or backticks is found first. Otherwise, backticks around names
    are ignored. Case matters if the session is case sensitive or if names differ only in case.

    Raises:
        InvalidFilter: if a column does not exist.
    """
    exactly = dimension.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    found = {
        name: _found(dimension, name, exactly) or _found(dimension, unquoted(name), exactly)
        for name in names
    }
    missing = [name for name, column in found.items() if column is None]
    if missing:
        raise InvalidFilter(
            f"The dimension has no column {', '.join(missing)}.",
            hint=f"its columns are {', '.join(dimension.columns)}.",
        )
    return {name: column for name, column in found.items() if column is not None}


def _found(dimension: DataFrame, name: str, exactly: bool) -> KeyColumn | None:
    for field, rest in _beginnings(dimension.schema, name, exactly):
        # With some settings, dimension[name] reads a quoted name as a regular expression.
        column = F.col(quoted(field.name))
        inner = _inside(column, field, rest, exactly)
        if inner is not None:
            return inner
    return None


def _inside(column: Column, field: StructField, path: str, exactly: bool) -> KeyColumn | None:
    if not path:
        return KeyColumn(column, field)
    if isinstance(field.dataType, StructType):
        for child, rest in _beginnings(field.dataType, path, exactly):
            inner = _inside(column.getField(child.name), child, rest, exactly)
            if inner is not None:
                return inner
    return None


def _beginnings(schema: StructType, name: str, exactly: bool) -> list[tuple[StructField, str]]:
    """Find the fields that begin ``name``, with the rest of the name; longest first."""
    exact = [(f, name[len(f.name) + 1 :]) for f in schema if _begins(name, f.name)]
    if not exact and not exactly:
        lower = name.lower()
        exact = [(f, name[len(f.name) + 1 :]) for f in schema if _begins(lower, f.name.lower())]
    return sorted(exact, key=lambda found: -len(found[0].name))


def _begins(name: str, beginning: str) -> bool:
    return name == beginning or name.startswith(f"{beginning}.")
