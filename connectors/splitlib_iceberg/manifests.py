"""Manifest lists and manifests, read through a table's FileIO and decoded by PyIceberg.

Every entry is decoded once into columns; what a list says is checked against what was found, as a
file that was cut short may decode to fewer entries without an error.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pyiceberg.avro.file import AvroFile
from pyiceberg.avro.resolver import resolve_reader
from pyiceberg.io import FileIO, InputFile
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    ManifestContent,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
)
from pyiceberg.schema import Schema
from pyiceberg.typedef import StructProtocol
from pyiceberg.types import DoubleType, FixedType, IcebergType, NestedField, StructType

from splitlib.errors import CorruptMetadata, UnsupportedTable
from splitlib_iceberg.failures import decoding, reading

_VERSIONS = frozenset({"1", "2", "3"})
_LIST_SCHEMA = MANIFEST_LIST_FILE_SCHEMAS[2]
_SUMMARY = 508
_Types = dict[int, Callable[..., StructProtocol]]
_SCHEMA = MANIFEST_ENTRY_SCHEMAS[3]
# Where each field of an entry and of its file stands, by the names of Iceberg's specification.
_ENTRY = {field.name: i for i, field in enumerate(_SCHEMA.fields)}
_DATA = {field.name: i for i, field in enumerate(DATA_FILE_TYPE[3].fields)}
_PARTITION = 102
_DOUBLE = struct.Struct("<d")
_BOUNDS = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


class _Row(list[Any]):
    """One Avro record as PyIceberg's decoder fills it, position by position."""

    def __init__(self, *values: Any) -> None:
        super().__init__(values)


class Entries(NamedTuple):
    """The live files of one manifest, column by column."""

    content: Sequence[int]
    path: Sequence[str]
    """As written."""
    format: Sequence[str]
    size: Sequence[int]
    records: Sequence[int]
    sequence: Sequence[int]
    encrypted: Sequence[bool]
    partition: Sequence[_Row]
    """Positions as in :attr:`partition_ids`."""
    partition_ids: tuple[int, ...]
    bounds: tuple[Sequence[Any], ...]
    """Per name in the specification: value counts, null counts, NaN counts, lower, upper."""
    equality_ids: Sequence[Sequence[int] | None]
    referenced: Sequence[str | None]
    offset: Sequence[int | None]
    length: Sequence[int | None]


def read_list(files: FileIO, path: str) -> list[ManifestFile]:
    """The manifests of a snapshot.

    Raises:
        MissingFile: if the manifest list has gone.
        CorruptMetadata: if it does not decode.
        UnsupportedTable: for a version that is not known, or an encrypted manifest.
    """
    what = "manifest list"
    data = _bytes(files, path, what)
    with decoding(what, path):
        types: _Types = {-1: ManifestFile, _SUMMARY: PartitionFieldSummary}
        with AvroFile[ManifestFile](_InMemory(path, data), _LIST_SCHEMA, types) as reader:
            _check_version(reader, what)
            found = list(reader)
    for manifest in found:
        if manifest.content not in (ManifestContent.DATA, ManifestContent.DELETES):
            raise UnsupportedTable(f"The manifest {manifest.manifest_path} has unknown content.")
        if manifest.key_metadata is not None:
            raise UnsupportedTable(f"The manifest {manifest.manifest_path} is encrypted.")
    return found


