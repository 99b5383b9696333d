"""splitlib infers the same column types from a file as Spark."""

from __future__ import annotations

import io
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import orc
from pyarrow import parquet as pq

import splitlib
from splitlib.spark.compat import VARIANT
from splitlib.spark.jvm.gateway import JVM_ERRORS
from tests.support.abilities import register_data_source, without_collations

pytestmark = pytest.mark.spark


def extension(kind, storage):
    return pa.ExtensionArray.from_storage(kind, storage)


NUMBERS = pa.array([1, None, 3])
COLUMNS = {
    **{f"{sign}int{bits}": NUMBERS.cast(f"{sign}int{bits}")
       for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "greatest8": pa.array([2**8 - 1, None, 0], pa.uint8()),
    "greatest16": pa.array([2**16 - 1, None, 0], pa.uint16()),
    "greatest32": pa.array([2**32 - 1, None, 0], pa.uint32()),
    "greatest64": pa.array([2**64 - 1, None, 0], pa.uint64()),
    **{
        str(kind): pa.array(["a", None, ""], kind)
        for kind in (
            pa.string(), pa.large_string(), pa.binary(), pa.large_binary(),
        )
    },
    "fixed": pa.array([b"abcd", None, b"efgh"], pa.binary(4)),
    **{f"duration_{unit}": NUMBERS.cast(pa.duration(unit)) for unit in ("s", "ms", "us", "ns")},
    **{f"local_{unit}": NUMBERS.cast(pa.timestamp(unit)) for unit in ("s", "ms", "us")},
    **{f"instant_{unit}": NUMBERS.cast(pa.timestamp(unit, "Asia/Tokyo")) for unit in ("ms", "us")},
    "null": pa.nulls(3),
    "date64": pa.array([86_400_000, None, 0], pa.date64()),
    "decimal": pa.array([Decimal("1.25"), None, None], pa.decimal256(30, 2)),
    "list": pa.array([[1, None], None, []], pa.list_(pa.uint8())),
    "large_list": pa.array([[1, None], None, []], pa.large_list(pa.int32())),
    "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.uint64())),
    "struct": pa.array(
        [{"a": 1, "b": None}, None, {"a": 2}], pa.struct([("a", pa.uint32()), ("b", pa.null())])
    ),
    "dictionary": pa.array(["a", None, "a"]).dictionary_encode(),
}  # fmt: skip
if hasattr(pa, "json_"):  # types that pyarrow writes since 18 and 19
    COLUMNS |= {
        "fixed_list": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.uint16(), 2)),
        "string_view": pa.array(["a", None, ""], pa.string_view()),
        "binary_view": pa.array(["a", None, ""], pa.binary_view()),
        "list_view": pa.array([[1, None], None, []], pa.list_view(pa.int32())),
        "large_list_view": pa.array([[1, None], None, []], pa.large_list_view(pa.uint32())),
        "bool8": extension(pa.bool8(), NUMBERS.cast(pa.int8())),
        "json": extension(pa.json_(), pa.array(["{}", None, "[]"])),
        "small decimal": pa.array([Decimal("1.25"), None, None], pa.decimal32(5, 2)),
    }
FOREIGN = {
    "half": pa.array([1, 2], pa.float32()).cast(pa.float16()),
    "time": pa.array([1], pa.time32("ms")),
    "local_ns": pa.array([1], pa.timestamp("ns")),
    "instant_ns": pa.array([1], pa.timestamp("ns", "UTC")),
    "digits": pa.array([Decimal("1.25")], pa.decimal256(50, 2)),
}
if hasattr(pa, "uuid"):
    uuids = extension(pa.uuid(), pa.array([b"a" * 16], pa.binary(16)))
    file = io.BytesIO()
    pq.write_table(pa.table({"c": uuids}), file)
    if "UUID" in str(pq.ParquetFile(file).schema):  # pyarrow 18 writes plain bytes
        FOREIGN["uuid"] = uuids
ROW_METADATA = b"org.apache.spark.sql.parquet.row.metadata"


@pytest.fixture
def same_as_spark(spark, tmp_path):
    """Return a function that checks that Spark and splitlib read the same from a directory.

    The function returns the schema.
    """

    def check(form="parquet", *, how="auto"):
        reader = splitlib.read(spark).config(spark_scan=how)
        found = reader.table(str(tmp_path), "files", format=form).load()
        expected = spark.read.format(form).load(str(tmp_path))
        assert found.schema == expected.schema
        columns = [f"CAST(`{c}` AS STRING)" for c in found.columns]
        assert found.selectExpr(*columns).collect() == expected.selectExpr(*columns).collect()
        return found.schema

    return check


