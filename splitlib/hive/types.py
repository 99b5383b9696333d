"""Convert Hive's type strings and Spark's JSON types to Arrow types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from splitlib.errors import UnsupportedTable
from splitlib.model import COLLATED, LOGICAL_TYPE

SPARK_CHAR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"
"""Metadata key of Spark's string columns for the declared type, CHAR or VARCHAR."""

# A point in time, as in Spark's Arrow conversion. The zone only affects parsing of text.
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


def has_char_or_varchar(text: str) -> bool:
    """Whether a type string contains CHAR or VARCHAR at any depth."""
    return _CHAR.search(text) is not None


def field_of(name: str, text: str) -> pa.Field:
    """Return a column declared as ``name text``. Its metadata keeps CHAR and VARCHAR types.

    Raises:
        UnsupportedTable: for a type that Spark cannot read.
    """
    kind = parse_type(text)
    metadata = {LOGICAL_TYPE: text.lower().encode()} if has_char_or_varchar(text) else None
    return pa.field(name, kind, metadata=metadata)


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
        UnsupportedTable: as :func:`parse_type`.
    """
    depth, start, columns = 0, 0, []
    for i, char in enumerate(text + ","):
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            name, _, kind = text[start:i].strip().partition(" ")
            columns.append(field_of(name.strip("`"), kind.strip()))
            start = i + 1
    return pa.schema(columns)


def _type(tokens: list[str], at: int) -> tuple[pa.DataType | None, int]:
    """Parse the type that starts at a token. Return it (None if invalid) and the next position."""
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
    # `\s` and `int` would accept different Unicode spaces.
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
            at += 2  # the name and its colon
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

    A type that Arrow lacks, such as an interval, becomes a string with the type in its metadata.
    """
    return pa.schema([_from_spark_field(field) for field in schema["fields"]])


def _from_spark_field(field: Mapping[str, Any]) -> pa.Field:
    declared = field.get("metadata") or {}
    logical = declared.get(SPARK_CHAR_VARCHAR)
    kind = _from_spark_type(field["type"])
    # The metadata lists strings inside arrays and maps under longer names. They are not compared.
    collation = declared.get("__COLLATIONS", {}).get(field["name"])
    if collation is not None:
        logical = f"{COLLATED} {collation}"
    if kind is None:
        kind, logical = pa.string(), str(field["type"])
    metadata = {LOGICAL_TYPE: logical.encode()} if logical else None
    return pa.field(field["name"], kind, metadata=metadata)


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
