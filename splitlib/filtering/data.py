"""Join keys as filtering data: distinct values, ranges, or only a marker for too many keys.

Filtering data consists of domains, which are conditions on fields, combined with AND. If the keys
are within the size limit, one :class:`ValueDomain` contains all of them as tuples. Otherwise, each
field has its own domain: a :class:`ValueDomain` if it has few values, or a :class:`RangeDomain` if
its type has an order. Other fields have no domain. Data without domains is the marker for too many
keys, which prunes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from splitlib.arrow.ipc import Unreadable
from splitlib.arrow.tables import table_of
from splitlib.arrow.values import in_zone, normal_floats
from splitlib.errors import InvalidFilter
from splitlib.filtering.domains import (
    BRACKETS,
    Domain,
    RangeDomain,
    Ranges,
    ValueDomain,
    distinct,
    has_range,
    plain_rows,
    plain_schema,
    rows_of,
)
from splitlib.filtering.filter_bytes import Part, Parts, decode, encode
from splitlib.report import size_text

# For each kind of serialized range domain, such as "ranges[)": the brackets of its ranges.
_BRACKETS: Final = {"range": "[]"} | {f"ranges{brackets}": brackets for brackets in BRACKETS}
_TEXT = (str, bytes, bytearray, memoryview)
_UNKNOWN_LIMIT: Final = "there are more keys than filter_threshold_bytes or filter_max_values"
"""Clause for reports if it is unknown which of the two limits the keys exceed."""


class DynamicFilteringData:
    """The join keys of one dimension (the small side of a join), as a filter.

    Filtering data is immutable, and can be compared, hashed and pickled. Create it with
    :meth:`from_arrow`, :meth:`from_values`, :meth:`from_range`, :meth:`exceeded`, or with a
    :class:`DynamicFilteringDataCollector`.

    Attributes:
        schema: The key fields.
        domains: Conditions on the fields. Every key meets all of them.
        exceeds_threshold: Whether there were too many keys to keep all of them.
        passed_limit: For reports, a clause that names the limit that the keys exceed, with its
            value and the measured number or size. Empty if the keys exceed no limit. The clause is
            not compared, and :meth:`to_bytes` does not write it.
    """

    __slots__ = ("domains", "exceeds_threshold", "passed_limit", "schema")

    schema: pa.Schema
    domains: tuple[Domain, ...]
    exceeds_threshold: bool
    passed_limit: str

    def __init__(
        self,
        schema: pa.Schema,
        domains: Iterable[Domain],
        *,
        exceeds_threshold: bool,
        passed_limit: str = "",
    ) -> None:
        self.schema = schema
        self.domains = tuple(domains)
        self.exceeds_threshold = exceeds_threshold
        self.passed_limit = (passed_limit or _UNKNOWN_LIMIT) if exceeds_threshold else ""

    @classmethod
    def from_arrow(cls, data: Any, fields: Sequence[str] | None = None) -> DynamicFilteringData:
        """Make a filter from the distinct rows of ``data``.

        A null key matches partitions whose value is null. For a join by ``=``, drop nulls first.

        Args:
            data: Rows of keys: an Arrow table or batch, or a table of pandas or Polars.
            fields: Columns to use. By default, these are all columns.

        Raises:
            InvalidFilter: if a field is missing or ambiguous in ``data``, or there are no fields.
        """
        if isinstance(fields, str) or not isinstance(fields, Iterable | None):
            raise InvalidFilter(
                f"fields={fields!r} is not a list of names.", hint=f"pass fields=['{fields}']."
            )
        table = rows_of(data)
        names = list(table.column_names if fields is None else fields)
        if repeated := sorted({n for n in names if table.column_names.count(n) > 1}):
            raise InvalidFilter(f"The data has several columns named {', '.join(repeated)}.")
        if missing := [name for name in names if name not in table.column_names]:
            raise InvalidFilter(
                f"The data has no column {', '.join(map(str, missing))}.",
                hint=f"its columns are {', '.join(table.column_names)}.",
            )
        rows = distinct(plain_rows(table.select(names)))
        return cls(rows.schema, [ValueDomain(rows)], exceeds_threshold=False)

    @classmethod
    def from_values(cls, values: Mapping[str, Iterable[Any]]) -> DynamicFilteringData:
        """Make a filter from key tuples.

        Args:
            values: For each field, a sequence with the field's value in each tuple, such as
                ``{"k": [1, 2], "s": ["a", "b"]}``. The values of a single field may be a set.

        Raises:
            InvalidFilter: for sequences of unequal length, values without a common Arrow type, or a
                single value, such as a string, instead of a sequence.
        """
        try:
            table = pa.table(columns_of(values))
        except pa.ArrowException as error:
            raise InvalidFilter(f"The values cannot form a table: {error}") from error
        return cls.from_arrow(table)

    @classmethod
    def of(cls, given: Any) -> DynamicFilteringData:
        """Return filtering data unchanged, or make it from a dict of values or a table of keys.

        Raises:
            InvalidFilter: for any other argument, and if from_values or from_arrow raises it.
        """
        if isinstance(given, DynamicFilteringData):
            return given
        if isinstance(given, Mapping):
            return cls.from_values(given)
        if (rows := table_of(given)) is not None:
            return cls.from_arrow(rows)
        raise InvalidFilter(
            f"A {type(given).__name__} is not filtering data.",
            hint="pass {'field': [value, …]}, or the result of DynamicFilteringData.from_arrow.",
        )

    @classmethod
    def from_range(cls, ranges: Mapping[str, tuple[Any, Any]]) -> DynamicFilteringData:
        """Make a filter from one range per field, such as ``{"day": (first, last)}``.

        Ranges include both ends. None in place of an end means that there is no limit.

        Raises:
            InvalidFilter: if the two ends do not have a common type that supports ranges. Floats do
                not support ranges, because of NaN.
        """
        domains = []
        fields = []
        for name, (low, high) in ends_of(ranges).items():
            if not pa.types.is_null(low.type) and not has_range(low.type):
                raise InvalidFilter(
                    f"Field {name!r} has type {low.type}, which does not support ranges."
                )
            fields.append(pa.field(name, low.type))
            if low.is_valid or high.is_valid:  # A range without limits does not filter.
                domains.append(RangeDomain(fields[-1], Ranges.between(low, high)))
        return cls(plain_schema(fields), domains, exceeds_threshold=False)

    @classmethod
    def exceeded(cls, schema: pa.Schema) -> DynamicFilteringData:
        """Make a filter for a join with too many keys. It matches all tuples."""
        return cls(plain_schema(schema), [], exceeds_threshold=True)

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the key fields."""
        return tuple(self.schema.names)

    @property
    def is_exact(self) -> bool:
        """Whether the filter contains all distinct keys, and not just ranges or nothing at all."""
        return self._rows is not None

    @property
    def is_empty(self) -> bool:
        """Whether there are no keys, so that nothing matches."""
        return any(isinstance(d, ValueDomain) and d.rows.num_rows == 0 for d in self.domains)

    @property
    def num_values(self) -> int:
        """Number of distinct keys; 0 if there were too many keys, or the filter has only ranges."""
        return 0 if self._rows is None else int(self._rows.num_rows)

    @property
    def nbytes(self) -> int:
        """Size of the kept values and ranges, in bytes."""
        return sum(domain.nbytes for domain in self.domains)

    @property
    def _rows(self) -> pa.Table | None:
        match self.domains:
            case (ValueDomain() as only,) if not self.exceeds_threshold:
                return only.rows
        return None

    def contains(self, row: Mapping[str, Any]) -> bool:
        """Return whether a tuple, as a dict by field name, may be among the keys. Null equals null.

        Raises:
            InvalidFilter: if ``row`` has other fields or a value of another type.
        """
        _refuse_unnamed(row, "{'field': value}")
        if set(row) != set(self.fields):
            raise InvalidFilter(f"Expected the fields {self.fields}, got {tuple(row)}.")
        try:
            # A field has the type null if all its keys are null, or its range has no ends.
            types = {f.name: None if pa.types.is_null(f.type) else f.type for f in self.schema}
            scalars = {n: normal_floats(pa.scalar(row[n], kind)) for n, kind in types.items()}
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise InvalidFilter(
                f"The row does not have the types of the filter: {error}"
            ) from error
        return all(domain.contains(scalars) for domain in self.domains)

    def without_nulls(self) -> DynamicFilteringData:
        """Return a copy without null keys, for a join by ``=``, where null matches nothing."""
        return self._with(self.schema, [domain.without_nulls() for domain in self.domains])

    def renamed(self, names: Mapping[str, str]) -> DynamicFilteringData:
        """Return a copy with renamed fields. Fields missing in ``names`` keep their name."""
        _refuse_unnamed(names, "{'field': 'new name'}")
        new = {name: names.get(name, name) for name in self.fields}
        schema = pa.schema([f.with_name(new[f.name]) for f in self.schema])
        return self._with(schema, [domain.renamed(new) for domain in self.domains])

    def only(self, fields: Collection[str]) -> DynamicFilteringData:
        """Return a copy of the filter that is restricted to ``fields``."""
        schema = pa.schema([field for field in self.schema if field.name in fields])
        parts = (domain.only(fields) for domain in self.domains)
        return self._with(schema, [part for part in parts if part is not None])

    def in_time_zone(self, zone: str) -> DynamicFilteringData:
        """Return a copy with ``zone`` as the time zone of all instants (timestamps with a zone).

        The date of an instant, and so the partition that it matches, depends on the time zone.

        Raises:
            ConfigError: if the time zone is unknown.
        """
        schema = in_zone(self.schema, zone)
        return self._with(schema, [domain.cast(schema) for domain in self.domains])

    def _with(self, schema: pa.Schema, domains: Iterable[Domain]) -> DynamicFilteringData:
        return DynamicFilteringData(
            schema,
            domains,
            exceeds_threshold=self.exceeds_threshold,
            passed_limit=self.passed_limit,
        )

    def to_bytes(self) -> bytes:
        """Serialize the filter to an Arrow IPC stream with a checksum.

        :mod:`splitlib.filtering.filter_bytes` describes the format.
        """
        parts = [_part(domain) for domain in self.domains]
        return encode(Parts(self.schema, parts, self.exceeds_threshold))

    @classmethod
    def from_bytes(cls, data: bytes) -> DynamicFilteringData:
        """Deserialize the bytes that :meth:`to_bytes` returned. Safe for untrusted bytes.

        Raises:
            InvalidFilter: if the bytes were not written by :meth:`to_bytes`.
        """
        try:
            schema, parts, exceeded = decode(data)
            domains = [_domain(part) for part in parts]
            is_plain = plain_schema(schema).equals(schema)
        except (Unreadable, InvalidFilter) as error:
            raise InvalidFilter(
                f"The bytes are not a filter, or are damaged: {error}.",
                hint="pass the result of DynamicFilteringData.to_bytes() unchanged.",
            ) from error
        if not is_plain:
            raise InvalidFilter(
                f"The bytes are not a filter: the fields {schema.names} are invalid."
            )
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
        """Return a short description for reports."""
        if self.is_exact:
            return f"{self.num_values} value{'' if self.num_values == 1 else 's'}"
        if not self.domains:
            return "exceeded" if self.exceeds_threshold else "unbounded"
        text = " and ".join(domain.describe() for domain in self.domains)
        if not self.exceeds_threshold:
            return text
        is_range = any(isinstance(domain, RangeDomain) for domain in self.domains)
        kept = "a range" if is_range else "separate values of each column"
        return f"{text}, {kept} because {self.passed_limit}; raise the limit to keep all keys"


