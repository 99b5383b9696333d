"""Keys of data columns skip row groups of ORC tables, by Spark's own reader."""

from __future__ import annotations

import pytest

import splitlib
from benchmarks.data_keys import rows_read
from benchmarks.tpcds.settings import changed
from splitlib.spark.planner.scan_sites import prunable

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]


@pytest.fixture(autouse=True)
def small_tables(monkeypatch):
    monkeypatch.setattr(prunable, "LEAST_BYTES", 1)


def rows_scanned(df):
    """Run ``df``. Return how many rows its scans of fact files read, before any row filter."""
    df.collect()
    return rows_read(df, "amount")


def test_orc_files_get_keys(spark, tmp_path):
    """The reader skips row groups of 1,000 rows. The bounds of stripes are not known before."""
    rows = spark.range(0, 50_000, 1, 2).selectExpr("id AS item", "id AS amount", "DOUBLE(id) AS f")
    rows.write.option("orc.row.index.stride", 1000).orc(str(tmp_path / "t"))
    fact = spark.read.orc(str(tmp_path / "t"))
    keys = splitlib.freeze(fact.where("amount IN (7, 32005)").select("item", "f"))
    df = splitlib.optimize(fact.join(keys.select("item"), "item"))
    assert "the ORC reader gets the keys of item" in str(splitlib.explain(df))
    assert rows_scanned(df) == 2000
    assert sorted(row.amount for row in df.collect()) == [7, 32005]
    by_float = splitlib.optimize(fact.join(keys.select("f"), "f"))
    assert "not used: the ORC reader skips nothing by keys of type double. Join" in str(
        splitlib.explain(by_float)
    )
    spark.conf.set("spark.sql.orc.filterPushdown", "false")
    try:
        df = splitlib.optimize(fact.join(keys.select("item"), "item"))
        assert "skips no parts of files by item: spark.sql.orc.filterPush" in str(
            splitlib.explain(df)
        )
        assert rows_scanned(df) == 50_000
    finally:
        spark.conf.unset("spark.sql.orc.filterPushdown")


def test_orc_timestamps_of_the_hour_that_occurs_twice(spark, tmp_path):
    """The reader would skip stripes with values of the first pass. The JVM is in New York."""
    zone = spark._jvm.java.util.TimeZone.getDefault().getID()
    assert zone == "America/New_York"
    rows = spark.range(50).selectExpr("timestamp_seconds(1730610000 + 60 * id) AS t", "id AS a")
    rows.coalesce(1).write.orc(str(tmp_path / "t"))  # from 05:00 to 05:49 UTC, 2024-11-03
    fact = spark.read.orc(str(tmp_path / "t"))
    keys = splitlib.freeze(rows.where("a IN (20, 30)").select("t"))
    df = splitlib.optimize(fact.join(keys, "t"))
    assert "are timestamps, which ORC's reader compares wrongly" in str(splitlib.explain(df))
    with changed(spark, {"spark.sql.sources.useV1SourceList": ""}):
        interface = spark.read.orc(str(tmp_path / "t"))  # DataSource V2
    other = splitlib.optimize(interface.join(keys, "t"))
    assert "added condition" not in str(splitlib.explain(other))
    loaded = splitlib.read(spark).table(str(tmp_path / "t"), connector="files", format="orc")
    for found in (df, other, loaded.filtered_by(keys, "t").load().join(keys, "t", "left_semi")):
        assert sorted(row.a for row in found.collect()) == [20, 30]


def test_orc_files_of_other_types(spark, tmp_path):
    """Spark fails if its ORC reader gets a condition on a column that is INT in one file."""
    for number, value in enumerate(("'5'", "5", "'6'")):
        rows = spark.range(3).selectExpr(f"{value} AS item", "id AS amount")
        rows.coalesce(1).write.orc(str(tmp_path / "t" / f"p={number}"))
    fact = spark.read.schema("item STRING, amount BIGINT, p INT").orc(str(tmp_path / "t"))
    keys = splitlib.freeze(spark.sql("SELECT '5' AS item"))
    df = splitlib.optimize(fact.join(keys, "item"))
    assert "its columns have other types in some files" in str(splitlib.explain(df))
    assert df.count() == 6
