"""Rows of Iceberg tables as Spark sees them, against PyIceberg's own scan."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
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
    UUIDType,
)
from pyspark.sql.types import IntegerType as SparkInt
from pyspark.sql.types import StructField
from pyspark.sql.types import StructType as Fields

from splitlib import registry
from splitlib.errors import UnsupportedTable
from splitlib.model import FILE_SCHEMA, INITIAL_DEFAULT, TableMetadata
from splitlib.spark.file_scan import FileScan
from splitlib.spark.scan.files import scan_files
from splitlib_iceberg import IcebergConnector
from tests.integration.iceberg.lake import (
    append_files,
    data_file,
    data_files,
    ints,
    plain,
    rows_of,
    table_of,
    with_id,
)

pytestmark = pytest.mark.spark


def test_columns_renamed_swapped_dropped_and_promoted(lake, read) -> None:
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


def test_nested_fields(lake, read, spark) -> None:
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
        """Of every column: a null, one of nulls, one of values."""
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
    if spark.version.startswith("4.0."):
        with pytest.raises(UnsupportedTable, match="struct 's'"):
            read(table).load()
    else:
        df = read(table).load()
        assert rows_of(df.select("id", "s")) == [(1, None), (2, {"new": None}), (3, {"new": None})]
        assert df.where("s IS NOT NULL").count() == 2


def test_every_type(lake, read) -> None:
    kinds = {
        "bool": (BooleanType(), [True, False, None], "boolean"),
        "i": (IntegerType(), [-(2**31), 2**31 - 1, None], "int"),
        "l": (LongType(), [-(2**63), 2**63 - 1, None], "bigint"),
        "f": (FloatType(), [float("inf"), -0.0, None], "float"),
        "d": (DoubleType(), [float("-inf"), 1e300, None], "double"),
        "dec9": (DecimalType(9, 2), _decimals("-1234567.89", "0.01"), "decimal(9,2)"),
        "dec18": (DecimalType(18, 4), _decimals("-12345678901234.5678", "1"), "decimal(18,4)"),
        "dec38": (DecimalType(38, 10), _decimals(f"-{'9' * 28}.{'9' * 10}", "1"), "decimal(38,10)"),
        "date": (DateType(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None], "date"),
        "ntz": (
            TimestampType(),
            [
                datetime.datetime(1900, 1, 1, 0, 0, 0, 1),
                datetime.datetime(2024, 3, 10, 2, 30),
                None,
            ],
            "timestamp_ntz",
        ),
        "ts": (
            TimestamptzType(),
            [
                datetime.datetime(1900, 1, 1, tzinfo=datetime.UTC),
                datetime.datetime(2024, 3, 10, 7, 30, 0, 123456, tzinfo=datetime.UTC),
                None,
            ],
            "timestamp",
        ),
        "s": (StringType(), ["", "é😀", None], "string"),
        "u": (
            UUIDType(),
            [uuid.UUID(int=1).bytes, uuid.UUID(int=2**127 + 9).bytes, None],
            "string",
        ),
        "fix": (FixedType(3), [b"\0\1\2", b"abc", None], "binary"),
        "bin": (BinaryType(), [b"", b"\xff", None], "binary"),
    }
    fields = [
        NestedField(i, name, kind, required=False)
        for i, (name, (kind, _, _)) in enumerate(kinds.items(), 1)
    ]
    table = lake.create(Schema(*fields))
    schema = table.schema().as_arrow()
    columns = [
        pa.array(values, schema.field(name).type if name != "u" else pa.binary(16))
        for name, (_, values, _) in kinds.items()
    ]
    file_schema = pa.schema(
        [
            with_id(f.name, c.type, i)
            for i, (f, c) in enumerate(zip(schema, columns, strict=True), 1)
        ]
    )
    rows = pa.Table.from_arrays(columns, schema=file_schema)
    append_files(
        table, data_file(table, rows), data_file(table, rows, store_decimal_as_integer=True)
    )
    df = read(table).load()
    assert {f.name: f.dataType.simpleString() for f in df.schema} == {
        name: kind for name, (_, _, kind) in kinds.items()
    }
    expected = {name: values for name, (_, values, _) in kinds.items()}
    expected["u"] = [str(uuid.UUID(int=1)), str(uuid.UUID(int=2**127 + 9)), None]
    one = sorted(zip(*expected.values(), strict=True), key=repr)
    assert rows_of(df) == sorted(one * 2, key=repr)


def _decimals(*texts: str) -> list[decimal.Decimal | None]:
    return [*(decimal.Decimal(text) for text in texts), None]


def test_a_partition_gives_the_value_of_its_column(lake, read) -> None:
    """Also where a file has none, or another, as those of a table that once was Hive's."""
    table = lake.create(
        Schema(
            NestedField(1, "id", IntegerType()),
            NestedField(2, "p", StringType(), required=False),
            NestedField(3, "n", IntegerType(), required=False),
        ),
        PartitionSpec(
            PartitionField(2, 1000, IdentityTransform(), "p"),
            PartitionField(1, 1001, BucketTransform(4), "id_bucket"),
        ),
    )
    without = table_of(ints("id", 1, [1, 2]), ints("n", 3, [5, 6]))
    other = table_of(ints("id", 1, [3]), (with_id("p", pa.string(), 2), pa.array(["wrong"])))
    append_files(
        table,
        data_file(table, without, ["x", 0]),
        data_file(table, other, [None, 1]),
        data_file(table, other.drop("p"), ["a b/c=%20é", 1]),
    )
    with table.update_spec() as update:
        update.remove_field("p")
        update.add_field("n", IdentityTransform(), "n")
    with table.update_schema() as update:
        update.update_column("n", LongType())
    append_files(
        table,
        data_file(
            table,
            table_of(ints("id", 1, [4]), (with_id("p", pa.string(), 2), pa.array(["y"]))),
            [1, 9],
        ),
    )
    df = read(table).load()
    assert rows_of(df) == [
        (1, "x", 5),
        (2, "x", 6),
        (3, "a b/c=%20é", None),
        (3, None, None),
        (4, "y", 9),
    ]
    assert df.where("p = 'x'").count() == 2
    assert df.where("n = 9").count() == 1


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (DateType(), [datetime.date(1969, 12, 31), datetime.date(2024, 2, 29)]),
        (TimestampType(), [datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)]),
        (TimestamptzType(), [datetime.datetime(2024, 11, 3, 5, 30, 0, 1, tzinfo=datetime.UTC)]),
        (DecimalType(20, 3), [decimal.Decimal("-1.500")]),
        (BinaryType(), [b"\x00\xff"]),
        (DoubleType(), [-0.5, float("inf")]),
        (BooleanType(), [True, False]),
        (UUIDType(), [uuid.UUID(int=77)]),
    ],
    ids=str,
)
def test_a_partition_of_any_type_gives_its_value(lake, read, kind, values) -> None:
    table = lake.create(
        Schema(NestedField(1, "id", IntegerType()), NestedField(2, "p", kind, required=False)),
        PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p")),
    )
    internal = [_internal(value) for value in values]
    rows = table_of(ints("id", 1, [1]))
    append_files(table, *(data_file(table, rows, [value]) for value in [*internal, None]))
    shown = [str(value) if isinstance(value, uuid.UUID) else value for value in values]
    assert rows_of(read(table).load()) == sorted([(1, v) for v in [*shown, None]], key=repr)