def passed_limit(
    rows: int, nbytes: int, max_values: int | None, threshold_bytes: int, *, is_least: bool = False
) -> str:
    """Return a clause that names the limit that keys exceed, or an empty string if there is none.

    Args:
        rows: Number of distinct keys.
        nbytes: Size of the distinct keys, in bytes.
        max_values: Maximum number of distinct keys; None means no limit.
        threshold_bytes: Maximum size of the distinct keys, in bytes; 0 or less means no limit.
        is_least: Whether there may be more keys than were counted.
    """
    least = "at least " if is_least else ""
    if max_values is not None and rows > max_values:
        return f"there are {least}{rows:,} keys, more than filter_max_values ({max_values:,})"
    if 0 < threshold_bytes < nbytes:
        size, most = size_text(nbytes), size_text(threshold_bytes)
        if size == most:
            size, most = f"{nbytes:,} bytes", f"{threshold_bytes:,} bytes"
        return f"the keys have {least}{size}, more than filter_threshold_bytes ({most})"
    return ""


def _part(domain: Domain) -> Part:
    if isinstance(domain, ValueDomain):
        return Part("values", domain.rows)
    ranges = domain.ranges
    kind = f"ranges{ranges.brackets}"
    if len(ranges) == 1 and ranges.brackets == "[]":
        kind = "range"  # older versions of splitlib read only this kind of range
    ends = pa.table([ranges.ends], schema=pa.schema([domain.field]))
    return Part(f"{kind}+null" if domain.includes_null else kind, ends)


