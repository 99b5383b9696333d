"""Which deletes apply to which file; deletion vectors; names of columns in files."""

from __future__ import annotations

import zlib
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.puffin import PuffinFile
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, LongType, NestedField
from pyroaring import BitMap64

import splitlib
from splitlib.model import DeleteFile
from splitlib.spi import SupportsDeletionVectors, SupportsPhysicalNames
from splitlib_iceberg.delete_index import Delete, DeleteIndex
from splitlib_iceberg.deletion_vectors import read_vector
from tests.support.iceberg_tables import (
    add_deletes,
    append,
    create,
    data_file,
    delete_file,
    make_catalog,
    open_table,
    paths_of,
)

Keys = splitlib.DynamicFilteringData
SCHEMA = Schema(
    NestedField(1, "d", IntegerType(), required=False),
    NestedField(2, "c", LongType(), required=False),
)
BY_D = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "d"))
POSITIONS, EQUALITY = DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES
FILE_PATH = 2147483546


@pytest.fixture
def catalog(tmp_path):
    made = make_catalog(tmp_path)
    yield made
    made.close()


@pytest.fixture
def table(catalog):
    return create(catalog, SCHEMA, BY_D)


# --- the rules


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
    """Whether a delete applies to a file, by the words of the specification."""
    if delete.file.kind == "equality":
        return sequence < delete.sequence and delete.partition in (None, partition)
    if delete.data_file is not None:
        return delete.data_file == path and sequence <= delete.sequence
    first, last = delete.first_file, delete.last_file
    between = (first is None or path >= first) and (last is None or path <= last)
    return delete.partition == partition and sequence <= delete.sequence and between


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_the_rules_of_the_specification(data):
    paths, partitions = ["/a", "/b", "/c"], [(0, (1,)), (0, (2,)), (1, (1,))]
    given_ = data.draw(st.lists(deletes(paths, partitions), max_size=8))
    vectors = {d.data_file: d for d in given_ if d.file.kind == "vector"}  # one for each file
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


# --- from manifests


def listed(opened, *filters):
    """The deletes of each file, by path."""
    enumerator = splitlib.DynamicFileEnumerator(opened)
    for data in filters:
        enumerator.set_dynamic_filtering_data(data)
    found: dict[str, Any] = {}
    for selected in enumerator.select_files():
        paths = selected.files.files["path"].to_pylist()
        found.update(zip(paths, selected.files.deletes_of_each(), strict=True))
    return found, enumerator.metrics


def test_position_deletes_within_a_partition_and_not_for_newer_files(catalog, table):
    old = [data_file(table, [{"d": d}]) for d in (1, 2)]
    append(table, old)
    add_deletes(table, delete_file(table, Record(1), POSITIONS))
    new = data_file(table, [{"d": 1}])
    append(table, [new])
    found, _ = listed(open_table(catalog, table))
    assert [len(found[path]) for path in paths_of([*old, new])] == [1, 0, 0]
    (deleted,) = found[paths_of(old)[0]]
    assert (deleted.kind, deleted.format, deleted.size) == ("position", "parquet", 100)


def test_position_deletes_that_name_their_file(catalog, table):
    files = [data_file(table, [{"d": 1}]) for _ in range(4)]
    append(table, files)
    bound = [{FILE_PATH: file.file_path.encode()} for file in files]
    by_path = sorted(range(4), key=lambda i: files[i].file_path)
    lower, upper = bound[by_path[0]], bound[by_path[1]]
    add_deletes(
        table,
        delete_file(table, Record(1), POSITIONS, referenced_data_file=files[0].file_path),
        delete_file(table, Record(1), POSITIONS, lower_bounds=bound[1], upper_bounds=bound[1]),
        delete_file(table, Record(1), POSITIONS, lower_bounds=lower, upper_bounds=upper),
    )
    found, _ = listed(open_table(catalog, table))
    expected = [int(i == 0) + int(i == 1) + int(i in by_path[:2]) for i in range(4)]
    assert [len(found[path]) for path in paths_of(files)] == expected


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
    found, _ = listed(open_table(catalog, table))
    of_first, of_second = (found[path] for path in paths_of(files))
    (one,) = of_first
    assert (one.kind, one.format, one.offset, one.length) == ("vector", "puffin", 4, 42)
    assert [delete.kind for delete in of_second] == ["position"]


