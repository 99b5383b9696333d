"""Decode column bounds from the footer of a Parquet file.

A bound is returned only if it is valid for the values that Spark reads. It is unknown for
unsupported types, for sort orders that the file does not declare, and for dates that readers may
convert from the Julian calendar.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from splitlib.arrow.parquet_footer import Footer
from splitlib.arrow.utf8 import after, at_least, at_most
from splitlib.arrow.values import SAME_DATES, SAME_INSTANTS
from splitlib.model import FIELD_ID, INITIAL_DEFAULT, LOGICAL_TYPE, SPARK_FIELD

if TYPE_CHECKING:
    from pyarrow.parquet import (
        ColumnChunkMetaData,
        ColumnSchema,
        FileMetaData,
        RowGroupMetaData,
        Statistics,
    )

# Maximum length of string bounds in characters, and of binary bounds in bytes. Longer bounds are
# shortened, which makes them less tight.
_LONGEST: Final = 64

_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_UNITS: Final = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}

Bound = Any
"""A bound, as a Python value that ``pa.array`` accepts for its type; None means unknown."""
Decode = Callable[[Any, Any], tuple[Bound, Bound]]
"""Function that converts a column's raw minimum and maximum to bounds of the table's type."""
BoundsOf = Callable[["Statistics"], tuple[Bound, Bound]]
"""Function that returns the bounds, of the table's type, from a column's statistics."""


class GroupRow(NamedTuple):
    """Statistics of one column in one row group. None means unknown."""

    lower: Bound
    upper: Bound
    has_null: bool | None
    has_value: bool | None
    has_bloom_filter: bool
    """Whether the file has a Bloom filter of the column's values in the row group."""
    start: int
    """Start offset of the row group in the file, in bytes."""
    end: int
    """Exclusive end offset of the row group in the file, in bytes."""


def can_learn(column: pa.Field) -> bool:
    """Return whether the bounds in Parquet footers can be trusted for a table column.

    They cannot be trusted for unsupported types, for columns with a default value, and for columns
    that readers may look up by field id. Nor can they be trusted for collated columns, whose equal
    values may have different bytes.
    """
    known, of = column.metadata or {}, pa.types
    if any(key in known for key in (FIELD_ID, INITIAL_DEFAULT, SPARK_FIELD)):
        return False
    if not known.get(LOGICAL_TYPE, b"char(").startswith((b"char(", b"varchar(")):
        return False
    kind = column.type
    return bool(
        of.is_signed_integer(kind)
        or of.is_floating(kind)
        or of.is_boolean(kind)
        or of.is_date32(kind)
        or of.is_timestamp(kind)
        or of.is_decimal128(kind)
        or of.is_string(kind)
        or of.is_binary(kind)
    )


def learnable(columns: Iterable[pa.Field]) -> pa.Schema:
    """Return a schema of the columns that :func:`can_learn` accepts.

    Columns whose names differ only in case are left out.
    """
    columns = list(columns)
    names = [column.name.lower() for column in columns]
    return pa.schema([c for c in columns if names.count(c.name.lower()) == 1 and can_learn(c)])


def rows_of_groups(footer: Footer, columns: Sequence[pa.Field]) -> list[list[GroupRow]]:
    """Return a list for each column, with the column's statistics in each row group of a file.

    Args:
        footer: The file's footer.
        columns: Table columns that :func:`can_learn` accepts.

    Raises:
        pyarrow.ArrowException, ValueError, OverflowError: if the footer is damaged.
    """
    metadata = footer.metadata
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    places = [place_in_file(group) for group in groups]
    for start, end in places:
        if not 0 <= start <= end < 2**63:
            raise ValueError(f"A row group cannot be in the bytes from {start} to {end}.")
    found = []
    for column in columns:
        place = _place_of(metadata, column.name)
        if place is None or has_no_bounds(metadata.schema.column(place)):
            rows = [GroupRow(None, None, None, None, False, *at) for at in places]
        else:
            stored = metadata.schema.column(place)
            bounds = _bounds_of(stored, column.type, ordered=footer.ordered[place])
            exact = stored.path == column.name
            rows = [
                GroupRow(
                    *statistics_in(group, place, bounds, exact=exact),
                    _has_bloom_filter(group.column(place)),
                    *at,
                )
                for group, at in zip(groups, places, strict=True)
            ]
        found.append(rows)
    return found


