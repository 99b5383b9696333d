"""Check a table's protocol, and convert its columns to Arrow."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa

from splitlib.errors import CorruptMetadata, UnsupportedTable
from splitlib.hive.partition_values import from_spark_json, parse_type
from splitlib.model import FIELD_ID, INITIAL_DEFAULT, LOGICAL_TYPE, ReadFormat

_FEATURES: Final = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantType",
        "variantType-preview",
    }
)
_ID, _PHYSICAL = "delta.columnMapping.id", "delta.columnMapping.physicalName"
_CHANGES: Final = "delta.typeChanges"
_WHOLE: Final = ("byte", "short", "integer", "long")
# First id for fields without an id in the log. Ids in the log count up from 1 and do not reach it.
_OWN_IDS: Final = 1 << 30
_ORDERED: Final = (
    *(pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_date),
    *(pa.types.is_timestamp, pa.types.is_string),
)


class Column(NamedTuple):
    """A column that may have statistics. It may be a field of a struct."""

    path: tuple[str, ...]
    """Names in the statistics, from the top-level column to the field, such as ``("a", "b")``."""
    field: pa.Field
    """Arrow field with the full name, such as ``a.b``."""
    was_float: bool
    """Whether the type was widened from float to double."""


@dataclass
class Columns:
    """The columns of a table.

    Attributes:
        schema: All columns, in the table's order.
        keys: The partition columns.
        names_of_keys: The names that the log uses for the partition columns.
        with_statistics: Data columns that may have statistics.
        read_format: How readers find columns in data files.
        spark_schema: The schema as Spark's JSON, or None if columns are found by field id.
    """

    schema: pa.Schema
    keys: tuple[str, ...]
    names_of_keys: tuple[str, ...]
    with_statistics: tuple[Column, ...]
    read_format: ReadFormat
    spark_schema: str | None


def check_protocol(protocol: Mapping[str, Any]) -> frozenset[str]:
    """Return the reader features that the table uses.

    Raises:
        UnsupportedTable: for a feature that this connector does not support. The message names it.
    """
    version = int(protocol["minReaderVersion"])
    if version > 3:
        raise UnsupportedTable(
            f"The table needs a Delta reader of version {version}. splitlib supports up to 3.",
            hint="read it with Spark's own Delta reader: splitlib.sql prunes there, too.",
        )
    if version < 3:
        return frozenset({"columnMapping"} if version == 2 else ())
    features = frozenset(protocol.get("readerFeatures") or ())
    if unknown := sorted(features - _FEATURES):
        raise UnsupportedTable(
            f"The table needs readers that support {', '.join(unknown)}.",
            hint="read it with Spark's own Delta reader: splitlib.sql prunes there, too.",
        )
    return features


def columns_of(metadata: Mapping[str, Any], features: frozenset[str]) -> Columns:
    """Convert a table's columns to Arrow.

    Args:
        metadata: The ``metaData`` entry of the log.
        features: Reader features that the table uses, from :func:`check_protocol`.

    Raises:
        UnsupportedTable: for a column that cannot be read correctly. The message names it.
        CorruptMetadata: if a partition column is not in the schema.
    """
    provider = (metadata.get("format") or {}).get("provider", "parquet")
    if provider != "parquet":
        raise UnsupportedTable(f"The files of the table are {provider}, not parquet.")
    if not metadata.get("schemaString"):
        raise UnsupportedTable("The table has no schema, so it has no columns.")
    declared = json.loads(metadata["schemaString"])
    given = (metadata.get("configuration") or {}).get("delta.columnMapping.mode", "none")
    mode = str(given).lower()
    if "columnMapping" not in features:
        mode = "none"
    if mode not in ("none", "name", "id"):
        raise UnsupportedTable(f"The column mapping mode {given!r} is not supported.")
    walk = _Walk(is_mapped=mode != "none")
    fields = [walk.field(each) for each in declared["fields"]]
    by_name = {f.name: (f, each) for f, each in zip(fields, declared["fields"], strict=True)}
    keys = tuple(metadata.get("partitionColumns") or ())
    if missing := [key for key in keys if key not in by_name]:
        raise CorruptMetadata(f"The schema has no partition column {missing[0]}.")
    in_order = [f.name for f in fields][len(fields) - len(keys) :] == list(keys)
    found = tuple(walk.with_statistics(fields, declared["fields"], keys))
    names = tuple(walk.physical(by_name[key][1]) for key in keys)
    if mode == "none" and in_order and "deletionVectors" not in features:
        plain = {"type": "struct", "fields": [_without_properties(e) for e in declared["fields"]]}
        schema = from_spark_json(plain)
        form = ReadFormat.of("parquet")
        return Columns(schema, keys, names, found, form, json.dumps(plain))
    walk.refuse_unreadable(declared["fields"], keys)
    form = ReadFormat.of("parquet", columns="id" if mode == "id" else walk.names)
    return Columns(pa.schema(fields), keys, names, found, form, None)


@dataclass
class _Walk:
    """Converts fields to Arrow, and maps field ids to the columns' names in data files."""

    is_mapped: bool
    names: dict[int, str] = field(default_factory=dict)
    _own: Iterator[int] = field(default_factory=lambda: itertools.count(_OWN_IDS))

    def physical(self, declared: Mapping[str, Any]) -> str:
        """Return a field's name in data files and in the log."""
        if not self.is_mapped:
            return str(declared["name"])
        try:
            return str(declared["metadata"][_PHYSICAL])
        except KeyError as error:
            raise CorruptMetadata(f"Column {declared['name']} has no physical name.") from error

    def field(self, declared: Mapping[str, Any]) -> pa.Field:
        """Convert a field to Arrow, and store its id and those of nested fields as metadata."""
        _check_changes(declared)
        [plain] = from_spark_json({"fields": [declared]})
        identifier = self._id(declared)
        self.names[identifier] = self.physical(declared)
        metadata = {**(plain.metadata or {}), FIELD_ID: str(identifier).encode()}
        return plain.with_type(self._type(declared["type"], plain.type)).with_metadata(metadata)

    def _id(self, declared: Mapping[str, Any]) -> int:
        if not self.is_mapped:
            return next(self._own)
        try:
            return int(declared["metadata"][_ID])
        except KeyError as error:
            raise CorruptMetadata(f"Column {declared['name']} has no field id.") from error

    def _type(self, declared: Any, plain: pa.DataType) -> pa.DataType:
        if isinstance(declared, str):
            return plain
        match declared["type"]:
            case "struct":
                return pa.struct([self.field(each) for each in declared["fields"]])
            case "array":
                return pa.list_(self._inner("element", declared["elementType"], plain.value_type))
            case "map":
                return pa.map_(
                    self._inner("key", declared["keyType"], plain.key_type, nullable=False),
                    self._inner("value", declared["valueType"], plain.item_type),
                )
        return plain

    def _inner(
        self, name: str, declared: Any, plain: pa.DataType, *, nullable: bool = True
    ) -> pa.Field:
        """Return the field for a list's elements, or for a map's keys or values.

        The Delta log has no field ids for these, so they get new ids.
        """
        identifier = next(self._own)
        self.names[identifier] = name
        metadata = {FIELD_ID: str(identifier).encode()}
        return pa.field(name, self._type(declared, plain), nullable, metadata)

    def with_statistics(
        self,
        fields: Sequence[pa.Field],
        declared: Sequence[Mapping[str, Any]],
        keys: Sequence[str] = (),
        above: tuple[tuple[str, ...], str] = ((), ""),
    ) -> Iterator[Column]:
        """Yield the columns that may have statistics, including fields of structs."""
        path, prefix = above
        for each, given in zip(fields, declared, strict=True):
            if each.name in keys or "." in each.name:
                continue
            name, place = prefix + each.name, (*path, self.physical(given))
            if pa.types.is_struct(each.type) and not isinstance(given["type"], str):
                if INITIAL_DEFAULT in (each.metadata or {}):
                    continue  # in files without the struct, its fields count as null
                inside = given["type"]["fields"]
                yield from self.with_statistics(list(each.type), inside, (), (place, f"{name}."))
            elif any(is_type(each.type) for is_type in _ORDERED) and _is_plain(each):
                changes = json.dumps((given.get("metadata") or {}).get(_CHANGES, ""))
                yield Column(place, each.with_name(name), '"float"' in changes)

    def refuse_unreadable(self, declared: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> None:
        """Reject types that cannot be read by field id.

        Raises:
            UnsupportedTable: for CHAR, a collation, or a type that Arrow does not have.
        """
        for each in declared:
            kinds = list(_leaves(each))
            if unreadable := [kind for kind in kinds if not _is_readable(kind)]:
                raise UnsupportedTable(
                    f"Column {each['name']} of type {unreadable[0]} cannot be read in a table with "
                    "deletion vectors, column mapping, or partition columns before other columns.",
                    hint="read the table with Spark's own Delta reader.",
                )


def _is_plain(column: pa.Field) -> bool:
    logical = (column.metadata or {}).get(LOGICAL_TYPE, b"")
    return not logical or bool(logical.startswith(b"varchar"))


def _leaves(declared: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of all types in a column, including ``char(5)`` and ``string collate X``."""
    kind: Any = declared.get("type") or {}
    metadata = declared.get("metadata") or {}
    if logical := metadata.get("__CHAR_VARCHAR_TYPE_STRING"):
        yield str(logical)
    for collation in (metadata.get("__COLLATIONS") or {}).values():
        yield f"string collate {collation}"
    if isinstance(kind, str):
        yield kind
        return
    if kind.get("type") == "udt":
        yield "udt"
    for part in ("elementType", "keyType", "valueType"):
        if part in kind:
            yield from _leaves({"type": kind[part]})
    for inside in kind.get("fields", ()):
        yield from _leaves(inside)


def _is_readable(kind: str) -> bool:
    if "char(" in kind.replace("varchar(", "") or kind == "void":
        return False
    try:
        parse_type(kind)
    except UnsupportedTable:
        return False
    return True


def _check_changes(declared: Mapping[str, Any]) -> None:
    """Reject type changes of a column that Spark's Parquet reader does not support.

    Raises:
        UnsupportedTable: for such a change. The message names both types.
    """
    for change in (declared.get("metadata") or {}).get(_CHANGES) or ():
        before, after = str(change.get("fromType")), str(change.get("toType"))
        both = before in _WHOLE and after in _WHOLE and _WHOLE.index(before) <= _WHOLE.index(after)
        if both or (before, after) in (("float", "double"), ("date", "timestamp_ntz")):
            continue
        if after.startswith("decimal") and (before in _WHOLE or before.startswith("decimal")):
            continue
        if after == "double" and before in _WHOLE[:3]:
            continue
        raise UnsupportedTable(
            f"The type of column {declared.get('name')} was changed from {before} to {after}.",
            hint="read the table with Spark.",
        )


def _without_properties(declared: Any) -> Any:
    """Remove the ``delta.*`` entries from the column metadata in a JSON schema or a part of it."""
    if isinstance(declared, list):
        return [_without_properties(each) for each in declared]
    if isinstance(declared, dict):
        return {
            key: {k: v for k, v in value.items() if not k.startswith("delta.")}
            if key == "metadata" and isinstance(value, dict)
            else _without_properties(value)
            for key, value in declared.items()
        }
    return declared
