"""Entries of manifests are compared with the manifest list, and inherit what they leave out."""

from __future__ import annotations

import json
from collections.abc import Collection
from io import BytesIO
from typing import Any

import pytest
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.manifest import MANIFEST_LIST_FILE_SCHEMAS, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

from splitlib import CorruptMetadata, UnsupportedTable
from splitlib_iceberg.avro import AvroContainer
from splitlib_iceberg.manifests import Entries, live_files, read_entries, read_list
from tests.fuzzing.iceberg_files import InMemory, kept, listed

MANIFEST = kept()["null-0.avro"]
SYNC = MANIFEST[-16:]
HEADER = MANIFEST[: MANIFEST.index(SYNC) + len(SYNC)]
# The first record is that of an added file with one row. It begins with the status, the id of a
# snapshot and the sequence number. The two numbers may be null.
ADDED = b"\x02" + b"\x02\x02" + b"\x02\x02"
REST = MANIFEST[MANIFEST.index(ADDED, len(HEADER)) + len(ADDED) : MANIFEST.index(SYNC, len(HEADER))]
PATH = "file:///t/0.parquet"


def number(n: int) -> bytes:
    encoded = BytesIO()
    BinaryEncoder(encoded).write_int(n)
    return encoded.getvalue()


def entry(status: int = 1, sequence: int | None = 1) -> bytes:
    """Return a block with one entry: of status 0 (existing), 1 (added), 2 (deleted) or another."""
    last = number(0) if sequence is None else number(1) + number(sequence)
    record = number(status) + number(1) + number(5) + last + REST
    return number(1) + number(len(record)) + record + SYNC


def entries_of(*blocks: bytes, header: bytes = HEADER, **said: Any) -> Entries:
    """Read a manifest of which the list says that it has as many files as blocks."""
    counts = {"added_files_count": len(blocks), "added_rows_count": len(blocks)}
    manifest = {**listed("null", 0), **counts, "manifest_path": "m", **said}
    files = InMemory({"m": header + b"".join(blocks)})
    return read_entries(files, ManifestFile.from_args(**manifest))


def test_files_that_are_not_deleted_are_live() -> None:
    found = entries_of(entry(0), entry(2), entry(1), added_files_count=2, added_rows_count=2)
    assert (list(found.path), list(found.records)) == ([PATH] * 2, [1, 1])
    assert list(entries_of(entry(2), added_files_count=0, added_rows_count=0).path) == []


@pytest.mark.parametrize("status", [3, -1])
def test_an_entry_of_an_unknown_status_is_refused(status: int) -> None:
    with pytest.raises(CorruptMetadata, match="manifest m has an entry with an invalid status"):
        entries_of(entry(), entry(status))


@pytest.mark.parametrize(
    ("status", "own", "of_manifest", "expected"),
    [
        (1, 7, 9, 7),
        (1, 0, 9, 0),
        (0, 7, 9, 7),
        (1, None, 9, 9),
        (1, None, 0, 0),  # tables of version 1 have no sequence numbers
        (0, None, 0, 0),
        (0, None, 9, None),
    ],
)
def test_an_added_file_is_as_new_as_its_manifest(
    status: int, own: int | None, of_manifest: int, expected: int | None
) -> None:
    if expected is None:
        with pytest.raises(CorruptMetadata, match="The manifest m lacks sequence numbers"):
            entries_of(entry(status, own), sequence_number=of_manifest)
        return
    assert entries_of(entry(status, own), sequence_number=of_manifest).sequence == [expected]


@pytest.mark.parametrize(
    ("files", "says"), [(1002, "has 1002 files"), (1003, "has at least 1003 files")]
)
def test_a_manifest_of_far_too_many_files_is_not_read_to_its_end(files: int, says: str) -> None:
    """The rest of the file may be huge. Here, it cannot be decoded."""
    damaged = [b"damaged"] if files == 1003 else []
    blocks = [entry(2), *[entry()] * files, *damaged]
    with pytest.raises(CorruptMetadata, match=f"{says}.*the manifest list counts 2"):
        entries_of(*blocks, added_files_count=1, existing_files_count=1)


