"""Metadata files of Iceberg tables that are damaged, truncated, missing or of another version."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField, StructType

import splitlib
from splitlib_iceberg import metadata_cache
from tests.support.iceberg_tables import (
    append,
    catalog_options,
    create,
    data_file,
    make_catalog,
    open_table,
    paths_of,
    select,
)
from tests.unit.connectors.iceberg.simple_tables import (
    BY_D,
    SIMPLE,
    VERSION_3,
    Keys,
    rewrite_metadata,
)


def metadata_files(table, pattern):
    root = Path(table.location().removeprefix("file://")) / "metadata"
    return sorted(root.glob(pattern))


def test_a_metadata_file_that_does_not_parse(catalog, table):
    path = Path(table.metadata_location.removeprefix("file://"))
    good = path.read_text()
    for bad, error in (
        ("", splitlib.CorruptMetadata),
        ("{", splitlib.CorruptMetadata),
        (good[: len(good) // 2], splitlib.CorruptMetadata),
        (json.dumps({**json.loads(good), "schemas": 5}), splitlib.CorruptMetadata),
        (json.dumps({**json.loads(good), "format-version": 9}), splitlib.UnsupportedTable),
    ):
        path.write_text(bad)
        with pytest.raises(error) as caught:
            open_table(catalog, table)
        assert len(str(caught.value)) < 400
    path.unlink()
    with pytest.raises(splitlib.MissingFile):
        open_table(catalog, table)


def damaged(path, how):
    data = path.read_bytes()
    match how:
        case "gone":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "garbage":
            path.write_bytes(b"\xff" * len(data))
        case "cut":
            path.write_bytes(data[:-40])
        case "a directory":
            path.unlink()
            path.mkdir()


@pytest.mark.parametrize("what", ["snap-*.avro", "*-m0.avro"])
@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("gone", splitlib.MissingFile),
        ("empty", splitlib.CorruptMetadata),
        ("garbage", splitlib.CorruptMetadata),
        ("cut", splitlib.CorruptMetadata),
        ("a directory", splitlib.SourceUnavailable),
    ],
)
def test_a_damaged_manifest_or_list(catalog, table, what, how, error):
    for path in metadata_files(table, what):
        damaged(path, how)
    opened = open_table(catalog, table)
    with pytest.raises(error) as caught:
        select(opened)
    assert re.match(r"The manifest( list)? \S*metadata/", str(caught.value))
    assert caught.value.table == ".".join(table.name())


def test_a_manifest_of_other_partitions(catalog, table):
    def renumber(metadata):
        metadata["partition-specs"][0]["fields"][0]["field-id"] = 1001

    rewrite_metadata(table, renumber)
    with pytest.raises(
        splitlib.CorruptMetadata, match=r"The manifest .*-m0.avro cannot .* Partition field 1001"
    ):
        select(open_table(catalog, table))


def test_a_manifest_whose_partitions_are_no_structs(catalog, table):
    partition = NestedField(102, "partition", IntegerType(), required=True)
    entry = Schema(NestedField(2, "data_file", StructType(partition), required=True))
    for path in metadata_files(table, "*-m0.avro"):
        path.unlink()
        place, version = PyArrowFileIO().new_output(path.as_uri()), {"format-version": "2"}
        with AvroOutputFile[Any](place, entry, "manifest_entry", metadata=version):
            pass
    with pytest.raises(
        splitlib.CorruptMetadata, match=r"partitions of the manifest \S*-m0.avro are not structs"
    ):
        select(open_table(catalog, table))


def test_a_manifest_of_data_with_a_delete_file(catalog):
    """Its rows are not rows of the table."""
    table = create(catalog, SIMPLE, BY_D)
    content = DataFileContent.POSITION_DELETES
    append(table, [data_file(table, [{"d": 1}]), data_file(table, [{"d": 1}], content=content)])
    without_totals = {"summary": {"operation": "append"}}
    rewrite_metadata(table, lambda metadata: metadata["snapshots"][0].update(without_totals))
    with pytest.raises(splitlib.CorruptMetadata, match="not a data file"):
        select(open_table(catalog, table))


@pytest.mark.parametrize(
    ("size", "rows", "is_right"), [(-1, 0, False), (0, 0, True), (0, 1, False), (1, 1, True)]
)
def test_a_manifest_with_a_file_without_bytes(catalog, size, rows, is_right):
    """If such a file has rows, they would be lost."""
    table = create(catalog, SIMPLE, BY_D)
    given = {"file_size_in_bytes": size, "record_count": rows}
    files = [data_file(table, [{"d": 1}]), data_file(table, [{"d": 1}], **given)]
    append(table, files)
    if is_right:
        found = paths_of(files if rows else files[:1])
        assert select(open_table(catalog, table))[0] == sorted(found)
        return
    with pytest.raises(splitlib.CorruptMetadata, match="invalid status or size"):
        select(open_table(catalog, table))


def test_a_manifest_cut_between_its_blocks(catalog):
    """A manifest that is cut after a block decodes without an error, but has fewer files."""
    table = create(catalog, SIMPLE, BY_D)
    append(table, [data_file(table, [{"d": d}]) for d in range(50)])
    (path,) = metadata_files(table, "*-m0.avro")
    with AvroFile[Any](PyArrowFileIO().new_input(path.as_uri())) as reader:
        next(reader)
        sync = reader.header.sync
    data = path.read_bytes()
    path.write_bytes(data[: data.rindex(sync, 0, -20) + len(sync)])
    with pytest.raises(splitlib.CorruptMetadata, match="49 files, but the manifest list counts 50"):
        select(open_table(catalog, table))


@pytest.mark.parametrize("what", ["snap-*.avro", "*-m0.avro"])
def test_a_manifest_or_list_of_a_version_to_come(catalog, table, what):
    for path in metadata_files(table, what):
        data = path.read_bytes()
        assert b"format-version\x022" in data
        path.write_bytes(data.replace(b"format-version\x022", b"format-version\x029"))
    with pytest.raises(splitlib.UnsupportedTable, match="version 9"):
        select(open_table(catalog, table))


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ({"file_format": "ORC"}, "has format orc"),
        ({"file_format": "AVRO"}, "has format avro"),
        ({"key_metadata": b"key"}, "is encrypted"),
    ],
    ids=str,
)
def test_files_that_cannot_be_read_are_refused_if_they_matter(catalog, overrides, reason):
    table = create(catalog, SIMPLE, BY_D)
    bad, good = data_file(table, [{"d": 1}], **overrides), data_file(table, [{"d": 2}])
    append(table, [bad, good])
    opened = open_table(catalog, table)
    assert select(opened, Keys.from_values({"d": [2]}))[0] == paths_of([good])
    with pytest.raises(splitlib.UnsupportedTable, match=reason):
        select(opened, Keys.from_values({"d": [1]}))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_format_version(catalog, version):
    written = {"format-version": str(min(version, 2))}
    table = create(catalog, SIMPLE, BY_D, properties=written)
    files = [data_file(table, [{"d": d, "c": 5}]) for d in (1, 2)]
    append(table, files)
    if version == 3:
        rewrite_metadata(table, lambda metadata: metadata.update(VERSION_3))
    opened = open_table(catalog, table)
    assert select(opened, Keys.from_values({"d": [2], "c": [5]}))[0] == paths_of(files[1:])


def test_paths_are_spelled_as_hadoop_does(tmp_path):
    """Percent signs in a location are part of the name on disk, and not escapes."""
    root = tmp_path / "a b%20é"
    catalog = make_catalog(tmp_path)
    location = f"file://{root}/t x"
    table = catalog.create_table("ns.t", SIMPLE, location=location, partition_spec=BY_D)
    append(table, [data_file(table, [{"d": 1}])])
    (path,) = select(open_table(catalog, table))[0]
    assert path.startswith(f"{root}/t x/data/")
    catalog.close()


def test_what_is_cached_belongs_to_the_credentials(catalog, table, tmp_path):
    opened = open_table(catalog, table)
    assert select(opened)[1].storage_requests == 3
    again = open_table(catalog, table)
    assert select(again)[1].storage_requests == 0
    options = {**catalog_options(tmp_path), "s3.access-key-id": "someone else"}
    other = splitlib.load_table(".".join(table.name()), "iceberg", **options)
    assert select(other)[1].storage_requests == 3
    other.close()
    metadata_cache.shared.clear()
    assert select(open_table(catalog, table))[1].storage_requests == 3


def test_a_plan_outlives_the_files_it_was_made_from(catalog, table):
    """Cached manifests are used even if the files are gone, as manifests are never overwritten."""
    opened = open_table(catalog, table)
    before = select(opened)[0]
    shutil.rmtree(metadata_files(table, "*-m0.avro")[0].parent)
    assert select(opened)[0] == before
