"""Domains: the values or ranges of join keys in one or more fields.

Rows of join keys are sorted and distinct. Their types and floats are normalized, so that values
that are equal in Spark are also equal in Arrow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.arrow import ipc
from splitlib.arrow.tables import table_of, values_nbytes
from splitlib.arrow.values import (
    cast_views,
    have_same_ordinals,
    is_instant,
    is_known,
    normal_floats,
    ordinals,
    plain_type,
    shown,
)
from splitlib.errors import InvalidFilter

# Arrow's errors for types that it cannot hash or sort.
_UNGROUPABLE = (pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowKeyError)
BRACKETS: Final = ("[]", "[)", "(]", "()")
"""Kinds of ranges. ``[`` and ``]`` include the lower and upper end, ``(`` and ``)`` exclude it."""


def distinct(rows: pa.Table) -> pa.Table:
    """Return the distinct rows, sorted if the types have an order.

    Rows with a type that Arrow cannot group by (struct, list) are returned unchanged.
    """
    return in_order(unique(rows))


def unique(rows: pa.Table) -> pa.Table:
    """Return the distinct rows in any order, with normalized floats.

    Rows with a type that Arrow cannot group by (struct, list) are returned unchanged.
    """
    columns = [normal_floats(column) for column in rows.columns]
    numbered, numbers = _numbered(columns)
    try:
        found = numbered.group_by(numbers, use_threads=False).aggregate([]).select(numbers)
    except _UNGROUPABLE:
        found = numbered
    return pa.table(found.columns, schema=rows.schema)


def in_order(rows: pa.Table) -> pa.Table:
    """Return the rows sorted, or unchanged if Arrow cannot sort the types."""
    numbered, numbers = _numbered(rows.columns)
    try:
        order = pc.sort_indices(numbered, sort_keys=[(number, "ascending") for number in numbers])
    except _UNGROUPABLE:
        return rows.combine_chunks()
    return rows.take(order).combine_chunks()


def _numbered(columns: Sequence[pa.ChunkedArray]) -> tuple[pa.Table, list[str]]:
    """Return the columns as a table, named by their numbers, and these names.

    The original names may start with a dot or a bracket, which Arrow reads as the path of a field.
    """
    numbers = [str(number) for number in range(len(columns))]
    return pa.table(columns, names=numbers), numbers


def rows_of(data: Any) -> pa.Table:
    """Convert rows to an Arrow table.

    Args:
        data: An Arrow table or batch, or a table of pandas, Polars or others that export Arrow.

    Raises:
        InvalidFilter: for any other argument.
    """
    table = table_of(data)
    if table is None:
        raise InvalidFilter(
            f"A {type(data).__name__} is not an Arrow table.",
            hint="pass pa.table(…), or call from_values({'field': [value, …]}).",
        )
    return table


def plain_rows(rows: pa.Table) -> pa.Table:
    """Cast ``rows`` to the types of :func:`plain_schema`."""
    fields = plain_schema(rows.schema)
    return pa.table({field.name: cast_views(rows[field.name], field.type) for field in fields})


def plain_schema(fields: Iterable[pa.Field]) -> pa.Schema:
    """Return a schema of plain types (see :func:`plain_type`), without metadata.

    Raises:
        InvalidFilter: for an empty schema, a repeated field name, an unknown time zone, or a type
            that :mod:`splitlib.arrow.ipc` cannot write, such as a union.
    """
    plain = []
    if isinstance(fields, Mapping) or not isinstance(fields, Iterable):
        raise InvalidFilter(f"A {type(fields).__name__} is not a pyarrow.Schema.")
    for field in fields:
        if not isinstance(field, pa.Field):
            raise InvalidFilter(f"A schema consists of objects pyarrow.Field, not {field!r}.")
        _refuse_unknown_zone(field.name, field.type)
        plain.append(pa.field(field.name, plain_type(field.type)))
    if not plain:
        raise InvalidFilter("A filter needs at least one field.")
    if len({field.name for field in plain}) < len(plain):
        raise InvalidFilter(f"A field is named twice: {[field.name for field in plain]}.")
    schema = pa.schema(plain)
    if any(field.type.num_fields for field in plain):
        _refuse_unwritable(schema)
    return schema


def _refuse_unwritable(schema: pa.Schema) -> None:
    try:
        ipc.check_types(schema)
    except ipc.Unreadable as error:
        raise InvalidFilter(
            f"A filter cannot have keys of this type: {error}.",
            hint="convert the keys to the type of the table's column.",
        ) from error


def _refuse_unknown_zone(name: str, kind: pa.DataType) -> None:
    """Reject a type that contains, at any depth, a time zone that Arrow does not support."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    while pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        kind = kind.value_type
    if is_instant(kind) and not is_known(kind.tz):
        raise InvalidFilter(
            f"The time zone {kind.tz!r} of {name!r} is unknown.",
            hint="use a zone such as 'UTC' or 'Europe/Berlin'; on a system without a time zone "
            "database, install one.",
        )
    for i in range(kind.num_fields):
        _refuse_unknown_zone(name, kind.field(i).type)


