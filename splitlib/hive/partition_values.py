"""Hive's types, partition names and partition values.

The functions convert type strings to Arrow types, and escape and parse partition names. They also
parse the text of partition values to the type of the partition key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.arrow import utf8 as texts
from splitlib.arrow.values import (
    is_instant,
    normal_floats,
    parse_instants,
    python_value,
    try_cast,
)
from splitlib.errors import SourceError, UnsupportedTable
from splitlib.model import COLLATED, INITIAL_DEFAULT, LOGICAL_TYPE, PartitionBatch, PartitionField

SPARK_CHAR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"
"""Key in the metadata of Spark's string columns that were declared as CHAR or VARCHAR."""

# Arrow type of Spark's TIMESTAMP, a point in time. A time zone matters only when text is parsed.
_INSTANT = pa.timestamp("us", "UTC")
_SIMPLE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": _INSTANT,
    "timestamp with local time zone": _INSTANT,
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
_TOKEN = re.compile(r"\s*(?:(`[^`]*`|[^<>(),:`]+)|([<>(),:]))")
_CHAR = re.compile(r"\b(?:var)?char\s*\(", re.IGNORECASE)
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Text for null, and for the empty string, in partition names and directories."""
# Characters that Hive 2.3 escapes (FileUtils.escapePathName), including all control characters.
_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
_ESCAPE = re.compile(r"%([0-9a-fA-F]{2})")
# Decimals with more digits overflow in Arrow's parser, sometimes without an error.
_MAX_DIGITS = 38


def has_char_or_varchar(text: str) -> bool:
    """Return whether a type string contains CHAR or VARCHAR at any depth."""
    return _CHAR.search(text) is not None


def field_of(name: str, text: str) -> pa.Field:
    """Return the Arrow field for a column declared as ``name text``, such as ``day date``.

    The field's metadata contains the declared type if it is CHAR or VARCHAR.

    Raises:
        UnsupportedTable: for a type that Spark cannot read.
    """
    declared = re.sub(r"\s*\(\s*", "(", text.strip().lower())
    metadata = {LOGICAL_TYPE: declared.encode()} if has_char_or_varchar(text) else None
    return pa.field(name, parse_type(text), metadata=metadata)


def parse_type(text: str) -> pa.DataType:
    """Parse a Hive or Spark SQL type string, such as ``map<string,array<int>>``.

    Raises:
        UnsupportedTable: for an invalid type string, or a type that Spark cannot read.
    """
    tokens = [word or mark for word, mark in _TOKEN.findall(text)]
    if "".join(tokens).replace(" ", "") == text.replace(" ", ""):
        try:
            kind, rest = _type(tokens, 0)
        except RecursionError:
            kind, rest = None, 0
        if kind is not None and rest == len(tokens):
            return kind
    raise UnsupportedTable(f"Columns of type {text!r} cannot be read.")


def parse_schema(text: str) -> pa.Schema:
    """Parse column declarations such as ``k int, s string``.

    Raises:
        UnsupportedTable: if a type is invalid, or Spark cannot read it, or brackets do not match.
    """
    depth, start, columns = 0, 0, []
    for i, char in enumerate(text + ","):
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            name, _, kind = text[start:i].strip().partition(" ")
            columns.append(field_of(name.strip("`"), kind.strip()))
            start = i + 1
    if depth:
        raise UnsupportedTable(f"The brackets in {text[start:].strip()!r} do not match.")
    return pa.schema(columns)


def _type(tokens: list[str], at: int) -> tuple[pa.DataType | None, int]:
    """Parse the type at token ``at``. Return it, or None if invalid, and the next token's index."""
    name = tokens[at].strip().lower() if at < len(tokens) else ""
    following = tokens[at + 1] if at + 1 < len(tokens) else ""
    if following == "(" and name in ("char", "varchar", "decimal", "numeric"):
        end = tokens.index(")", at) if ")" in tokens[at:] else at
        numbers = "".join(tokens[at + 2 : end]).split(",")
        return _parametrised(name, numbers), end + 1
    if following == "<" and name in ("array", "map", "struct"):
        return _nested(name, tokens, at + 2)
    if name in ("decimal", "numeric"):
        return pa.decimal128(10, 0), at + 1
    return _SIMPLE.get(name), at + 1


