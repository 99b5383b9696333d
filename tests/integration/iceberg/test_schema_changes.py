"""Iceberg tables whose columns were renamed, moved, dropped or added after files were written."""

from __future__ import annotations

import datetime
import decimal

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

import splitlib
from splitlib.errors import UnsupportedTable
from splitlib.spark.compat import NULL_STRUCTS, setting_of
from tests.integration.iceberg.lake import (
    append_files,
    data_file,
    plain,
    rows_of,
)
from tests.support.abilities import skip_unless_it_widens

pytestmark = pytest.mark.spark


def test_columns_renamed_swapped_dropped_and_promoted(lake, read, spark) -> None:
    table = lake.create(
        Schema(
            NestedField(1, "a", IntegerType()),
            NestedField(2, "b", IntegerType()),
            NestedField(3, "f", FloatType()),
            NestedField(4, "d", DecimalType(5, 2)),
            NestedField(5, "gone", StringType()),
        )
    )

    def more(first: int) -> None:
        schema = table.schema().as_arrow()
        numbers = pa.array(range(first, first + 6), pa.int32())
        columns = [_cast(numbers, field.type) for field in schema]
        table.append(pa.table(columns, schema=schema))

    more(0)
    with table.update_schema() as update:
        update.rename_column("a", "tmp")
    with table.update_schema() as update:
        update.rename_column("b", "a")
    with table.update_schema() as update:
        update.rename_column("tmp", "b")
        update.delete_column("gone")
    more(10)
    assert rows_of(read(table).load()) == plain(table)
    skip_unless_it_widens(spark)
    with table.update_schema() as update:
        update.add_column("gone", LongType())
        update.update_column("a", LongType())
        update.update_column("f", DoubleType())
        update.update_column("d", DecimalType(20, 2))
        update.move_first("gone")
    more(20)
    assert rows_of(read(table).load()) == plain(table)
    assert read(table).load().columns == ["gone", "b", "a", "f", "d"]


def _cast(numbers: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(kind):
        return pa.array([decimal.Decimal(number) for number in numbers.to_pylist()], kind)
    return numbers.cast(kind)


def test_conditions_are_not_tested_on_another_column_of_that_name(lake, read, spark) -> None:
    table = lake.create(
        Schema(NestedField(1, "a", IntegerType()), NestedField(2, "b", IntegerType()))
    )
    table.append(pa.table({"a": [1, 2], "b": [30, 40]}, schema=table.schema().as_arrow()))
    with table.update_schema() as update:
        update.rename_column("a", "c")
    with table.update_schema() as update:
        update.rename_column("b", "a")
    with table.update_schema() as update:
        update.add_column("b", IntegerType())
    df = read(table).load()
    assert [row.c for row in df.where("a = 30").collect()] == [1]
    assert df.where("b IS NULL").count() == 2
    keys = spark.sql("SELECT 40 AS k")
    assert [row.c for row in df.join(keys, df.a == keys.k).collect()] == [2]


def test_a_query_on_renamed_columns_is_optimized(lake, read, spark) -> None:
    """The pruned scan also finds columns by field id, where the loaded table does so."""
    schema = Schema(*(NestedField(i, n, IntegerType()) for i, n in enumerate(("k", "a", "b"), 1)))
    table = lake.create(schema, PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "k")))
    numbers = {"k": [1, 2, 3], "a": [10, 20, 30], "b": [100, 200, 300]}
    table.append(pa.table(numbers, schema=table.schema().as_arrow()))
    for old, new in (("a", "tmp"), ("b", "a"), ("tmp", "b")):
        with table.update_schema() as update:
            update.rename_column(old, new)
    df = read(table).load()
    keys = spark.sql("SELECT EXPLODE(ARRAY(1, 2, 2)) AS k").where("k > 1").distinct()
    optimized = splitlib.optimize(df.join(keys, "k").select("k", "a", "b"))
    assert [tuple(row) for row in optimized.collect()] == [(2, 200, 20)]


