"""Arrow schemas of opened Iceberg tables, and schemas that are refused."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

import splitlib
from splitlib.model import FIELD_ID, INITIAL_DEFAULT, LOGICAL_TYPE
from tests.support.iceberg_tables import (
    catalog_options,
    create,
    open_table,
)
from tests.unit.connectors.iceberg.simple_tables import SIMPLE, VERSION_3, rewrite_metadata


def test_every_type(catalog):
    inner = StructType(
        NestedField(20, "x", StringType(), required=True),
        NestedField(21, "y", UUIDType(), required=False),
    )
    types = [
        BooleanType(), IntegerType(), LongType(), FloatType(), DoubleType(), DecimalType(10, 2),
        DateType(), TimestampType(), TimestamptzType(), StringType(), UUIDType(), FixedType(3),
        BinaryType(), inner, ListType(30, StringType(), element_required=False),
        MapType(40, StringType(), 41, inner, value_required=False),
    ]  # fmt: skip
    fields = [NestedField(i + 1, f"c{i}", kind, required=i == 1) for i, kind in enumerate(types)]
    metadata = open_table(catalog, create(catalog, Schema(*fields))).metadata
    assert [str(field.type) for field in metadata.schema] == [
        "bool", "int32", "int64", "float", "double", "decimal128(10, 2)", "date32[day]",
        "timestamp[us]", "timestamp[us, tz=UTC]", "string", "string", "binary", "binary",
        "struct<x: string not null, y: string>", "list<element: string>",
        "map<string, struct<x: string not null, y: string>>",
    ]  # fmt: skip
    assert [f.name for f in metadata.schema if not f.nullable] == ["c1"]
    assert [f.name for f in metadata.schema if (f.metadata or {}).get(LOGICAL_TYPE)] == ["c10"]
    assert metadata.schema.field("c10").metadata[LOGICAL_TYPE] == b"uuid"
    identifiers = list(_identifiers(metadata.schema))
    assert len(identifiers) == len(set(identifiers)) == 16 + 2 + 1 + 2 + 2
    assert (metadata.read_format.name, metadata.read_format.columns) == ("parquet", "id")
    assert metadata.filter_schema.names == [f"c{i}" for i in range(13)] + ["c13.x", "c13.y"]


def _identifiers(fields):
    for field in fields:
        yield int(field.metadata[FIELD_ID])
        kind = field.type
        if pa.types.is_struct(kind):
            yield from _identifiers(kind)
        elif pa.types.is_map(kind):
            yield from _identifiers([kind.key_field, kind.item_field])
        elif pa.types.is_list(kind):
            yield from _identifiers([kind.value_field])


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (IntegerType(), 7, "7"),
        (StringType(), "é", '"\\u00e9"'),
        (DecimalType(5, 2), "1.50", '"1.50"'),
        (DateType(), "2024-02-29", '"2024-02-29"'),
        (TimestampType(), "2024-02-29T01:02:03.000004", '"2024-02-29T01:02:03.000004"'),
        (BooleanType(), False, "false"),
    ],
    ids=str,
)
def test_initial_defaults_are_json(catalog, kind, value, text):
    """Initial defaults of columns are read from the metadata of format version 3, as JSON."""
    table = create(catalog, SIMPLE)

    def with_default(metadata):
        metadata |= VERSION_3
        schema = metadata["schemas"][0]
        schema["fields"].append(
            {"id": 9, "name": "new", "required": False, "type": str(kind), "initial-default": value}
        )

    rewrite_metadata(table, with_default)
    schema = open_table(catalog, table).schema
    assert schema.field("new").metadata[INITIAL_DEFAULT] == text.encode()
    assert INITIAL_DEFAULT not in schema.field("d").metadata


def test_partition_keys_are_the_columns_that_partitions_follow_from(catalog):
    schema = Schema(
        NestedField(1, "t", TimestampType(), required=False),
        NestedField(2, "k", LongType(), required=False),
        NestedField(3, "v", LongType(), required=False),
    )
    table = create(catalog, schema)
    with table.update_spec() as update:
        update.add_field("v", BucketTransform(2), "v_bucket")
        update.add_field("k", BucketTransform(4))
        update.add_field("t", DayTransform())
        update.add_identity("k")
    with table.update_spec() as update:
        update.remove_field("v_bucket")
    opened = open_table(catalog, table)
    assert opened.partition_keys == ("k", "t")
    assert opened.list_accepted_filter_fields() == ("t", "k", "v")


@pytest.mark.parametrize("kind", ["time", "timestamp_ns", "timestamptz_ns"])
def test_a_type_that_spark_has_not_is_refused(catalog, kind):
    inner = StructType(NestedField(2, "x", LongType(), required=False))
    table = create(catalog, Schema(NestedField(1, "a", inner)))

    def retype(metadata):
        metadata |= VERSION_3
        metadata["schemas"][0]["fields"][0]["type"]["fields"][0]["type"] = kind

    rewrite_metadata(table, retype)
    with pytest.raises(splitlib.UnsupportedTable, match=rf"Column a\.x has type {kind}"):
        open_table(catalog, table)


def test_columns_without_a_type(catalog):
    """All values of a column of type unknown are null, so no filter uses it."""
    inner = StructType(NestedField(2, "x", LongType(), required=False))
    fields = NestedField(1, "a", inner), NestedField(3, "b", LongType())
    table = create(catalog, Schema(*fields, NestedField(4, "c", LongType())))

    def retype(metadata):
        metadata |= VERSION_3
        schema = metadata["schemas"][0]["fields"]
        schema[0]["type"]["fields"][0]["type"] = schema[1]["type"] = "unknown"

    rewrite_metadata(table, retype)
    opened = open_table(catalog, table)
    assert [str(field.type) for field in opened.schema] == ["struct<x: null>", "null", "int64"]
    assert opened.list_accepted_filter_fields() == ("c",)


def test_a_table_that_is_refused_closes_its_catalog(catalog, table, tmp_path, monkeypatch):
    def time(metadata):
        metadata["schemas"][0]["fields"][1]["type"] = "time"

    rewrite_metadata(table, time)
    closed, close = [], SqlCatalog.close

    def noted(catalog):
        closed.append(catalog)
        close(catalog)

    monkeypatch.setattr(SqlCatalog, "close", noted)
    with pytest.raises(splitlib.UnsupportedTable, match="has type time"):
        splitlib.load_table(".".join(table.name()), "iceberg", **catalog_options(tmp_path))
    assert len(closed) == 1


def test_an_unknown_type_is_refused(catalog, table):
    def variant(metadata):
        metadata["schemas"][0]["fields"][1]["type"] = "variant"

    rewrite_metadata(table, variant)
    with pytest.raises(splitlib.UnsupportedTable, match="variant"):
        open_table(catalog, table)


def test_names_that_differ_in_case_only_are_refused(catalog):
    table = create(
        catalog, Schema(NestedField(1, "a", LongType()), NestedField(2, "A", LongType()))
    )
    with pytest.raises(splitlib.UnsupportedTable, match="A, a differ only in case"):
        open_table(catalog, table)


def test_columns_that_were_dropped(catalog):
    """Dropped columns keep their last type, because equality deletes may still compare them."""
    fields = [NestedField(i, f"c{i}", IntegerType(), required=False) for i in (1, 2, 3)]
    table = create(catalog, Schema(*fields))
    with table.update_schema() as update:
        update.update_column("c2", LongType())
        update.rename_column("c2", "renamed")
        update.add_column("t", TimeType())
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("renamed")
        update.delete_column("t")
        update.add_column("c2", StringType())
    dropped = open_table(catalog, table).metadata.dropped_schema
    assert dropped is not None
    assert [(f.name, f.type, f.metadata[FIELD_ID]) for f in dropped] == [
        ("renamed", pa.int64(), b"2")
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("date", "timestamp"),
        ("string", "binary"),
        ("binary", "string"),
        ("fixed[16]", "uuid"),
        ("decimal(9, 2)", "decimal(11, 4)"),
    ],
)
@pytest.mark.parametrize("inside", [False, True], ids=["column", "list"])
def test_a_type_that_changed_its_meaning_is_refused(catalog, before, after, inside):
    element = ListType(2, StringType(), element_required=False) if inside else StringType()
    table = create(catalog, Schema(NestedField(1, "t", element, required=False)))
    rewrite_metadata(table, lambda m: change_type(m, before, after, inside=inside))
    name = "t.element" if inside else "t"
    with pytest.raises(splitlib.UnsupportedTable) as error:
        open_table(catalog, table)
    assert f"{name} changed from {before} to {after}." in str(error.value)


@pytest.mark.parametrize(
    ("before", "after"),
    [("int", "long"), ("float", "double"), ("decimal(9, 2)", "decimal(11, 2)")],
)
def test_a_wider_type_is_read_before_and_after_the_change(catalog, before, after):
    table = create(catalog, Schema(NestedField(1, "t", StringType(), required=False)))
    rewrite_metadata(table, lambda m: change_type(m, before, after))
    wide = open_table(catalog, table).schema.field("t").type
    rewrite_metadata(table, lambda m: m.update({"current-schema-id": 0}))
    assert open_table(catalog, table).schema.field("t").type != wide


def change_type(metadata, before, after, *, inside=False):
    """Give the column ``t`` the type ``before`` in the first schema, and ``after`` in a new one."""
    for number, kind in enumerate((before, after)):
        schema = json.loads(json.dumps(metadata["schemas"][0])) | {"schema-id": number}
        (schema["fields"][0]["type"] if inside else schema["fields"][0])[
            "element" if inside else "type"
        ] = kind
        metadata["schemas"] = [*metadata["schemas"][:number], schema]
    metadata["current-schema-id"] = 1