def _parametrised(name: str, written: list[str]) -> pa.DataType | None:
    # List the spaces instead of using `\s`, which does not match the same Unicode spaces as `int`.
    if not all(re.fullmatch(r"[ \t\r\n]*[0-9]{1,9}[ \t\r\n]*", number) for number in written):
        return None
    match name, [int(number) for number in written]:
        case "char" | "varchar", [_]:
            return pa.string()
        case "decimal" | "numeric", [precision, *scale] if 1 <= precision <= 38:
            digits = scale or [0]
            # Arrow allows a scale larger than the precision, Spark does not.
            if len(digits) == 1 and digits[0] <= precision:
                return pa.decimal128(precision, digits[0])
    return None


def _nested(name: str, tokens: list[str], at: int) -> tuple[pa.DataType | None, int]:
    names, kinds = [], []
    while at < len(tokens):
        if name == "struct":
            names.append(tokens[at].strip().strip("`"))
            at += 2  # skip the field's name and the colon
        kind, at = _type(tokens, at)
        kinds.append(kind)
        if at >= len(tokens) or tokens[at] not in ",>" or kind is None:
            return None, at
        at += 1
        if tokens[at - 1] == ">":
            break
    match name, kinds:
        case "array", [element]:
            return pa.list_(element), at
        case "map", [key, value]:
            return pa.map_(key, value), at
        case "struct", [_, *_]:
            return pa.struct([pa.field(n, k) for n, k in zip(names, kinds, strict=True)]), at
    return None, at


def from_spark_json(schema: Mapping[str, Any]) -> pa.Schema:
    """Convert the JSON form of a Spark ``StructType`` to an Arrow schema.

    A type that Arrow does not have, such as an interval, becomes a string. The field's metadata
    then contains the type.
    """
    return pa.schema([_from_spark_field(field) for field in schema["fields"]])


def _from_spark_field(field: Mapping[str, Any]) -> pa.Field:
    declared = field.get("metadata") or {}
    logical = declared.get(SPARK_CHAR_VARCHAR)
    if isinstance(field["type"], str) and has_char_or_varchar(field["type"]):
        logical = field["type"]  # if spark.sql.preserveCharVarcharTypeInfo is set
    # Longer keys have collations inside arrays and maps, with which no join key is compared.
    collation = declared.get("__COLLATIONS", {}).get(field["name"])
    if collation is not None:
        logical = f"{COLLATED} {collation}"
    if (kind := _from_spark_type(field["type"])) is None:
        kind, logical = pa.string(), str(field["type"])
    metadata: dict[bytes, str] = {LOGICAL_TYPE: logical} if logical else {}
    default = declared.get("EXISTS_DEFAULT")
    if default is not None and not re.fullmatch(r"(?i)(cast\()?null( as .*)?", default):
        metadata[INITIAL_DEFAULT] = json.dumps({"sql": default})
    return pa.field(field["name"], kind, metadata=metadata or None)


def _from_spark_type(kind: Any) -> pa.DataType | None:
    if isinstance(kind, str):
        try:
            return parse_type(kind)
        except UnsupportedTable:
            return None

    def inner(part: str) -> pa.DataType:
        return _from_spark_type(kind[part]) or pa.string()

    match kind["type"]:
        case "struct":
            return pa.struct(list(from_spark_json(kind)))
        case "array":
            return pa.list_(inner("elementType"))
        case "map":
            return pa.map_(inner("keyType"), inner("valueType"))
    return None


def escape(text: str) -> str:
    """Escape ``text`` for use in a Hive partition name."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def unescape(text: str) -> str:
    """Replace ``%`` and two hexadecimal digits by the character with this code.

    Any other ``%`` is kept.
    """
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def partition_name(keys: Iterable[str], values: Iterable[str | None]) -> str:
    """Return a partition's name in the Hive metastore, such as ``k1=v1/k2=v2``."""
    pairs = zip(keys, values, strict=True)
    return "/".join(f"{escape(k)}={escape(v) if v else NULL_PARTITION}" for k, v in pairs)


def name_of(partitions: PartitionBatch, row: int) -> str:
    """Return a partition's name, such as ``k1=v1/k2=v2``, for messages and identifiers."""
    values = [written(python_value(column[row])) for column in partitions.values.columns]
    return partition_name(partitions.values.schema.names, values)