def test_a_manifest_whose_files_are_not_counted_is_read_to_its_end() -> None:
    blocks = [entry()] * 1500
    unknown: dict[str, Any] = {"added_files_count": -1, "added_rows_count": -1}
    size = len(HEADER) + sum(map(len, blocks))
    assert len(entries_of(*blocks, **unknown, manifest_length=size).path) == 1500
    with pytest.raises(CorruptMetadata, match=f"m has {size} bytes, but .* size as {size - 1}"):
        entries_of(*blocks, **unknown, manifest_length=size - 1)


def test_a_manifest_whose_partitions_are_numbers_is_refused() -> None:
    file = {
        "type": "record",
        "name": "r2",
        "fields": [{"name": "partition", "field-id": 102, "type": "long"}],
    }
    fields = [{"name": "data_file", "field-id": 2, "type": file}]
    schema = json.dumps({"type": "record", "name": "manifest_entry", "fields": fields}).encode()
    texts = b"".join(number(len(text)) + text for text in (b"avro.schema", schema))
    header = b"Obj\x01" + number(1) + texts + number(0) + SYNC
    with pytest.raises(CorruptMetadata, match="partitions of the manifest m are not structs"):
        entries_of(header=header)


@pytest.mark.parametrize(("version", "is_read"), [(b"0", False), (b"1", True), (b"4", False)])
def test_versions_of_manifests(version: bytes, is_read: bool) -> None:
    name = b"format-version" + number(1)
    header = HEADER.replace(name + b"2", name + version)
    if is_read:
        assert list(entries_of(entry(), header=header).path) == [PATH]
        return
    with pytest.raises(UnsupportedTable, match=f"manifest m .*unknown version {version.decode()}"):
        entries_of(entry(), header=header)


def header_with(schema: dict[str, Any]) -> bytes:
    """Return the header of an Avro file with the metadata of a manifest and another schema."""
    metadata = {**AvroContainer(MANIFEST).metadata, b"avro.schema": json.dumps(schema).encode()}
    pairs = (number(len(part)) + part for pair in metadata.items() for part in pair)
    return b"Obj\x01" + number(len(metadata)) + b"".join(pairs) + number(0) + SYNC


_KEY = {"name": "key", "type": "int", "field-id": 123}
_VALUE = {"name": "value", "type": "long", "field-id": 124}
_PAIR = {"type": "record", "name": "k123_v124", "fields": [_KEY, _VALUE]}
DISTINCT_COUNTS = {"type": "array", "logicalType": "map", "items": _PAIR}
SORT_COLUMNS = {"type": "array", "element-id": 112, "items": "int"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (("distinct_counts", 111, DISTINCT_COUNTS), b"\0"),
        (("distinct_counts", 111, DISTINCT_COUNTS), b"\2" + b"\4" + b"\2\4\6\10" + b"\0"),
        (("sort_columns", 107, SORT_COLUMNS), b"\2" + b"\2\6" + b"\0"),
        (("other", 999, {"type": "record", "name": "o", "fields": [_KEY]}), b"\2\6"),
    ],
    ids=["null", "distinct counts", "sort columns", "struct"],
)
def test_fields_of_other_writers_are_skipped(field: Any, value: bytes) -> None:
    name, identifier, kind = field
    schema = json.loads(AvroContainer(MANIFEST).metadata[b"avro.schema"])
    (data_file,) = (f for f in schema["fields"] if f["name"] == "data_file")
    data_file["type"]["fields"].append(
        {"name": name, "field-id": identifier, "type": ["null", kind], "default": None}
    )
    record = ADDED + REST + value
    block = number(1) + number(len(record)) + record + SYNC
    found = entries_of(block, header=header_with(schema))
    assert list(found.path) == [PATH]