def test_equality_deletes_of_a_partition_and_of_the_whole_table(catalog):
    table = create(catalog, SCHEMA)
    everywhere = delete_file(table, Record(), EQUALITY, equality_ids=[2])
    with table.update_spec() as update:
        update.add_identity("d")
    files = [data_file(table, [{"d": d}]) for d in (1, 2)]
    append(table, files)
    with_it = data_file(table, [{"d": 1}])
    add_deletes(table, everywhere, delete_file(table, Record(1), EQUALITY, equality_ids=[1, 2]))
    append(table, [with_it])
    found, _ = listed(open_table(catalog, table))
    ids = [sorted(d.field_ids for d in found[path]) for path in paths_of([*files, with_it])]
    assert ids == [[(1, 2), (2,)], [(2,)], []]


def test_an_equality_delete_spares_what_was_added_with_it(catalog, table):
    """Its sequence number must be greater; a position delete's may be equal."""
    file = data_file(table, [{"d": 1}])
    append(table, [file])
    add_deletes(table, delete_file(table, Record(1), EQUALITY, equality_ids=[1]))
    found, _ = listed(open_table(catalog, table))
    assert len(found[paths_of([file])[0]]) == 1
    index = DeleteIndex(
        [
            Delete(DeleteFile("equality", "/e", 1, "parquet"), 3, None, None, None, None),
            Delete(DeleteFile("position", "/p", 1, "parquet"), 3, (0, ()), None, None, None),
        ]
    )
    assert [d.path for d in index.of("/f", 3, (0, ()))] == ["/p"]


def test_a_null_and_a_nan_partition_have_their_deletes(catalog):
    from pyiceberg.types import DoubleType

    schema = Schema(NestedField(1, "d", DoubleType(), required=False))
    table = create(catalog, schema, BY_D)
    files = [data_file(table, [{"d": d}]) for d in (None, float("nan"), 1.0)]
    append(table, files)
    add_deletes(table, *(delete_file(table, Record(d), POSITIONS) for d in (None, float("nan"))))
    found, _ = listed(open_table(catalog, table))
    assert [len(found[path]) for path in paths_of(files)] == [1, 1, 0]


def test_only_delete_manifests_that_may_matter_are_read(catalog, table):
    append(table, [data_file(table, [{"d": d}]) for d in range(4)])
    for d in range(4):
        add_deletes(table, delete_file(table, Record(d), POSITIONS))
    opened = open_table(catalog, table)
    found, metrics = listed(opened, Keys.from_values({"d": [2]}))
    assert [len(deletes) for deletes in found.values()] == [1]
    assert metrics.storage_requests == 3  # the list, one manifest of data and one of deletes
    assert metrics.manifests_total == 1
    found, metrics = listed(opened)
    assert [len(deletes) for deletes in found.values()] == [1] * 4
    assert metrics.storage_requests == 3


@pytest.mark.parametrize(
    ("overrides", "error", "message"),
    [
        ({"file_format": FileFormat.ORC}, splitlib.UnsupportedTable, "is of format orc"),
        ({"key_metadata": b"k"}, splitlib.UnsupportedTable, "is encrypted"),
        ({"file_format": FileFormat.PUFFIN}, splitlib.CorruptMetadata, "does not say where"),
        ({"content": EQUALITY}, splitlib.CorruptMetadata, "compares no columns"),
    ],
    ids=str,
)
def test_what_cannot_be_applied_is_never_ignored(catalog, table, overrides, error, message):
    append(table, [data_file(table, [{"d": 1}])])
    content = overrides.pop("content", POSITIONS)
    add_deletes(table, delete_file(table, Record(1), content, **overrides))
    with pytest.raises(error, match=message):
        listed(open_table(catalog, table))