def test_nested_fields(lake, read, spark) -> None:
    skip_unless_it_widens(spark)
    inner = StructType(
        NestedField(11, "x", IntegerType(), required=False),
        NestedField(12, "y", StringType(), required=False),
        NestedField(13, "z", FloatType(), required=False),
    )
    table = lake.create(
        Schema(
            NestedField(1, "id", IntegerType()),
            NestedField(2, "s", inner, required=False),
            NestedField(
                3, "l", ListType(31, _renumbered(inner, 40), element_required=False), required=False
            ),
            NestedField(
                4,
                "m",
                MapType(51, StringType(), 52, _renumbered(inner, 60), value_required=False),
                required=False,
            ),
        )
    )

    def more(first: int) -> None:
        """Append three rows.

        In the first row, every struct is null. In the second, every field of a struct is null. In
        the third, every field has a value.
        """
        schema = table.schema().as_arrow()
        kinds = {f.name: f.type for f in schema.field("s").type}
        nulls = dict.fromkeys(kinds)
        some = {n: str(first) if pa.types.is_large_string(k) else first for n, k in kinds.items()}
        rows = [
            {"id": first, "s": None, "l": None, "m": None},
            {"id": first + 1, "s": nulls, "l": [None, nulls], "m": [("k", None), ("n", nulls)]},
            {"id": first + 2, "s": some, "l": [some, nulls], "m": [("k", some)]},
        ]
        table.append(pa.Table.from_pylist(rows, schema))

    more(0)
    for path in (("s",), ("l", "element"), ("m", "value")):
        with table.update_schema() as update:
            update.update_column((*path, "x"), LongType())
            update.rename_column((*path, "x"), "was_x")
            update.delete_column((*path, "y"))
        with table.update_schema() as update:
            update.add_column((*path, "y"), IntegerType())
            update.move_first((*path, "y"))
    more(10)
    df = read(table).load()
    assert rows_of(df) == plain(table)
    assert df.schema["s"].dataType.simpleString() == "struct<y:int,was_x:bigint,z:float>"
    assert df.where("s.was_x = 10").count() == 1


def _renumbered(struct: StructType, first: int) -> StructType:
    fields = enumerate(struct.fields)
    return StructType(
        *(NestedField(first + i, f.name, f.field_type, required=False) for i, f in fields)
    )


def test_a_struct_none_of_whose_fields_is_in_the_file(lake, read, spark) -> None:
    struct = StructType(NestedField(3, "old", IntegerType(), required=False))
    table = lake.create(
        Schema(NestedField(1, "id", IntegerType()), NestedField(2, "s", struct, required=False))
    )
    rows = {"id": [1, 2, 3], "s": [None, {"old": None}, {"old": 7}]}
    table.append(pa.table(rows, schema=table.schema().as_arrow()))
    with table.update_schema() as update:
        update.add_column(("s", "new"), IntegerType())
    with table.update_schema() as update:
        update.delete_column(("s", "old"))
    if setting_of(spark, NULL_STRUCTS) is None:
        with pytest.raises(UnsupportedTable, match="struct 's'"):
            read(table).load()
    else:
        df = read(table).load()
        assert rows_of(df.select("id", "s")) == [(1, None), (2, {"new": None}), (3, {"new": None})]
        assert df.where("s IS NOT NULL").count() == 2


def test_files_without_identifiers(lake, read) -> None:
    schema = Schema(
        NestedField(1, "id", IntegerType()),
        NestedField(2, "s", StructType(NestedField(4, "a", IntegerType())), required=False),
        NestedField(3, "ts", TimestamptzType(), required=False),
    )
    table = lake.create(schema)
    instant = datetime.datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=datetime.UTC)
    rows = pa.table(
        {
            "id": pa.array([1, 2], pa.int32()),
            "s": pa.array([{"a": 1}, None], pa.struct([pa.field("a", pa.int32())])),
            "ts": pa.array([instant, None], pa.timestamp("us", "UTC")),
        }
    )
    append_files(table, data_file(table, rows, use_deprecated_int96_timestamps=True))
    with pytest.raises(Exception, match=r"(?i)field.?id|identifier|name.mapping"):
        read(table).load().collect()
    with table.update_schema() as update:
        update.rename_column("id", "key")
        update.rename_column(("s", "a"), "b")
    with table.update_schema() as update:
        update.add_column("id", LongType())
    more = {"key": [3], "s": [{"b": 3}], "ts": [None], "id": [4]}
    table.append(pa.table(more, schema=table.schema().as_arrow()))
    with table.transaction() as transaction:
        transaction.set_properties(
            {
                "schema.name-mapping.default": """[
                {"field-id": 1, "names": ["id"]},
                {"field-id": 2, "names": ["s"], "fields": [{"field-id": 4, "names": ["a"]}]},
                {"field-id": 3, "names": ["ts"]}]"""
            }
        )
    df = read(table).load()
    expected = [(1, {"b": 1}, instant, None), (2, None, None, None), (3, {"b": 3}, None, 4)]
    assert rows_of(df) == expected
    assert df.where("id IS NULL AND key = 1").count() == 1
