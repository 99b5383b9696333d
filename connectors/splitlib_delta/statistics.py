"""Convert file statistics to bounds that are never too narrow.

Writers shorten strings, truncate timestamps to milliseconds, and write numbers as JSON, so bounds
are widened. Statistics that cannot be decoded are ignored, so the files are not pruned.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.arrow.values import SAME_DATES, SAME_INSTANTS
from splitlib.model import INITIAL_DEFAULT, ColumnStatistics
from splitlib_delta.actions import child, read_json
from splitlib_delta.log import Statistics
from splitlib_delta.schema import Column

_ROWS_AT_ONCE: Final = 20_000
_BLOCK_BYTES: Final = 1 << 20
_MILLISECOND: Final = 1000
_SECOND: Final = 1_000_000
# 1973-01-01 in microseconds since the epoch. Later offsets of time zones are whole minutes.
_NO_SECONDS_SINCE: Final = 94_694_400 * _SECOND
_DAY: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
_DATE: Final = rf"{_DAY}$"
_LOCAL: Final = rf"{_DAY}[T ][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{1,6}})?"
_INSTANT: Final = rf"{_LOCAL}(Z|[+-][0-9]{{2}}:[0-9]{{2}})$"
# Strings with fewer characters are complete, because writers keep at least this many characters.
_WHOLE_TEXT: Final = 32
_GREATEST: Final = "\U0010ffff"
# Bounds of decimals are widened by this relative error. Some writers convert decimals to doubles,
# which are exact to about 1e-16.
_DECIMAL_ERROR: Final = 1e-15
# JSON has no NaN or Infinity, so writers store them as strings. The pattern cannot match inside
# another string, because the quotes would be escaped there.
_NOT_JSON: Final = r':\s*"(NaN|-?Infinity)"'


def bounds_of(known: Statistics, columns: Sequence[Column]) -> dict[str, ColumnStatistics]:
    """Return the statistics of some columns by column name, with one row per file."""
    total, text = len(known.text), known.text
    if known.parsed is not None:  # skip the JSON of files whose statistics are structs
        has_structs = pc.is_valid(_count(known.parsed, "numRecords", ()))
        text = pc.if_else(has_structs, None, text)
    parts = [
        _parsed(text.slice(start, _ROWS_AT_ONCE), columns)
        for start in range(0, total, _ROWS_AT_ONCE)
    ]
    return {
        column.field.name: _statistics(
            [part.get(column) for part in parts], known.parsed, column, total
        )
        for column in columns
    }


def concatenated(
    parts: Sequence[tuple[pa.Array, dict[str, ColumnStatistics]]],
) -> dict[str, ColumnStatistics]:
    """Concatenate the statistics of several groups of files, and sort them by file index.

    Args:
        parts: For each group, the indexes of its files, and its statistics by column name.
    """
    places = np.concatenate([place.to_numpy() for place, _ in parts])
    order = pa.array(np.argsort(places, kind="stable"))
    return {
        name: ColumnStatistics.concatenated([known[name] for _, known in parts]).take(order)
        for name in parts[0][1]
    }


def _parsed(text: pa.StringArray, columns: Sequence[Column]) -> dict[Column, pa.StructArray]:
    """Return the parsed statistics by column, without columns whose statistics are malformed.

    All columns are parsed together. If this fails twice, each column is parsed alone.
    """
    each: dict[Column, pa.StructArray] = {}
    for some in (columns, columns, *([column] for column in columns)):
        try:
            found = _rows(text, some)
        except pa.ArrowInvalid:
            # Line breaks, NaN and Infinity cause parse errors. They are rare, so they are replaced
            # only after an error.
            text = pc.replace_substring_regex(text, r"[\r\n]", " ")
            text = pc.replace_substring_regex(text, _NOT_JSON, ":null")
            continue
        each.update(dict.fromkeys(some, found))
        if some is columns:
            break
    return each


def _rows(text: pa.StringArray, columns: Sequence[Column]) -> pa.StructArray:
    """Parse JSON statistics to an array with one struct per file.

    Raises:
        pyarrow.ArrowInvalid: if a file's statistics are not one line of JSON with the right types.
    """
    schema = pa.schema(
        [
            ("numRecords", pa.int64()),
            ("nullCount", _nested([(c.path, pa.int64()) for c in columns])),
            *(
                (name, _nested([(c.path, _stored(c.field.type)) for c in columns]))
                for name in ("minValues", "maxValues")
            ),
        ]
    )
    longest = pc.max(pc.binary_length(text)).as_py() or 0
    plain = pc.fill_null(text, "{}")
    lines = pc.binary_join(pa.ListArray.from_arrays([0, len(plain)], plain), "\n")[0].as_buffer()
    table = read_json(lines, schema, max(_BLOCK_BYTES, longest + 1))
    if len(table) != len(text):
        raise pa.ArrowInvalid("Statistics are not one JSON object per file.")
    return table.combine_chunks().to_struct_array().combine_chunks()


def _nested(columns: Sequence[tuple[tuple[str, ...], pa.DataType]]) -> pa.DataType:
    """Return a struct type that has a field of the given type at each path."""
    fields: dict[str, list[tuple[tuple[str, ...], pa.DataType]]] = {}
    for path, kind in columns:
        fields.setdefault(path[0], []).append((path[1:], kind))
    return pa.struct(
        [
            (name, inside[0][1] if not inside[0][0] else _nested(inside))
            for name, inside in fields.items()
        ]
    )


def _stored(kind: pa.DataType) -> pa.DataType:
    """Return the Arrow type for parsing the JSON bounds of a column of type ``kind``."""
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return pa.float64()
    return pa.string()


def _statistics(
    texts: Sequence[pa.StructArray | None], parsed: Any, column: Column, total: int
) -> ColumnStatistics:
    if any(part is None for part in texts) or not texts:
        lower = upper = pa.nulls(total, column.field.type)
        nulls = records = pa.nulls(total, pa.int64())
    else:
        whole = pa.concat_arrays(texts)
        lower = _bound(_at(whole, "minValues", column.path), column, lower=True)
        upper = _bound(_at(whole, "maxValues", column.path), column, lower=False)
        nulls, records = _at(whole, "nullCount", column.path), _at(whole, "numRecords", ())
    if parsed is not None:
        lower = pc.coalesce(lower, _own_bound(parsed, "minValues", column, lower=True))
        upper = pc.coalesce(upper, _own_bound(parsed, "maxValues", column, lower=False))
        nulls = pc.coalesce(nulls, _count(parsed, "nullCount", column.path))
        records = pc.coalesce(records, _count(parsed, "numRecords", ()))
    return ColumnStatistics(
        lower,
        upper,
        pc.greater(nulls, 0),
        pa.nulls(total, pa.bool_())
        if pa.types.is_floating(column.field.type)
        else pa.repeat(False, total),
        # Spark counts a column that the file lacks as null, but reads its default.
        pa.nulls(total, pa.bool_())
        if INITIAL_DEFAULT in (column.field.metadata or {})
        else pc.if_else(pc.equal(nulls, records), False, pa.scalar(None, pa.bool_())),
    )


def _at(structs: Any, name: str, path: Sequence[str]) -> Any:
    """Return the field at a path in an array of structs, or None if there is no such field."""
    return reduce(lambda inside, each: inside and child(inside, each), path, child(structs, name))


def _count(structs: Any, name: str, path: Sequence[str]) -> pa.Array:
    found = _at(structs, name, path)
    if found is None or not pa.types.is_integer(found.type):
        return pa.nulls(len(structs), pa.int64())
    return found.cast(pa.int64())


def _own_bound(structs: Any, name: str, column: Column, *, lower: bool) -> pa.Array:
    """Return bounds from a checkpoint's structs, cast to the column's type, or nulls.

    The structs may have an older type of the column.
    """
    found = _at(structs, name, column.path)
    nothing = pa.nulls(len(structs), column.field.type)
    if found is None:
        return nothing
    kind = column.field.type
    is_number = pa.types.is_decimal(found.type) or pa.types.is_floating(found.type)
    if pa.types.is_decimal(kind) and is_number:
        # Writers convert decimals to doubles here, too.
        return _bound(found.cast(pa.float64()), column, lower=lower)
    try:
        return _widened(found.cast(kind), column, lower=lower)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return nothing


def _bound(stored: pa.Array, column: Column, *, lower: bool) -> pa.Array:
    """Convert bounds from their JSON type to the column's type. Invalid bounds become null."""
    kind = column.field.type
    try:
        if pa.types.is_decimal(kind):
            slack = pc.multiply(pc.abs(stored), _DECIMAL_ERROR)
            stored = pc.subtract(stored, slack) if lower else pc.add(stored, slack)
            # One bound that is too large for the type must not make all others unknown.
            fits = pc.less(pc.abs(stored), 10.0 ** (kind.precision - kind.scale))
            stored = pc.if_else(fits, stored, None)
        elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            form = _DATE if pa.types.is_date(kind) else _INSTANT if kind.tz else rf"{_LOCAL}$"
            stored = pc.if_else(pc.match_substring_regex(stored, form), stored, None)
        elif pa.types.is_float32(kind):
            return stored.cast(kind, safe=False)
        return _widened(stored.cast(kind), column, lower=lower)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(stored), kind)