def _domain(part: Part) -> Domain:
    """Restore the domain that :func:`_part` serialized."""
    if part.kind == "values":
        return ValueDomain(part.rows)
    field, rows = part.rows.schema.field(0), part.rows
    kind, _, null = part.kind.partition("+")
    number, odd = divmod(rows.num_rows, 2)
    is_range = kind in _BRACKETS and null in ("", "null") and has_range(field.type)
    if is_range and rows.num_columns == 1 and not odd:
        ends = rows.column(0).combine_chunks()
        ranges = Ranges(ends[:number], ends[number:], _BRACKETS[kind])
        if ranges.are_in_order:
            return RangeDomain(field, ranges, bool(null))
    raise Unreadable(f"{part.kind!r} of {rows.num_rows} {field.type} is not a domain")


def _restored(data: bytes) -> DynamicFilteringData:
    # This is a plain function, because Spark's cloudpickle would pickle a class method's code
    # instead of its name.
    return DynamicFilteringData.from_bytes(data)


@dataclass(frozen=True, slots=True)
class DynamicFilteringEvent:
    """Filtering data sent by a producer to an enumerator.

    Attributes:
        data: The collected join keys.
        producer: Id of the sender; None means unknown. Each producer sends one filter. A second,
            equal filter is ignored, and a different one raises an error.
    """

    data: DynamicFilteringData
    producer: Hashable = None