def test_plain_paths_are_refused_where_rows_are_deleted(catalog, table):
    append(table, [data_file(table, [{"d": d}]) for d in (1, 2)])
    add_deletes(table, delete_file(table, Record(1), POSITIONS))
    opened = open_table(catalog, table)
    assert len(splitlib.paths(opened, Keys.from_values({"d": [2]}))) == 1
    with pytest.raises(splitlib.UnsupportedTable, match="deleted"):
        splitlib.paths(opened)


# --- vectors


def vector_bytes(positions):
    """A deletion vector in its frame of a Puffin file."""
    body = b"\xd1\xd3\x39\x64" + BitMap64(positions).serialize()
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


@given(st.sets(st.integers(0, 2**40) | st.integers(0, 100), max_size=50))
@settings(max_examples=50, deadline=None)
def test_vectors(tmp_path_factory, positions):
    path = tmp_path_factory.mktemp("v") / "a b%20.puffin"
    vector = vector_bytes(positions)
    path.write_bytes(b"PFA1" + vector + b"what follows")
    delete = DeleteFile("vector", str(path), 1, "puffin", 4, len(vector))
    found = read_vector(PyArrowFileIO(), delete)
    assert found.type == pa.int64()
    assert found.to_pylist() == sorted(positions)


def test_a_vector_reads_as_pyiceberg_reads_the_whole_file(tmp_path):
    from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file

    vector = vector_bytes([1, 5, 2**33])
    properties = '{"referenced-data-file": "/a"}'
    footer = (
        '{"blobs": [{"type": "deletion-vector-v1", "fields": [], "snapshot-id": 1, '
        f'"sequence-number": 1, "offset": 4, "length": {len(vector)}, '
        f'"properties": {properties}}}]}}'
    ).encode()
    data = (
        b"PFA1"
        + vector
        + b"PFA1"
        + footer
        + len(footer).to_bytes(4, "little")
        + b"\0" * 4
        + b"PFA1"
    )
    path = tmp_path / "v.puffin"
    path.write_bytes(data)
    (theirs,) = deletion_vectors_from_puffin_file(PuffinFile(data))
    delete = DeleteFile("vector", str(path), len(data), "puffin", 4, len(vector))
    assert read_vector(PyArrowFileIO(), delete).to_pylist() == theirs.to_vector().to_pylist()


@pytest.mark.parametrize("at", ["length", "magic", "bitmap", "checksum", "offset", "end"])
def test_a_damaged_vector(tmp_path, at):
    vector = bytearray(vector_bytes(range(100)))
    where = {"length": 3, "magic": 5, "bitmap": 20, "checksum": -1}
    if at in where:
        vector[where[at]] ^= 1
    path = tmp_path / "v.puffin"
    path.write_bytes(b"PFA1" + vector)
    offset = 5 if at == "offset" else 4
    length = len(vector) + (10 if at == "end" else 0)
    delete = DeleteFile("vector", str(path), 1, "puffin", offset, length)
    with pytest.raises(splitlib.CorruptMetadata, match="no deletion vector at byte"):
        read_vector(PyArrowFileIO(), delete)
    path.unlink()
    with pytest.raises(splitlib.MissingFile):
        read_vector(PyArrowFileIO(), delete)


# --- names in files

MAPPING = (
    '[{"field-id": 1, "names": ["d"]}, {"field-id": 2, "names": ["c", "old_c"]},'
    ' {"field-id": 3, "names": ["s"], "fields": ['
    '   {"field-id": 4, "names": ["x"]}, {"field-id": 5, "names": ["l"], "fields": ['
    '     {"field-id": 6, "names": ["element"], "fields": [{"field-id": 7, "names": ["y"]}]}]},'
    '   {"field-id": 8, "names": ["m"], "fields": ['
    '     {"field-id": 9, "names": ["key"]}, {"field-id": 10, "names": ["value"]}]}]}]'
)


def real_file(table, name, columns, row):
    """A data file that exists."""
    path = f"{table.location()}/{name}.parquet"
    pq.write_table(columns, path.removeprefix("file://"))
    return data_file(table, [row], file_path=path)