def _widened(bound: pa.Array, column: Column, *, lower: bool) -> pa.Array:
    """Widen bounds so that they are valid even if the writer shortened or rounded them."""
    kind = bound.type
    if pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.tz is not None):
        # Files and statistics may have older values in the Julian calendar.
        first = SAME_DATES if pa.types.is_date(kind) else SAME_INSTANTS * _SECOND
        first = pa.scalar(first, pa.int32() if pa.types.is_date(kind) else pa.int64())
        bound = pc.if_else(pc.less(bound, first.cast(kind)), None, bound)
    if pa.types.is_timestamp(kind):
        micros = bound.cast(pa.int64())
        near = pc.less(pc.abs(pc.fill_null(micros, 0)), 1 << 62)
        # Spark writes offsets such as +08:05:43 as +08:05. No zone has them after 1972.
        has_seconds = pc.and_(pc.less(micros, _NO_SECONDS_SINCE), pa.scalar(kind.tz is not None))
        step = pc.if_else(has_seconds, 60 * _SECOND, _MILLISECOND)
        moved = (pc.subtract if lower else pc.add)(micros, step)
        return pc.if_else(near, moved, None).cast(kind)
    if pa.types.is_decimal(kind) and kind.scale == 0:
        # delta-rs writes these bounds as 64-bit integers. It replaces larger values by the largest
        # such integer, which is not a bound. So very large bounds are ignored.
        fits = pc.less(pc.abs(bound.cast(pa.float64())), 2.0**63)
        return pc.if_else(fits, bound, None)
    if pa.types.is_string(kind) and not lower:
        may_be_short = pc.greater_equal(pc.utf8_length(bound), _WHOLE_TEXT)
        # Old versions of Delta cut strings after 32 units of UTF-16 and append U+FFFD. This may be
        # less than the characters that were cut off, so such an upper bound is ignored.
        bound = pc.if_else(pc.ends_with(bound, "\ufffd"), None, bound)
        return pc.if_else(may_be_short, pc.binary_join_element_wise(bound, _GREATEST, ""), bound)
    if column.was_float:
        # The bound may have the few digits of a float, such as 0.1. As a double, it may then be
        # less or greater than the float in the file. So widen the bound to include the float.
        rounded = bound.cast(pa.float32(), safe=False).cast(pa.float64())
        return (pc.min_element_wise if lower else pc.max_element_wise)(
            bound, rounded, skip_nulls=False
        )
    return bound