def columns_of(values: Mapping[str, Iterable[Any]]) -> dict[str, pa.Array]:
    """Convert each field's sequence of values to an Arrow column.

    Raises:
        InvalidFilter: if the values do not have a common Arrow type; for a single value, such as a
            string, instead of a sequence; or if there are several fields and one of them has a set.
    """
    _refuse_unnamed(values, "{'field': [value, …]}")
    columns = {}
    for name, given in values.items():
        if isinstance(given, (*_TEXT, Mapping, pa.Scalar)) or not isinstance(given, Iterable):
            # A string is iterable, but its characters are not the values that the user means.
            raise InvalidFilter(
                f"The values of {name!r} are not a sequence: {given!r}.",
                hint=f"pass {{{name!r}: [value, …]}}, also for a single value.",
            )
        if isinstance(given, Set) and len(values) > 1:
            raise InvalidFilter(
                f"The values of {name!r} are a set, which has no order to match other fields.",
                hint="pass one list per field. Values at the same index form one key.",
            )
        try:
            columns[name] = pa.array(given)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InvalidFilter(
                f"Arrow cannot store the values of {name!r} in one column: {error}"
            ) from error
    return columns


def ends_of(ranges: Mapping[str, tuple[Any, Any]]) -> dict[str, tuple[pa.Scalar, pa.Scalar]]:
    """Convert each field's pair of values to a lower and an upper end with the same Arrow type.

    A null end means that the range has no limit there.

    Raises:
        InvalidFilter: for anything other than a pair of values with a common Arrow type.
    """
    _refuse_unnamed(ranges, "{'field': (lower, upper)}")
    found = {}
    for name, given in ranges.items():
        if isinstance(given, (*_TEXT, Mapping, Set)):
            raise _no_pair(name, given)
        try:
            low, high = pa.array(given)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise _no_pair(name, given) from error
        found[name] = (low, high)
    return found


def _no_pair(name: str, given: object) -> InvalidFilter:
    return InvalidFilter(
        f"The range of {name!r} is not a pair of values: {given!r}.",
        hint=f"pass {{{name!r}: (lower, upper)}}, with None for an end without a limit.",
    )


def _refuse_unnamed(given: object, example: str) -> None:
    if not isinstance(given, Mapping):
        raise InvalidFilter(
            f"A {type(given).__name__} has no field names.", hint=f"pass {example}."
        )
    if wrong := [name for name in given if not isinstance(name, str)]:
        raise InvalidFilter(f"The name of a field is a text, not {wrong[0]!r}.")