def written(value: Any) -> str | None:
    """Return a typed partition value as Spark writes it in a name, with instants in UTC."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case bytes():
            return value.decode(errors="backslashreplace")
        case Decimal():
            return f"{value:f}"
        case datetime():
            local = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
            return str(local).rstrip("0") if local.microsecond else str(local)
    return str(value)


def stored_name(name: str) -> str:
    """Return a partition name as Hive's metastore stores it, with keys in lower case.

    Args:
        name: Escaped partition name with keys in any case, such as ``My%3DKey=v``.
    """
    pairs = (part.partition("=") for part in name.split("/"))
    return "/".join(f"{escape(unescape(key).lower())}={value}" for key, _, value in pairs)


def split_names(names: pa.StringArray, keys: Sequence[str]) -> pa.RecordBatch:
    """Split names like ``k1=v1/k2=v2`` into one text column per key.

    Values are unescaped. Hive's text for null (:data:`NULL_PARTITION`) becomes null.

    Raises:
        SourceError: if a name does not have one value per key.
    """
    return read_names(names, keys).values


class ReadNames(NamedTuple):
    """The result of :func:`read_names`."""

    values: pa.RecordBatch
    """The partition values, with one text column per key."""
    have_keys: bool
    """Whether all names contain exactly the table's keys, ignoring case."""


def read_names(names: pa.StringArray, keys: Sequence[str]) -> ReadNames:
    """Split names as :func:`split_names` does, and check whether they contain the table's keys.

    Raises:
        SourceError: if a name does not have one value per key.
    """
    inner = len(keys) - 1
    slashes, bounds = texts.find_all(names, b"/"), texts.bounds(names)
    if len(slashes) == len(names) * inner:
        slashes = slashes.reshape(len(names), inner)
        # Each row has the positions of one name's slashes, in ascending order. So if the first and
        # the last position lie inside the name, all positions do.
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
    """Return the ``v`` of each part ``k=v``, and whether every ``k`` is ``key``, ignoring case.

    Usually all parts have the same prefix ``k=``. This prefix is then removed without a regular
    expression, which is faster.
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
    """Partition values, parsed to the partition key's type."""

    values: pa.Array
    """The values; null for the null partition and for undecided values."""
    undecided: pa.BooleanArray | None
    """Mask of texts that Arrow and Spark might parse to different values. Their partitions must
    never be pruned. None means that there are no such texts."""


def parse(column: pa.Array, key: pa.Field) -> TypedValues:
    """Parse a partition column's values to the type of ``key``.

    Text that Arrow's parser and Spark's cast may parse to different values becomes null, and is
    marked as undecided. Values that need no parsing are only normalized: CHAR without trailing
    spaces, 0.0 instead of -0.0, one NaN.
    """
    if not pa.types.is_string(column.type) or pa.types.is_string(key.type):
        return TypedValues(comparable(column, key), None)
    if is_instant(key.type):
        values = parse_instants(column, key.type)
    else:
        values = _without_misread(column, try_cast(column, key.type))
    undecided = pc.and_(pc.is_null(values), pc.is_valid(column))
    return TypedValues(comparable(values, key), undecided if pc.any(undecided).as_py() else None)


def parse_exactly(column: pa.Array, key: pa.Field) -> TypedValues:
    """Parse values like :func:`parse`, but do not normalize them. CHAR values keep their spaces."""
    found = parse(column, key)
    if is_char(key):
        return TypedValues(column, None)
    if not pa.types.is_floating(key.type):
        return found
    exact = pc.if_else(pc.is_valid(found.values), try_cast(column, key.type), found.values)
    return TypedValues(exact, found.undecided)


def _without_misread(column: pa.Array, values: pa.Array) -> pa.Array:
    """Replace each value by null if Spark parses a different value from the text in ``column``."""
    if pa.types.is_floating(values.type):
        odd = pc.is_nan(values)
        plain = r"^(?i:nan)$"  # not "-nan" or "nan(1)", which Arrow parses too
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
    """Return the target field (name and type) for each partition column's values.

    A partition column without a transform gets its source column's type, even if its values are
    text. A partition column with a transform keeps the type of its values.

    Args:
        values: Schema of the partition values.
        fields: Source column and transform of each partition column.
        columns: The table's columns. If the source column is not among these, the type is kept.
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
    """Return whether ``key`` is CHAR(n), whose trailing spaces are not significant."""
    return bool(key.metadata) and key.metadata.get(LOGICAL_TYPE, b"").startswith(b"char(")


def is_ambiguous(key: pa.Field) -> bool:
    """Return whether different text may be equal, by a collation or as values of type TIME."""
    logical = (key.metadata or {}).get(LOGICAL_TYPE, b"").lower()
    return b" collate " in logical or logical.startswith(b"time")


def comparable(values: pa.Array, key: pa.Field) -> pa.Array:
    """Normalize ``values`` so that Arrow compares them for equality as Spark does."""
    if is_char(key):
        return pc.ascii_rtrim(values, " ")
    return normal_floats(values)