def test_a_named_type_is_defined_once() -> None:
    """The Avro library for Java writes only its name the second time."""
    decimal = {"type": "fixed", "name": "decimal_9_2", "size": 4}
    decimal |= {"logicalType": "decimal", "precision": 9, "scale": 2}
    fields = [
        {"name": "a", "field-id": 1, "type": ["null", decimal]},
        {"name": "b", "field-id": 2, "type": ["null", "decimal_9_2"]},
        {
            "name": "c",
            "field-id": 3,
            "type": {"type": "array", "element-id": 4, "items": "decimal_9_2"},
        },
    ]
    data = header_with({"type": "record", "name": "r", "fields": fields})
    kinds = [str(field.field_type) for field in AvroContainer(data).schema.fields]
    assert kinds == ["decimal(9, 2)", "decimal(9, 2)", "list<decimal(9, 2)>"]


@pytest.mark.parametrize("other", [{"size": 8}, {"size": 16, "logicalType": "uuid"}])
def test_types_with_the_name_of_a_keyword(other: Any) -> None:
    """Writers in Go give all types of a fixed size the same name."""
    decimal = {"type": "fixed", "name": "fixed", "size": 4}
    decimal |= {"logicalType": "decimal", "precision": 9, "scale": 2}
    fields = [
        {"name": "a", "field-id": 1, "type": ["null", decimal]},
        {"name": "b", "field-id": 2, "type": {"type": "fixed", "name": "fixed", **other}},
    ]
    data = header_with({"type": "record", "name": "r", "fields": fields})
    kinds = [str(field.field_type) for field in AvroContainer(data).schema.fields]
    assert kinds == ["decimal(9, 2)", "uuid" if len(other) > 1 else "fixed[8]"]


@pytest.mark.parametrize("name", ["f", "n.f"])
def test_names_of_types_have_the_namespace_of_the_record(name: str) -> None:
    fixed = {"type": "fixed", "name": name, "size": 4}
    fields = [
        {"name": "a", "field-id": 1, "type": ["null", fixed]},
        {"name": "b", "field-id": 2, "type": "f"},
        {"name": "c", "field-id": 3, "type": "n.f"},
    ]
    record = {"type": "record", "name": "r", "namespace": "n", "fields": fields}
    schema = AvroContainer(header_with(record)).schema
    assert [str(field.field_type) for field in schema.fields] == ["fixed[4]"] * 3


def test_a_list_of_nulls_is_refused() -> None:
    """Its elements take no bytes, so it could claim any length."""
    nulls = {"type": "array", "element-id": 4, "items": "null"}
    fields = [{"name": "a", "field-id": 1, "type": nulls}]
    with pytest.raises(ValueError, match="Elements of a list take no bytes"):
        AvroContainer(header_with({"type": "record", "name": "r", "fields": fields}))


@pytest.mark.parametrize("ids", [range(500, 504), (*range(500, 508), 512, 513, 514)])
def test_lists_of_version_1_may_lack_counts(ids: Collection[int]) -> None:
    values = {500: "m", 501: 100, 502: 0, 503: 1, 504: 2, 505: 0, 506: 0, 512: 3, 513: 0, 514: 0}
    schema = Schema(*(f for f in MANIFEST_LIST_FILE_SCHEMAS[1].fields if f.field_id in ids))
    files = InMemory({})
    version = {"format-version": "1"}
    with AvroOutputFile[Record](files.new_output("l"), schema, "l", schema, version) as writer:
        writer.write_block([Record(*(values.get(f.field_id) for f in schema.fields))])
    (found,) = read_list(files, "l")
    assert (found.manifest_path, found.sequence_number) == ("m", 0)
    assert live_files(found) == (2 if 504 in ids else None)


def test_an_encrypted_list_is_refused() -> None:
    with pytest.raises(UnsupportedTable, match="The manifest list l is encrypted"):
        read_list(InMemory({"l": b"AGS1" + bytes(100)}), "l")