def test_types_of_other_writers(spark, tmp_path, same_as_spark):
    pq.write_table(pa.table(COLUMNS), tmp_path / "f.parquet")
    schema = same_as_spark()
    assert schema["uint64"].dataType.simpleString() == "decimal(20,0)"
    same_as_spark(how="paths")

    register_data_source(spark)
    source = spark.read.format("splitlib").option("connector", "files").load(str(tmp_path))
    assert source.schema == schema
    assert source.collect() == spark.read.parquet(str(tmp_path)).collect()


def test_int96_is_an_instant(tmp_path, same_as_spark):
    instants = pa.table({"c": pa.array([10**15, None], pa.timestamp("us", "UTC"))})
    pq.write_table(instants, tmp_path / "f.parquet", use_deprecated_int96_timestamps=True)
    assert same_as_spark()["c"].dataType.simpleString() == "timestamp"


@pytest.mark.parametrize("name", FOREIGN)
def test_what_spark_does_not_read_is_refused_with_its_column(spark, tmp_path, name):
    pq.write_table(pa.table({"k": FOREIGN[name].is_valid(), name: FOREIGN[name]}),
                   tmp_path / "f.parquet")  # fmt: skip
    reader = splitlib.read(spark)
    with pytest.raises(splitlib.UnsupportedTable, match=f"'{name}'.*schema="):
        reader.table(str(tmp_path), "files").load()
    try:
        expected = spark.read.schema("k boolean").parquet(str(tmp_path)).count()
    except JVM_ERRORS:
        return  # the Parquet library of Spark 3.5 does not read files with half floats
    declared = reader.table(str(tmp_path), "files", schema="k boolean").load()
    assert declared.count() == expected == len(FOREIGN[name])


@pytest.mark.parametrize(
    ("setting", "array"),
    [
        ("spark.sql.legacy.parquet.nanosAsLong", FOREIGN["local_ns"]),
        ("spark.sql.legacy.parquet.nanosAsLong", FOREIGN["instant_ns"]),
        ("spark.sql.parquet.binaryAsString", COLUMNS["binary"]),
        ("spark.sql.parquet.inferTimestampNTZ.enabled", COLUMNS["local_us"]),
    ],
)
def test_settings_that_decide_types(spark, tmp_path, same_as_spark, setting, array):
    pq.write_table(pa.table({"c": array}), tmp_path / "f.parquet")
    is_on = spark.conf.get(setting, "false") == "true"
    spark.conf.set(setting, str(not is_on).lower())
    try:
        same_as_spark()
    finally:
        spark.conf.unset(setting)


def test_types_that_spark_has_written(spark, tmp_path, same_as_spark):
    variant = "parse_json('[1]') v," if VARIANT else ""
    collated = without_collations("'x' COLLATE UTF8_LCASE")
    rows = spark.sql(
        f"SELECT INTERVAL '1' DAY dt, INTERVAL '1-2' YEAR TO MONTH ym, {variant}"
        f" {collated} c, array(named_struct('n', timestamp_ntz'2020-01-01')) a"
    )
    rows = rows.withMetadata("dt", {"comment": "a day"})
    rows.coalesce(1).write.mode("append").parquet(str(tmp_path))
    assert same_as_spark()["dt"].metadata == {"comment": "a day"}


def test_types_of_orc(spark, tmp_path, same_as_spark):
    rows = spark.sql(
        "SELECT timestamp_ntz'2020-01-01' n, timestamp'2020-01-01' t, INTERVAL '1' DAY dt,"
        " array(named_struct('n', timestamp_ntz'2020-01-01')) a, 1Y b, DATE'2020-01-01' d"
    )
    rows.coalesce(1).write.mode("append").orc(str(tmp_path))
    same_as_spark("orc")


@pytest.mark.newest_spark  # Spark 4.0 cannot read files of newer ORC writers.
def test_timestamps_of_orc_by_other_writers(tmp_path, same_as_spark):
    times = {name: COLUMNS[name] for name in ("local_us", "instant_us", "date64", "large_list")}
    orc.write_table(pa.table(times), tmp_path / "f.orc")
    assert same_as_spark("orc")["local_us"].dataType.simpleString() == "timestamp"


@pytest.mark.newest_spark
def test_a_file_names_no_class_to_import(spark, tmp_path):
    kind = {"type": "udt", "class": None, "pyClass": "antigravity.X", "sqlType": "integer"}
    field = {"name": "c", "type": kind, "nullable": True, "metadata": {}}
    metadata = {ROW_METADATA: json.dumps({"type": "struct", "fields": [field]})}
    table = pa.table({"c": [1]}).replace_schema_metadata(metadata)
    pq.write_table(table, tmp_path / "f.parquet")
    with pytest.raises(splitlib.UnsupportedTable, match=r"antigravity\.X"):
        splitlib.read(spark).table(str(tmp_path), "files").load()
