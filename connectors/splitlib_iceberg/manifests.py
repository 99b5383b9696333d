"""Read manifest lists and manifests through a table's FileIO, with PyIceberg's decoders.

Every entry is decoded once, into columns. The number of entries is checked against the counts in
the manifest list, because a truncated file may decode to fewer entries without an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pyiceberg.io import FileIO
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
from pyiceberg.types import NestedField, StructType

from splitlib.errors import CorruptMetadata, UnsupportedTable, decoding
from splitlib_iceberg.avro import AvroContainer, reader_of
from splitlib_iceberg.failures import reading
from splitlib_iceberg.unpacking import received

_VERSIONS = frozenset({b"1", b"2", b"3"})
# Field ids from Iceberg's specification: the partition summary in a manifest list, and the data
# file and its partition in a manifest entry.
_SUMMARY, _DATA_FILE, _PARTITION = 508, 2, 102
# The first field id that lists of version 1 may lack, except for fields with a default.
_OPTIONAL = 503
_LIST_SCHEMA = Schema(
    *(
        NestedField(
            field.field_id,
            field.name,
            field.field_type,
            required=field.required
            and (field.field_id < _OPTIONAL or field.initial_default is not None),
            initial_default=field.initial_default,
        )
        for field in MANIFEST_LIST_FILE_SCHEMAS[2].fields
    )
)
# First bytes of a file that Iceberg has encrypted, by the specification of its AES GCM streams.
_ENCRYPTED = b"AGS1"
_ROOT = -1  # PyIceberg's field id for the top-level record
_Types = dict[int, Callable[..., StructProtocol]]
_SCHEMA = MANIFEST_ENTRY_SCHEMAS[3]
# Positions of the fields in a manifest entry and in its data file, by their names in Iceberg's
# specification.
_ENTRY = {field.name: i for i, field in enumerate(_SCHEMA.fields)}
_DATA = {field.name: i for i, field in enumerate(DATA_FILE_TYPE[3].fields)}
FEW = 1000
_LIVE = (ManifestEntryStatus.EXISTING, ManifestEntryStatus.ADDED)
_BOUNDS = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


class _Row(list[Any]):
    """One Avro record. PyIceberg's decoder sets its fields by position."""

    def __init__(self, *values: Any) -> None:
        super().__init__(values)


class Entries(NamedTuple):
    """The live (not deleted) files of one manifest, as columns with one value per file."""

    content: Sequence[int]
    path: Sequence[str]
    """Paths as stored in the manifest."""
    format: Sequence[str]
    size: Sequence[int]
    records: Sequence[int]
    """Number of rows in the file."""
    sequence: Sequence[int]
    """Data sequence number; a greater number means a newer file."""
    encrypted: Sequence[bool]
    partition: Sequence[_Row]
    """Partition values, in the order of :attr:`partition_ids`."""
    partition_ids: tuple[int, ...]
    bounds: tuple[Sequence[Any], ...]
    """Five columns: value counts, null counts, NaN counts, lower bounds and upper bounds."""
    equality_ids: Sequence[Sequence[int] | None]
    """Ids of the columns that an equality delete file compares."""
    referenced: Sequence[str | None]
    """Path of the only data file that a delete file applies to, or None if it is not stored."""
    offset: Sequence[int | None]
    """Offset of a deletion vector in its file, in bytes."""
    length: Sequence[int | None]
    """Size of a deletion vector, in bytes."""


def read_list(files: FileIO, path: str) -> list[ManifestFile]:
    """Read a manifest list, and return the manifests of its snapshot.

    Raises:
        MissingFile: if the manifest list does not exist.
        CorruptMetadata: if the list cannot be decoded, or contains a manifest twice.
        UnsupportedTable: for an unknown format version or an encrypted manifest.
    """
    what = "manifest list"
    data = _bytes(files, path, what)
    if data.startswith(_ENCRYPTED):
        raise UnsupportedTable(f"The {what} {path} is encrypted.")
    with decoding(f"The {what} {path}"):
        types: _Types = {_ROOT: ManifestFile, _SUMMARY: PartitionFieldSummary}
        container = AvroContainer(data)
        _check_version(container, what, path)
        reader = reader_of(container.schema, _LIST_SCHEMA, types)
        records = container.records(reader)
        return _checked_list(records, path)


def _checked_list(records: Iterable[ManifestFile], path: str) -> list[ManifestFile]:
    """Return a manifest list's entries. Each entry is checked before the next one is decoded."""
    found: list[ManifestFile] = []
    listed: set[str] = set()
    for manifest in records:
        # A damaged path may equal another manifest's path. Even if the counts match, one manifest
        # would be read twice and the other not at all.
        if manifest.manifest_path in listed:
            raise CorruptMetadata(
                f"The manifest {manifest.manifest_path} is listed twice in {path}."
            )
        listed.add(manifest.manifest_path)
        found.append(manifest)
        if manifest.content not in (ManifestContent.DATA, ManifestContent.DELETES):
            raise UnsupportedTable(f"The manifest {manifest.manifest_path} has unknown content.")
        if manifest.key_metadata is not None:
            raise UnsupportedTable(f"The manifest {manifest.manifest_path} is encrypted.")
    return found


