"""splitlib reads directories with the same columns, types and rows as ``spark.read.parquet``."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import functions as F

import splitlib
from benchmarks.tpcds.settings import changed
from tests.support.abilities import register_data_source

pytestmark = pytest.mark.spark
NULL = "__HIVE_DEFAULT_PARTITION__"
SHAPES = {
    "types": [
        "i=01/l=3000000000/m=1e3/d=7d/t=2024-01-01 10%3A00%3A00/y=2024-01-31/s=1.50/f",
        f"i=+5/l=1/m=99999999999999999999/d=.5/t=2024-03-01/y={NULL}/s=a/f",
    ],
    "names": [
        "x%3Dy=1/p%2Fq=a%20b/\xe9=caf%C3%A9/f",
        "x%3Dy=2/p%2Fq=caf\xe9/\xe9=__x/HIVE_UNION_SUBDIR_1/f",
    ],
    "text": ["a=1/b=2024-1-1/c=3000000000/f", "a=x/b=2024-01-01/c=1.5/f"],
    "below": ["k=1/HIVE_UNION_SUBDIR_1/f", "k=1/HIVE_UNION_SUBDIR_2/a/f", "k=1/f", "k=2/_x/f"],
    "empty": ["k=1/f", "k=abc/_SUCCESS", "README"],
    "none": ["f", "below/f"],
    "digits": [
        # Java's integers and decimals take digits of every script, but not beyond U+FFFF.
        f"i=1/j={chr(0xFF11)}/k=1/l={''.join(chr(0xFF10 + i % 10) for i in range(20))}/f",
        f"i=2/j=2/k={chr(0x1D7CF)}/l=2/f",
    ],
    "void": ["k=__HIVE_DEFAULT_PARTITION__/f"],
    "first void": [f"k=__HIVE_DEFAULT_PARTITION__/d=2024-01-0{i}/f" for i in (1, 2)],
}
REFUSED = {
    "deeper": ["k=1/f", "k=2/m=1/f"],
    "above": ["k=1/m=1/f", "k=2/f"],
    "others": ["k=1/f", "m=1/f"],
    "no key": ["=1/f"],
    "twice": ["k=1/K=2/f"],
    "beside": ["x/f", "k=1/f"],
}


def written(root, paths):
    for number, path in enumerate(paths):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.table({"v": [number]}), root / path)
    return str(root)


def rows_of(df):
    """Return the rows of a DataFrame, sorted. Spark casts every value to text."""
    return sorted(
        map(str, df.select([F.col(f"`{c}`").cast("string") for c in df.columns]).collect())
    )


@pytest.fixture
def settings(spark):
    """Return a function that changes a session setting until the end of the test."""
    before: dict[str, str] = {}

    def put(name, value):
        before.setdefault(name, spark.conf.get(name))
        spark.conf.set(name, value)

    yield put
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_as_spark(spark, tmp_path, shape):
    root = written(tmp_path, SHAPES[shape])
    expected = spark.read.parquet(root)
    reader = splitlib.read(spark).table(root, connector="files")
    loaded = reader.load()
    assert loaded.schema == expected.schema
    assert rows_of(loaded) == rows_of(expected)
    key = f"`{expected.columns[-1]}`"
    first = expected.where(f"{key} IS NOT NULL").select(F.min(F.col(key)).alias("first"))
    joined = (
        reader.filtered_by(first, {key.strip("`"): "first"})
        .load()
        .join(first, F.col(key) == F.col("first"))
    )
    assert rows_of(joined.select("v")) == rows_of(
        expected.join(first, F.col(key) == F.col("first")).select("v")
    )


@pytest.mark.parametrize("shape", REFUSED)
def test_refused_where_spark_fails(spark, tmp_path, shape):
    root = written(tmp_path, REFUSED[shape])
    with pytest.raises(Exception, match=r"(?i)conflict|exists|empty"):
        spark.read.parquet(root)
    with pytest.raises(splitlib.SplitlibError):
        splitlib.read(spark).table(root, connector="files").load().collect()


@pytest.mark.parametrize(
    ("name", "value", "types"),
    [
        ("spark.sql.sources.partitionColumnTypeInference.enabled", "false", ["string", "string"]),
        ("spark.sql.timestampType", "TIMESTAMP_NTZ", ["int", "timestamp_ntz"]),
        ("spark.sql.session.timeZone", "Asia/Tokyo", ["int", "timestamp"]),
    ],
)
def test_settings_of_the_session(spark, tmp_path, settings, name, value, types):
    root = written(tmp_path, ["k=1/t=2024-01-01 00%3A00%3A00/f", "k=2/t=2024-01-02/f"])
    settings(name, value)
    expected = spark.read.parquet(root)
    loaded = splitlib.read(spark).table(root, connector="files").load()
    assert [kind for _, kind in loaded.dtypes[1:]] == types
    assert loaded.schema == expected.schema
    assert rows_of(loaded) == rows_of(expected)


def test_a_range_compares_numbers(spark, tmp_path):
    root = written(tmp_path, [f"hour={hour}/f" for hour in (0, 6, 12)])
    found = splitlib.read(spark).table(root, connector="files").where("hour BETWEEN 5 AND 20")
    assert sorted(row.hour for row in found.load().collect()) == [6, 12]


@pytest.mark.newest_spark  # Spark 4.0 rejects fields of structs that differ in case
def test_merged_columns_and_files_of_a_pattern(spark, tmp_path, settings):
    written(tmp_path, ["k=1/2.parquet", "k=2/1.parquet", "k=2/ignored"])
    more = pa.table({"V": [7], "d": pa.array([1], pa.decimal128(9, 2)), "s": [{"b": 1}]})
    parquet.write_table(more, tmp_path / "k=1/3.parquet")
    last = pa.table({"s": [{"a": "x", "B": 2}], "d": pa.array([2], pa.decimal128(5, 2))})
    parquet.write_table(last, tmp_path / "k=2/4.parquet")
    plain = {"path": str(tmp_path), "pathGlobFilter": "*.parquet"}
    expected = spark.read.load(**plain, mergeSchema="true")
    table = {"name": str(tmp_path), "connector": "files", "path_glob": "*.parquet"}
    reader = splitlib.read(spark)
    loaded = reader.table(**table, merge_schema=True).load()
    assert loaded.schema == expected.schema
    assert rows_of(loaded) == rows_of(expected)
    assert reader.table(**table).load().schema == spark.read.load(**plain).schema
    settings("spark.sql.parquet.mergeSchema", "true")
    assert reader.table(**table).load().schema == expected.schema
    assert reader.table(**table, schema="v bigint").load().columns == ["v", "k"]


def test_merged_columns_of_summary_files(spark, tmp_path):
    root = written(tmp_path, ["k=1/f", "k=2/f"])
    for name, column in (("_common_metadata", "a"), ("_metadata", "b")):
        parquet.write_metadata(pa.schema([(column, pa.int64())]), tmp_path / name)
    expected = spark.read.parquet(root, mergeSchema=True)
    loaded = splitlib.read(spark).table(root, connector="files", merge_schema=True).load()
    assert loaded.schema == expected.schema
    assert loaded.columns == ["v", "b", "a", "k"]


def test_a_column_that_differs_from_a_key_in_case_only(spark, tmp_path):
    """The column must not be hidden by the key, by which a filter would prune."""
    (tmp_path / "K=9").mkdir()
    parquet.write_table(pa.table({"k": [1], "v": [1]}), tmp_path / "K=9/f")
    with changed(spark, {"spark.sql.caseSensitive": "true"}):
        assert spark.read.parquet(str(tmp_path)).columns == ["k", "v", "K"]
        reader = splitlib.read(spark).table(str(tmp_path), connector="files")
        with pytest.raises(splitlib.UnsupportedTable, match="'k' and partition key 'K' differ"):
            reader.load()


def test_dates_that_only_the_former_parser_reads(spark, tmp_path):
    root = written(tmp_path, ["k=2020-1-1/f", "k=2020-01-02/f"])
    assert splitlib.read(spark).table(root, connector="files").load().dtypes[-1] == ("k", "string")
    with changed(spark, {"spark.sql.legacy.timeParserPolicy": "LEGACY"}):
        assert spark.read.parquet(root).dtypes[-1] == ("k", "date")
        reader = splitlib.read(spark)
        with pytest.raises(splitlib.UnsupportedTable, match="may read a date from 'k=2020-1-1'"):
            reader.table(root, connector="files").load()
        declared = reader.table(root, connector="files", partition_schema="k string").load()
        assert sorted(row.k for row in declared.collect()) == ["2020-01-02", "2020-1-1"]


@pytest.mark.parametrize("name", ["_common_metadata", "_metadata"])
def test_columns_of_a_summary_file(spark, tmp_path, name):
    """Dask and PyArrow write the columns of all files into a summary file."""
    root = written(tmp_path, ["k=1/f", "k=2/f"])
    parquet.write_metadata(pa.schema([("v", pa.int64()), ("w", pa.string())]), tmp_path / name)
    expected = spark.read.parquet(root)
    assert expected.columns == ["v", "w", "k"]
    loaded = splitlib.read(spark).table(root, connector="files").load()
    assert loaded.schema == expected.schema
    assert rows_of(loaded) == rows_of(expected)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()  # only a file is a summary
    assert splitlib.read(spark).table(root, connector="files").load().columns == ["v", "k"]


@pytest.mark.parametrize(("partition", "rows"), [("k=1/", 3), ("", 1)])
def test_directories_named_like_summary_files(spark, tmp_path, partition, rows):
    """Spark ignores directories whose names begin with ``_``, except these."""
    names = ["_metadata", "_common_metadata.old", "_other", ".hidden"]
    root = written(tmp_path, [f"{partition}{name}/f" for name in names] + [f"{partition}f"])
    loaded = splitlib.read(spark).table(root, connector="files").load()
    assert rows_of(loaded) == rows_of(spark.read.parquet(root))
    assert loaded.count() == rows


def test_the_data_source(spark, tmp_path):
    root = written(tmp_path, ["k=01/p=caf%C3%A9/f", "k=2/p=b/sub/f"])
    register_data_source(spark)
    source = spark.read.format("splitlib").option("connector", "files")
    expected = spark.read.parquet(root)
    assert source.load(root).dtypes == expected.dtypes
    assert rows_of(source.load(root)) == rows_of(expected)
    decoded = source.option("percent_escapes", "utf-8").load(root)
    assert sorted(row.p for row in decoded.collect()) == ["b", "caf\xe9"]
