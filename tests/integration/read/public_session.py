"""Checks that splitlib reads session tables with only Spark's public API.

They run in classic sessions and over Spark Connect.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import splitlib
from splitlib import MissingPartition, TableNotFound, UnsupportedTable

ODD = ["a b", "it's", '"back\\slash"', "x/y=z", "ü%41 %", "{[*?]}\n~!", "`Ж€😀`"]


def check(spark: SparkSession, root: Path) -> None:
    """Create tables in the current database, read them with splitlib, and check the rows.

    Args:
        spark: Session of any kind.
        root: Empty directory that this process and the Spark server can both read.
    """
    odd_names(spark)
    char_keys_and_other_places(spark, root)
    instants(spark)
    unpartitioned(spark, root)
    missing_directories(spark, root)
    refused(spark, root)


def pruned(
    spark: SparkSession, table: str, keys: pa.Table, partitions: int, **settings: object
) -> DataFrame:
    """Load the partitions of some keys. Check the numbers of partitions and of requests."""
    reader = splitlib.read(spark).config(spark_scan="paths", **settings).table(table)
    loaded = reader.filtered_by(keys).load()
    report = splitlib.explain(loaded)
    assert report.connector == "session"
    assert report.metrics.partitions_matched == partitions
    assert report.metrics.metastore_requests == 1 + partitions
    assert report.metrics.storage_requests == partitions
    return loaded


def same(loaded: DataFrame, reference: DataFrame) -> None:
    """Assert that both DataFrames have the same schema and rows."""
    assert loaded.schema == reference.schema
    assert Counter(loaded.collect()) == Counter(reference.collect())


def odd_names(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE odd (a INT, c CHAR(4), n INT DEFAULT 5, K STRING, d DATE)"
        " USING parquet PARTITIONED BY (K, d)"
    )
    rows = [(i, text) for i, text in enumerate([*ODD, None])]
    columns = ["a", "'c' AS c", "a AS n", "k", "if(a = 3, NULL, DATE'2020-02-29') AS d"]
    made = spark.createDataFrame(rows, "a int, k string").selectExpr(*columns)
    made.write.insertInto("odd")
    whole = spark.table("odd")
    reader = splitlib.read(spark).config(spark_scan="paths").table("odd")
    same(reader.load(), whole)
    # splitlib must write literals correctly under both rules for escaping quotes and backslashes.
    spark.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    some = ODD[::2]
    same(pruned(spark, "odd", pa.table({"k": some}), len(some)), whole.where(F.col("k").isin(some)))
    spark.conf.unset("spark.sql.parser.escapedStringLiterals")
    keys = pa.table({"k": [None, "none"]})
    loaded = reader.filtered_by(keys, null_safe=True).load()
    same(loaded, whole.where("k IS NULL"))
    days = spark.sql("SELECT DATE'2020-02-29' AS d")
    assert reader.filtered_by(days, "d").load().count() == len(ODD)


def char_keys_and_other_places(spark: SparkSession, root: Path) -> None:
    spark.sql("CREATE TABLE padded (a INT, k CHAR(5), i INT) USING orc PARTITIONED BY (k, i)")
    elsewhere = root / "else {where} %20"
    spark.sql(f"ALTER TABLE padded ADD PARTITION (k='yy', i=7) LOCATION '{elsewhere}'")
    spark.sql("INSERT INTO padded VALUES (1, 'ab', 1), (2, 'cd', NULL), (3, 'yy', 7), (4, 'yy', 8)")
    whole = spark.table("padded")
    keys = pa.table({"k": ["yy", "ab   "]})
    same(pruned(spark, "padded", keys, 3), whole.where("k IN ('yy', 'ab')"))
    keys = pa.table({"k": ["yy"], "i": [7]})
    loaded = pruned(spark, "padded", keys, 1)
    same(loaded, whole.where("i = 7"))
    assert "else" in loaded.inputFiles()[0]


def instants(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    spark.sql("CREATE TABLE instants (a INT, ts TIMESTAMP) USING json PARTITIONED BY (ts)")
    spark.sql(
        "INSERT INTO instants VALUES (1, TIMESTAMP'2020-01-02 03:04:05.123'),"
        " (2, TIMESTAMP'2020-01-02 00:00:00'), (3, NULL)"
    )
    wanted = spark.sql("SELECT TIMESTAMP'2020-01-01 18:04:05.123Z' AS ts")
    reader = splitlib.read(spark).config(spark_scan="paths").table("instants")
    loaded = reader.filtered_by(wanted, "ts").load()
    assert splitlib.explain(loaded).metrics.partitions_matched == 1
    same(loaded, spark.table("instants").where("a = 1"))
    spark.conf.unset("spark.sql.session.timeZone")


def unpartitioned(spark: SparkSession, root: Path) -> None:
    place = root / "whole"
    spark.sql(
        "CREATE TABLE whole (a INT, t STRING) USING csv"
        f" OPTIONS (header 'true', sep ';') LOCATION '{place}'"
    )
    spark.sql("INSERT INTO whole VALUES (1, 'a,b'), (2, NULL)")
    reader = splitlib.read(spark).config(spark_scan="paths").table("whole")
    same(reader.load(), spark.table("whole"))
    same(reader.where("a = 2").load(), spark.table("whole").where("a = 2"))
    (place / "_hidden").mkdir()
    (place / "_hidden" / "k=1").write_text("a;t\n7;x\n")
    (place / "below").mkdir()
    (place / "below" / "more.csv").write_text("a;t\n7;x\n")
    spark.catalog.refreshTable("whole")
    same(reader.load(), spark.table("whole"))
    (place / "below").rename(place / "k=1")
    with pytest.raises(UnsupportedTable, match="k=1"):
        reader.load()


def missing_directories(spark: SparkSession, root: Path) -> None:
    place = root / "many"
    spark.sql(
        "CREATE TABLE many (a BIGINT, k BIGINT) USING parquet PARTITIONED BY (k)"
        f" LOCATION '{place}'"
    )
    spark.range(6).selectExpr("id", "id AS k").write.insertInto("many")
    shutil.rmtree(place / "k=3")
    same(
        pruned(spark, "many", pa.table({"k": [1, 2, 4]}), 3),
        spark.table("many").where("k IN (1, 2, 4)"),
    )
    keys = pa.table({"k": [2, 3]})
    with pytest.raises(MissingPartition) as raised:
        pruned(spark, "many", keys, 2)
    assert raised.value.partition == "k=3"
    reader = splitlib.read(spark).config(spark_scan="paths", missing_partition="skip").table("many")
    assert [row.a for row in reader.filtered_by(keys).load().collect()] == [2]


def refused(spark: SparkSession, root: Path) -> None:
    reader = splitlib.read(spark).config(spark_scan="paths")
    spark.sql(f"CREATE TABLE bytes USING binaryFile LOCATION '{root / 'many'}'")
    with pytest.raises(UnsupportedTable, match="binaryfile"):
        reader.table("bytes").load()
    spark.sql("CREATE TABLE hidden (a INT) USING csv OPTIONS (a.url 'x')")
    with pytest.raises(UnsupportedTable, match=r"a\.url"):
        reader.table("hidden").load()
    spark.sql(
        f"CREATE TABLE streamed (a INT, k INT) USING parquet PARTITIONED BY (k) "
        f"LOCATION '{root / 'streamed'}'"
    )
    (root / "streamed" / "_spark_metadata").mkdir(parents=True)
    (root / "streamed" / "_spark_metadata" / "0").write_text("v1")
    with pytest.raises(UnsupportedTable, match="A Spark stream writes the table"):
        reader.table("streamed").load()
    spark.sql("CREATE VIEW seen AS SELECT * FROM many")
    spark.range(1).createOrReplaceTempView("temporary")
    for name in ("seen", "temporary"):
        with pytest.raises(UnsupportedTable, match="view"):
            reader.table(name).load()
    for name in ("nowhere", "nowhere.t", "no.where.t", "spark_catalog.nowhere.t"):
        with pytest.raises(TableNotFound):
            reader.table(name).load()
    with pytest.raises(splitlib.SplitlibError):
        reader.table("many; DROP TABLE many").load()