def read_entries(files: FileIO, manifest: ManifestFile) -> Entries:
    """Read a manifest, and return its live (not deleted) entries as columns.

    Raises:
        MissingFile: if the manifest does not exist.
        CorruptMetadata: if the manifest cannot be decoded, or contradicts the manifest list.
        UnsupportedTable: for an unknown format version.
    """
    what, path = "manifest", manifest.manifest_path
    data = _bytes(files, path, what)
    with decoding(f"The {what} {path}"):
        types: _Types = {_ROOT: _Row, _DATA_FILE: _Row, _PARTITION: _Row}
        container = AvroContainer(data)
        _check_version(container, what, path)
        partition = container.schema.find_field(_PARTITION).field_type
        if not isinstance(partition, StructType):
            raise CorruptMetadata(f"The partitions of the manifest {path} are not structs.")
        rows = container.records(reader_of(container.schema, _SCHEMA, types))
        live = list(_live(rows, manifest))
        _check(live, manifest, len(data))
        return _columns(live, manifest, tuple(field.field_id for field in partition.fields))


def _live(rows: Iterable[_Row], manifest: ManifestFile) -> Iterator[_Row]:
    """Yield the live entries, and raise an error if there are far more than expected.

    Raises:
        CorruptMetadata: if there are over 1000 more live files than the manifest list counts.
    """
    most = live_files(manifest)
    found = 0
    for row in rows:
        if row[_ENTRY["status"]] != ManifestEntryStatus.DELETED:
            yield row
            found += 1
            if most is not None and found > most + FEW:
                raise CorruptMetadata(
                    f"The manifest {manifest.manifest_path} has at least {found} files, but the "
                    f"manifest list counts {most}."
                )


def live_files(manifest: ManifestFile) -> int | None:
    """Return a manifest's number of live files, or None if the manifest list does not store it."""
    return _sum(manifest.added_files_count, manifest.existing_files_count)


def live_rows(manifest: ManifestFile) -> int | None:
    """Return the number of rows in a manifest's live files, or None if the list does not store it.

    Rows that delete files remove are counted too.
    """
    return _sum(manifest.added_rows_count, manifest.existing_rows_count)


def may_have_files(manifest: ManifestFile) -> bool:
    """Return whether a manifest may have live files, according to the manifest list.

    The result is also true if the file count is missing, or if it is 0 but the row count is not.
    """
    return live_files(manifest) != 0 or bool(live_rows(manifest))


def _sum(added: int | None, existing: int | None) -> int | None:
    if added is None or existing is None or min(added, existing) < 0:
        return None
    return added + existing


def _check(live: Sequence[_Row], manifest: ManifestFile, size: int) -> None:
    """Check a manifest's entries against the counts in the manifest list.

    The manifest's size is checked only if the list has no counts, because the size in the list may
    be outdated: Iceberg's procedure that rewrites the paths in manifests does not update it.

    Raises:
        CorruptMetadata: if the counts or sizes differ, or an entry is invalid.
    """
    path, status, file = manifest.manifest_path, _ENTRY["status"], _ENTRY["data_file"]
    files, rows = live_files(manifest), live_rows(manifest)
    if files is None and size != manifest.manifest_length:
        raise CorruptMetadata(
            f"The manifest {path} has {size} bytes, but the manifest list gives its size as "
            f"{manifest.manifest_length}."
        )
    if files is not None and files != len(live):
        raise CorruptMetadata(
            f"The manifest {path} has {len(live)} files, but the manifest list counts {files}."
        )
    found = sum(row[file][_DATA["record_count"]] for row in live)
    if rows is not None and rows != found:
        raise CorruptMetadata(
            f"The manifest {path} has {found} rows, but the manifest list counts {rows}."
        )
    for row in live:
        # The engine skips files with size 0. So a file with rows and a wrong size of 0 would lose
        # its rows.
        least = 1 if row[file][_DATA["record_count"]] else 0
        if row[status] not in _LIVE or row[file][_DATA["file_size_in_bytes"]] < least:
            raise CorruptMetadata(
                f"The manifest {path} has an entry with an invalid status or size."
            )


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
    """Return a file's data sequence number, which an added entry inherits from its manifest."""
    if number is not None:
        return number
    # Manifests of version 1 tables have no sequence numbers. Their files get 0, the lowest number,
    # and so count as the oldest files.
    if manifest.sequence_number == 0 or status == ManifestEntryStatus.ADDED:
        return manifest.sequence_number
    raise CorruptMetadata(f"The manifest {manifest.manifest_path} lacks sequence numbers.")


def _bytes(files: FileIO, path: str, what: str) -> bytes:
    with reading(what, path), files.new_input(path).open() as stream:
        return received(stream)


def _check_version(container: AvroContainer, what: str, path: str) -> None:
    version = container.metadata.get(b"format-version", b"1")
    if version not in _VERSIONS:
        raise UnsupportedTable(f"The {what} {path} has the unknown version {version.decode()}.")
