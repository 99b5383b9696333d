"""Infer the columns of Parquet and ORC files with the types that Spark infers.

Spark uses the file format's own types, not the Arrow schema that Arrow's writers add to a file.
Some of Spark's types do not exist in Arrow: VARIANT, GEOMETRY, intervals, times. A field of such a
type gets another Arrow type, and its metadata contains the Spark type under :data:`SPARK_FIELD`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from splitlib.arrow.values import plain_type
from splitlib.hive.partition_values import from_spark_json
from splitlib.model import SPARK_FIELD

BINARY_AS_STRING: Final = "spark.sql.parquet.binaryAsString"
INFER_NTZ: Final = "spark.sql.parquet.inferTimestampNTZ.enabled"
INT96_AS_TIMESTAMP: Final = "spark.sql.parquet.int96AsTimestamp"
NANOS_AS_LONG: Final = "spark.sql.legacy.parquet.nanosAsLong"
TIME_TYPE: Final = "spark.sql.timeType.enabled"

SETTINGS: Final[Mapping[str, str]] = {
    BINARY_AS_STRING: "false",
    INFER_NTZ: "true",
    INT96_AS_TIMESTAMP: "true",
    NANOS_AS_LONG: "false",
    TIME_TYPE: "false",
}
"""Spark settings that affect the types of inferred columns, with their defaults."""

COLLATIONS: Final = "__COLLATIONS"
"""Key of a field's collations in the ``metadata`` of this field in Spark's JSON schemas."""

# Metadata key under which Spark stores its schema in a file.
_OWN_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_OWN_TYPE = b"spark.sql.catalyst.type"
_INSTANT = pa.timestamp("us", "UTC")
_LOCAL = pa.timestamp("us")
_SIGNED = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_UNSIGNED = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}
_PHYSICAL = {
    "BOOLEAN": pa.bool_(),
    "INT32": pa.int32(),
    "INT64": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BYTE_ARRAY": pa.binary(),
    "FIXED_LEN_BYTE_ARRAY": pa.binary(),
}
# Coordinate system of geometry columns that do not name one.
_DEFAULT_CRS = "OGC:CRS84"
_NANOSECONDS = f"timestamp in nanoseconds (without {NANOS_AS_LONG})"
_GROUP = re.compile(r"( *)(required|optional|repeated) group field_id=\S+ (.*) \{")
_VARIANT = re.compile(r"(.*) \(Variant\(.*\)\)")
_ANNOTATION = re.compile(r" \([A-Z]\w*(?:\(.*\))?\)$")


def parquet_columns(metadata: Any, settings: Mapping[str, str] | None = None) -> pa.Schema:
    """Return a Parquet file's columns, with the types that Spark infers.

    Args:
        metadata: The file's footer, a ``pyarrow.parquet.FileMetaData``.
        settings: Settings from :data:`SETTINGS` that differ from Spark's defaults.

    Raises:
        pyarrow.ArrowException: for a file structure that Arrow cannot read.
    """
    own = (metadata.metadata or {}).get(_OWN_SCHEMA)
    fields = None if own is None else _written_by_spark(own)
    if fields is not None:
        return pa.schema(fields)
    stored = metadata.schema
    walk = _Walk(stored, {**SETTINGS, **(settings or {})})
    return pa.schema([walk.field(field, ()) for field in stored.to_arrow_schema()])


def orc_columns(stored: pa.Schema) -> pa.Schema:
    """Return an ORC file's columns, with the types that Spark infers.

    Args:
        stored: The schema that Arrow reads from the file.
    """
    return pa.schema([_orc_field(field) for field in stored])


def readable_columns(declared: pa.Schema) -> pa.Schema:
    """Replace Arrow types that Spark lacks, such as ``uint32``, by types that Spark has."""
    return pa.schema([field.with_type(_readable(field.type)) for field in declared])


def _written_by_spark(text: bytes) -> list[pa.Field] | None:
    """Parse the schema that Spark stored in a file.

    Return None for an invalid schema, which Spark ignores.
    """
    try:
        fields = json.loads(text)["fields"]
        return [_own_field(field) for field in fields]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _own_field(field: Mapping[str, Any]) -> pa.Field:
    (found,) = from_spark_json({"fields": [field]})
    return found if _is_plain(field) else _with_spark_type(found, field)


def _is_plain(field: Mapping[str, Any]) -> bool:
    """Return whether the field's Arrow type is enough to derive its Spark type and properties."""
    if field.get("metadata") or not has_plain_type(field):
        return False
    return isinstance(field["type"], str) or all(map(_is_plain, field["type"]["fields"]))