def _internal(value):
    """As Iceberg keeps it in manifests."""
    match value:
        case datetime.datetime():
            epoch = datetime.datetime(1970, 1, 1, tzinfo=value.tzinfo)
            return (value - epoch) // datetime.timedelta(microseconds=1)
        case datetime.date():
            return (value - datetime.date(1970, 1, 1)).days
    return value


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


class _WithDefaults(IcebergConnector):
    """Says that columns have initial defaults, which need a format that PyIceberg cannot write."""

    defaults: ClassVar[dict[str, object]] = {}

    def describe(self) -> TableMetadata:
        found = super().describe()
        return replace(found, schema=pa.schema([self._with_default(f) for f in found.schema]))

    def _with_default(self, field: pa.Field) -> pa.Field:
        if pa.types.is_struct(field.type):
            field = field.with_type(pa.struct([self._with_default(f) for f in field.type]))
        if field.name not in self.defaults:
            return field
        default = {INITIAL_DEFAULT: json.dumps(self.defaults[field.name]).encode()}
        return field.with_metadata({**field.metadata, **default})


def test_values_of_rows_older_than_their_column(lake, read, monkeypatch) -> None:
    a = with_id("a", pa.int32(), 3)
    struct = StructType(NestedField(3, "a", IntegerType()))
    table = lake.create(Schema(NestedField(1, "id", IntegerType()), NestedField(2, "s", struct)))
    values = pa.array([{"a": 1}, None], pa.struct([a]))
    rows = table_of(ints("id", 1, [1, 2]), (with_id("s", values.type, 2), values))
    append_files(table, data_file(table, rows))
    added = {
        "text": (StringType(), "it's \\ é", "it's \\ é"),
        "n": (LongType(), 2**40, 2**40),
        "d": (DateType(), "2020-02-29", datetime.date(2020, 2, 29)),
        "ts": (
            TimestamptzType(),
            "2020-01-01T01:02:03.000004+00:00",
            datetime.datetime(2020, 1, 1, 1, 2, 3, 4, tzinfo=datetime.UTC),
        ),
        "ntz": (
            TimestampType(),
            "2020-01-01T01:02:03.000004",
            datetime.datetime(2020, 1, 1, 1, 2, 3, 4),
        ),
        "dec": (DecimalType(9, 2), "-1.50", decimal.Decimal("-1.50")),
        "b": (BinaryType(), "0027", b"\x00\x27"),
        "u": (UUIDType(), str(uuid.UUID(int=5)), str(uuid.UUID(int=5))),
        "flag": (BooleanType(), False, False),
        "f": (DoubleType(), -0.25, -0.25),
    }
    with table.update_schema() as update:
        for name, (kind, _, _) in added.items():
            update.add_column(name, kind)
    monkeypatch.setattr(_WithDefaults, "defaults", {n: text for n, (_, text, _) in added.items()})
    monkeypatch.setitem(registry._registered, "iceberg", _WithDefaults)
    shown = tuple(value for _, _, value in added.values())
    df = read(table).load()
    assert rows_of(df) == [(1, {"a": 1}, *shown), (2, None, *shown)]
    assert df.where("text LIKE 'it%' AND n > 5").count() == 2
    # Spark itself fills in the others
    for name in ("b", "u"):
        monkeypatch.delitem(_WithDefaults.defaults, name)
    by_spark = tuple(None if name in ("b", "u") else added[name][2] for name in added)
    df = read(table).load()
    assert rows_of(df) == [(1, {"a": 1}, *by_spark), (2, None, *by_spark)]
    assert df.where("text LIKE 'it%' AND n > 5").count() == 2
    with table.update_schema() as update:
        update.add_column(("s", "inner"), StringType())
    monkeypatch.setattr(_WithDefaults, "defaults", {"inner": "x"})
    df = read(table).load().select("id", "s")
    assert rows_of(df) == [(1, {"a": 1, "inner": "x"}), (2, None)]


