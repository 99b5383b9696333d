"""Column types are read from a file's footer. Other metadata of the writer does not change them."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from splitlib.hive.file_types import (
    BINARY_AS_STRING,
    INFER_NTZ,
    INT96_AS_TIMESTAMP,
    NANOS_AS_LONG,
    TIME_TYPE,
    orc_columns,
    parquet_columns,
    readable_columns,
    variant_groups,
)
from splitlib.model import SPARK_FIELD

ROW_METADATA = b"org.apache.spark.sql.parquet.row.metadata"
INSTANT = pa.timestamp("us", "UTC")


def columns(table, settings=None, **options):
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return parquet_columns(pq.read_metadata(file), settings)


def spark_type(field):
    return json.loads(field.metadata[SPARK_FIELD])["type"]


@pytest.mark.parametrize("text", [b"", b"{}", b"[1]", b"nothing", b'{"fields": [1]}', b"[" * 99999])
def test_metadata_that_is_not_sparks_is_passed_over(text):
    table = pa.table({"c": pa.array([1], pa.uint8())})
    assert columns(table.replace_schema_metadata({ROW_METADATA: text})).field("c").type == "int16"


def test_sparks_own_schema_goes_before_the_files():
    field = {"name": "c", "type": "timestamp", "nullable": False, "metadata": {}}
    metadata = {ROW_METADATA: json.dumps({"type": "struct", "fields": [field]})}
    found = columns(pa.table({"c": [1]}).replace_schema_metadata(metadata))
    assert found == pa.schema([("c", INSTANT)])
    assert not found.field("c").metadata  # the type of Arrow is enough


COMMENT = {"comment": "x"}
CHAR = {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}


def declared(kind, metadata=None):
    return {"name": "c", "type": kind, "nullable": True, "metadata": metadata or {}}


def struct_of(*fields):
    return {"type": "struct", "fields": list(fields)}


@pytest.mark.parametrize(
    ("field", "is_plain"),
    [
        (declared("long"), True),
        (declared("long", COMMENT), False),
        (declared("string", CHAR), False),
        (declared("variant"), False),  # Arrow has no such type
        (declared(struct_of(declared("long"), declared("string"))), True),
        (declared(struct_of(declared("long"), declared("string", CHAR))), False),
        (declared(struct_of(declared("long"), declared(struct_of(declared("variant"))))), False),
        (declared(struct_of(declared("long")), COMMENT), False),
        (declared({"type": "array", "elementType": "long", "containsNull": False}), False),
    ],
    ids=str,
)
def test_a_type_of_spark_is_kept_where_that_of_arrow_is_not_enough(field, is_plain):
    metadata = {ROW_METADATA: json.dumps(struct_of(field))}
    found = columns(pa.table({"c": [1]}).replace_schema_metadata(metadata)).field("c")
    expected = None if is_plain else field
    assert json.loads((found.metadata or {}).get(SPARK_FIELD, b"null")) == expected


@pytest.mark.skipif(not hasattr(pa, "decimal32"), reason="needs pyarrow 19")
def test_narrow_types_become_those_of_spark():
    narrow = [("a", pa.float16()), ("b", pa.decimal32(5, 2)), ("c", pa.list_(pa.decimal64(9, 1)))]
    wide = [("a", pa.float16()), ("b", pa.decimal128(5, 2)), ("c", pa.list_(pa.decimal128(9, 1)))]
    assert readable_columns(pa.schema(narrow)) == pa.schema(wide)


def test_nothing_is_required_and_no_list_is_large():
    kind = pa.struct([pa.field("a", pa.int8(), nullable=False)])
    table = pa.table({"c": pa.array([[{"a": 1}]], pa.large_list(kind))})
    assert columns(table) == pa.schema([("c", pa.list_(pa.struct([("a", pa.int8())])))])
    of_map = pa.map_(pa.string(), pa.field("value", pa.uint8(), nullable=False))
    found = columns(pa.table({"c": pa.array([[("x", 1)]], of_map)})).field("c").type
    assert found == pa.map_(pa.string(), pa.int16())
    assert (found.key_field.nullable, found.item_field.nullable) == (False, True)


def test_bytes_are_texts_only_by_a_setting():
    stored = pa.table({"c": pa.array([b"x"]), "d": pa.array([b"x"], pa.binary(1))})
    assert columns(stored) == pa.schema([("c", pa.binary()), ("d", pa.binary())])
    as_text = columns(stored, {BINARY_AS_STRING: "true"})
    assert as_text == pa.schema([("c", pa.string()), ("d", pa.binary())])


def test_settings():
    time = pa.table({"c": pa.array([1], pa.time64("us"))})
    assert spark_type(columns(time, {TIME_TYPE: "true"}).field("c")) == "time(6)"
    assert spark_type(columns(time).field("c")) == "time in microseconds"
    local = pa.table({"c": pa.array([1], pa.timestamp("us"))})
    assert columns(local).field("c").type == pa.timestamp("us")
    assert columns(local, {INFER_NTZ: "false"}).field("c").type == INSTANT
    instants = pa.table({"c": pa.array([1], INSTANT)})
    assert columns(instants).field("c").type == INSTANT
    old = {"use_deprecated_int96_timestamps": True}
    assert columns(instants, **old).field("c").type == INSTANT
    nanos = pa.table({"c": pa.array([1], pa.timestamp("ns"))})
    assert columns(nanos, {NANOS_AS_LONG: "true"}) == pa.schema([("c", pa.int64())])
    assert columns(nanos).field("c").type == pa.timestamp("ns")
    assert "nanosAsLong" in spark_type(columns(nanos).field("c"))
    assert spark_type(columns(instants, {INT96_AS_TIMESTAMP: "false"}, **old).field("c")) == "int96"


@pytest.mark.parametrize(
    ("digits", "kind"), [(9, pa.decimal128(9, 2)), (38, pa.decimal128(38, 2)), (39, None)]
)
def test_decimals_of_more_digits_than_spark_has(digits, kind):
    stored = pa.table({"c": pa.array([None], pa.decimal256(digits, 2))})
    found = columns(stored).field("c")
    if kind is None:
        assert spark_type(found) == "decimal of Parquet"
    else:
        assert (found.type, found.metadata) == (kind, None)


def test_settings_have_the_names_of_spark():
    assert [INFER_NTZ, INT96_AS_TIMESTAMP, NANOS_AS_LONG, TIME_TYPE] == [
        "spark.sql.parquet.inferTimestampNTZ.enabled",
        "spark.sql.parquet.int96AsTimestamp",
        "spark.sql.legacy.parquet.nanosAsLong",
        "spark.sql.timeType.enabled",
    ]


def test_days_of_files():
    found = columns(pa.table({"c": pa.array([1], pa.date32()), "d": pa.array([1], pa.date64())}))
    assert found.types == [pa.date32()] * 2
    assert not found.field("c").metadata


def test_variants_are_found_wherever_they_are():
    text = """required group field_id=-1 schema {
  required group field_id=1 s (x) {
    optional group field_id=2 l (List) {
      repeated group field_id=-1 list {
        optional group field_id=-1 element (Variant(1)) {
          required binary field_id=-1 metadata;
        }
      }
    }
  }
  optional group field_id=2 plain {
    optional int32 field_id=-1 a;
  }
  optional group field_id=2 v (Variant(1)) {
    required binary field_id=-1 metadata;
  }
}"""
    assert variant_groups(text) == {("s (x)", "l", "element"), ("v",)}


def test_a_variant_is_known_by_its_annotation():
    group = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    value = {"metadata": b"", "value": b""}
    rows = pa.table({"v": pa.array([value], group), "plain": pa.array([value], group)})
    file = io.BytesIO()
    pq.write_table(rows, file)
    written = pq.read_metadata(file).schema

    class Annotated:
        """The schema, with an annotation that some releases of Arrow cannot write."""

        column, to_arrow_schema = written.column, written.to_arrow_schema

        def __len__(self):
            return len(written)

        def __str__(self):
            return str(written).replace(" v {", " v (Variant(1)) {")

    found = parquet_columns(SimpleNamespace(metadata=None, schema=Annotated()))
    assert (found.field("v").type, spark_type(found.field("v"))) == (group, "variant")
    assert not found.field("plain").metadata


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (pa.uint8(), pa.int16()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.list_view(pa.string_view()), pa.list_(pa.string())),
        (pa.large_string(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.binary_view(), pa.binary()),
        (pa.binary(3), pa.binary()),
        (pa.dictionary(pa.int32(), pa.large_string()), pa.string()),
        (pa.run_end_encoded(pa.int32(), pa.uint8()), pa.int16()),
        (pa.int8(), pa.int8()),
    ],
    ids=str,
)
def test_declared_types_that_spark_lacks(declared, expected):
    assert readable_columns(pa.schema([("c", declared)])) == pa.schema([("c", expected)])


@pytest.mark.skipif(not hasattr(pa, "bool8"), reason="this Arrow has no such types")
def test_extension_types_that_spark_lacks():
    small, unknown = pa.bool8(), pa.opaque(pa.int64(), "x", "y")
    assert readable_columns(pa.schema([("c", small)])) == pa.schema([("c", pa.int8())])
    assert readable_columns(pa.schema([("c", unknown)])) == pa.schema([("c", unknown)])


def test_types_of_orc():
    own = {"spark.sql.catalyst.type": "timestamp_ntz"}
    stored = pa.schema(
        [
            ("t", pa.timestamp("ns")),
            pa.field("n", pa.int64(), metadata=own),
            pa.field("l", pa.list_(pa.field("item", pa.int64(), metadata=own))),
        ]
    )
    local = pa.timestamp("us")
    expected = pa.schema([("t", INSTANT), ("n", local), ("l", pa.list_(local))])
    assert orc_columns(stored) == expected
    union = pa.schema([("u", pa.dense_union([pa.field("x", pa.int8())]))])
    assert orc_columns(union) == union


class Stored:
    """The Parquet schema of a column with a type that some releases of Arrow cannot write."""

    physical_type, precision, scale = "BYTE_ARRAY", 0, 0

    def __init__(self, **logical):
        self.logical_type = SimpleNamespace(to_json=lambda: json.dumps(logical))

    def __len__(self):
        return 1

    def column(self, number):
        return self

    def to_arrow_schema(self):
        return pa.schema([("c", pa.binary())])


@pytest.mark.parametrize(
    ("logical", "kind"),
    [
        ({"Type": "Geometry"}, "geometry(OGC:CRS84)"),
        ({"Type": "Geometry", "crs": "EPSG:1"}, "geometry(EPSG:1)"),
        ({"Type": "Geography"}, "geography(OGC:CRS84, SPHERICAL)"),
        ({"Type": "Geography", "crs": "EPSG:1"}, "geography(EPSG:1, SPHERICAL)"),
        ({"Type": "UUID"}, "uuid of Parquet"),
        ({"Type": "Time", "timeUnit": "nanoseconds"}, "time in nanoseconds"),
    ],
    ids=str,
)
def test_types_that_arrow_lacks(logical, kind):
    metadata = SimpleNamespace(metadata=None, schema=Stored(**logical))
    assert spark_type(parquet_columns(metadata).field("c")) == kind
