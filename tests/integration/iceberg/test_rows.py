"""With splitlib, Spark reads the same rows of Iceberg tables as PyIceberg's own scan."""

from __future__ import annotations

import datetime
import decimal
import uuid
from pathlib import Path

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
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)
from pyspark.sql.types import IntegerType as SparkInt
from pyspark.sql.types import StructField
from pyspark.sql.types import StructType as Fields

from benchmarks.tpcds.settings import changed
from splitlib.model import FILE_SCHEMA
from splitlib.spark.compat import all_settings
from splitlib.spark.file_scan import FileScan
from splitlib.spark.scan import scan_files
from tests.integration.iceberg.lake import (
    append_files,
    data_file,
    data_files,
    ints,
    rows_of,
    table_of,
    with_id,
)
from tests.support.abilities import skip_unless_it_widens
from tests.support.iceberg_tables import internal

pytestmark = pytest.mark.spark


def _decimals(*texts: str) -> list[decimal.Decimal | None]:
    return [*(decimal.Decimal(text) for text in texts), None]


EVERY_TYPE = {
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


def test_every_type(lake, read) -> None:
    fields = [
        NestedField(i, name, kind, required=False)
        for i, (name, (kind, _, _)) in enumerate(EVERY_TYPE.items(), 1)
    ]
    table = lake.create(Schema(*fields))
    # PyIceberg needs pyarrow 18 for the type of UUIDs.
    types = {f.name: f.type for f in Schema(*(f for f in fields if f.name != "u")).as_arrow()}
    types["u"] = pa.binary(16)
    columns = [pa.array(values, types[name]) for name, (_, values, _) in EVERY_TYPE.items()]
    file_schema = pa.schema([with_id(name, types[name], i) for i, name in enumerate(EVERY_TYPE, 1)])
    rows = pa.Table.from_arrays(columns, schema=file_schema)
    append_files(
        table, data_file(table, rows), data_file(table, rows, store_decimal_as_integer=True)
    )
    df = read(table).load()
    assert {f.name: f.dataType.simpleString() for f in df.schema} == {
        name: kind for name, (_, _, kind) in EVERY_TYPE.items()
    }
    expected = {name: values for name, (_, values, _) in EVERY_TYPE.items()}
    expected["u"] = [str(uuid.UUID(int=1)), str(uuid.UUID(int=2**127 + 9)), None]
    one = sorted(zip(*expected.values(), strict=True), key=repr)
    assert rows_of(df) == sorted(one * 2, key=repr)


@pytest.mark.parametrize("mode", ["LEGACY", "EXCEPTION"])
def test_early_days_are_those_of_the_file(lake, read, spark, mode) -> None:
    table = lake.create(Schema(NestedField(1, "day", DateType(), required=False)))
    days = [datetime.date(1, 1, 1), datetime.date(1582, 10, 4)]
    table.append(pa.table({"day": days}, schema=table.schema().as_arrow()))
    with changed(spark, {"spark.sql.parquet.datetimeRebaseModeInRead": mode}):
        assert rows_of(read(table).load()) == [(day,) for day in days]


def test_a_partition_gives_the_value_of_its_column(lake, read, spark) -> None:
    """A partition column has the partition value, whatever the file contains.

    Files of tables migrated from Hive may lack the column or have another value.
    """
    skip_unless_it_widens(spark)
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
    stored = [internal(value) for value in values]
    rows = table_of(ints("id", 1, [1]))
    append_files(table, *(data_file(table, rows, [value]) for value in [*stored, None]))
    shown = [str(value) if isinstance(value, uuid.UUID) else value for value in values]
    assert rows_of(read(table).load()) == sorted([(1, v) for v in [*shown, None]], key=repr)


def test_the_users_session_is_left_as_it_is(lake, read, spark) -> None:
    table = lake.create(Schema(NestedField(1, "id", IntegerType())))
    table.append(pa.table({"id": [1]}, schema=table.schema().as_arrow()))
    before = all_settings(spark)
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    try:
        plan = read(table).load()._jdf.queryExecution().executedPlan().toString()
    finally:
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")
    assert "Batched: false" in plan
    assert "Batched: true" in read(table).load()._jdf.queryExecution().executedPlan().toString()
    assert all_settings(spark) == before


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
    """The test helper ``data_files`` returns the right files without splitlib."""
    table = lake.create(Schema(NestedField(1, "id", IntegerType())))
    table.append(pa.table({"id": [1, 2]}, schema=table.schema().as_arrow()))
    path = Path(data_files(table)[0].file_path.removeprefix("file://"))
    assert pq.read_table(path)["id"].to_pylist() == [1, 2]
