"""Detect filters that can never prune their table, which is most likely a mistake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from splitlib.errors import InvalidFilter, did_you_mean
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import Domain, ValueDomain
from splitlib.filtering.matchers import coerce
from splitlib.filtering.predicate import same_order
from splitlib.model import TableMetadata


class Mismatch(NamedTuple):
    """A problem with a field of a filter, and what to do about it."""

    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.message} Hint: {self.hint}"


def mismatches(data: DynamicFilteringData, metadata: TableMetadata) -> list[Mismatch]:
    """Return the problems of a filter: missing columns, and types that cannot be compared.

    A column that exists but cannot prune, because it is not a partition key and does not have
    statistics, is not a problem of the filter.
    """
    filterable = {field.name.lower(): field for field in metadata.filter_schema}
    columns = {name.lower() for name in metadata.schema.names}
    found = [
        _no_column(name, metadata.schema.names)
        for name in data.fields
        # ``a.b`` is a field of the struct ``a``, or a column with a dot in its name
        if name.lower() not in filterable
        and columns.isdisjoint((name.lower(), name.lower().split(".")[0]))
    ]
    for domain in data.domains:
        for name in domain.fields:
            key = filterable.get(name.lower())
            kind = data.schema.field(name).type
            if key is not None and not _comparable(domain, kind, key):
                found.append(
                    Mismatch(
                        f"Field {name!r} is {kind}, which cannot be compared with {key.type}.",
                        f"use values of type {key.type}.",
                    )
                )
    return found


def column_named(name: str, columns: Sequence[str]) -> str:
    """Return the name in ``columns`` that equals ``name``, ignoring case.

    Raises:
        InvalidFilter: if no column has this name.
    """
    if name in columns:
        return name
    for column in columns:
        if column.lower() == name.lower():
            return column
    wrong = _no_column(name, columns)
    raise InvalidFilter(wrong.message, hint=wrong.hint)


def _no_column(name: str, columns: Sequence[str]) -> Mismatch:
    return Mismatch(f"The table has no column {name!r}.", did_you_mean(name, columns))


def _comparable(domain: Domain, kind: pa.DataType, key: pa.Field) -> bool:
    if kind == key.type:
        return True
    if isinstance(domain, ValueDomain):
        return coerce(pa.array([], kind), key) is not None
    return same_order(kind, key.type)
