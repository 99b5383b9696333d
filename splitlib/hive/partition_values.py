"""Hive's partition names and values: escaping, the null partition, parsing of text.

All functions are pure and work on Arrow arrays of partitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.arrow import texts
from splitlib.arrow.casting import try_cast
from splitlib.arrow.time_zones import is_instant, local_to_instant
from splitlib.arrow.values import normal_floats
from splitlib.errors import SourceError
from splitlib.model import COLLATED, LOGICAL_TYPE, PartitionField

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Directory value of null, and of the empty string."""

# Characters that FileUtils.escapePathName of Hive 2.3 escapes, including all control characters.
_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
_ESCAPE = re.compile(r"%([0-9a-fA-F]{2})")

# Decimals with more digits overflow in Arrow's parser, sometimes without an error.
_MAX_DIGITS = 38


def escape(text: str) -> str:
    """Escape ``text`` for use in a Hive partition name."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def unescape(text: str) -> str:
    """Reverse :func:`escape`. A ``%`` without two hexadecimal digits is kept."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def partition_name(keys: Iterable[str], values: Iterable[str | None]) -> str:
    """Return the partition name in Hive's metastore, such as ``k1=v1/k2=v2``."""
    pairs = zip(keys, values, strict=True)
    return "/".join(f"{escape(k)}={escape(v) if v else NULL_PARTITION}" for k, v in pairs)


def stored_name(name: str) -> str:
    """Return a partition name as Hive's metastore stores it, with keys in lower case.

    Args:
        name: Partition name with keys in any case and escapes, such as ``My%3DKey=v``.
    """
    pairs = (part.partition("=") for part in name.split("/"))
    return "/".join(f"{escape(unescape(key).lower())}={value}" for key, _, value in pairs)


def split_names(names: pa.StringArray, keys: Sequence[str]) -> pa.RecordBatch:
    """Split names like ``k1=v1/k2=v2`` into one text column per key.

    Values are unescaped. The value of the null partition is null.

    Raises:
        SourceError: for a name whose number of values differs from the number of keys.
    """
    return read_names(names, keys).values


class ReadNames(NamedTuple):
    """Parsed partition names."""

    values: pa.RecordBatch
    """Values as returned by :func:`split_names`."""
    have_keys: bool
    """Whether all names contain exactly the table's keys, ignoring case."""


def read_names(names: pa.StringArray, keys: Sequence[str]) -> ReadNames:
    """Return the values as :func:`split_names`, and check the keys in the names.

    Raises:
        SourceError: as :func:`split_names`.
    """
    inner = len(keys) - 1
    slashes, bounds = texts.find_all(names, b"/"), texts.bounds(names)
    if len(slashes) == len(names) * inner:
        slashes = slashes.reshape(len(names), inner)
        # Slashes are in order: if the first and last belong to the name, so do those between.
        right = not inner or bool(
            (slashes[:, 0] >= bounds[:-1]).all() and (slashes[:, -1] < bounds[1:]).all()
        )
    else:
        right = False
    if not right:
        raise SourceError(f"A partition name does not have the keys {', '.join(keys)}.")
    columns, have_keys = [], True
    for i, key in enumerate(keys):
        begins = slashes[:, i - 1] + 1 if i else bounds[:-1]
        ends = slashes[:, i] if i < inner else bounds[1:]
        column, of_key = _value_text(texts.between(names, begins, ends) if inner else names, key)
        columns.append(column)
        have_keys = have_keys and of_key
    return ReadNames(pa.record_batch(columns, names=list(keys)), have_keys)


def _value_text(parts: pa.StringArray, key: str) -> tuple[pa.StringArray, bool]:
    """Return the ``v`` of each ``k=v``, and whether each ``k`` is the key.

    Usually all parts have the same prefix, which is cut off without a regular expression.
    """
    if len(parts) == 0:
        return pa.array([], pa.string()), True
    expected = f"{escape(key)}="
    prefix = str(parts[0].as_py()).partition("=")[0] + "="
    if pc.all(pc.starts_with(parts, prefix)).as_py():
        cut = len(prefix.encode())
        raw = pc.binary_replace_slice(parts.view(pa.binary()), 0, cut, b"")
        values = raw.view(pa.string())
        of_key = prefix.lower() == expected.lower()
    else:
        values = pc.struct_field(pc.extract_regex(parts, r"^[^=]*=(?P<v>(?s:.*))$"), "v")
        if values.null_count:
            raise SourceError(f"A part of a partition name is not a value of {key}.")
        of_key = pc.all(pc.match_substring_regex(parts, f"^(?i:{re.escape(expected)})")).as_py()
    is_null = pc.equal(values, NULL_PARTITION)
    if pc.any(is_null).as_py():
        values = pc.if_else(is_null, pa.scalar(None, pa.string()), values)
    if texts.contains_any(values, b"%"):
        values = _map_unique(values)
    return values, of_key


