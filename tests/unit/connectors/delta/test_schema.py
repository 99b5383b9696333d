"""Schemas and protocols in the log: which of them are read, and which are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import splitlib
from splitlib.model import FIELD_ID, FILE_SCHEMA, FileBatch, ReadFormat
from tests.support.delta_log import add, commit, field, metadata, protocol
from tests.unit.connectors.delta.tables import MAPPED, opened


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"format": {"provider": "orc"}}, splitlib.UnsupportedTable, "are orc, not parquet"),
        ({"schemaString": ""}, splitlib.UnsupportedTable, "has no schema"),
        ({"partitionColumns": ["x"]}, splitlib.CorruptMetadata, "no partition column x"),
        (
            {"configuration": {"delta.columnMapping.mode": "X"}},
            splitlib.UnsupportedTable,
            "mode 'X' is not supported",
        ),
    ],
    ids=str,
)
def test_metadata_that_cannot_be_read_is_refused(
    root: Path, changes: dict[str, Any], error: type[Exception], says: str
) -> None:
    entry = metadata([field("c", "long")])
    entry["metaData"].update(changes)
    commit(root, [protocol("columnMapping"), entry])
    with pytest.raises(error, match=says):
        opened(root)


@pytest.mark.parametrize(
    ("before", "after", "is_read"),
    [
        ("byte", "long", True),
        ("long", "integer", False),
        ("integer", "double", True),
        ("long", "double", False),
        ("float", "double", True),
        ("date", "timestamp_ntz", True),
        ("date", "timestamp", False),
        ("long", "decimal(20,0)", True),
        ("decimal(5,2)", "decimal(9,2)", True),
        ("string", "decimal(9,2)", False),
    ],
)
def test_changes_of_types(root: Path, before: str, after: str, is_read: bool) -> None:
    changes = [{"fromType": before, "toType": after}]
    column = field("c", after, **{"delta.typeChanges": changes})
    commit(root, [protocol("typeWidening", "timestampNtz"), metadata([column])])
    if is_read:
        opened(root).close()
        return
    with pytest.raises(splitlib.UnsupportedTable, match=f"changed from {before} to"):
        opened(root)


@pytest.mark.parametrize(
    ("mode", "columns"),
    [
        ("name", ((1, "x"),)),
        ("id", "id"),
        ("NAME", ((1, "x"),)),  # Delta ignores case, and keeps what the user wrote
        ("Id", "id"),
        ("None", "name"),
    ],
)
def test_columns_are_mapped_by_readers_of_version_2(root: Path, mode: str, columns: Any) -> None:
    """Before table features, version 2 of the protocol meant that readers map columns."""
    names = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "x"}
    entry = metadata([field("c", "long", **names)], **{"delta.columnMapping.mode": mode})
    commit(root, [{"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, entry, add("f")])
    with opened(root) as table:
        assert table.metadata.read_format.columns == columns


def test_a_mapping_needs_its_reader_feature(root: Path) -> None:
    column = field("a", "long", **{"delta.columnMapping.physicalName": "x"})
    commit(root, [protocol(), metadata([column], **MAPPED), add("f")])
    with opened(root) as table:
        assert table.metadata.read_format.columns == "name"


@pytest.mark.parametrize("mode", ["name", "id"])
def test_fields_of_structs_have_physical_names(root: Path, mode: str) -> None:
    def mapped(name: str, kind: object, number: int) -> dict[str, Any]:
        given = {"id": number, "physicalName": f"col-{number}"}
        return field(name, kind, **{f"delta.columnMapping.{k}": v for k, v in given.items()})

    def stored(kind: pa.DataType, number: int) -> pa.Field:
        return pa.field(f"col-{number}", kind, metadata={FIELD_ID: str(number).encode()})

    structs = {"type": "struct", "fields": [mapped("a", "integer", 2), mapped("b", "integer", 3)]}
    lists = {"type": "array", "elementType": structs, "containsNull": True}
    columns = [mapped("s", structs, 1), mapped("l", lists, 4)]
    inside = pa.struct([stored(pa.int32(), 3), stored(pa.int32(), 2)])
    kinds = pa.schema([stored(inside, 1), stored(pa.list_(inside), 4)])
    value = {"col-3": 5, "col-2": 7}
    options = {"delta.columnMapping.mode": mode}
    commit(root, [protocol("columnMapping"), metadata(columns, **options)])
    pq.write_table(pa.Table.from_pylist([{"col-1": value, "col-4": [value]}], kinds), root / "f")
    commit(root, [add("f", size=(root / "f").stat().st_size)])
    with opened(root) as table:
        rows = table.to_arrow_dataset().to_table().to_pylist()
    assert rows == [{"s": {"a": 7, "b": 5}, "l": [{"a": 7, "b": 5}]}]


@pytest.mark.parametrize(
    ("lost", "says"), [("physicalName", "Column a has no physical name"), ("id", "no field id")]
)
def test_a_mapped_column_without_its_names_is_an_error(root: Path, lost: str, says: str) -> None:
    known = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "x"}
    del known[f"delta.columnMapping.{lost}"]
    commit(root, [protocol("columnMapping"), metadata([field("a", "long", **known)], **MAPPED)])
    with pytest.raises(splitlib.CorruptMetadata, match=says):
        opened(root)


def test_a_file_without_field_ids_in_a_table_that_needs_them_is_refused(root: Path) -> None:
    names = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "x"}
    entry = metadata([field("c", "long", **names)], **{"delta.columnMapping.mode": "id"})
    commit(root, [protocol("columnMapping"), entry])
    pq.write_table(pa.table({"x": [1]}), root / "f")
    file = {"path": f"{root}/f", "size": 1, "modified": 0, "partition": 0}
    batch = FileBatch(pa.RecordBatch.from_pylist([file], FILE_SCHEMA), ReadFormat("parquet"))
    with (
        opened(root) as table,
        pytest.raises(splitlib.UnsupportedTable, match="/f has no field ids, but the table"),
    ):
        table.with_physical_names(batch)


def test_files_are_read_by_the_names_that_they_have(root: Path) -> None:
    names = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "x"}
    entry = metadata([field("c", "long", **names)], **{"delta.columnMapping.mode": "id"})
    commit(root, [protocol("columnMapping"), entry])
    for file, name in (("f", "x"), ("g", "y"), ("h", "x")):
        stored = pa.schema([pa.field(name, pa.int64(), metadata={FIELD_ID: b"1"})])
        pq.write_table(pa.table([[1]], schema=stored), root / file)
    files = [{"path": f"{root}/{f}", "size": 1, "modified": 0, "partition": 0} for f in "fgh"]
    batch = FileBatch(pa.RecordBatch.from_pylist(files, FILE_SCHEMA), ReadFormat("parquet"))
    with opened(root) as table:
        found = table.with_physical_names(batch)
    assert [(each.read_format, each.files["path"].to_pylist()) for each in found] == [
        (ReadFormat.of("parquet", columns={1: "x"}), [f"{root}/f", f"{root}/h"]),
        (ReadFormat.of("parquet", columns={1: "y"}), [f"{root}/g"]),
    ]


def test_types_that_arrow_does_not_have_are_texts(root: Path) -> None:
    kind = {"type": "udt", "pyClass": "x", "sqlType": "double"}
    commit(root, [protocol(), metadata([field("c", kind), field("d", "interval day")])])
    with opened(root) as table:
        assert table.metadata.data_schema.types == [pa.string()] * 2