def has_no_bounds(stored: ColumnSchema) -> bool:
    """Return whether the statistics of a column must not be read.

    Some writers truncate the bounds of long values of a fixed length. Then Arrow ends the process.
    """
    is_decimal = stored.logical_type.type == "DECIMAL"
    return stored.physical_type == "FIXED_LEN_BYTE_ARRAY" and not is_decimal


def place_in_file(group: RowGroupMetaData) -> tuple[int, int]:
    """Return a row group's byte range in the file: its start offset and exclusive end offset."""
    columns = [group.column(i) for i in range(group.num_columns)]
    if not columns:
        return 0, 0
    start = columns[0].data_page_offset
    if columns[0].has_dictionary_page:
        start = min(start, columns[0].dictionary_page_offset)
    return start, start + sum(column.total_compressed_size for column in columns)


def _place_of(metadata: FileMetaData, name: str) -> int | None:
    """Return the index of the top-level column ``name`` in the file's schema, or None.

    None means that the file's statistics say nothing about the column, because it is nested,
    ambiguous or missing. For a missing column, readers return null or the column's default.
    """
    schema = metadata.schema
    stored = [schema.column(i) for i in range(metadata.num_columns)]
    lower = name.lower()
    # A column named "a.b" has the same path as the field "b" of a struct "a". So a name with a dot
    # is ambiguous.
    same = [i for i, c in enumerate(stored) if c.path.lower() == lower]
    nested = any(c.path.lower().startswith(f"{lower}.") for c in stored)
    if nested or len(same) != 1 or "." in name:
        return None
    column = stored[same[0]]
    return None if column.max_repetition_level or column.max_definition_level > 1 else same[0]


def statistics_in(
    group: RowGroupMetaData, place: int, bounds: BoundsOf | None, *, exact: bool = True
) -> tuple[Bound, Bound, bool | None, bool | None]:
    """Return a column's ``lower``, ``upper``, ``has_null`` and ``has_value`` in a row group.

    Args:
        group: The row group.
        place: Index of the column in the file's schema.
        bounds: Function that returns the bounds from the column's statistics; None if they cannot
            be trusted.
        exact: Whether the column has the same name in the table, also in the same case.
    """
    chunk = group.column(place)
    found = chunk.statistics if chunk.is_stats_set else None
    if found is None:
        return None, None, None, None
    has_null = has_value = None
    # In a case-sensitive session, Spark does not find a column whose name differs in case, and
    # returns nulls. So the null count is used only if the name matches exactly.
    # A damaged null count is ignored.
    if found.has_null_count and exact and 0 <= found.null_count <= group.num_rows:
        has_null, has_value = found.null_count > 0, found.null_count < group.num_rows
    if not found.has_min_max:
        return None, None, has_null, has_value
    has_value = has_value or None  # False would contradict the existing bounds
    lower, upper = (None, None) if bounds is None else bounds(found)
    # Discard contradictory bounds, and NaN, because writers do not agree on the order of NaN.
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (lower, upper)) or (
        lower is not None and upper is not None and lower > upper
    ):
        return None, None, has_null, has_value
    return lower, upper, has_null, has_value


def _has_bloom_filter(chunk: ColumnChunkMetaData) -> bool:
    # Older versions of PyArrow do not have the attribute.
    return getattr(chunk, "bloom_filter_offset", None) is not None


def _bounds_of(column: ColumnSchema, kind: pa.DataType, *, ordered: bool) -> BoundsOf | None:
    """Return the function that converts a column's statistics to bounds. See :func:`_decoder`."""
    decode = _decoder(column, kind, ordered=ordered)
    return None if decode is None else lambda found: decode(found.min_raw, found.max_raw)


def _decoder(column: ColumnSchema, kind: pa.DataType, *, ordered: bool) -> Decode | None:
    """Return the function that converts a stored column's raw bounds to the table column's type.

    Args:
        column: The column in the file's schema.
        kind: The column's type in the table.
        ordered: Whether the file declares the sort order of its column bounds. If not, only types
            that every writer has compared as signed numbers are trusted.

    Returns:
        The function, or None if the bounds cannot be trusted.
    """
    of, physical = pa.types, column.physical_type
    logical = json.loads(column.logical_type.to_json())
    name = logical["Type"]
    if of.is_decimal(kind):
        return _decimal(physical, logical, kind, ordered) if name == "Decimal" else None
    if of.is_timestamp(kind):
        is_64 = physical == "INT64" and name == "Timestamp"
        return _timestamp(logical, kind) if is_64 else None
    if of.is_date32(kind):
        return _date if physical == "INT32" and name == "Date" else None
    if of.is_integer(kind):
        return _integer(physical, logical, kind, ordered)
    if not ordered:
        return None
    if of.is_boolean(kind):
        return _unchanged if physical == "BOOLEAN" else None
    if of.is_floating(kind):
        same = {"float": ("FLOAT",), "double": ("FLOAT", "DOUBLE")}.get(str(kind), ())
        return _unchanged if physical in same and name == "None" else None
    if physical != "BYTE_ARRAY" or name not in ("String", "None", "Enum", "JSON"):
        return None
    return _text if of.is_string(kind) else _bytes


