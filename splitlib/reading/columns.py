"""Convert columns of a file to the table's types, as Spark's own readers do.

A file may be older than its table: columns may be missing, their names may differ in case, and
their types may be narrower. Only the conversions of Spark's Parquet reader are supported. Any other
difference is an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import partial
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import UnsupportedTable
from splitlib.hive.partition_values import is_char
from splitlib.model import FIELD_ID, INITIAL_DEFAULT, LOGICAL_TYPE

NATIVE = "read the table with splitlib.read(spark), which uses Spark's own reader."

# Old writers used the Julian calendar for early dates, but Spark uses the Gregorian calendar. From
# these dates on, both calendars store the same values, in every time zone. If a file may be from
# an old writer, earlier values are rejected.
_SAME_DATES = date(1582, 10, 15)
_SAME_INSTANTS = datetime(1900, 1, 1, tzinfo=UTC)


Find = Callable[[pa.Schema, Sequence[pa.Field]], dict[str, str]]
"""Function that finds columns in a file, or the fields of a struct. It takes the file's schema and
the wanted columns. It returns a dict that maps the name of each wanted column to its name in the
file. Columns that the file does not have are left out."""
_FitInside = Callable[[pa.Array, pa.Field], pa.Array]


def by_name(stored: pa.Schema, wanted: Sequence[pa.Field]) -> dict[str, str]:
    """Find columns by name, as :func:`found_columns` does."""
    return found_columns(stored.names, [field.name for field in wanted])


def found_columns(stored: Sequence[str], wanted: Iterable[str]) -> dict[str, str]:
    """Return a dict that maps the name of each wanted column to its name in the file.

    Names are compared ignoring case. Columns that the file does not have are left out.

    Raises:
        UnsupportedTable: if two columns in the file match the same wanted column.
    """
    times = Counter(name.lower() for name in stored)
    by_lower = {name.lower(): name for name in stored}
    found = {name: by_lower[name.lower()] for name in wanted if name.lower() in by_lower}
    if twice := [name for name in found if times[name.lower()] > 1]:
        raise UnsupportedTable(f"The file has column {twice[0]!r} more than once.", hint=NATIVE)
    return found


def fit(
    array: pa.Array, column: pa.Field, *, find: Find = by_name, hybrid_calendar: bool = False
) -> pa.Array:
    """Convert ``array`` to the type of ``column``, with the values that Spark's reader returns.

    Args:
        array: A column from a file.
        column: The column in the table.
        find: Function that finds the fields of structs in the file.
        hybrid_calendar: Whether the writer may have used the Julian calendar for days before
            October 1582.

    Raises:
        UnsupportedTable: if Spark cannot read the column as this type, or this function cannot
            return the values that Spark would read.
    """
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    kind, target = array.type, column.type
    fit_inside = partial(fit, find=find, hybrid_calendar=hybrid_calendar)
    if pa.types.is_struct(target) and pa.types.is_struct(kind):
        return _struct(array, target, find, fit_inside)
    if pa.types.is_map(target) and pa.types.is_map(kind):
        return _map(array, target, fit_inside)
    if pa.types.is_list(target) and _is_list(kind):
        values = fit_inside(pc.list_flatten(array), target.value_field)
        return pa.ListArray.from_arrays(_offsets(array), values, type=target)
    if pa.types.is_dictionary(kind):
        array = array.dictionary_decode()
    if array.type != target:
        array = _uuid_texts(array) if is_uuid(column) else _cast(array, target)
    if hybrid_calendar:
        _refuse_ancient(array)
    return array


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    if not _reads_as(array.type, target):
        raise UnsupportedTable(
            f"A column of type {array.type} cannot be read as {target}.", hint=NATIVE
        )
    try:
        return array.cast(target)
    except pa.ArrowInvalid as error:
        raise UnsupportedTable(
            f"Values of type {array.type} do not fit {target}: {error}", hint=NATIVE
        ) from error


def is_uuid(field: pa.Field) -> bool:
    """Return whether the column is a UUID, which is text in Spark but 16 bytes in files."""
    return (field.metadata or {}).get(LOGICAL_TYPE) == b"uuid"


def _uuid_texts(array: pa.Array) -> pa.StringArray:
    if array.type not in (pa.binary(16), pa.null()):
        raise UnsupportedTable(f"A column of type {array.type} is not a UUID.", hint=NATIVE)
    texts = [None if value is None else str(UUID(bytes=value)) for value in array.to_pylist()]
    return pa.array(texts, pa.string())


def _reads_as(kind: pa.DataType, target: pa.DataType) -> Any:
    """Return whether Spark can read a column of type ``kind`` as ``target``.

    Even if it can, a value that does not fit ``target`` may raise an error when it is converted.
    """
    of = pa.types
    if of.is_null(kind):
        return True
    if of.is_integer(kind):
        # Parquet stores all integers below 64 bits in 32 bits, so Spark reads them as any integer.
        narrow = kind.bit_width < 64
        if of.is_signed_integer(target):
            return narrow  # Spark does not narrow 64-bit columns.
        if kind == pa.uint64():
            return target == pa.decimal128(20, 0)
        if of.is_decimal(target):
            digits = 10 if narrow else 20
            return target.precision - target.scale >= digits
        return of.is_float64(target) and narrow and kind != pa.uint32()
    if of.is_decimal(kind) and of.is_decimal(target):
        whole = target.precision - target.scale >= kind.precision - kind.scale
        return whole and target.scale >= kind.scale
    if of.is_timestamp(kind) and of.is_timestamp(target):
        # Spark reads a local time as UTC, but rejects the conversion from UTC to local time.
        return kind.tz is None or target.tz is not None
    if of.is_duration(kind):
        return of.is_int64(target)  # Parquet has no durations, and stores integers instead.
    if of.is_date32(kind) and of.is_timestamp(target):
        return target.tz is None
    if of.is_float32(kind):
        return of.is_float64(target)
    if of.is_fixed_size_binary(kind):
        return of.is_binary(target)
    return _is_bytes(kind) and _is_bytes(target)


def _is_bytes(kind: pa.DataType) -> bool:
    of = pa.types
    return bool(
        of.is_string(kind)
        or of.is_binary(kind)
        or of.is_large_string(kind)
        or of.is_large_binary(kind)
        or of.is_string_view(kind)
        or of.is_binary_view(kind)
    )


def _is_list(kind: pa.DataType) -> bool:
    of = pa.types
    return bool(
        of.is_list(kind)
        or of.is_large_list(kind)
        or of.is_fixed_size_list(kind)
        or of.is_list_view(kind)
        or of.is_large_list_view(kind)
    )


def _struct(
    array: pa.StructArray, target: pa.StructType, find: Find, fit_inside: _FitInside
) -> pa.Array:
    stored = dict(zip((f.name for f in array.type), array.flatten(), strict=True))
    names = find(pa.schema(list(array.type)), list(target))
    if not names:
        # Some Spark versions return a null struct here, others a struct with null fields. So no
        # result is right for all versions.
        raise UnsupportedTable(
            f"The file's {array.type} has none of the fields of {target}.", hint=NATIVE
        )
    for field in target:
        if field.name not in names and INITIAL_DEFAULT in (field.metadata or {}):
            raise UnsupportedTable(
                f"A struct in the file lacks field {field.name!r}, which has a default.",
                hint=NATIVE,
            )
    children = [
        fit_inside(stored[names[f.name]], f) if f.name in names else pa.nulls(len(array), f.type)
        for f in target
    ]
    return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())


def _map(array: pa.MapArray, target: pa.MapType, fit_inside: _FitInside) -> pa.Array:
    if len(array) == 0:
        return pa.array([], target)
    offsets = array.offsets
    start, end = offsets[0].as_py(), offsets[-1].as_py()
    keys, items = array.keys[start:end], array.items[start:end]
    return pa.MapArray.from_arrays(
        pc.if_else(_is_null_offset(array), None, pc.subtract(offsets, offsets[0])),
        fit_inside(keys, target.key_field),
        fit_inside(items, target.item_field),
        type=target,
    )


def _offsets(array: pa.Array) -> pa.Array:
    """Return the offsets of lists in their flattened values. A null list has a null offset."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int32())
    ends = pc.cumulative_sum(lengths)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pc.if_else(_is_null_offset(array), None, offsets)


