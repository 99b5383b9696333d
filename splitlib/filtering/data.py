"""What is known of the join keys: distinct values, else ranges, else that there were too many.

A filter is a conjunction of domains. Exact data is one :class:`ValueDomain` over all fields (tuple
containment, no cross product). Data that grew too large falls apart into one domain per field:
values where those stay small, a :class:`RangeDomain` where the type is ordered, nothing elsewhere.
Without any domain left it is the bare marker, which prunes nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.arrow.ipc import Unreadable
from splitlib.arrow.time_zones import arrow_zone
from splitlib.errors import InvalidFilter
from splitlib.filtering.encoding import Part, Parts, decode, encode
from splitlib.filtering.given_values import columns_of, ends_of
from splitlib.hive.layout import normal_floats, shown

# What Arrow raises for types that have no hash, or no order.
_UNGROUPABLE = (pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowKeyError)


@dataclass(frozen=True, slots=True, eq=False)
class ValueDomain:
    """The fields, as a tuple, are among these rows. A null among them equals a null."""

    rows: pa.Table
    """Distinct and sorted; a column per field."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields, in order."""
        return tuple(self.rows.column_names)

    @property
    def nbytes(self) -> int:
        """Size of the values in bytes; see :func:`values_nbytes`."""
        return values_nbytes(self.rows)

    def contains(self, row: Mapping[str, pa.Scalar]) -> bool:
        """Whether one tuple is among the rows."""
        mask: Any = None
        for name in self.fields:
            hit = pc.is_in(self.rows[name], value_set=pa.array([row[name]], row[name].type))
            mask = hit if mask is None else pc.and_(mask, hit)
        return bool(pc.any(mask, min_count=0).as_py())


@dataclass(frozen=True, slots=True, eq=False)
class RangeDomain:
    """One field lies between two values, both included."""

    field: pa.Field
    lower: pa.Scalar
    """Null = open end."""
    upper: pa.Scalar
    includes_null: bool = False

    @property
    def fields(self) -> tuple[str, ...]:
        """The name of the field."""
        return (self.field.name,)

    @property
    def ends(self) -> pa.Array:
        """Lower and upper; not by way of Python, which has no date beyond the year 9999."""
        return pa.array([self.lower, self.upper], self.field.type)

    @property
    def nbytes(self) -> int:
        """Size of the two ends in bytes."""
        return values_nbytes(pa.table([self.ends], names=["end"]))

    def contains(self, row: Mapping[str, pa.Scalar]) -> bool:
        """Whether the field's value lies in the range."""
        value = row[self.field.name]
        if not value.is_valid:
            return self.includes_null
        low, high = self.lower, self.upper
        return not (
            (low.is_valid and pc.less(value, low).as_py())
            or (high.is_valid and pc.greater(value, high).as_py())
        )


Domain = ValueDomain | RangeDomain


