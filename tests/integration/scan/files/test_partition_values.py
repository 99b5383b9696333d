"""Scans return the partition values that they are given, and ignore the names of directories."""

from datetime import date, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

from splitlib.spark.scan import scan_files
from tests.integration.scan.files.given_files import files_table, keys, rows, scan, write

pytestmark = [
    pytest.mark.spark,
    # PySpark imports pandas to create a DataFrame from Arrow data, and then emits this warning.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


def test_text_becomes_the_type_of_the_key(spark, how, tmp_path):
    path = write(tmp_path / "f.parquet", a=[1])
    given_values = {
        "s": ["01", None, ""],
        "i": ["01", None, "one"],
        "d": ["2024-02-29", None, "2023-02-29"],
        "t": ["2024-07-01 12:30:00.5", None, "noon"],
        "n": ["1.50", None, "1,5"],
        "f": ["NaN", None, "-0.25"],
        "b": ["true", None, "maybe"],
        "x": ["é", None, "\x00"],
    }
    schema = keys(
        "s string", "i int", "d date", "t timestamp", "n decimal(6,2)", "f double", "b boolean",
        "x binary",
    )  # fmt: skip
    files = files_table((path, 0), (path, 1), (path, 2))
    frame = scan_files(spark, scan(files, given_values, schema), how)
    assert frame.schema.names == ["a", *given_values]
    assert all(field.nullable for field in frame.schema)
    noon = datetime(2024, 7, 1, 12, 30, 0, 500_000, ZoneInfo("America/New_York"))
    noon = noon.astimezone().replace(tzinfo=None)
    shown = frame.select("s", "i", "d", "t", "n", "b", sf.hex("x"), sf.col("f").cast("string"))
    assert rows(shown) == [
        ("", None, None, None, None, None, "00", "-0.25"),
        ("01", 1, date(2024, 2, 29), noon, Decimal("1.50"), True, "C3A9", "NaN"),
        (None,) * 8,
    ]  # fmt: skip


def test_typed_values_are_taken_as_they_are(spark, how, tmp_path):
    path = write(tmp_path / "f.parquet", a=[1])
    moment = datetime(2024, 7, 1, 16, 30, tzinfo=ZoneInfo("UTC"))
    values = {
        "i": pa.array([7, None], pa.int32()),
        "d": pa.array([date(2024, 2, 29), None]),
        "t": pa.array([moment, None], pa.timestamp("us", "UTC")),
        "s": pa.array(["x", None], pa.large_string()),
        "v": pa.nulls(2),
    }
    schema = keys("i int", "d date", "t timestamp", "s string", "v bigint")
    frame = scan_files(spark, scan(files_table((path, 0), (path, 1)), values, schema), how)
    local = moment.astimezone().replace(tzinfo=None)
    assert rows(frame) == [(1, 7, date(2024, 2, 29), local, "x", None), (1, *[None] * 5)]


def test_values_of_another_type_are_refused(spark, how, tmp_path):
    path = write(tmp_path / "f.parquet", a=[1])
    wrong = scan(files_table((path, 0)), {"k": pa.array([1], pa.int64())}, keys("k int"))
    with pytest.raises(ValueError, match="Partition values of 'k'"):
        scan_files(spark, wrong, how)


@pytest.mark.parametrize("threshold", ["48MB", "1b"])
def test_values_keep_their_order(spark, how, tmp_path, threshold):
    """Every file keeps its own values, even if Spark distributes the values in a job."""
    paths = [(write(tmp_path / f"{i}.parquet", a=[i]), 36 - i) for i in range(37)]
    many = scan(files_table(*paths), {"k.`K": [str(i) for i in range(37)]}, keys("`k.``K` int"))
    spark.conf.set("spark.sql.execution.arrow.localRelationThreshold", threshold)
    try:
        assert rows(scan_files(spark, many, how)) == sorted(
            ((i, 36 - i) for i in range(37)), key=repr
        )
    finally:
        spark.conf.unset("spark.sql.execution.arrow.localRelationThreshold")


def test_directories_mean_nothing(spark, how, tmp_path):
    """A directory can have files of several partitions, and a file can belong to two partitions."""
    one, two, both, nested = (
        write(tmp_path / name, a=[i])
        for i, name in enumerate(["one.parquet", "two.parquet", "both.parquet", "k=9/deep.parquet"])
    )
    files = files_table((one, 0), (two, 1), (both, 0), (both, 1), (nested, 2))
    frame = scan_files(spark, scan(files, {"k": ["x", "y", "z"]}, keys("k string")), how)
    assert rows(frame) == [(0, "x"), (1, "y"), (2, "x"), (2, "y"), (3, "z")]
    assert rows(frame.where("k = 'y'")) == [(1, "y"), (2, "y")]
    assert frame.count() == 5


def test_partitions_may_share_a_directory_and_a_value(spark, how, tmp_path):
    one, two = (write(tmp_path / name / "f.parquet", a=[1]) for name in ("k=1", "k=01"))
    files = files_table((one, 0), (one, 1), (two, 2))
    frame = scan_files(spark, scan(files, {"k": ["1", "7", "01"]}, keys("k int")), how)
    assert rows(frame) == [(1, 1), (1, 1), (1, 7)]


def test_without_partitions(spark, how, tmp_path):
    paths = [(write(tmp_path / f"k={i}" / "f.parquet", a=[i]), 0) for i in range(3)]
    write(tmp_path / "k=0" / "other.parquet", a=[9])
    frame = scan_files(spark, scan(files_table(*paths)), how)
    assert frame.columns == ["a"]
    assert rows(frame) == [(0,), (1,), (2,)]


def test_a_partition_value_wins_over_a_column_in_the_file(spark, how, tmp_path):
    path = write(tmp_path / "f.parquet", k=[100], a=[1])
    frame = scan_files(spark, scan(files_table((path, 0)), {"k": ["7"]}, keys("k int")), how)
    assert rows(frame) == [(1, 7)]
