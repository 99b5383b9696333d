"""The index that finds the delete files for each data file."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField

import splitlib
from splitlib.model import DeleteFile
from splitlib.spi import SupportsDeletionVectors, SupportsPhysicalNames
from splitlib_iceberg.delete_index import Delete, DeleteIndex, key_values, partition_key
from tests.support.iceberg_tables import (
    add_deletes,
    append,
    create,
    data_file,
    delete_file,
    open_table,
    paths_of,
)
from tests.unit.connectors.iceberg.simple_tables import BY_D, SIMPLE, Keys, deletes_by_path

POSITIONS = DataFileContent.POSITION_DELETES
EQUALITY = DataFileContent.EQUALITY_DELETES
FILE_PATH = 2147483546
VECTOR = {
    "file_format": FileFormat.PUFFIN,
    "referenced_data_file": "/t/f",
    "content_offset": 4,
    "content_size_in_bytes": 42,
}


@pytest.fixture
def table(catalog):
    return create(catalog, SIMPLE, BY_D)


@st.composite
def deletes(draw, paths, partitions):
    kind = draw(st.sampled_from(["position", "vector", "equality"]))
    data_file = draw(st.none() | st.sampled_from(paths)) if kind == "position" else None
    first = last = None
    if kind == "position" and data_file is None:
        first, last = (
            draw(st.none() | st.sampled_from(paths)),
            draw(st.none() | st.sampled_from(paths)),
        )
    if kind == "vector":
        data_file = draw(st.sampled_from(paths))
    everywhere = kind == "equality" and draw(st.booleans())
    partition = None if everywhere else draw(st.sampled_from(partitions))
    name = f"delete-{draw(st.integers(0, 10**9))}"
    file = DeleteFile(kind, name, 1, "parquet")
    return Delete(file, draw(st.integers(0, 4)), partition, data_file, first, last)


def applies(delete, path, sequence, partition):
    """Return whether a delete applies to a file according to the Iceberg specification."""
    if delete.file.kind == "equality":
        return sequence < delete.sequence and delete.partition in (None, partition)
    if delete.data_file is not None:
        return delete.data_file == path and sequence <= delete.sequence
    first, last = delete.first_file, delete.last_file
    between = (first is None or path >= first) and (last is None or path <= last)
    return delete.partition == partition and sequence <= delete.sequence and between


@given(st.data())
@settings(max_examples=3 * settings().max_examples, deadline=None)
def test_the_rules_of_the_specification(data):
    paths, partitions = ["/a", "/b", "/c"], [(0, (1,)), (0, (2,)), (1, (1,))]
    given_ = data.draw(st.lists(deletes(paths, partitions), max_size=8))
    # A data file has at most one deletion vector.
    vectors = {d.data_file: d for d in given_ if d.file.kind == "vector"}
    given_ = [d for d in given_ if d.file.kind != "vector"] + list(vectors.values())
    index = DeleteIndex(given_)
    assert bool(index) == bool(given_)
    path = data.draw(st.sampled_from(paths))
    sequence, partition = data.draw(st.integers(0, 4)), data.draw(st.sampled_from(partitions))
    expected = [d for d in given_ if applies(d, path, sequence, partition)]
    if any(d.file.kind == "vector" for d in expected):
        expected = [d for d in expected if d.file.kind != "position"]
    found = index.of(path, sequence, partition)
    assert sorted(f.path for f in found) == sorted(d.file.path for d in expected)


def test_two_vectors_of_one_file_are_an_error():
    file = DeleteFile("vector", "/v", 1, "puffin", 4, 10)
    vector = Delete(file, 1, (0, ()), "/a", None, None)
    with pytest.raises(splitlib.CorruptMetadata, match="Two deletion vectors"):
        DeleteIndex([vector, vector])


def test_position_deletes_within_a_partition_and_not_for_newer_files(catalog, table):
    old = [data_file(table, [{"d": d}]) for d in (1, 2)]
    append(table, old)
    add_deletes(table, delete_file(table, Record(1), POSITIONS))
    new = data_file(table, [{"d": 1}])
    append(table, [new])
    found, _ = deletes_by_path(open_table(catalog, table))
    assert [len(found[path]) for path in paths_of([*old, new])] == [1, 0, 0]
    (deleted,) = found[paths_of(old)[0]]
    assert (deleted.kind, deleted.format, deleted.size) == ("position", "parquet", 100)


def test_position_deletes_that_name_their_file(catalog, table):
    files = [data_file(table, [{"d": 1}]) for _ in range(4)]
    append(table, files)
    bound = [{FILE_PATH: file.file_path.encode()} for file in files]
    by_path = sorted(range(4), key=lambda i: files[i].file_path)
    lower, upper = bound[by_path[0]], bound[by_path[1]]
    broken = {FILE_PATH: b"\xff"}
    add_deletes(
        table,
        delete_file(table, Record(1), POSITIONS, referenced_data_file=files[0].file_path),
        delete_file(table, Record(1), POSITIONS, lower_bounds=bound[1], upper_bounds=bound[1]),
        delete_file(table, Record(1), POSITIONS, lower_bounds=lower, upper_bounds=upper),
        delete_file(table, Record(1), POSITIONS, lower_bounds=broken, upper_bounds=broken),
    )
    found, _ = deletes_by_path(open_table(catalog, table))
    expected = [1 + int(i == 0) + int(i == 1) + int(i in by_path[:2]) for i in range(4)]
    assert [len(found[path]) for path in paths_of(files)] == expected


@pytest.mark.parametrize("prefix", ["file:", "file://", "file://localhost", "FILE:"])
def test_truncated_bounds_of_paths(catalog, table, prefix):
    paths = [f"{prefix}/t/{name}.parquet" for name in "abc"]
    append(table, [data_file(table, [{"d": 1}], file_path=path) for path in paths])
    lengths = range(1, len(paths[0]))
    deletes = []
    for length in lengths:
        upper = paths[1].encode()[:length]
        upper = upper[:-1] + bytes([upper[-1] + 1])
        bounds = {
            "lower_bounds": {FILE_PATH: paths[0].encode()[:length]},
            "upper_bounds": {FILE_PATH: upper},
        }
        deletes.append(delete_file(table, Record(1), POSITIONS, **bounds))
    add_deletes(table, *deletes)
    found, _ = deletes_by_path(open_table(catalog, table))
    assert [len(found[f"/t/{name}.parquet"]) for name in "ab"] == [len(lengths)] * 2
    assert len(found["/t/c.parquet"]) < len(lengths)


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("file:///b", "file:/c"),  # The path file:/a/f lies between these bounds.
        ("/b", "s3://b"),
        (None, "file://0"),
        ("file:///b", None),
    ],
    ids=str,
)
def test_bounds_of_paths_that_are_spelled_differently(catalog, table, first, last):
    append(table, [data_file(table, [{"d": 1}], file_path="file:/a/f")])
    lower, upper = ({} if b is None else {FILE_PATH: b.encode()} for b in (first, last))
    deletes = delete_file(table, Record(1), POSITIONS, lower_bounds=lower, upper_bounds=upper)
    add_deletes(table, deletes)
    found, _ = deletes_by_path(open_table(catalog, table))
    assert len(found["/a/f"]) == 1


def test_a_vector_replaces_the_position_deletes_of_its_file(catalog, table):
    files = [data_file(table, [{"d": 1}]) for _ in range(2)]
    append(table, files)
    add_deletes(table, delete_file(table, Record(1), POSITIONS))
    vector = delete_file(
        table,
        Record(1),
        POSITIONS,
        file_format=FileFormat.PUFFIN,
        referenced_data_file=files[0].file_path,
        content_offset=4,
        content_size_in_bytes=42,
    )
    add_deletes(table, vector)
    found, _ = deletes_by_path(open_table(catalog, table))
    of_first, of_second = (found[path] for path in paths_of(files))
    (one,) = of_first
    assert (one.kind, one.format, one.offset, one.length) == ("vector", "puffin", 4, 42)
    assert [delete.kind for delete in of_second] == ["position"]


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")])
def test_keys_of_years_that_python_does_not_have(kind):
    numbers = pa.array([5_000_000, None, -1_000_000], pa.int32())
    if pa.types.is_timestamp(kind):
        numbers = pc.multiply(pc.cast(numbers, pa.int64()), 86_400_000_000)
    assert key_values(numbers.cast(kind)) == numbers.to_pylist()
    assert key_values(pa.array([1.5, None])) == [1.5, None]


def test_equality_deletes_of_a_partition_and_of_the_whole_table(catalog):
    table = create(catalog, SIMPLE)
    everywhere = delete_file(table, Record(), EQUALITY, equality_ids=[2])
    with table.update_spec() as update:
        update.add_identity("d")
    files = [data_file(table, [{"d": d}]) for d in (1, 2)]
    append(table, files)
    with_it = data_file(table, [{"d": 1}])
    add_deletes(table, everywhere, delete_file(table, Record(1), EQUALITY, equality_ids=[1, 2]))
    append(table, [with_it])
    found, _ = deletes_by_path(open_table(catalog, table))
    ids = [sorted(d.field_ids for d in found[path]) for path in paths_of([*files, with_it])]
    assert ids == [[(1, 2), (2,)], [(2,)], []]


def test_an_equality_delete_spares_what_was_added_with_it(catalog, table):
    """An equality delete does not apply to files of its own commit, but a position delete does."""
    file = data_file(table, [{"d": 1}])
    append(table, [file])
    add_deletes(table, delete_file(table, Record(1), EQUALITY, equality_ids=[1]))
    found, _ = deletes_by_path(open_table(catalog, table))
    assert len(found[paths_of([file])[0]]) == 1
    index = DeleteIndex(
        [
            Delete(DeleteFile("equality", "/e", 1, "parquet"), 3, None, None, None, None),
            Delete(DeleteFile("position", "/p", 1, "parquet"), 3, (0, ()), None, None, None),
        ]
    )
    assert [d.path for d in index.of("/f", 3, (0, ()))] == ["/p"]


def test_a_file_keeps_its_sequence_number_in_a_merged_manifest(catalog):
    merged = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "1"}
    table = create(catalog, SIMPLE, BY_D, merged)
    old, new = (data_file(table, [{"d": 1}]) for _ in range(2))
    append(table, [old])
    add_deletes(table, delete_file(table, Record(1), EQUALITY, equality_ids=[1]))
    with table.transaction() as commit, commit.update_snapshot().merge_append() as merging:
        merging.append_data_file(new)
    found, metrics = deletes_by_path(open_table(catalog, table))
    assert metrics.manifests_total == 1
    assert [len(found[path]) for path in paths_of([old, new])] == [1, 0]


def test_a_null_and_a_nan_partition_have_their_deletes(catalog):
    from pyiceberg.types import DoubleType

    schema = Schema(NestedField(1, "d", DoubleType(), required=False))
    table = create(catalog, schema, BY_D)
    files = [data_file(table, [{"d": d}]) for d in (None, float("nan"), 1.0)]
    append(table, files)
    add_deletes(table, *(delete_file(table, Record(d), POSITIONS) for d in (None, float("nan"))))
    found, _ = deletes_by_path(open_table(catalog, table))
    assert [len(found[path]) for path in paths_of(files)] == [1, 1, 0]


def test_the_two_zeros_are_different_partitions():
    spec: Any = SimpleNamespace(id=0)
    zero, other = (partition_key(spec, [value]) for value in (0.0, -0.0))
    assert zero != other
    assert partition_key(spec, [float("nan")]) == partition_key(spec, [float("nan")])


def test_only_delete_manifests_that_may_matter_are_read(catalog, table):
    append(table, [data_file(table, [{"d": d}]) for d in range(4)])
    for d in range(4):
        add_deletes(table, delete_file(table, Record(d), POSITIONS))
    opened = open_table(catalog, table)
    found, metrics = deletes_by_path(opened, Keys.from_values({"d": [2]}))
    assert [len(deletes) for deletes in found.values()] == [1]
    assert metrics.storage_requests == 3  # one manifest list, data manifest and delete manifest
    assert metrics.manifests_total == 1
    found, metrics = deletes_by_path(opened)
    assert [len(deletes) for deletes in found.values()] == [1] * 4
    assert metrics.storage_requests == 3
    found, metrics = deletes_by_path(opened)
    assert [len(deletes) for deletes in found.values()] == [1] * 4
    assert metrics.storage_requests == 0


@pytest.mark.parametrize(
    ("overrides", "error", "message"),
    [
        ({"file_format": FileFormat.ORC}, splitlib.UnsupportedTable, "has format orc"),
        ({"key_metadata": b"k"}, splitlib.UnsupportedTable, "is encrypted"),
        ({"file_format": FileFormat.PUFFIN}, splitlib.CorruptMetadata, "has no data file, offset"),
        (VECTOR | {"content_offset": -1}, splitlib.CorruptMetadata, "has a negative offset"),
        (
            VECTOR | {"key_metadata": b"k"},
            splitlib.UnsupportedTable,
            "The deletion vector .* is encrypted",
        ),
        ({"content": DataFileContent.DATA}, splitlib.UnsupportedTable, "has unknown content 0"),
        ({"content": EQUALITY}, splitlib.CorruptMetadata, "has no columns to compare"),
    ],
    ids=str,
)
def test_what_cannot_be_applied_is_never_ignored(catalog, table, overrides, error, message):
    append(table, [data_file(table, [{"d": 1}])])
    content = overrides.pop("content", POSITIONS)
    add_deletes(table, delete_file(table, Record(1), content, **overrides))
    with pytest.raises(error, match=message):
        deletes_by_path(open_table(catalog, table))


def test_plain_paths_are_refused_where_rows_are_deleted(catalog, table):
    append(table, [data_file(table, [{"d": d}]) for d in (1, 2)])
    add_deletes(table, delete_file(table, Record(1), POSITIONS))
    opened = open_table(catalog, table)
    assert len(splitlib.paths(opened, Keys.from_values({"d": [2]}))) == 1
    with pytest.raises(splitlib.UnsupportedTable, match="deleted"):
        splitlib.paths(opened)


def test_what_the_connector_can_do(catalog, table):
    connector = open_table(catalog, table).connector
    assert isinstance(connector, SupportsDeletionVectors)
    assert isinstance(connector, SupportsPhysicalNames)
