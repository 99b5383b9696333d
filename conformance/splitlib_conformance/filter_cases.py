"""Filters for tests. Each has a rule of its own for matching values, without splitlib."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from hypothesis import strategies as st

from splitlib import DynamicFilteringData
from splitlib_conformance.expectations import frozen
from splitlib_conformance.key_cases import KeyCase


class Filter(Protocol):
    """A filter with its own rule for which partitions match."""

    def data(self, schema: pa.Schema) -> DynamicFilteringData:
        """Return the filter for a table with the partition keys ``schema``."""

    def keeps(self, values: Mapping[str, Any]) -> bool:
        """Return whether a partition with these values matches."""


@dataclass(frozen=True)
class Values:
    """A filter by tuples of key values. If there are no tuples, no partition matches."""

    fields: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def data(self, schema: pa.Schema) -> DynamicFilteringData:
        """Return the filter for a table with the partition keys ``schema``."""
        own = pa.schema([schema.field(name) for name in self.fields])
        rows = [dict(zip(self.fields, row, strict=True)) for row in self.rows]
        return DynamicFilteringData.from_arrow(pa.Table.from_pylist(rows, own))

    def keeps(self, values: Mapping[str, Any]) -> bool:
        """Return whether a partition with these values matches. NaN equals NaN."""
        rows = [frozen(dict(zip(self.fields, row, strict=True))) for row in self.rows]
        return frozen({name: values[name] for name in self.fields}) in rows


@dataclass(frozen=True)
class Range:
    """A filter by a range of one key's values, including both ends. None means an open end."""

    field: str
    low: Any
    high: Any

    def data(self, schema: pa.Schema) -> DynamicFilteringData:
        """Return the filter for a table with the partition keys ``schema``."""
        return DynamicFilteringData.from_range({self.field: (self.low, self.high)})

    def keeps(self, values: Mapping[str, Any]) -> bool:
        """Return whether a partition with these values matches. Null is outside of every range."""
        if self.low is None and self.high is None:
            return True
        value = values[self.field]
        if value is None:
            return False
        return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)


@dataclass(frozen=True)
class Marker:
    """The marker for too many join keys, as a filter. Every partition matches."""

    def data(self, schema: pa.Schema) -> DynamicFilteringData:
        """Return the filter for a table with the partition keys ``schema``."""
        return DynamicFilteringData.exceeded(schema)

    def keeps(self, values: Mapping[str, Any]) -> bool:
        """Return true, because every partition matches."""
        return True


@dataclass(frozen=True)
class Foreign:
    """A filter on a column that the table does not have. Every partition matches."""

    def data(self, schema: pa.Schema) -> DynamicFilteringData:
        """Return a filter on a column that the table does not have."""
        return DynamicFilteringData.from_values({"no_such_key": [1, 2]})

    def keeps(self, values: Mapping[str, Any]) -> bool:
        """Return true, because every partition matches."""
        return True


def filters_on(case: KeyCase) -> st.SearchStrategy[list[Filter]]:
    """Return a Hypothesis strategy for lists of one to three filters on the keys of a case."""
    candidates = {
        name: st.sampled_from([*{row[name]: None for row in case.partitions}, *case.absent[name]])
        for name in case.schema.names
    }
    values = st.lists(st.sampled_from(case.schema.names), min_size=1, unique=True).flatmap(
        lambda names: st.builds(
            Values,
            st.just(tuple(names)),
            st.lists(st.tuples(*(candidates[name] for name in names)), max_size=6).map(tuple),
        )
    )
    ordered = [field.name for field in case.schema if has_range(field.type)]
    ranges = [
        st.builds(Range, st.just(n), candidates[n], st.none() | candidates[n]) for n in ordered
    ]
    single = st.one_of(values, *ranges, st.builds(Marker), st.builds(Foreign))
    return st.lists(single, min_size=1, max_size=3)


def has_range(kind: pa.DataType) -> bool:
    """Return whether splitlib has range filters for this type."""
    return not (pa.types.is_boolean(kind) or pa.types.is_floating(kind))