def _map_unique(values: pa.Array) -> pa.Array:
    encoded = values.dictionary_encode()
    plain = [unescape(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(plain, pa.string()).take(encoded.indices)


class TypedValues(NamedTuple):
    """Partition values with a type that can be compared."""

    values: pa.Array
    """Values. Null for the null partition and for undecided values."""
    undecided: pa.BooleanArray | None
    """True where the text is invalid for the type or a local time is ambiguous. Such a partition
    must never be pruned. None = no value is undecided."""


def parse(column: pa.Array, key: pa.Field) -> TypedValues:
    """Parse the values of a partition column in the type of ``key``.

    Text is undecided unless it has exactly one meaning, for Arrow and for Spark's cast. Values
    that are already typed are only normalized: CHAR without trailing spaces, 0.0 instead of -0.0,
    and a single NaN.
    """
    if not pa.types.is_string(column.type) or pa.types.is_string(key.type):
        return TypedValues(comparable(column, key), None)
    if is_instant(key.type):
        local = try_cast(column, pa.timestamp(key.type.unit))
        values = local_to_instant(local, key.type)
    else:
        values = _without_misread(column, try_cast(column, key.type))
    undecided = pc.and_(pc.is_null(values), pc.is_valid(column))
    return TypedValues(comparable(values, key), undecided if pc.any(undecided).as_py() else None)


def _without_misread(column: pa.Array, values: pa.Array) -> pa.Array:
    """Replace values by null if Arrow parsed text that Spark reads differently."""
    if pa.types.is_floating(values.type):
        odd = pc.is_nan(values)
        plain = r"^(?i:nan)$"  # NaN without sign or payload
    elif pa.types.is_decimal(values.type):
        whole, scale = values.type.precision - values.type.scale, values.type.scale
        odd = pc.greater(pc.binary_length(column), _MAX_DIGITS - scale)
        if texts.contains_any(column, b"eE"):
            odd = pc.or_(odd, pc.match_substring(column, "e", ignore_case=True))
        plain = rf"^[+-]?0*[0-9]{{0,{whole}}}(\.[0-9]{{0,{scale}}})?([eE]-[0-9]+)?$"
    else:
        return values
    if not pc.any(odd).as_py():
        return values
    misread = pc.and_(odd, pc.invert(pc.match_substring_regex(column, plain)))
    return pc.if_else(misread, pa.scalar(None, values.type), values)


def table_fields(
    values: pa.Schema, fields: Iterable[PartitionField], columns: Iterable[pa.Field]
) -> list[pa.Field]:
    """Return the field by which each column of partition values is parsed.

    A column's own value has the table's type, even if it is given as text. The result of a
    transform keeps the type in which it is given.

    Args:
        values: Schema of the partition values.
        fields: Partition fields: the source column and transform of each value.
        columns: Columns of the table. Values of other columns keep their given type.
    """
    known = {column.name.lower(): column for column in columns}
    sources = {f.name.lower(): f.source.lower() for f in fields if f.transform is None}
    found = []
    for given in values:
        column = known.get(sources.get(given.name.lower(), ""), given)
        same_name = column.name.lower() == given.name.lower()
        found.append(column if same_name else column.with_name(given.name))
    return found


def is_char(key: pa.Field) -> bool:
    """Whether ``key`` is CHAR(n), where trailing spaces are not significant."""
    return bool(key.metadata) and key.metadata.get(LOGICAL_TYPE, b"").startswith(b"char(")


def is_collated(key: pa.Field) -> bool:
    """Whether the key has a collation: different bytes may be equal, and are sorted differently."""
    return bool(key.metadata) and key.metadata.get(LOGICAL_TYPE, b"").startswith(COLLATED.encode())


def comparable(values: pa.Array, key: pa.Field) -> pa.Array:
    """Normalize ``values`` so that values that are equal in ``key``'s type are equal in Arrow."""
    if is_char(key):
        return pc.utf8_rtrim(values, " ")
    return normal_floats(values)
