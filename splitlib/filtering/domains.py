"""Domains: the values that some fields of the join keys can have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.filtering.key_rows import distinct, values_nbytes
from splitlib.filtering.ranges import Ranges


@dataclass(frozen=True, slots=True, eq=False)
class ValueDomain:
    """A set of tuples: the fields together have one of these values. Null equals null."""

    rows: pa.Table
    """Distinct, sorted rows; one column per field."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields, in order."""
        return tuple(self.rows.column_names)

    @property
    def nbytes(self) -> int:
        """Size of the values in bytes; see :func:`values_nbytes`."""
        return values_nbytes(self.rows)

    def contains(self, row: Mapping[str, pa.Scalar]) -> bool:
        """Return whether a tuple is among the rows."""
        mask: Any = None
        for name in self.fields:
            hit = pc.is_in(self.rows[name], value_set=pa.array([row[name]], row[name].type))
            mask = hit if mask is None else pc.and_(mask, hit)
        return bool(pc.any(mask, min_count=0).as_py())

    def without_nulls(self) -> ValueDomain:
        """Return the domain without rows that contain a null."""
        return ValueDomain(self.rows.drop_null())

    def renamed(self, names: Mapping[str, str]) -> ValueDomain:
        """Return the domain with renamed fields; ``names`` has an entry for each."""
        return ValueDomain(self.rows.rename_columns([names[field] for field in self.fields]))

    def only(self, fields: Collection[str]) -> ValueDomain | None:
        """Return the domain restricted to some fields; None if it has none of them."""
        names = [name for name in self.fields if name in fields]
        if len(names) == len(self.fields):
            return self
        return ValueDomain(distinct(self.rows.select(names))) if names else None

    def cast(self, schema: pa.Schema) -> ValueDomain:
        """Return the domain with the field types of ``schema``."""
        return ValueDomain(self.rows.cast(pa.schema([schema.field(name) for name in self.fields])))

    def describe(self) -> str:
        """Return a short description for reports."""
        return f"{self.fields[0]} among {self.rows.num_rows} values"


@dataclass(frozen=True, slots=True, eq=False)
class RangeDomain:
    """A set of ranges of one field: its value lies in one of them."""

    field: pa.Field
    ranges: Ranges
    """Ranges in the field's type."""
    includes_null: bool = False

    @property
    def fields(self) -> tuple[str, ...]:
        """The name of the field."""
        return (self.field.name,)

    @property
    def nbytes(self) -> int:
        """Size of the range ends, in bytes."""
        return values_nbytes(pa.table([self.ranges.ends], names=["end"]))

    def contains(self, row: Mapping[str, pa.Scalar]) -> bool:
        """Return whether the field's value lies in one of the ranges."""
        value = row[self.field.name]
        if not value.is_valid:
            return self.includes_null
        return bool(self.ranges.contain(pa.array([value], self.field.type))[0].as_py())

    def without_nulls(self) -> RangeDomain:
        """Return the same ranges without null."""
        return RangeDomain(self.field, self.ranges)

    def renamed(self, names: Mapping[str, str]) -> RangeDomain:
        """Return the domain with its field renamed by ``names``."""
        return replace(self, field=self.field.with_name(names[self.field.name]))

    def only(self, fields: Collection[str]) -> RangeDomain | None:
        """Return the domain if its field is one of ``fields``, otherwise None."""
        return self if self.field.name in fields else None

    def cast(self, schema: pa.Schema) -> RangeDomain:
        """Return the domain with the field's type in ``schema``."""
        field = schema.field(self.field.name)
        return RangeDomain(field, self.ranges.cast(field.type), self.includes_null)

    def describe(self) -> str:
        """Return a short description for reports."""
        return f"{self.field.name} in {self.ranges.describe()}"


Domain = ValueDomain | RangeDomain


def has_range(kind: pa.DataType) -> bool:
    """Return whether ranges of a type are possible: not for floats (NaN) and unordered types."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_temporal(kind)
        or pa.types.is_string(kind)
        or pa.types.is_binary(kind)
    ) and not pa.types.is_interval(kind)