def identified(name, kind, identifier):
    return pa.field(name, kind, metadata={b"PARQUET:field_id": str(identifier).encode()})


def write_three(table):
    with_ids = pa.schema([identified("renamed since", pa.int64(), 2)])
    nested = pa.struct(
        [
            ("x", pa.int32()),
            ("l", pa.list_(pa.struct([("y", pa.int32()), ("unknown", pa.int32())]))),
            ("m", pa.map_(pa.string(), pa.int32())),
        ]
    )
    return [
        real_file(table, "ids", pa.table([[1]], schema=with_ids), {"d": 1, "c": 1}),
        real_file(table, "old", pa.table({"old_c": [2], "unknown": [0]}), {"d": 1, "c": 2}),
        real_file(
            table, "nested", pa.table({"s": pa.nulls(1, nested), "c": [3]}), {"d": 1, "c": 3}
        ),
    ]


def formats(batches):
    return {
        path.rpartition("/")[2].removesuffix(".parquet"): batch.read_format.columns
        for batch in batches
        for path in batch.files["path"].to_pylist()
    }


OLD = ((2, "old_c"),)
NESTED = (
    (2, "c"), (3, "s"), (4, "x"), (5, "l"), (6, "element"), (7, "y"), (8, "m"), (9, "key"),
    (10, "value"),
)  # fmt: skip


def test_files_without_identifiers_go_through_the_name_mapping(catalog):
    table = create(catalog, SCHEMA, BY_D, {"schema.name-mapping.default": MAPPING})
    append(table, write_three(table))
    opened = open_table(catalog, table)
    enumerator = splitlib.DynamicFileEnumerator(opened)
    found = formats(selected.files for selected in enumerator.select_files())
    assert found == {"ids": "id", "old": OLD, "nested": NESTED}


def test_no_file_is_opened_that_statistics_rule_out(catalog):
    table = create(catalog, SCHEMA, BY_D, {"schema.name-mapping.default": MAPPING})
    files = write_three(table)
    gone = data_file(table, [{"d": 1, "c": 9}])
    append(table, [*files, gone])
    opened = open_table(catalog, table)
    found, _ = listed(opened, Keys.from_values({"c": [2]}))
    assert list(found) == paths_of(files[1:2])
    with pytest.raises(splitlib.MissingFile, match="data file"):
        listed(opened, Keys.from_values({"c": [9]}))


@pytest.mark.parametrize("mapping", [MAPPING, None])
def test_physical_names_on_demand(catalog, mapping):
    """For readers that cannot find a column by its identifier."""
    properties = {} if mapping is None else {"schema.name-mapping.default": mapping}
    table = create(catalog, SCHEMA, BY_D, properties)
    append(table, write_three(table))
    opened = open_table(catalog, table)
    connector = opened.connector
    assert isinstance(connector, SupportsPhysicalNames)
    (selected, *more) = splitlib.DynamicFileEnumerator(opened).select_files()
    every = [s.files for s in (selected, *more)]
    if mapping is None:
        with pytest.raises(splitlib.UnsupportedTable, match="no name mapping"):
            list(connector.with_physical_names(every[0]))
        return
    found = formats(b for batch in every for b in connector.with_physical_names(batch))
    assert found == {"ids": ((2, "renamed since"),), "old": OLD, "nested": NESTED}


def test_a_damaged_data_file_is_named(catalog):
    table = create(catalog, SCHEMA, BY_D, {"schema.name-mapping.default": MAPPING})
    file = real_file(table, "bad", pa.table({"c": [1]}), {"d": 1, "c": 1})
    append(table, [file])
    (path,) = paths_of([file])
    with open(path, "r+b") as opened:
        opened.truncate(20)
    with pytest.raises(splitlib.CorruptMetadata, match=r"bad\.parquet"):
        listed(open_table(catalog, table))


def test_what_the_connector_can_do(catalog, table):
    connector = open_table(catalog, table).connector
    assert isinstance(connector, SupportsDeletionVectors)
    assert isinstance(connector, SupportsPhysicalNames)
