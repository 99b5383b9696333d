from __future__ import annotations

import re

import pyarrow as pa
import pytest

from splitlib import UnsupportedTable
from splitlib.hive.partition_values import (
    field_of,
    from_spark_json,
    is_ambiguous,
    is_char,
    parse_schema,
    parse_type,
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("boolean", pa.bool_()),
        ("tinyint", pa.int8()),
        ("byte", pa.int8()),
        ("smallint", pa.int16()),
        ("short", pa.int16()),
        ("int", pa.int32()),
        ("integer", pa.int32()),
        ("BIGINT", pa.int64()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("string", pa.string()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("void", pa.null()),
        ("timestamp with local time zone", pa.timestamp("us", "UTC")),
        ("decimal ( 10 , 2 )", pa.decimal128(10, 2)),
        ("numeric(38,38)", pa.decimal128(38, 38)),
        ("numeric", pa.decimal128(10, 0)),
        ("struct<`a b`:int, c : char(3)>", pa.struct([("a b", pa.int32()), ("c", pa.string())])),
        ("decimal(10,2)", pa.decimal128(10, 2)),
        ("decimal(10)", pa.decimal128(10, 0)),
        ("decimal", pa.decimal128(10, 0)),
        ("varchar(7)", pa.string()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestamp_ntz", pa.timestamp("us")),
        ("array<map<string, int>>", pa.list_(pa.map_(pa.string(), pa.int32()))),
        (
            "struct<a:int,b:struct<c:array<date>>>",
            pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.list_(pa.date32()))]))]),
        ),
    ],
)
def test_types(text, kind):
    assert parse_type(text) == kind


@pytest.mark.parametrize(
    "text",
    """
    intt|array<int|array<>|map<int>|uniontype<int,string>|int)|struct<a>|interval_day_time
    decimal(39,0)|char|char(x)|array<int>>|decimal(5,9)|decimal(5,-1)|decimal(0,0)|decimal(5,2,1)
    decimal()|varchar(1,2)|struct<|struct<>
    """.replace("\n", "|").split("|"),
)
def test_what_is_no_type_is_refused(text):
    with pytest.raises(UnsupportedTable, match="cannot be read"):
        parse_type(text)


def test_a_number_with_a_separator_of_ascii_is_refused():
    with pytest.raises(UnsupportedTable, match="cannot be read"):
        parse_type("decimal(10,2\x1f)")


def test_types_nested_without_end_are_refused():
    with pytest.raises(UnsupportedTable, match="cannot be read"):
        parse_type("array<" * 5000 + "int" + ">" * 5000)
    wide = ",".join(f"f{i}:array<int>" for i in range(2000))
    assert parse_type(f"struct<{wide}>").num_fields == 2000


def test_char_is_remembered():
    assert field_of("c", "CHAR(5)").metadata == {b"splitlib.logical_type": b"char(5)"}
    assert field_of("c", "array<varchar(3)>").metadata == {
        b"splitlib.logical_type": b"array<varchar(3)>"
    }
    assert field_of("c", "string").metadata is None
    for text in (" char(5)", "char (5)", "CHAR ( 5)"):
        assert is_char(field_of("c", text))
    kept = {"name": "c", "type": "char(5)", "nullable": True, "metadata": {}}
    (field,) = from_spark_json({"type": "struct", "fields": [kept]})
    assert is_char(field)
    (field,) = from_spark_json({"fields": [{**kept, "type": "char(5) collate UTF8_LCASE"}]})
    assert is_ambiguous(field)


def test_schemas():
    assert parse_schema("k int, `d` decimal(3,1), s struct<a:int,b:int>").names == ["k", "d", "s"]
    # Only backticks around a name are not part of it.
    assert parse_schema("`~a~` int, ~b~ int").names == ["~a~", "~b~"]


@pytest.mark.parametrize("rest", ["s struct<a:int", "d decimal(3,1, e int", "a int), b int", "b>"])
def test_a_schema_without_matching_brackets_is_refused(rest):
    """Otherwise, all columns from there on would be left out."""
    with pytest.raises(UnsupportedTable, match=rf"The brackets in '{re.escape(rest)}' do not"):
        parse_schema(f"k int, {rest}")
    with pytest.raises(UnsupportedTable, match="cannot be read"):
        parse_schema("a int), s struct<b")


def test_sparks_json():
    schema = from_spark_json(
        {
            "type": "struct",
            "fields": [
                {"name": "A", "type": "integer", "nullable": True, "metadata": {}},
                {"name": "i", "type": "interval day to second", "nullable": True, "metadata": {}},
                {
                    "name": "c",
                    "type": "string",
                    "nullable": True,
                    "metadata": {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"},
                },
                {
                    "name": "l",
                    "type": {"type": "array", "elementType": "long", "containsNull": True},
                    "nullable": True,
                    "metadata": {},
                },
                {
                    "name": "s",
                    "type": {
                        "type": "struct",
                        "fields": [
                            {"name": "x", "type": "date"},
                            {
                                "name": "m",
                                "type": {
                                    "type": "map",
                                    "keyType": "string",
                                    "valueType": "interval month",
                                },
                            },
                        ],
                    },
                },
                {"name": "v", "type": {"type": "variant"}},
            ],
        }
    )
    assert schema.types == [
        pa.int32(),
        pa.string(),
        pa.string(),
        pa.list_(pa.int64()),
        pa.struct([("x", pa.date32()), ("m", pa.map_(pa.string(), pa.string()))]),
        pa.string(),
    ]
    assert schema.field("c").metadata == {b"splitlib.logical_type": b"char(5)"}
    assert schema.field("i").metadata == {b"splitlib.logical_type": b"interval day to second"}
