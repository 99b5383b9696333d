"""Rows of Iceberg tables: columns by field id, deleted rows, rows like those of PyIceberg."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import (
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)

import splitlib
from splitlib import DynamicFilteringData
from splitlib.errors import UnsupportedTable
from splitlib_iceberg.schema import arrow_schema
from tests.integration.iceberg.lake import (
    Lake,
    append_files,
    append_rows,
    data_file,
    delete_equal,
    delete_positions,
    delete_vector,
    full_name,
    ints,
    table_of,
    with_id,
)
from tests.unit.connectors.iceberg.simple_tables import VERSION_3, rewrite_metadata
from tests.unit.rows.drawn_tables import shown

SCHEMA = Schema(
    NestedField(1, "id", IntegerType()),
    NestedField(2, "name", StringType()),
    NestedField(3, "part", StringType()),
)
BY_PART = PartitionSpec(
    PartitionField(3, 1000, IdentityTransform(), "part"),
    PartitionField(1, 1001, BucketTransform(4), "id_bucket"),
)
ROWS = [{"id": i, "name": f"n{i}", "part": "ab"[i % 2]} for i in range(20)]


@pytest.fixture
def lake(tmp_path):
    made = Lake(tmp_path / "lake")
    yield made
    made.close()


def rows_of(lake, table, *filters):
    """Return the rows by splitlib, after comparing its engines with each other."""
    with splitlib.load_table(full_name(table), "iceberg", **lake.options) as opened:
        found = opened.to_arrow_dataset(*filters).to_table()
        assert found.schema.equals(pa.schema([f.remove_metadata() for f in opened.schema]))
        polars = opened.to_polars(*filters).collect().to_arrow()
        duckdb = opened.to_duckdb(*filters).to_arrow_table()
        for other in (polars, duckdb):
            assert shown(other.to_pylist()) == shown(found.to_pylist())
    return found.to_pylist()


def of_pyiceberg(lake, table):
    return lake.catalog.load_table(table.name()).scan().to_arrow().to_pylist()


def converts(lake, table):
    """Return the number of files that Arrow does not read itself."""
    with splitlib.load_table(full_name(table), "iceberg", **lake.options) as opened:
        fragments = opened.to_arrow_dataset().get_fragments()
        return sum(isinstance(fragment.format, ds.IpcFileFormat) for fragment in fragments)


def test_partitions_and_keys(lake):
    table = lake.create(SCHEMA, BY_PART)
    append_rows(table, ROWS)
    assert shown(rows_of(lake, table)) == shown(ROWS)
    assert converts(lake, table) == 0
    some = DynamicFilteringData.from_values({"part": ["a", "b"], "id": [4, 7]})
    assert shown(rows_of(lake, table, some)) == shown([ROWS[4], ROWS[7]])


def test_renamed_swapped_dropped_and_widened_columns(lake):
    table = lake.create(SCHEMA)
    append_rows(table, ROWS[:5])
    with table.update_schema() as update:
        update.rename_column("name", "title")
        update.update_column("id", LongType())
    with table.update_schema() as update:
        update.add_column("name", StringType())
        update.delete_column("part")
    with table.update_schema() as update:
        update.add_column("part", StringType())
    table.refresh()
    append_rows(table, [{"id": 2**40, "title": "t", "name": "new", "part": "p"}])
    found = rows_of(lake, table)
    assert shown(found) == shown(of_pyiceberg(lake, table))
    assert converts(lake, table) == 1
    old = {"id": 3, "title": "n3", "name": None, "part": None}
    assert old in found
    keys = DynamicFilteringData.from_values({"title": ["n3", "new"]})
    assert rows_of(lake, table, keys) == [old]
    assert len(rows_of(lake, table, DynamicFilteringData.from_values({"part": [None, "a"]}))) == 5


def test_columns_that_swapped_their_names(lake):
    table = lake.create(
        Schema(NestedField(1, "a", IntegerType()), NestedField(2, "b", IntegerType()))
    )
    append_rows(table, [{"a": i, "b": 100 + i} for i in range(20)], row_group_size=5)
    for old, new in [("a", "c"), ("b", "a"), ("c", "b")]:
        with table.update_schema() as update:
            update.rename_column(old, new)
    assert {"b": 3, "a": 103} in rows_of(lake, table)
    keys = DynamicFilteringData.from_values({"b": [3, 117]})
    assert rows_of(lake, table, keys) == [{"b": 3, "a": 103}]
    assert rows_of(lake, table, DynamicFilteringData.from_values({"b": [3]})) == [
        {"b": 3, "a": 103}
    ]


@pytest.fixture
def nested(lake):
    """Return a table with structs in a column, a list and a map."""
    inner = [NestedField(i, name, IntegerType()) for i, name in ((7, "x"), (8, "y"))]
    structs = StructType(*inner)
    table = lake.create(
        Schema(
            NestedField(1, "s", structs),
            NestedField(2, "l", ListType(5, structs, element_required=False)),
            NestedField(3, "m", MapType(6, IntegerType(), 7, structs, value_required=False)),
        )
    )
    values = [{"x": 1, "y": 2}, {"x": 3, "y": None}, None]
    stored = pa.Table.from_pylist(_nested_rows(values), arrow_schema(table.schema()))
    append_files(table, data_file(table, stored))
    return table


NESTED = ["s", "l.element", "m.value"]


def _changed(table, change):
    with table.update_schema(allow_incompatible_changes=True) as update:
        for name in NESTED:
            change(update, name)


def _nested_rows(structs):
    return [{"s": each, "l": [each], "m": [(1, each)]} for each in structs]


def test_renamed_fields_of_structs(lake, nested):
    assert converts(lake, nested) == 0
    for old, new in [("x", "z"), ("y", "x")]:
        _changed(
            nested, lambda update, at, old=old, new=new: update.rename_column(f"{at}.{old}", new)
        )
    expected = _nested_rows([{"z": 1, "x": 2}, {"z": 3, "x": None}, None])
    assert rows_of(lake, nested) == of_pyiceberg(lake, nested) == expected


def test_struct_fields_that_swapped_their_names(lake, nested):
    """The struct has the same type as in the file, but its fields are others."""
    for old, new in [("x", "z"), ("y", "x"), ("z", "y")]:
        _changed(
            nested, lambda update, at, old=old, new=new: update.rename_column(f"{at}.{old}", new)
        )
    _changed(nested, lambda update, at: update.move_first(f"{at}.x"))
    expected = _nested_rows([{"x": 2, "y": 1}, {"x": None, "y": 3}, None])
    assert rows_of(lake, nested) == of_pyiceberg(lake, nested) == expected


def test_struct_field_with_the_name_of_a_dropped_one(lake, nested):
    _changed(nested, lambda update, at: update.delete_column(f"{at}.x"))
    _changed(nested, lambda update, at: update.add_column((*at.split("."), "x"), IntegerType()))
    _changed(nested, lambda update, at: update.move_first(f"{at}.x"))
    expected = _nested_rows([{"x": None, "y": 2}, {"x": None, "y": None}, None])
    assert rows_of(lake, nested) == of_pyiceberg(lake, nested) == expected


def test_struct_of_which_the_file_has_no_field_is_refused(lake, nested):
    _changed(nested, lambda update, at: update.add_column((*at.split("."), "z"), IntegerType()))
    for name in ("x", "y"):
        _changed(nested, lambda update, at, name=name: update.delete_column(f"{at}.{name}"))
    with pytest.raises(UnsupportedTable, match="none of the fields"):
        rows_of(lake, nested)


def test_struct_field_with_a_default_is_refused(lake, nested):
    _changed(nested, lambda update, at: update.add_column((*at.split("."), "z"), IntegerType()))

    def default(metadata):
        metadata |= VERSION_3
        fields = metadata["schemas"][-1]["fields"][0]["type"]["fields"]
        fields[-1]["initial-default"] = 7

    rewrite_metadata(lake.catalog.load_table(nested.name()), default)
    with pytest.raises(UnsupportedTable, match="lacks field 'z', which has a default"):
        rows_of(lake, nested)


def test_names_that_files_store_in_another_spelling(lake):
    inner = StructType(NestedField(3, "x y", IntegerType()), NestedField(4, "1st", IntegerType()))
    table = lake.create(Schema(NestedField(1, "a b", IntegerType()), NestedField(2, "s", inner)))
    rows = [{"a b": 1, "s": {"x y": 3, "1st": 4}}, {"a b": 2, "s": None}]
    table.append(pa.Table.from_pylist(rows, table.schema().as_arrow()))
    assert rows_of(lake, table) == of_pyiceberg(lake, table) == rows


@pytest.mark.parametrize("group", [3, 100])
def test_deleted_rows(lake, group):
    table = lake.create(SCHEMA, PartitionSpec(BY_PART.fields[0]))
    files = append_rows(table, ROWS, row_group_size=group)
    even = files[0].file_path
    delete_positions(table, {even: [0, 3, 9]}, ["a"])
    delete_positions(table, {even.replace("file://", "file:"): [4]}, ["a"])
    gone = {0, 6, 18, 8}
    kept = [row for row in ROWS if row["id"] not in gone]
    assert shown(rows_of(lake, table)) == shown(kept)
    assert converts(lake, table) == 1
    keys = DynamicFilteringData.from_values({"id": [6, 14, 15]})
    assert sorted(row["id"] for row in rows_of(lake, table, keys)) == [14, 15]


def test_deletion_vector(lake):
    table = lake.create(SCHEMA)
    (file,) = append_rows(table, ROWS, row_group_size=7)
    delete_vector(table, file.file_path, [1, 7, 19])
    kept = [row for row in ROWS if row["id"] not in (1, 7, 19)]
    assert shown(rows_of(lake, table)) == shown(kept)


def test_equality_deletes_are_refused(lake):
    table = lake.create(SCHEMA)
    append_rows(table, ROWS)
    delete_equal(table, table_of(ints("id", 1, [3])), [1])
    with pytest.raises(UnsupportedTable, match="equality deletes"):
        rows_of(lake, table)


def test_position_beyond_the_file(lake):
    table = lake.create(SCHEMA)
    (file,) = append_rows(table, ROWS)
    delete_positions(table, {file.file_path: [20]})
    with pytest.raises(splitlib.SplitlibError, match="Row 20 is deleted, but the file has 20 rows"):
        rows_of(lake, table)


def test_partition_column_that_the_file_lacks(lake):
    table = lake.create(SCHEMA, PartitionSpec(BY_PART.fields[0]))
    append_files(table, data_file(table, table_of(ints("id", 1, [1, 2])), ["a"]))
    append_rows(table, ROWS[:2])
    found = rows_of(lake, table)
    assert {"id": 2, "name": None, "part": "a"} in found
    assert len(found) == 4


def test_identity_partition_value_that_differs_from_the_file(lake):
    """Spark returns the partition value, and pruning also takes it for the value of the rows."""
    table = lake.create(SCHEMA, PartitionSpec(BY_PART.fields[0]))
    stored = pa.array(["b", None], pa.string())
    rows = table_of(ints("id", 1, [1, 2])).append_column(
        pa.field("part", pa.string(), metadata={"PARQUET:field_id": "3"}), stored
    )
    append_files(table, data_file(table, rows, ["a"]))
    expected = [{"id": i, "name": None, "part": "a"} for i in (1, 2)]
    assert rows_of(lake, table) == expected
    assert rows_of(lake, table, DynamicFilteringData.from_values({"part": ["a"]})) == expected
    assert rows_of(lake, table, DynamicFilteringData.from_values({"part": ["b"]})) == []


@pytest.mark.parametrize("names", [["name", "NAME"], ["NAME", "name"], ["NAME", "Name"]])
def test_the_name_mapping_is_exact(lake, names):
    mapping = create_mapping_from_schema(SCHEMA).model_dump_json()
    table = lake.create(SCHEMA, properties={"schema.name-mapping.default": mapping})
    columns = {"id": pa.array([1, 2], pa.int32()), **{name: [name, "x"] for name in names}}
    append_files(table, data_file(table, pa.table(columns)))
    name, other = ("name", "x") if "name" in names else (None, None)
    expected = [
        {"id": 1, "name": name, "part": None},
        {"id": 2, "name": other, "part": None},
    ]
    assert rows_of(lake, table) == expected


@pytest.mark.parametrize("stored", [["b"], ["a", "b"], []], ids=str)
def test_partition_field_in_a_struct_that_the_file_lacks(lake, stored):
    schema = Schema(
        NestedField(1, "id", IntegerType()),
        NestedField(
            2,
            "s",
            StructType(NestedField(3, "a", IntegerType()), NestedField(4, "b", IntegerType())),
        ),
    )
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "s.a"))
    mapping = create_mapping_from_schema(schema).model_dump_json()
    table = lake.create(schema, spec, {"schema.name-mapping.default": mapping})
    rows = [{"id": 1, "s": dict.fromkeys(stored, 7)} if stored else {"id": 1}]
    append_files(table, data_file(table, _narrow(rows), [7]))
    if "a" in stored:
        assert rows_of(lake, table) == rows
    else:
        with pytest.raises(UnsupportedTable, match=r"The file lacks the field 's\.a'"):
            rows_of(lake, table)


def _narrow(rows):
    """Return the rows as an Arrow table without field ids, with all numbers in 32 bits."""
    inside = pa.struct([(name, pa.int32()) for name in rows[0].get("s", ())])
    kinds = {"id": pa.int32(), "s": inside}
    return pa.Table.from_pylist(rows, pa.schema([(name, kinds[name]) for name in rows[0]]))


def test_uuids(lake):
    schema = Schema(
        NestedField(1, "id", IntegerType()),
        NestedField(2, "u", UUIDType()),
        NestedField(3, "s", StructType(NestedField(5, "u", UUIDType()))),
        NestedField(4, "l", ListType(6, UUIDType(), element_required=False)),
    )
    known = [UUID("F79C3E09-677C-4BBD-A479-3F349CB785E7"), None, UUID(int=0), UUID(int=2**128 - 1)]
    stored = pa.array([None if value is None else value.bytes for value in known], pa.binary(16))
    in_struct, in_list = with_id("u", stored.type, 5), with_id("element", stored.type, 6)
    structs = pa.StructArray.from_arrays([stored], fields=[in_struct])
    lists = pa.ListArray.from_arrays(pa.array(range(5), pa.int32()), stored, pa.list_(in_list))
    columns = [
        ints("id", 1, range(4)),
        (with_id("u", stored.type, 2), stored),
        (with_id("s", structs.type, 3), structs),
        (with_id("l", lists.type, 4), lists),
    ]
    table = lake.create(schema)
    append_files(table, data_file(table, table_of(*columns), row_group_size=1))
    texts = [None if value is None else str(value) for value in known]
    rows = [{"id": i, "u": u, "s": {"u": u}, "l": [u]} for i, u in enumerate(texts)]
    assert rows_of(lake, table) == rows
    for i, text in enumerate(texts):
        keys = DynamicFilteringData.from_values({"u": pa.array([text], pa.string())})
        assert rows_of(lake, table, keys) == [rows[i]]
    upper = DynamicFilteringData.from_values({"u": [str(texts[0]).upper()]})
    assert rows_of(lake, table, upper) == []


@pytest.mark.skipif(not hasattr(pa, "uuid"), reason="PyIceberg writes UUIDs with newer pyarrow")
def test_uuids_written_by_pyiceberg(lake):
    table = lake.create(Schema(NestedField(1, "u", UUIDType())))
    schema = table.schema().as_arrow()
    value = UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
    values = pa.array([value.bytes, None], schema.field("u").type)
    table.append(pa.Table.from_arrays([values], schema=schema))
    assert rows_of(lake, table) == [{"u": str(value)}, {"u": None}]


@pytest.mark.parametrize("in_file", [True, False])
def test_uuid_as_partition_value(lake, in_file):
    schema = Schema(NestedField(1, "id", IntegerType()), NestedField(2, "u", UUIDType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "u"))
    table = lake.create(schema, spec)
    for i, value in enumerate([UUID(int=255), None]):
        columns = [ints("id", 1, [i])]
        if in_file:
            stored = pa.array([None if value is None else value.bytes], pa.binary(16))
            columns.append((with_id("u", pa.binary(16), 2), stored))
        append_files(table, data_file(table, table_of(*columns), [value]))
    rows: list[dict[str, Any]] = [
        {"id": 0, "u": "00000000-0000-0000-0000-0000000000ff"},
        {"id": 1, "u": None},
    ]
    assert shown(rows_of(lake, table)) == shown(rows)
    for row in rows:
        keys = DynamicFilteringData.from_values({"u": pa.array([row["u"]], pa.string())})
        assert rows_of(lake, table, keys) == [row]
        with splitlib.load_table(full_name(table), "iceberg", **lake.options) as opened:
            assert opened.files(keys).num_rows == 1


def test_uuid_column_with_other_bytes_is_refused(lake):
    table = lake.create(Schema(NestedField(1, "u", UUIDType())))
    values = pa.array([b"0" * 16], pa.binary())
    append_files(table, data_file(table, table_of((with_id("u", pa.binary(), 1), values))))
    with pytest.raises(UnsupportedTable, match="A column of type binary is not a UUID"):
        rows_of(lake, table)


@pytest.mark.parametrize("in_file", [True, False])
def test_column_without_a_type(lake, in_file):
    table = lake.create(Schema(*SCHEMA.fields[:2], NestedField(3, "u", LongType())))
    columns = [ints("id", 1, [1, 2])]
    if in_file:
        columns.append((with_id("u", pa.null(), 3), pa.nulls(2)))
    append_files(table, data_file(table, table_of(*columns), row_group_size=1))

    def retype(metadata):
        metadata |= VERSION_3
        metadata["schemas"][0]["fields"][2]["type"] = "unknown"

    rewrite_metadata(lake.catalog.load_table(table.name()), retype)
    rows = [{"id": i, "name": None, "u": None} for i in (1, 2)]
    assert rows_of(lake, table, DynamicFilteringData.from_values({"id": [2]})) == rows[1:]
    for keys in (pa.nulls(1), pa.array([7, None])):
        data = DynamicFilteringData.from_values({"u": keys})
        assert rows_of(lake, table, data) == rows
    assert rows_of(lake, table, DynamicFilteringData.from_values({"u": [7]})) == []


def test_files_without_field_ids(lake):
    table = lake.create(SCHEMA)
    append_files(table, data_file(table, pa.table({"id": pa.array([1], pa.int32())})))
    with pytest.raises(UnsupportedTable, match=r"by-hand-\d+\.parquet: The file has no field ids"):
        rows_of(lake, table)
