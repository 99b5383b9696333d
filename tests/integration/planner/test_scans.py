"""Pruning respects scans that Spark shares, reuses, merges or leaves out."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import splitlib
from benchmarks.tpcds.settings import changed
from tests.integration.planner.tables import FACTS, explained, planner_tables, pruned, rows_of
from tests.integration.planner.ways import Way

pytestmark = pytest.mark.spark
NAMED = FACTS


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    with planner_tables(spark):
        yield


def test_broadcast_that_joins_share_stays_shared(spark: SparkSession, way: Way) -> None:
    """Several joins with one dimension still share its broadcast after pruning.

    Spark must not broadcast a pruned fact instead, although it is smaller.
    """
    sql = " UNION ALL ".join(
        f"SELECT f.v, c.no FROM {fact} f JOIN p_customers c ON f.v = c.id "
        f"JOIN p_days d ON f.day = d.id WHERE d.name = 'n3'"
        for fact in ("p_sales", "p_returns", "p_text")
    )
    spark.sql("CREATE TABLE p_customers USING parquet AS SELECT id, uuid() AS no FROM range(9000)")
    spark.sql("ANALYZE TABLE p_customers COMPUTE STATISTICS")
    try:
        optimized = way.sql(sql)
        assert [kept for _, kept in pruned(optimized)] == [1, 1, 1]
        assert rows_of(optimized) == rows_of(spark.sql(sql))
        plan = optimized._jdf.queryExecution().executedPlan().toString()
        final = plan.partition("== Initial Plan ==")[0]
        assert len(re.findall(r"FileScan parquet \S*p_customers", final)) == 1
    finally:
        spark.sql("DROP TABLE p_customers")


def test_same_scan_read_whole_elsewhere(spark: SparkSession) -> None:
    """If a query scans a table twice and only one scan has keys, the other reads all rows."""
    sales = spark.table("p_sales")
    days = spark.table("p_days").where("week = 1")
    narrow = sales.join(days, sales.day == days.id, "left_semi")
    both = narrow.unionByName(sales)
    optimized = splitlib.optimize(both)
    assert rows_of(optimized) == rows_of(both)


def test_a_table_that_cannot_be_pruned_beside_another(spark: SparkSession) -> None:
    """Spark parses its timestamps in the time zone of its option, which splitlib does not."""
    spark.sql(
        """CREATE TABLE p_zoned USING json OPTIONS (timeZone 'Asia/Tokyo') PARTITIONED BY (t) AS
          SELECT id AS v, TIMESTAMP'2024-01-01' + make_dt_interval(0, CAST(id % 4 AS int)) AS t
          FROM range(20)"""
    )
    try:
        sql = """SELECT s.v, z.t FROM p_sales s JOIN p_days d ON s.day = d.id
          JOIN p_zoned z ON z.v = s.v AND z.t = TIMESTAMP'2024-01-01' + make_dt_interval(0, d.week)
          WHERE d.week = 1"""
        optimized = splitlib.sql(spark, sql)
        assert [table for table, _ in pruned(optimized)] == ["p_sales"]
        assert rows_of(optimized) == rows_of(spark.sql(sql))
    finally:
        spark.sql("DROP TABLE p_zoned")


DEAD = """
    WITH traded AS (
      SELECT 's' AS kind, v, day FROM p_sales UNION ALL SELECT 'r', v, day FROM p_returns)
    SELECT t.kind, t.v FROM traded t JOIN p_days d ON t.day = d.id
    WHERE t.kind = 's' AND d.week = 2
"""
"""A query whose condition excludes one branch of a union.

Spark drops this branch only after it has listed its table.
"""


def test_dead_scans_are_not_read(spark: SparkSession, way: Way) -> None:
    """A branch of a union that a condition excludes is not read. The other branch is pruned."""
    optimized = way.sql(DEAD)
    assert rows_of(optimized) == rows_of(spark.sql(DEAD))
    if way.is_named:  # A named catalog still opens the excluded scan.
        assert pruned(optimized) == [("p_sales", 4)]
        return
    assert pruned(optimized) == [("p_returns", 0), ("p_sales", 4)]
    assert "p_returns\n   └─ not read" in str(explained(optimized)).replace("│", " ")
    assert "p_returns" not in str(optimized.inputFiles())


def test_dead_scans_of_a_catalog_that_is_the_session(spark: SparkSession) -> None:
    """An excluded branch is not read in a named catalog of the ``session`` connector.

    There the scan has other column ids than its placeholder in the query.
    """
    named = re.sub(r"\b(p_sales|p_returns)\b", r"own.default.\1", DEAD)
    with changed(spark, {"spark.splitlib.catalog.own.connector": "session"}):
        optimized = splitlib.sql(spark, named)
        assert pruned(optimized) == [("p_returns", 0), ("p_sales", 4)]
        assert rows_of(optimized) == rows_of(spark.sql(DEAD))


def test_scans_that_another_one_serves_for_are_read(spark: SparkSession, way: Way) -> None:
    """Scans that Spark merges into one are still read, although they are gone from the plan."""
    sql = """
        SELECT (SELECT sum(v) FROM p_sales), (SELECT max(v) FROM p_sales),
               (SELECT count(s) FROM p_sales), r.v
        FROM p_returns r JOIN p_days d ON r.day = d.id WHERE d.week = 2
    """
    optimized = way.sql(sql)
    assert rows_of(optimized) == rows_of(spark.sql(sql))
    assert pruned(optimized) == [("p_returns", 3)]


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_scan_of_nothing_is_not_a_scan_of_its_directory(spark: SparkSession, adaptive: str) -> None:
    """Spark must not reuse a scan without files in place of a scan of the whole directory.

    Spark reuses scans with equal root directories.
    """
    described = spark.sql("DESCRIBE FORMATTED p_sales").where("col_name = 'Location'")
    directory = spark.read.parquet(described.collect()[0][1])
    days, join = spark.table("p_days"), F.col("day") == F.col("id")
    nothing = spark.table("p_sales").join(days.where("week = 98"), join)
    df = nothing.union(directory.join(days, join))
    settings = {
        "spark.sql.adaptive.enabled": adaptive,
        "spark.sql.autoBroadcastJoinThreshold": "-1",
    }
    with changed(spark, settings):
        optimized = splitlib.optimize(df)
        assert pruned(optimized) == [("p_sales", 0)]
        assert rows_of(optimized) == rows_of(df)


def test_scan_that_spark_answers_from_the_catalog_is_read(spark: SparkSession, way: Way) -> None:
    """A scan that Spark replaces with partition values is not treated as unused.

    With ``metadataOnly``, Spark takes the values from the catalog and drops the scan.
    """
    sql = """
        SELECT f.v, m.last FROM p_sales f JOIN p_days d ON f.day = d.id
        CROSS JOIN (SELECT count(DISTINCT day) AS last FROM p_returns) m WHERE d.week = 2
    """
    spark.conf.set("spark.sql.optimizer.metadataOnly", "true")
    try:
        optimized = way.sql(sql)
        assert rows_of(optimized) == rows_of(spark.sql(sql))
        assert pruned(optimized) == [("p_sales", 4)]
    finally:
        spark.conf.unset("spark.sql.optimizer.metadataOnly")