@dataclass(frozen=True, slots=True, eq=False)
class ValueDomain:
    """A condition: the values of some fields must equal one of several rows. Null equals null."""

    rows: pa.Table
    """The distinct, sorted rows, with one column per field."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields, in order."""
        return tuple(self.rows.column_names)

    @property
    def nbytes(self) -> int:
        """Size of the values, in bytes."""
        return values_nbytes(self.rows)

    def contains(self, row: Mapping[str, pa.Scalar]) -> bool:
        """Return whether a tuple is among the rows."""
        mask: Any = None
        for name in self.fields:
            kind = row[name].type  # differs from the type of the rows only if all keys are null
            values = self.rows[name].cast(kind)
            if pa.types.is_nested(kind):  # Arrow's is_in does not support nested types.
                hit = pa.array([value.equals(row[name]) for value in values])
            else:
                hit = pc.is_in(values, value_set=pa.array([row[name]], kind))
            mask = hit if mask is None else pc.and_(mask, hit)
        return bool(pc.any(mask, min_count=0).as_py())

    def without_nulls(self) -> ValueDomain:
        """Return a copy without the rows that contain a null."""
        return ValueDomain(self.rows.drop_null())

    def renamed(self, names: Mapping[str, str]) -> ValueDomain:
        """Return a copy with renamed fields. ``names`` has an entry for each field."""
        return ValueDomain(self.rows.rename_columns([names[field] for field in self.fields]))

    def only(self, fields: Collection[str]) -> ValueDomain | None:
        """Return a copy restricted to ``fields``, or None if the domain has none of them."""
        names = [name for name in self.fields if name in fields]
        if len(names) == len(self.fields):
            return self
        return ValueDomain(distinct(self.rows.select(names))) if names else None

    def cast(self, schema: pa.Schema) -> ValueDomain:
        """Return a copy in which each field has its type in ``schema``."""
        return ValueDomain(self.rows.cast(pa.schema([schema.field(name) for name in self.fields])))

    def describe(self) -> str:
        """Return a short description for reports."""
        return f"{self.fields[0]} among {self.rows.num_rows} values"


@dataclass(frozen=True, slots=True, eq=False)
class RangeDomain:
    """A condition: the value of one field must lie in one of several ranges."""

    field: pa.Field
    ranges: Ranges
    """Ranges whose ends have the field's type."""
    includes_null: bool = False
    """Whether a null value of the field meets the condition."""

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
        """Return a copy with the same ranges that does not accept null."""
        return RangeDomain(self.field, self.ranges)

    def renamed(self, names: Mapping[str, str]) -> RangeDomain:
        """Return a copy with the field renamed as in ``names``."""
        return replace(self, field=self.field.with_name(names[self.field.name]))

    def only(self, fields: Collection[str]) -> RangeDomain | None:
        """Return this domain if its field is one of ``fields``, or None if it is not."""
        return self if self.field.name in fields else None

    def cast(self, schema: pa.Schema) -> RangeDomain:
        """Return a copy in which the domain's field has its type in ``schema``."""
        field = schema.field(self.field.name)
        return RangeDomain(field, self.ranges.cast(field.type), self.includes_null)

    def describe(self) -> str:
        """Return a short description for reports."""
        return f"{self.field.name} in {self.ranges.describe()}"


