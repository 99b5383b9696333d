"""Partition names and values as Hive spells them: escaping, the null partition, text to types.

All of it is pure, and vectorised over Arrow arrays of partitions.
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
"""Directory value of null, and of the empty string of a string key."""

# FileUtils.escapePathName of Hive 2.3: these characters and all control characters
_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
_ESCAPE = re.compile(r"%([0-9a-fA-F]{2})")

# What needs more digits overflows in Arrow's parser of decimals, not always with an error.
_MAX_DIGITS = 38


def escape(text: str) -> str:
    """``text`` as a part of a Hive partition name."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def unescape(text: str) -> str:
    """The inverse of :func:`escape`; a ``%`` that starts no escape stays as it is."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def partition_name(keys: Iterable[str], values: Iterable[str | None]) -> str:
    """``k1=v1/k2=v2`` as Hive's metastore names the partition."""
    pairs = zip(keys, values, strict=True)
    return "/".join(f"{escape(k)}={escape(v) if v else NULL_PARTITION}" for k, v in pairs)


def stored_name(name: str) -> str:
    """A partition name as Hive's metastore stores it: keys in lower case, but not their escapes.

    Args:
        name: With any spelling of keys, such as ``My%3DKey=v``.
    """
    pairs = (part.partition("=") for part in name.split("/"))
    return "/".join(f"{escape(unescape(key).lower())}={value}" for key, _, value in pairs)


def split_names(names: pa.StringArray, keys: Sequence[str]) -> pa.RecordBatch:
    """Names like ``k1=v1/k2=v2`` to a text column per key, unescaped, null for null partitions.

    Raises:
        SourceError: for a name with another number of values than there are keys.
    """
    return read_names(names, keys).values


class ReadNames(NamedTuple):
    """What partition names say."""

    values: pa.RecordBatch
    """As of :func:`split_names`."""
    have_keys: bool
    """Whether the keys in all names are those of the table, ignoring case."""


def read_names(names: pa.StringArray, keys: Sequence[str]) -> ReadNames:
    """As :func:`split_names`, and whether the keys in the names are these.

    Raises:
        SourceError: as of :func:`split_names`.
    """
    inner = len(keys) - 1
    slashes, bounds = texts.find_all(names, b"/"), texts.bounds(names)
    if len(slashes) == len(names) * inner:
        slashes = slashes.reshape(len(names), inner)
        # in order: if the first and the last are of the name, those between them are, too
        right = not inner or bool(
            (slashes[:, 0] >= bounds[:-1]).all() and (slashes[:, -1] < bounds[1:]).all()
        )
    else:
        right = False
    if not right:
        raise SourceError(f"A partition name has not the keys {', '.join(keys)}.")
    columns, have_keys = [], True
    for i, key in enumerate(keys):
        begins = slashes[:, i - 1] + 1 if i else bounds[:-1]
        ends = slashes[:, i] if i < inner else bounds[1:]
        column, of_key = _value_text(texts.between(names, begins, ends) if inner else names, key)
        columns.append(column)
        have_keys = have_keys and of_key
    return ReadNames(pa.record_batch(columns, names=list(keys)), have_keys)


def _value_text(parts: pa.StringArray, key: str) -> tuple[pa.StringArray, bool]:
    """The ``v`` of each ``k=v``, and whether each ``k`` is the key.

    Nearly always all have the same, which is then cut off.
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
            raise SourceError(f"A partition name has a part that is no value of {key}.")
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
    """Partition values in a type that can be compared."""

    values: pa.Array
    """Null for the null partition and for what is undecided."""
    undecided: pa.BooleanArray | None
    """True where the text is no value of the type, or its instant is not known for sure: such a
    partition may never be dropped. None = nothing is undecided."""


def parse(column: pa.Array, key: pa.Field) -> TypedValues:
    """Values of one partition column in the type of ``key``, whatever the connector gave.

    Text is parsed with the table's type, and is undecided unless it has just one meaning, also to
    Spark's cast; typed values only take the comparable form, in which CHAR has no trailing spaces,
    -0.0 is 0.0, and every NaN is the same.
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
    """``values``, null where Arrow has read them from text that Spark reads otherwise."""
    if pa.types.is_floating(values.type):
        odd = pc.is_nan(values)
        plain = r"^(?i:nan)$"  # no sign, no payload
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
    """What each column of partition values is parsed as.

    A column's own value has the table's type, be it typed or text; the result of a transform has
    the type in which it comes.

    Args:
        values: The columns of partition values.
        fields: What they say of the table.
        columns: Of the table; what is the value of another one has the type in which it comes, too.
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
    """Whether ``key`` is CHAR(n), whose trailing spaces carry no meaning."""
    return bool(key.metadata) and key.metadata.get(LOGICAL_TYPE, b"").startswith(b"char(")


def is_collated(key: pa.Field) -> bool:
    """Whether strings of other bytes may equal each other, and their order is another one."""
    return bool(key.metadata) and key.metadata.get(LOGICAL_TYPE, b"").startswith(COLLATED.encode())


def comparable(values: pa.Array, key: pa.Field) -> pa.Array:
    """``values`` such that equality in ``key``'s type is equality of Arrow values."""
    if is_char(key):
        return pc.utf8_rtrim(values, " ")
    return normal_floats(values)