def _is_null_offset(array: pa.Array) -> pa.BooleanArray:
    return pa.concat_arrays([array.is_null(), pa.array([False])])


def _refuse_ancient(array: pa.Array) -> None:
    if pa.types.is_date(array.type):
        oldest = pa.scalar(_SAME_DATES, array.type)
    elif pa.types.is_timestamp(array.type):
        oldest = pa.scalar(_SAME_INSTANTS, pa.timestamp("us", "UTC")).cast(array.type)
    else:
        return
    if pc.any(pc.less(array, oldest)).as_py():
        raise UnsupportedTable(
            f"The file has a date before {oldest}, which may be in the Julian calendar.",
            hint=NATIVE,
        )


class ByFieldId:
    """Finds columns by field id. An instance is a :data:`splitlib.reading.columns.Find` function.

    Args:
        names: Column names by field id, to find the columns of a file without field ids. If the
            file has a name only in another case, that column is used, as in Spark. None means that
            the file itself has field ids.
    """

    def __init__(self, names: Mapping[int, str] | None = None) -> None:
        self._names = names

    def __call__(self, stored: pa.Schema, wanted: Sequence[pa.Field]) -> dict[str, str]:
        """Return a dict that maps the name of each wanted column to its name in the file.

        Columns that the file does not have are left out.

        Raises:
            UnsupportedTable: if the file has no field ids and ``names`` is None, or if several
                columns have the same id or name.
        """
        if self._names is None and len(stored) and all(_id(field) is None for field in stored):
            raise UnsupportedTable("The file has no field ids.", hint=NATIVE)
        found = {}
        for field in wanted:
            column = self._stored(stored, field)
            if column is not None:
                if stored.names.count(column.name) > 1:
                    raise UnsupportedTable(
                        f"The file has column {column.name!r} more than once.", hint=NATIVE
                    )
                found[field.name] = column.name
        return found

    def _stored(self, stored: Iterable[pa.Field], field: pa.Field) -> pa.Field | None:
        """Return the file's field that has the id of ``field``, or None if there is none."""
        identifier = _id(field)
        if identifier is None:
            raise UnsupportedTable(f"Column {field.name!r} has no field id.", hint=NATIVE)
        if self._names is None:
            same = [other for other in stored if _id(other) == identifier]
        else:
            stored = list(stored)
            name = self._name(identifier, [other.name for other in stored])
            same = [other for other in stored if other.name == name]
        if len(same) > 1:
            raise UnsupportedTable(f"The file has field id {identifier} twice.", hint=NATIVE)
        return same[0] if same else None

    def _name(self, identifier: int, stored: Sequence[str]) -> str | None:
        """Return the file's name for the column with a field id, or None if it is not listed."""
        name = (self._names or {}).get(identifier)
        if name is None or name in stored:
            return name
        return found_columns(stored, [name]).get(name)


def _id(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(FIELD_ID)
    return None if text is None else int(text)


def have_same_names(stored: pa.Field, column: pa.Field, find: Find) -> bool:
    """Return whether ``stored`` has all nested fields of ``column``, under the same names."""
    inside, wanted = _children(stored.type), _children(column.type)
    if pa.types.is_struct(column.type):
        names = find(pa.schema(inside), wanted)
        if any(names.get(field.name) != field.name for field in wanted):
            return False
        own = {field.name: field for field in inside}
        inside = [own[field.name] for field in wanted]
    return all(
        have_same_names(one, other, find) for one, other in zip(inside, wanted, strict=False)
    )


def _children(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.field(i) for i in range(kind.num_fields)]


def padded(values: pa.Array, field: pa.Field) -> pa.Array:
    """Pad values of CHAR columns with spaces, as Spark does when it reads them."""
    if not is_char(field):
        return values
    width = int(field.metadata[LOGICAL_TYPE].removeprefix(b"char(").removesuffix(b")"))
    return pc.utf8_rpad(values, width, " ")