def test_the_users_session_is_left_as_it_is(lake, read, spark) -> None:
    table = lake.create(Schema(NestedField(1, "id", IntegerType())))
    table.append(pa.table({"id": [1]}, schema=table.schema().as_arrow()))
    before = spark.conf.getAll
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    try:
        plan = read(table).load()._jdf.queryExecution().executedPlan().toString()
    finally:
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")
    assert "Batched: false" in plan
    assert "Batched: true" in read(table).load()._jdf.queryExecution().executedPlan().toString()
    assert spark.conf.getAll == before


def test_a_table_without_files(lake, read) -> None:
    table = lake.create(
        Schema(NestedField(1, "id", LongType()), NestedField(2, "p", StringType(), required=False)),
        PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p")),
    )
    df = read(table).load()
    assert (df.columns, df.count()) == (["id", "p"], 0)


@pytest.mark.parametrize("scheme", ["s3", "s3n", "s3a"])
def test_buckets_are_read_by_the_file_system_that_spark_has(spark, scheme) -> None:
    path = f"{scheme}://bucket/a b/f.parquet"
    files = pa.table([[path], [9], [0], [0]], schema=FILE_SCHEMA)
    columns = Fields([StructField("a", SparkInt())])
    scan = FileScan("parquet", {}, columns, Fields(), pa.table({}), files)
    assert scan_files(spark, scan).inputFiles() == ["s3a://bucket/a%20b/f.parquet"]


def test_data_files_are_those_of_the_table(lake) -> None:
    """The tests' own reading of files is not the library's."""
    table = lake.create(Schema(NestedField(1, "id", IntegerType())))
    table.append(pa.table({"id": [1, 2]}, schema=table.schema().as_arrow()))
    path = Path(data_files(table)[0].file_path.removeprefix("file://"))
    assert pq.read_table(path)["id"].to_pylist() == [1, 2]