def read_entries(files: FileIO, manifest: ManifestFile) -> Entries:
    """The live entries of one manifest.

    Raises:
        MissingFile: if the manifest has gone.
        CorruptMetadata: if it does not decode, or has fewer entries than its list says.
        UnsupportedTable: for a version that is not known.
    """
    what, path = "manifest", manifest.manifest_path
    data = _bytes(files, path, what)
    if len(data) < manifest.manifest_length:
        raise CorruptMetadata(
            f"The manifest {path} has {len(data)} of {manifest.manifest_length} bytes."
        )
    with decoding(what, path):
        types: _Types = {-1: _Row, 2: _Row, _PARTITION: _Row}
        with AvroFile[Any](_InMemory(path, data), _SCHEMA, types) as reader:
            _check_version(reader, what)
            partition = reader.schema.find_field(_PARTITION).field_type
            if not isinstance(partition, StructType):
                raise CorruptMetadata(f"The partitions of the manifest {path} are no structs.")
            doubles = [
                i for i, f in enumerate(partition.fields) if isinstance(f.field_type, DoubleType)
            ]
            if doubles:
                schema = Schema(*map(_doubles_as_bytes, reader.schema.fields))
                reader.reader = resolve_reader(schema, _SCHEMA, types)
            rows: list[_Row] = list(reader)
        for row in rows if doubles else ():
            _decode_doubles(row[_ENTRY["data_file"]][_DATA["partition"]], doubles)
        status = _ENTRY["status"]
        live = [row for row in rows if row[status] != ManifestEntryStatus.DELETED]
        if len(live) < live_files(manifest):
            raise CorruptMetadata(
                f"The manifest {path} has {len(live)} of {live_files(manifest)} files."
            )
        return _columns(live, manifest, tuple(field.field_id for field in partition.fields))


def live_files(manifest: ManifestFile) -> int:
    """How many files its list says a manifest has; 0 where the list does not say."""
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def _doubles_as_bytes(field: NestedField) -> NestedField:
    """PyIceberg's compiled decoder rounds doubles to floats; only partitions have any."""
    match field.field_type:
        case DoubleType():
            kind: IcebergType = FixedType(_DOUBLE.size)
        case StructType():
            kind = StructType(*map(_doubles_as_bytes, field.field_type.fields))
        case _:
            return field
    return field.model_copy(update={"field_type": kind})


def _decode_doubles(partition: _Row, positions: Sequence[int]) -> None:
    for i in positions:
        if partition[i] is not None:
            (partition[i],) = _DOUBLE.unpack(partition[i])


def _columns(rows: list[_Row], manifest: ManifestFile, partition_ids: tuple[int, ...]) -> Entries:
    entry = list(zip(*rows, strict=True)) or [()] * len(_ENTRY)
    data = list(zip(*entry[_ENTRY["data_file"]], strict=True)) or [()] * len(_DATA)
    sequence = [
        _sequence(number, status, manifest)
        for number, status in zip(
            entry[_ENTRY["sequence_number"]], entry[_ENTRY["status"]], strict=True
        )
    ]
    return Entries(
        content=data[_DATA["content"]],
        path=data[_DATA["file_path"]],
        format=[name.lower() for name in data[_DATA["file_format"]]],
        size=data[_DATA["file_size_in_bytes"]],
        records=data[_DATA["record_count"]],
        sequence=sequence,
        encrypted=[key is not None for key in data[_DATA["key_metadata"]]],
        partition=data[_DATA["partition"]],
        partition_ids=partition_ids,
        bounds=tuple(data[_DATA[name]] for name in _BOUNDS),
        equality_ids=data[_DATA["equality_ids"]],
        referenced=data[_DATA["referenced_data_file"]],
        offset=data[_DATA["content_offset"]],
        length=data[_DATA["content_size_in_bytes"]],
    )


def _sequence(number: int | None, status: int, manifest: ManifestFile) -> int:
    """The data sequence number, which entries inherit from the manifest that adds them."""
    if number is not None:
        return number
    # a manifest of a table of version 1 has none and counts as the oldest
    if manifest.sequence_number == 0 or status == ManifestEntryStatus.ADDED:
        return manifest.sequence_number
    raise CorruptMetadata(f"The manifest {manifest.manifest_path} lacks sequence numbers.")


def _bytes(files: FileIO, path: str, what: str) -> bytes:
    with reading(what, path), files.new_input(path).open() as stream:
        return stream.read()


def _check_version(reader: AvroFile[Any], what: str) -> None:
    version = reader.header.meta.get("format-version", "1")
    if version not in _VERSIONS:
        raise UnsupportedTable(
            f"The {what} {reader.input_file.location} is of version {version}, which is not known."
        )


class _InMemory(InputFile):
    """Bytes that have been read already, as PyIceberg's decoder takes them."""

    def __init__(self, location: str, data: bytes) -> None:
        super().__init__(location)
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def exists(self) -> bool:
        return True

    def open(self, seekable: bool = True) -> Any:
        return io.BytesIO(self._data)
