"""Rows of join keys: remove duplicates, sort, normalize types, measure size."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.arrow.time_zones import is_instant, is_known
from splitlib.arrow.values import normal_floats
from splitlib.errors import InvalidFilter

# Arrow's errors for types that it cannot hash or sort.
_UNGROUPABLE = (pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowKeyError)


def values_nbytes(rows: pa.Table) -> int:
    """Return the size of the values in bytes: fixed widths, or 4 bytes plus length per string.

    Does not depend on Arrow's memory layout (validity bitmaps, slices, chunks).
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
            except ValueError:  # nested types have no fixed width: use Arrow's own size
                total += column.nbytes
    return total


def distinct(rows: pa.Table) -> pa.Table:
    """Return the distinct rows, sorted if the types have an order.

    Types that Arrow cannot group by (struct, list) are returned unchanged.
    """
    return in_order(unique(rows))


def unique(rows: pa.Table) -> pa.Table:
    """Return the distinct rows like :func:`distinct`, in any order."""
    columns = [normal_floats(column) for column in rows.columns]
    rows = pa.table(columns, schema=rows.schema)
    names = rows.column_names
    try:
        return rows.group_by(names, use_threads=False).aggregate([]).select(names)
    except _UNGROUPABLE:
        return rows


def in_order(rows: pa.Table) -> pa.Table:
    """Return ``rows`` sorted, if the types have an order."""
    try:
        return rows.sort_by([(name, "ascending") for name in rows.column_names]).combine_chunks()
    except _UNGROUPABLE:
        return rows.combine_chunks()


def plain_rows(rows: pa.Table) -> pa.Table:
    """Cast ``rows`` to the types of :func:`plain_schema`."""
    return rows.cast(plain_schema(rows.schema))


def plain_schema(fields: Iterable[pa.Field]) -> pa.Schema:
    """Normalize types: no dictionaries, views, 64-bit offsets or metadata.

    Raises:
        InvalidFilter: for an empty schema, a repeated field name or an unknown time zone.
    """
    plain = []
    for field in fields:
        _refuse_unknown_zone(field.name, field.type)
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


def _refuse_unknown_zone(name: str, kind: pa.DataType) -> None:
    """Reject a time zone in which Arrow cannot compare instants with local times or dates."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if is_instant(kind) and not is_known(kind.tz):
        raise InvalidFilter(
            f"The time zone {kind.tz!r} of {name!r} is unknown.",
            hint="use a zone such as 'UTC' or 'Europe/Berlin'; on a system without a time zone "
            "database, install one.",
        )
    for i in range(kind.num_fields):
        _refuse_unknown_zone(name, kind.field(i).type)
