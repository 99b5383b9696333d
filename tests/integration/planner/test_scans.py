"""Scans that occur several times, are not needed, or stand in for other scans."""

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
    """After pruning, a fact is smaller than the dimension.

    Spark must still reuse the dimension's broadcast.
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
    """One DataFrame in two places with the same columns. Keys reach only one of them."""
    sales = spark.table("p_sales")
    days = spark.table("p_days").where("week = 1")
    narrow = sales.join(days, sales.day == days.id, "left_semi")
    both = narrow.unionByName(sales)
    optimized = splitlib.optimize(both)
    assert rows_of(optimized) == rows_of(both)


DEAD = """
    WITH traded AS (
      SELECT 's' AS kind, v, day FROM p_sales UNION ALL SELECT 'r', v, day FROM p_returns)
    SELECT t.kind, t.v FROM traded t JOIN p_days d ON t.day = d.id
    WHERE t.kind = 's' AND d.week = 2
"""
"""A condition rules out one branch of the union.

Spark finds this out after it lists the branch's table.
"""


def test_dead_scans_are_not_read(spark: SparkSession, way: Way) -> None:
    """The ruled-out branch is not read, and the other one is pruned."""
    optimized = way.sql(DEAD)
    assert rows_of(optimized) == rows_of(spark.sql(DEAD))
    if way.is_named:  # In a named catalog, the ruled-out scan is opened like any other.
        assert pruned(optimized) == [("p_sales", 4)]
        return
    assert pruned(optimized) == [("p_returns", 0), ("p_sales", 4)]
    assert "p_returns\n   └─ not read" in str(explained(optimized)).replace("│", " ")
    assert "p_returns" not in str(optimized.inputFiles())


def test_dead_scans_of_a_catalog_that_is_the_session(spark: SparkSession) -> None:
    """In a catalog of the ``session`` connector, the scan has other column ids than the query's
    placeholder.
    """
    named = re.sub(r"\b(p_sales|p_returns)\b", r"own.default.\1", DEAD)
    with changed(spark, {"spark.splitlib.catalog.own.connector": "session"}):
        optimized = splitlib.sql(spark, named)
        assert pruned(optimized) == [("p_returns", 0), ("p_sales", 4)]
        assert rows_of(optimized) == rows_of(spark.sql(DEAD))


def test_scans_that_another_one_serves_for_are_read(spark: SparkSession, way: Way) -> None:
    """Spark merges subqueries of the same table, so the plan loses one of two scans."""
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
    """Spark reuses equal scans and identifies files by root directory.

    An empty scan must not be reused for a directory.
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
    """Spark can answer a scan with partition values from the catalog. splitlib must not treat such
    a scan as unused, though it is gone from the plan.
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