Domain = ValueDomain | RangeDomain


def has_range(kind: pa.DataType) -> bool:
    """Return whether a type supports ranges. Floats do not, because of NaN."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_temporal(kind)
        or pa.types.is_string(kind)
        or pa.types.is_binary(kind)
    ) and not pa.types.is_interval(kind)


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """One or more ranges in ascending order. A range may begin where the previous one ends."""

    lower: pa.Array
    """Lower ends, ascending. If the first one is null, the first range has no lower limit."""
    upper: pa.Array
    """Upper ends, ascending. If the last one is null, the last range has no upper limit."""
    brackets: str = "[]"
    """One of :data:`BRACKETS`: which ends belong to the ranges."""

    @classmethod
    def between(cls, lower: pa.Scalar, upper: pa.Scalar) -> Self:
        """Make one range that includes both ends. A null end means that there is no limit."""
        # The ends stay Arrow scalars, because Python has no dates after the year 9999.
        return cls(*(pa.array([end], end.type) for end in (lower, upper)))

    @classmethod
    def covering(cls, values: pa.Array, most: int) -> Self:
        """Make ranges that contain all ``values`` and as few other values as possible.

        Consecutive integers or dates form one range. :meth:`at_most` then merges ranges.

        Args:
            values: At least one value, sorted, without nulls.
            most: Maximum number of ranges, at least 1.
        """
        ranges = cls(values, values)
        gaps = ranges._gaps()
        is_whole = pa.types.is_integer(values.type) or pa.types.is_date32(values.type)
        if is_whole and gaps is not None:
            ranges = ranges._cut((np.flatnonzero(gaps > 1) + 1).tolist())
        return ranges.at_most(most)

    @classmethod
    def merged(cls, lower: pa.Array, upper: pa.Array, brackets: str = "[]") -> Self | None:
        """Return the union of intervals, or None if all of them are empty.

        Args:
            lower: Lower bounds, without nulls.
            upper: Upper bounds, without nulls. An interval is empty if its upper bound is below its
                lower bound.
            brackets: Which bounds belong to the intervals, one of :data:`BRACKETS`.
        """
        holds = (pc.less_equal if brackets == "[]" else pc.less)(lower, upper)
        lower, upper = lower.filter(holds), upper.filter(holds)
        if not len(lower):
            return None
        ranks = pc.rank(pa.concat_arrays([lower, upper]), tiebreaker="dense").to_numpy()
        order = np.argsort(ranks[: len(lower)], kind="stable")
        begins, ends = ranks[: len(lower)][order], ranks[len(lower) :][order]
        reached = np.maximum.accumulate(ends)
        # Neither (1, 2) nor (2, 3) contains 2, so open intervals that only touch are not merged.
        is_apart = np.greater_equal if brackets == "()" else np.greater
        starts = np.flatnonzero(np.append(True, is_apart(begins[1:], reached[:-1])))
        lasts = np.append(starts[1:], len(begins)) - 1
        _, with_rank = np.unique(ends, return_index=True)
        furthest = with_rank[np.searchsorted(ends[with_rank], reached[lasts])]
        return cls(lower.take(order[starts]), upper.take(order[furthest]), brackets)

    def __len__(self) -> int:
        return len(self.lower)

    def __iter__(self) -> Iterator[tuple[pa.Scalar, pa.Scalar]]:
        return zip(self.lower, self.upper, strict=True)

    @property
    def ends(self) -> pa.Array:
        """All lower ends, then all upper ends."""
        return pa.concat_arrays([self.lower, self.upper])

    @property
    def are_in_order(self) -> bool:
        """Whether the ranges are valid and in ascending order. Deserialized ranges may not be."""
        if self.brackets not in BRACKETS or not len(self):
            return False
        if len(self) == 1:
            return True  # a range that ends before it begins is empty, but valid
        if self.lower[1:].null_count or self.upper[:-1].null_count:
            return False
        pairs = ((self.lower, self.upper), (self.upper[:-1], self.lower[1:]))
        return not any(pc.any(pc.greater(*pair)).as_py() for pair in pairs)

    def contain(self, values: pa.Array) -> pa.BooleanArray:
        """Return a mask of the values that lie in one of the ranges. The mask is true for nulls."""
        return self.meet(values, values)

    def meet(self, lower: pa.Array, upper: pa.Array) -> pa.BooleanArray:
        """Return a mask of the intervals that overlap one of the ranges.

        It is enough to check the last range that begins before the upper bound, because earlier
        ranges end earlier.

        Args:
            lower: Lower bounds of the intervals; null means no bound.
            upper: Upper bounds of the intervals; null means no bound.
        """
        if len(self) > 1 and not have_same_ordinals(self.lower.type, upper.type):
            return self.at_most(1).meet(lower, upper)
        begins: Any = self.lower[0]
        ends: Any = self.upper[0]
        if len(self) > 1:
            starts = ordinals(self.lower[1:])
            side: Literal["left", "right"] = "right" if self.brackets[0] == "[" else "left"
            at = np.searchsorted(starts, ordinals(upper), side)
            at[pc.is_null(upper).to_numpy(zero_copy_only=False)] = len(self) - 1
            begins, ends = self.lower.take(pa.array(at)), self.upper.take(pa.array(at))
        begun = pc.less_equal if self.brackets[0] == "[" else pc.less
        not_ended = pc.greater_equal if self.brackets[1] == "]" else pc.greater
        return pc.and_(
            pc.fill_null(begun(begins, upper), True), pc.fill_null(not_ended(ends, lower), True)
        )

    def at_most(self, number: int) -> Self:
        """Return a copy with at most ``number`` ranges. Ranges with small gaps are merged.

        If the values cannot be subtracted, groups of about equally many ranges are merged.

        Args:
            number: Maximum number of ranges, at least 1.
        """
        if len(self) <= number:
            return self
        gaps = self._gaps()
        if gaps is None:
            return self._cut([len(self) * part // number for part in range(1, number)])
        widest = np.argsort(gaps, kind="stable")[len(gaps) - number + 1 :]
        return self._cut((np.sort(widest) + 1).tolist())

    def cast(self, kind: pa.DataType) -> Self:
        """Return a copy whose ends have the type ``kind``."""
        return replace(self, lower=self.lower.cast(kind), upper=self.upper.cast(kind))

    def describe(self) -> str:
        """Return a short description for reports."""
        ends = f"{shown(self.lower[0])}, {shown(self.upper[-1])}".join(self.brackets)
        return f"{len(self)} ranges in {ends}" if len(self) > 1 else ends

    def _cut(self, at: list[int]) -> Self:
        """Merge adjacent ranges. A merged range starts at index 0 and at each index in ``at``."""
        starts, ends = [0, *at], [*(number - 1 for number in at), len(self) - 1]
        return replace(self, lower=self.lower.take(starts), upper=self.upper.take(ends))

    def _gaps(self) -> npt.NDArray[np.float64] | None:
        """Return the approximate gaps between ranges, or None if values cannot be subtracted."""
        numbers = _numbers(pa.concat_arrays([self.lower[1:], self.upper[:-1]]))
        return None if numbers is None else numbers[: len(self) - 1] - numbers[len(self) - 1 :]


def _numbers(values: pa.Array) -> npt.NDArray[np.float64] | None:
    """Convert values to approximate floats. Return None if the values cannot be subtracted."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        # Skip the common prefix of all texts, and read the next 8 bytes of each text as a number.
        texts = values.cast(pa.binary()).to_pylist()
        first, last = min(texts, default=b""), max(texts, default=b"")
        pairs = enumerate(zip(first, last, strict=False))
        start = next((i for i, (one, other) in pairs if one != other), len(first))
        return np.array([text[start:][:8] for text in texts], "S8").view(">u8").astype(np.float64)
    if pa.types.is_decimal(kind):
        return np.asarray(pc.cast(values, pa.float64(), safe=False))
    if pa.types.is_temporal(kind):
        values = values.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return None
    return np.asarray(values).astype(np.float64)
