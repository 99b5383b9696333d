"""Tables with unusual partition locations or options return the same rows as plain Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import splitlib
from benchmarks.tpcds.settings import changed
from tests.integration.planner.tables import explained, pruned, rows_of
from tests.integration.planner.ways import Way

pytestmark = pytest.mark.spark
NAMED = ("lo_root", "lo_options", "lo_text")

JOIN = "SELECT f.v, f.day FROM {} f JOIN lo_days d ON f.day = d.id WHERE d.week = {}"


@pytest.fixture(scope="module", autouse=True)
def dimension(spark: SparkSession) -> Iterator[None]:
    """Create a dimension of days with the week of each day."""
    spark.sql("""CREATE TABLE lo_days USING parquet AS
        SELECT CAST(id AS int) AS id, id % 5 AS week FROM range(20)""")
    with changed(spark, {"spark.splitlib.plannerSmallFactPartitions": "0"}):
        yield
    spark.sql("DROP TABLE lo_days")


@pytest.mark.parametrize("how", ["USING parquet PARTITIONED BY (day)", "hive"])
def test_partition_at_the_root_of_its_table(
    spark: SparkSession, way: Way, tmp_path: Path, how: str
) -> None:
    """The files of one partition are in the table's root, beside the directories of the others."""
    root = tmp_path / "lo root"
    if how == "hive":
        columns, rest = "v bigint", "PARTITIONED BY (day int) STORED AS parquet"
    else:
        columns, rest = "v bigint, day int", how
    spark.sql(f"CREATE TABLE lo_root ({columns}) {rest} LOCATION '{root}'")
    try:
        spark.sql("INSERT INTO lo_root SELECT id, CAST(id % 5 AS int) FROM range(20)")
        spark.range(100, 103).withColumnRenamed("id", "v").coalesce(1).write.mode("append").parquet(
            str(tmp_path / "more")
        )
        for file in (tmp_path / "more").glob("*.parquet"):
            file.rename(root / file.name)
        spark.sql(f"ALTER TABLE lo_root ADD PARTITION (day = 9) LOCATION '{root}'")
        spark.sql(f"ALTER TABLE lo_root ADD PARTITION (day = 12) LOCATION '{root}/day=2'")
        spark.catalog.refreshTable("lo_root")
        for week, kept in ((4, 2), (2, 2), (1, 1)):
            sql = JOIN.format("lo_root", week)
            optimized = way.sql(sql)
            assert rows_of(optimized) == rows_of(spark.sql(sql)), week
            assert pruned(optimized) == [("lo_root", kept)]
    finally:
        spark.sql("DROP TABLE lo_root")


OPTIONS = {
    "pathGlobFilter": "*.nothing",
    "modifiedBefore": "2001-01-01T00:00:00",
    "modifiedAfter": "2901-01-01T00:00:00",
    "basePath": "/",
    "ignoreMissingFiles": "true",
    "ignoreCorruptFiles": "true",
}


@pytest.mark.parametrize(("option", "value"), OPTIONS.items(), ids=OPTIONS)
def test_options_of_tables(spark: SparkSession, way: Way, option: str, value: str) -> None:
    """As in plain Spark, these options have no effect on a catalog table with partitions."""
    spark.sql(f"""CREATE TABLE lo_options (v bigint, day int) USING parquet
        OPTIONS ('{option}' = '{value}') PARTITIONED BY (day)""")
    try:
        spark.sql("INSERT INTO lo_options SELECT id, CAST(id % 5 AS int) FROM range(20)")
        sql = JOIN.format("lo_options", 2)
        plain, optimized = spark.sql(sql), way.sql(sql)
        assert rows_of(optimized) == rows_of(plain)
        assert plain.count() == 4
        assert pruned(optimized) == [("lo_options", 1)]
    finally:
        spark.sql("DROP TABLE lo_options")


def test_options_of_readers(spark: SparkSession, tmp_path: Path) -> None:
    """The options of ``spark.read`` still apply after the scan is pruned."""
    where = str(tmp_path / "files")
    spark.sql("SELECT id AS v, CAST(id % 5 AS int) AS day FROM range(20)").repartition(
        1, "day"
    ).write.partitionBy("day").parquet(where)
    spark.range(50, 53).withColumnRenamed("id", "v").coalesce(1).write.parquet(f"{where}/day=2/x")
    for options in ({"pathGlobFilter": "part-00000*"}, {"modifiedBefore": "2001-01-01T00:00:00"}):
        files = spark.read.schema("v bigint, day int").options(**options).parquet(where)
        files.createOrReplaceTempView("lo_files")
        plain = spark.sql(JOIN.format("lo_files", 2))
        assert rows_of(splitlib.optimize(plain)) == rows_of(plain)
    spark.catalog.dropTempView("lo_files")


RAISING = {
    "a column": "CAST(f.p AS int) = d.id",
    "an expression": "CAST(f.p AS int) * 2 - CAST(f.p AS int) = d.id",
    "a column with another name": "f.n = d.id",
}


@pytest.mark.parametrize("files", [False, True], ids=["table", "directory"])
@pytest.mark.parametrize("condition", RAISING.values(), ids=RAISING)
def test_value_that_an_expression_raises_for(
    spark: SparkSession, tmp_path: Path, condition: str, files: bool
) -> None:
    """If a join expression fails for a partition's value, only this partition is not pruned."""
    spark.sql("""CREATE TABLE lo_text USING parquet PARTITIONED BY (p) AS
        SELECT id AS v, IF(id % 8 = 7, 'x', CAST(id % 8 AS STRING)) AS p FROM range(32)""")
    try:
        table = "lo_text"
        if files:
            spark.table("lo_text").write.partitionBy("p").parquet(str(tmp_path / "text"))
            rows = spark.read.schema("v bigint, p string").parquet(str(tmp_path / "text"))
            rows.createOrReplaceTempView(table := "lo_text_files")
        sql = f"""SELECT f.v, f.p FROM
            (SELECT v, p, CASE WHEN v >= 0 THEN CAST(p AS int) END AS n FROM {table}) f
            JOIN lo_days d ON {condition} WHERE d.week = 2 AND f.p <> 'x'"""
        optimized = splitlib.sql(spark, sql)
        report = explained(optimized)
        assert not report.reasons
        if "f.n" not in condition:
            # The invalid value may also fail another condition. Then its partition is dropped, and
            # only one is kept.
            assert [scan.partitions.matched for scan in report.scans] in ([1], [2])
        if table == "lo_text":
            assert rows_of(optimized) == rows_of(spark.sql(sql))
    finally:
        spark.sql("DROP TABLE lo_text")
        spark.catalog.dropTempView("lo_text_files")