def has_plain_type(field: Mapping[str, Any]) -> bool:
    """Return whether the Arrow type of a field in Spark's JSON is enough to derive its Spark type.

    Properties that do not change the type, such as a comment or the length of a VARCHAR, are
    ignored.
    """
    if isinstance(field["type"], str):
        properties = {k: v for k, v in (field.get("metadata") or {}).items() if k == COLLATIONS}
        (found,) = from_spark_json({"fields": [{**field, "metadata": properties}]})
        return not found.metadata
    return field["type"]["type"] == "struct" and all(map(has_plain_type, field["type"]["fields"]))


def _with_spark_type(field: pa.Field, declared: Mapping[str, Any]) -> pa.Field:
    metadata = {**(field.metadata or {}), SPARK_FIELD: json.dumps(declared).encode()}
    return field.with_metadata(metadata)


def _named(field: pa.Field, kind: str) -> pa.Field:
    """Return a copy of the field, with the Spark type ``kind`` in its metadata."""
    declared = {"name": field.name, "type": kind, "nullable": True, "metadata": {}}
    return _with_spark_type(field, declared)


class _Walk:
    """Walks through a file's Arrow schema and its Parquet columns at the same time.

    The Arrow schema has the nesting, and the Parquet columns have the types. Both have the columns
    in the same order.
    """

    def __init__(self, stored: Any, settings: Mapping[str, str]) -> None:
        self._leaves: Iterator[Any] = (stored.column(i) for i in range(len(stored)))
        self._variants = variant_groups(str(stored))
        self._on = {name for name, value in settings.items() if value.lower() == "true"}

    def field(self, field: pa.Field, parents: tuple[str, ...]) -> pa.Field:
        kind = field.type
        path = (*parents, field.name)
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        if not pa.types.is_nested(kind):
            return self._leaf(field.name, field.type, next(self._leaves))
        children = [self.field(child, path) for child in _children(kind)]
        found = pa.field(field.name, _nested(kind, children))
        return _named(found, "variant") if path in self._variants else found

    def _leaf(self, name: str, arrow: pa.DataType, column: Any) -> pa.Field:
        logical = json.loads(column.logical_type.to_json())
        kind, spark = self._type(column, logical, arrow)
        field = pa.field(name, kind)
        return field if spark is None else _named(field, spark)

    def _type(
        self, column: Any, logical: Mapping[str, Any], arrow: pa.DataType
    ) -> tuple[pa.DataType, str | None]:
        """Return a column's Arrow type, and its Spark type name if the Arrow type is not enough."""
        physical = column.physical_type
        if physical == "INT96":
            as_time = INT96_AS_TIMESTAMP in self._on
            return (_INSTANT, None) if as_time else (arrow, "int96")
        match logical["Type"]:
            case "Int":
                sizes = _SIGNED if logical["isSigned"] else _UNSIGNED
                return sizes[logical["bitWidth"]], None
            case "String" | "Enum" | "JSON":
                return pa.string(), None
            case "Date":
                return pa.date32(), None
            case "Decimal" if column.precision <= 38:
                return pa.decimal128(column.precision, column.scale), None
            case "Timestamp":
                return self._timestamp(arrow, logical)
            case "Time":
                digits = {"microseconds": 6, "nanoseconds": 9}.get(logical["timeUnit"])
                named = digits is not None and TIME_TYPE in self._on
                return arrow, f"time({digits})" if named else f"time in {logical['timeUnit']}"
            case "Geometry" | "Geography" as place:
                system = logical.get("crs") or _DEFAULT_CRS
                edges = ", SPHERICAL" if place == "Geography" else ""
                return pa.binary(), f"{place.lower()}({system}{edges})"
            case "None" | "Null" | "BSON":
                if physical == "BYTE_ARRAY" and BINARY_AS_STRING in self._on:
                    return pa.string(), None
                return _PHYSICAL[physical], None
            case other:
                return arrow, f"{str(other).lower()} of Parquet"

    def _timestamp(
        self, arrow: pa.DataType, logical: Mapping[str, Any]
    ) -> tuple[pa.DataType, str | None]:
        if logical["timeUnit"] == "nanoseconds":
            return (pa.int64(), None) if NANOS_AS_LONG in self._on else (arrow, _NANOSECONDS)
        is_local = not logical["isAdjustedToUTC"] and INFER_NTZ in self._on
        return (_LOCAL if is_local else _INSTANT), None