def _unchanged(low: Any, high: Any) -> tuple[Bound, Bound]:
    return low, high


def _integer(
    physical: str, logical: Mapping[str, Any], kind: pa.DataType, ordered: bool
) -> Decode | None:
    if physical not in ("INT32", "INT64") or logical["Type"] not in ("None", "Int"):
        return None
    if physical == "INT64" and kind.bit_width < 64:
        return None  # Spark does not read INT64 as a narrower type
    unsigned = not logical.get("isSigned", True)
    if unsigned and not ordered:
        return None
    # Values overflow if the table's type is narrower than the stored type. Unsigned values above
    # the signed range become negative. In both cases, neither bound is valid.
    least = 0 if unsigned else -(1 << (kind.bit_width - 1))
    most = (1 << (kind.bit_width - 1)) - 1

    def decode(low: int, high: int) -> tuple[Bound, Bound]:
        return (low, high) if low >= least and least <= high <= most else (None, None)

    return decode


def _date(low: int, high: int) -> tuple[Bound, Bound]:
    return _from(SAME_DATES, low, high)


def _from(first: int, low: int, high: int) -> tuple[Bound, Bound]:
    """Return both bounds, with None in place of a bound below ``first``.

    If only one bound is below ``first``, the other bound stays valid, because calendar conversion
    never moves a value across ``first``.
    """
    return low if low >= first else None, high if high >= first else None


def _timestamp(logical: Mapping[str, Any], kind: pa.TimestampType) -> Decode | None:
    unit = _UNITS.get(logical.get("timeUnit", ""))
    if unit is None or (logical.get("isAdjustedToUTC") and kind.tz is None):
        return None
    stored, wanted = _PER_SECOND[unit], _PER_SECOND[kind.unit]

    def decode(low: int, high: int) -> tuple[Bound, Bound]:
        lower, upper = low * wanted // stored, -(-high * wanted // stored)
        if max(abs(lower), abs(upper)) >= 2**63:
            return None, None  # out of range for a 64-bit timestamp
        return _from(SAME_INSTANTS * wanted, lower, upper)

    return decode


def _decimal(
    physical: str, logical: Mapping[str, Any], kind: pa.Decimal128Type, ordered: bool
) -> Decode | None:
    added = kind.scale - logical["scale"]
    is_number = physical in ("INT32", "INT64")
    if added < 0 or not (is_number or ordered):
        return None
    limit = 10**kind.precision

    def number(raw: Any) -> int:
        unscaled: int = raw if is_number else int.from_bytes(raw, "big", signed=True)
        scaled: int = unscaled * 10**added
        return scaled

    def decode(low: Any, high: Any) -> tuple[Bound, Bound]:
        lower, upper = number(low), number(high)
        if max(abs(lower), abs(upper)) >= limit:
            return None, None
        # Parse the decimals from text, because decimal arithmetic rounds.
        return Decimal(f"{lower}e-{kind.scale}"), Decimal(f"{upper}e-{kind.scale}")

    return decode


def _text(low: bytes, high: bytes) -> tuple[Bound, Bound]:
    """Decode string bounds. The writer may have truncated them, even within a character."""
    upper = at_least(high)
    if upper is not None and len(upper) > _LONGEST:
        upper = after(upper[:_LONGEST])
    return at_most(low)[:_LONGEST], upper


def _bytes(low: bytes, high: bytes) -> tuple[Bound, Bound]:
    upper: bytes | None = high
    if len(high) > _LONGEST:
        shortest = high[:_LONGEST].rstrip(b"\xff")
        upper = shortest[:-1] + bytes([shortest[-1] + 1]) if shortest else None
    return low[:_LONGEST], upper