class DynamicFilteringData:
    """The join keys of one dimension: immutable, hashable by content, serialisable.

    Made by :meth:`from_arrow`, :meth:`from_values`, :meth:`from_range`, :meth:`exceeded`, or by a
    :class:`DynamicFilteringDataCollector`.
    """

    __slots__ = ("domains", "exceeds_threshold", "schema")

    schema: pa.Schema
    """The fields of the tuples."""
    domains: tuple[Domain, ...]
    """What is known; all of it holds."""
    exceeds_threshold: bool
    """Whether there were more keys than were kept."""

    def __init__(
        self, schema: pa.Schema, domains: Iterable[Domain], *, exceeds_threshold: bool
    ) -> None:
        self.schema = schema
        self.domains = tuple(domains)
        self.exceeds_threshold = exceeds_threshold

    @classmethod
    def from_arrow(
        cls, data: pa.Table | pa.RecordBatch, fields: Sequence[str] | None = None
    ) -> DynamicFilteringData:
        """The distinct tuples of ``fields`` (all columns by default) of ``data``.

        A null in it matches null partitions; drop nulls first for an ordinary ``=`` join.

        Raises:
            InvalidFilter: if a field is not a column of ``data``, or there is none.
        """
        if isinstance(fields, str):
            raise InvalidFilter(
                f"fields={fields!r} is a text, not a list of names.", hint=f"fields=[{fields!r}]."
            )
        table = pa.table(data) if isinstance(data, pa.RecordBatch) else data
        names = list(table.column_names if fields is None else fields)
        if missing := [name for name in names if name not in table.column_names]:
            raise InvalidFilter(
                f"No column {', '.join(missing)} in the data.",
                hint=f"its columns are {', '.join(table.column_names)}.",
            )
        rows = distinct(plain_rows(table.select(names)))
        return cls(rows.schema, [ValueDomain(rows)], exceeds_threshold=False)

    @classmethod
    def from_values(cls, values: Mapping[str, Iterable[Any]]) -> DynamicFilteringData:
        """Tuples given as one equally long sequence per field; a set will do for a single field.

        Raises:
            InvalidFilter: for sequences of unequal length, values without a common Arrow type, or
                a single value, such as a text, where a sequence is meant.
        """
        try:
            table = pa.table(columns_of(values))
        except pa.ArrowException as error:
            raise InvalidFilter(f"The values make no table: {error}") from error
        return cls.from_arrow(table)

    @classmethod
    def from_range(cls, ranges: Mapping[str, tuple[Any, Any]]) -> DynamicFilteringData:
        """A range per field, both ends included, None = open.

        Raises:
            InvalidFilter: for ends without a common ordered type (float has NaN and is not).
        """
        domains = []
        fields = []
        for name, (low, high) in ends_of(ranges).items():
            if not pa.types.is_null(low.type) and not has_range(low.type):
                raise InvalidFilter(f"A {low.type} such as {name!r} has no range.")
            fields.append(pa.field(name, low.type))
            if low.is_valid or high.is_valid:  # open at both ends, it says nothing
                domains.append(RangeDomain(fields[-1], low, high))
        return cls(plain_schema(fields), domains, exceeds_threshold=False)

    @classmethod
    def exceeded(cls, schema: pa.Schema) -> DynamicFilteringData:
        """The marker that there were too many keys: it contains everything and prunes nothing."""
        return cls(plain_schema(schema), [], exceeds_threshold=True)

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields of a tuple."""
        return tuple(self.schema.names)

    @property
    def is_exact(self) -> bool:
        """Whether it holds all distinct tuples."""
        return self._rows is not None

    @property
    def is_empty(self) -> bool:
        """Whether there is no key at all, so that nothing can match."""
        return any(isinstance(d, ValueDomain) and d.rows.num_rows == 0 for d in self.domains)

    @property
    def num_values(self) -> int:
        """Distinct tuples kept; 0 where only ranges or nothing is known."""
        return 0 if self._rows is None else int(self._rows.num_rows)

    @property
    def nbytes(self) -> int:
        """Size of what is kept, in bytes."""
        return sum(domain.nbytes for domain in self.domains)

    @property
    def _rows(self) -> pa.Table | None:
        match self.domains:
            case (ValueDomain() as only,) if not self.exceeds_threshold:
                return only.rows
        return None

    def contains(self, row: Mapping[str, Any]) -> bool:
        """Whether one tuple may be among the keys; null equals null.

        Raises:
            InvalidFilter: if ``row`` has other fields, or a value of another type.
        """
        if set(row) != set(self.fields):
            raise InvalidFilter(f"Expected the fields {self.fields}, got {tuple(row)}.")
        try:
            scalars = {f.name: _scalar(row[f.name], f.type) for f in self.schema}
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise InvalidFilter(f"The row has not the types of the filter: {error}") from error
        return all(domain.contains(scalars) for domain in self.domains)

    def without_nulls(self) -> DynamicFilteringData:
        """The same for a join by ``=``, where a null key matches nothing."""
        domains: list[Domain] = []
        for domain in self.domains:
            if isinstance(domain, ValueDomain):
                domains.append(ValueDomain(domain.rows.drop_null()))
            else:
                domains.append(RangeDomain(domain.field, domain.lower, domain.upper))
        return DynamicFilteringData(self.schema, domains, exceeds_threshold=self.exceeds_threshold)

    def renamed(self, names: Mapping[str, str]) -> DynamicFilteringData:
        """The same keys under other field names; a name that is not in ``names`` stays."""
        new = {name: names.get(name, name) for name in self.fields}
        domains: list[Domain] = []
        for domain in self.domains:
            if isinstance(domain, ValueDomain):
                domains.append(
                    ValueDomain(domain.rows.rename_columns([new[f] for f in domain.fields]))
                )
            else:
                field = domain.field.with_name(new[domain.field.name])
                domains.append(RangeDomain(field, domain.lower, domain.upper, domain.includes_null))
        schema = pa.schema([f.with_name(new[f.name]) for f in self.schema])
        return DynamicFilteringData(schema, domains, exceeds_threshold=self.exceeds_threshold)

    def in_time_zone(self, zone: str) -> DynamicFilteringData:
        """The same instants, whose wall-clock times are those of ``zone``.

        Which date an instant falls on depends on it, and so which date partition it matches.

        Raises:
            ConfigError: if the zone is not known.
        """
        schema = pa.schema([field.with_type(_zoned(field.type, zone)) for field in self.schema])
        domains: list[Domain] = []
        for domain in self.domains:
            if isinstance(domain, ValueDomain):
                own = pa.schema([schema.field(name) for name in domain.fields])
                domains.append(ValueDomain(domain.rows.cast(own)))
            else:
                field = domain.field.with_type(_zoned(domain.field.type, zone))
                ends = (domain.lower.cast(field.type), domain.upper.cast(field.type))
                domains.append(RangeDomain(field, *ends, domain.includes_null))
        return DynamicFilteringData(schema, domains, exceeds_threshold=self.exceeds_threshold)

    def to_bytes(self) -> bytes:
        """An Arrow IPC stream of one row, a list column per field of a domain, and a checksum."""
        parts = []
        for domain in self.domains:
            if isinstance(domain, ValueDomain):
                parts.append(Part("values", domain.rows))
            else:
                kind = "range+null" if domain.includes_null else "range"
                ends = pa.table([domain.ends], schema=pa.schema([domain.field]))
                parts.append(Part(kind, ends))
        return encode(Parts(self.schema, parts, self.exceeds_threshold))

    @classmethod
    def from_bytes(cls, data: bytes) -> DynamicFilteringData:
        """The inverse of :meth:`to_bytes`; safe with bytes from anyone.

        Raises:
            InvalidFilter: if the bytes are not what :meth:`to_bytes` made.
        """
        try:
            schema, parts, exceeded = decode(data)
            domains = [_domain(part) for part in parts]
            is_plain = plain_schema(schema).equals(schema)
        except (Unreadable, InvalidFilter) as error:
            raise InvalidFilter(
                f"The bytes are no filter, or were damaged on the way: {error}.",
                hint="pass the result of DynamicFilteringData.to_bytes() unchanged.",
            ) from error
        if not is_plain:
            raise InvalidFilter(f"The bytes are no filter: its fields are {schema.names}.")
        return cls(schema, domains, exceeds_threshold=exceeded)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DynamicFilteringData) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self.to_bytes(),)

    def __repr__(self) -> str:
        return f"DynamicFilteringData({', '.join(self.fields)}: {self.describe()})"

    def describe(self) -> str:
        """What is known, in a few words for a report."""
        if self.is_exact:
            return f"{self.num_values} value{'' if self.num_values == 1 else 's'}"
        if not self.domains:
            return "exceeded" if self.exceeds_threshold else "unbounded"
        words = []
        for domain in self.domains:
            if isinstance(domain, ValueDomain):
                words.append(f"{domain.fields[0]} among {domain.rows.num_rows} values")
            else:
                low, high = shown(domain.lower), shown(domain.upper)
                words.append(f"{domain.field.name} in [{low}, {high}]")
        return " and ".join(words)


def _domain(part: Part) -> Domain:
    """The inverse of what :meth:`DynamicFilteringData.to_bytes` does with each domain."""
    if part.kind == "values":
        return ValueDomain(part.rows)
    field, rows = part.rows.schema.field(0), part.rows
    is_range = part.kind in ("range", "range+null") and has_range(field.type)
    if not is_range or rows.shape != (2, 1):
        raise Unreadable(f"{part.kind!r} of {rows.num_rows} {field.type} is no domain")
    low, high = rows.column(0)
    return RangeDomain(field, low, high, part.kind == "range+null")


def _restored(data: bytes) -> DynamicFilteringData:
    # a class method would be taken apart by cloudpickle, with which Spark pickles
    return DynamicFilteringData.from_bytes(data)


@dataclass(frozen=True, slots=True)
class DynamicFilteringEvent:
    """Filtering data on its way from the one who collected it to an enumerator."""

    data: DynamicFilteringData
    producer: Hashable = None
    """Who collected it. One producer sends one filter; a second, equal one is ignored."""


def values_nbytes(rows: pa.Table) -> int:
    """Bytes of the values: their fixed width, or an offset and the bytes of each string.

    Independent of how Arrow lays them out (validity bitmaps, slices, chunks).
    """
    total = 0
    for column in rows.columns:
        kind = column.type
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            text = pc.sum(pc.binary_length(column)).as_py() or 0
            total += 4 * len(column) + text
        elif pa.types.is_boolean(kind):
            total += len(column)
        else:
            try:
                total += len(column) * (kind.bit_width // 8)
            except ValueError:  # nested: nothing better than what Arrow says
                total += column.nbytes
    return total


def distinct(rows: pa.Table) -> pa.Table:
    """The rows once each, sorted where the types have an order.

    Types that Arrow cannot group by (struct, list) come back as they are.
    """
    return in_order(unique(rows))


def unique(rows: pa.Table) -> pa.Table:
    """As :func:`distinct`, in any order."""
    columns = [normal_floats(column) for column in rows.columns]
    rows = pa.table(columns, schema=rows.schema)
    names = rows.column_names
    try:
        return rows.group_by(names, use_threads=False).aggregate([]).select(names)
    except _UNGROUPABLE:
        return rows


def in_order(rows: pa.Table) -> pa.Table:
    """``rows`` sorted, where the types have an order."""
    try:
        return rows.sort_by([(name, "ascending") for name in rows.column_names]).combine_chunks()
    except _UNGROUPABLE:
        return rows.combine_chunks()


def plain_rows(rows: pa.Table) -> pa.Table:
    """``rows`` with the types of :func:`plain_schema`."""
    return rows.cast(plain_schema(rows.schema))


def plain_schema(fields: Iterable[pa.Field]) -> pa.Schema:
    """The fields in one spelling of each type: no dictionaries, no 64-bit offsets, no metadata."""
    plain = []
    for field in fields:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            kind = pa.string()
        elif pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
            kind = pa.binary()
        plain.append(pa.field(field.name, kind))
    if not plain:
        raise InvalidFilter("A filter needs at least one field.")
    if len({field.name for field in plain}) < len(plain):
        raise InvalidFilter(f"A field is named twice: {[field.name for field in plain]}.")
    return pa.schema(plain)


def has_range(kind: pa.DataType) -> bool:
    """Float has none, because of NaN; nor have types without an order."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_temporal(kind)
        or pa.types.is_string(kind)
        or pa.types.is_binary(kind)
    ) and not pa.types.is_interval(kind)


def _zoned(kind: pa.DataType, zone: str) -> pa.DataType:
    if not (pa.types.is_timestamp(kind) and kind.tz):
        return kind
    return pa.timestamp(kind.unit, arrow_zone(zone))


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    return normal_floats(pa.scalar(value, kind))