def variant_groups(text: str) -> set[tuple[str, ...]]:
    """Return the paths of VARIANT columns in a Parquet schema.

    Arrow shows the VARIANT annotation only in the text form of a schema.
    """
    if "(Variant(" not in text:
        return set()
    found, above = set(), list[str | None]()
    for line in text.splitlines():
        group = _GROUP.fullmatch(line)
        if group is None:
            continue
        variant = _VARIANT.fullmatch(group[3])
        name = variant[1] if variant else _ANNOTATION.sub("", group[3])
        # A repeated group belongs to the list or map above it, and has no name in Arrow's schema.
        # So the path leaves it out.
        above[len(group[1]) // 2 :] = [None if group[2] == "repeated" else name]
        if variant:
            found.add(tuple(part for part in above[1:] if part is not None))
    return found


def _orc_field(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_nested(kind):
        return pa.field(field.name, _nested(kind, map(_orc_field, _children(kind))))
    own = (field.metadata or {}).get(_OWN_TYPE)
    if own is not None:
        # The stored text is the type's name in Spark's JSON schemas.
        declared = {"name": field.name, "type": own.decode(), "nullable": True, "metadata": {}}
        (found,) = from_spark_json({"fields": [declared]})
        plain = pa.field(field.name, _readable(kind))
        return _named(plain, own.decode()) if found.metadata else found
    # Spark interprets an ORC timestamp without a time zone in the session's time zone. So the
    # column is a point in time.
    return pa.field(field.name, _INSTANT if pa.types.is_timestamp(kind) else _readable(kind))


def _readable(kind: pa.DataType) -> pa.DataType:
    of = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        is_known = kind.extension_name in ("arrow.bool8", "arrow.json")
        return _readable(kind.storage_type) if is_known else kind
    if of.is_float16(kind):
        return kind  # Spark has no such type, so only Arrow reads these columns
    if (plain := plain_type(kind)) != kind:
        return _readable(plain)
    if of.is_nested(kind):
        children = [child.with_type(_readable(child.type)) for child in _children(kind)]
        return _nested(kind, children)
    if of.is_unsigned_integer(kind):
        return _UNSIGNED[kind.bit_width]
    return pa.binary() if of.is_fixed_size_binary(kind) else kind


def _children(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    if pa.types.is_struct(kind) or pa.types.is_union(kind):
        return [kind.field(i) for i in range(kind.num_fields)]
    return [kind.value_field]


def _nested(kind: pa.DataType, children: Iterable[pa.Field]) -> pa.DataType:
    """Return the nested type ``kind`` with new children. Every list type becomes ``list``."""
    parts: Sequence[pa.Field] = list(children)
    if pa.types.is_struct(kind):
        return pa.struct([part.with_nullable(True) for part in parts])
    if pa.types.is_map(kind):
        return pa.map_(parts[0].with_nullable(False), parts[1].with_nullable(True))
    if pa.types.is_union(kind):
        return kind
    return pa.list_(parts[0].with_nullable(True))
