"""If an optimizer rule duplicates a scan, splitlib keeps all rows that either scan needs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import splitlib
from benchmarks.tpcds.settings import changed
from tests.integration.planner.tables import explained, pruned, rows_of
from tests.integration.planner.ways import Way

pytestmark = pytest.mark.spark

_SETUP = """
CREATE TABLE cs_sales USING parquet PARTITIONED BY (day) AS
  SELECT id AS v, id % 7 AS s, CAST(id % 20 AS int) AS day FROM range(200);
ANALYZE TABLE cs_sales COMPUTE STATISTICS;
CREATE TABLE cs_returns USING parquet PARTITIONED BY (day) AS
  SELECT id AS v, CAST(id % 15 AS int) AS day FROM range(90);
CREATE TABLE cs_text (v bigint) PARTITIONED BY (day int) STORED AS textfile;
INSERT INTO cs_text SELECT id, CAST(id % 12 AS int) FROM range(48);
ANALYZE TABLE cs_text COMPUTE STATISTICS;
CREATE TABLE cs_a USING parquet AS SELECT CAST(id AS int) AS id, id % 3 AS g FROM range(6);
CREATE TABLE cs_b USING parquet AS SELECT CAST(id + 6 AS int) AS id, id % 3 AS g FROM range(5);
"""
NAMED = ("cs_sales", "cs_returns", "cs_text")
THROUGH_UNION = {"spark.sql.optimizer.pushDownJoinThroughUnion.enabled": "true"}

BOTH = """(SELECT 'a' AS k, id FROM cs_a WHERE g = 1
  UNION ALL SELECT 'b', id FROM cs_b WHERE g = 2)"""
COPIED = {
    "inner": f"SELECT k, f.v FROM {BOTH} u JOIN {{}} f ON u.id = f.day",
    "left": f"SELECT k, f.v FROM {BOTH} u LEFT JOIN {{}} f ON u.id = f.day",
    "three inputs": f"""SELECT k, f.v FROM (SELECT * FROM {BOTH} UNION ALL
        SELECT 'c', CAST(v AS int) FROM cs_returns WHERE day = 3 AND v < 15) u
        JOIN {{}} f ON u.id = f.day""",
    "below a filter of its own": f"""SELECT k, f.v FROM {BOTH} u
        JOIN (SELECT * FROM {{}} WHERE day > 0 AND v % 3 > 0) f ON u.id = f.day""",
    "below another join": f"""SELECT k, f.v FROM {BOTH} u JOIN
        (SELECT f.v, f.day FROM {{}} f JOIN cs_a a ON f.day % 6 = a.id) f ON u.id = f.day""",
    "aggregated": f"""SELECT k, count(f.v) FROM {BOTH} u LEFT JOIN {{}} f ON u.id = f.day
        GROUP BY k""",
    "twice": f"""SELECT k, f.v, g.v FROM {BOTH} u JOIN {{}} f ON u.id = f.day
        JOIN {{}} g ON u.id = g.day WHERE f.v % 5 = g.v % 5""",
    "also by itself": f"""SELECT f.v FROM {BOTH} u JOIN {{}} f ON u.id = f.day
        UNION ALL SELECT v FROM {{}} WHERE day = 19""",
}


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Create the tables. Spark duplicates only scans of tables with size statistics."""
    for statement in filter(str.strip, _SETUP.split(";")):
        spark.sql(statement)
    where = str(tmp_path_factory.mktemp("files") / "sales")
    spark.table("cs_sales").write.partitionBy("day").parquet(where)
    spark.read.parquet(where).createOrReplaceTempView("cs_files")
    with changed(spark, {"spark.splitlib.plannerSmallFactPartitions": "0"}):
        yield
    spark.catalog.dropTempView("cs_files")
    for table in (*NAMED, "cs_a", "cs_b"):
        spark.sql(f"DROP TABLE {table}")


@pytest.mark.parametrize("table", ["cs_sales", "cs_files", "cs_text"])
@pytest.mark.parametrize("query", COPIED.values(), ids=COPIED)
def test_copies_are_read_whole(spark: SparkSession, way: Way, query: str, table: str) -> None:
    """If Spark pushes a join below a union, it scans the joined table once per input."""
    with changed(spark, THROUGH_UNION):
        sql = query.replace("{}", table)
        assert rows_of(way.sql(sql)) == rows_of(spark.sql(sql))


def test_reason_for_a_copy(spark: SparkSession) -> None:
    """The report gives the reason why a duplicated scan is not pruned. Other scans are pruned."""
    sql = COPIED["left"].replace("{}", "cs_files")
    sql += " JOIN cs_returns r ON r.day = u.id + 1 JOIN cs_a a ON r.day = a.id WHERE a.g = 2"
    with changed(spark, THROUGH_UNION):
        optimized = splitlib.sql(spark, sql)
        assert rows_of(optimized) == rows_of(spark.sql(sql))
        copies = spark.conf.isModifiable(next(iter(THROUGH_UNION)))  # Older Spark has no such rule.
        assert ("the optimizer has copied the scan" in str(explained(optimized))) == copies
    optimized = splitlib.sql(spark, sql)
    assert "a copy of it" not in str(explained(optimized))
    assert rows_of(optimized) == rows_of(spark.sql(sql))


def test_copied_dimension(spark: SparkSession, way: Way) -> None:
    """Spark reads the dimension once for each fact table. Its keys prune both fact tables."""
    sql = """SELECT u.v, u.w FROM (SELECT v, day, 1 AS w FROM cs_sales
        UNION ALL SELECT v, day, 2 AS w FROM cs_returns) u
        JOIN cs_a a ON u.day = a.id AND u.w = a.g WHERE a.g > 0"""
    with changed(spark, THROUGH_UNION):
        optimized = way.sql(sql)
        assert rows_of(optimized) == rows_of(spark.sql(sql))
        assert pruned(optimized) == [("cs_returns", 4), ("cs_sales", 4)]


def test_copied_rdd(spark: SparkSession, way: Way) -> None:
    """The duplicated dimension is an RDD with random rows. The keys still match the joined rows."""
    draws = spark.sparkContext.accumulator(0)

    def draw(_: int) -> tuple[int]:
        import random

        draws.add(1)
        return (random.randrange(20),)

    rdd = spark.sparkContext.parallelize(range(8), 2).map(draw)
    spark.createDataFrame(rdd, "id int").createOrReplaceTempView("cs_drawn")
    sql = """SELECT u.day, d.id FROM (SELECT v, day FROM cs_sales
        UNION ALL SELECT v, day FROM cs_returns) u LEFT JOIN cs_drawn d ON u.day = d.id
        WHERE d.id IS NOT NULL"""
    with changed(spark, THROUGH_UNION):
        for _ in range(3):
            rows = way.sql(sql).collect()
            assert all(row.day == row.id for row in rows)
    spark.catalog.dropTempView("cs_drawn")


def test_copied_text_table(spark: SparkSession, way: Way) -> None:
    """A duplicated scan of a Hive text table has the right rows."""
    sql = """SELECT k, u.v, f.v FROM (SELECT 'a' AS k, v, day FROM cs_sales
        UNION ALL SELECT 'b', v, day FROM cs_returns) u JOIN cs_text f ON u.day = f.day
        WHERE f.v = 3"""
    with changed(spark, THROUGH_UNION):
        assert rows_of(way.sql(sql)) == rows_of(spark.sql(sql))


DUPLICATING = {
    "several distinct aggregates": """SELECT count(DISTINCT f.v), count(DISTINCT f.s),
        sum(DISTINCT f.day) FROM cs_sales f JOIN cs_a a ON f.day = a.id WHERE a.g = 1""",
    "or of two subqueries": """SELECT v FROM cs_sales WHERE day IN
        (SELECT id FROM cs_a WHERE g = 1) OR day IN (SELECT id FROM cs_b WHERE g = 2)""",
    "scalar subqueries that are taken together": """SELECT a.id,
        (SELECT sum(v) FROM cs_sales WHERE day = 3), (SELECT max(v) FROM cs_sales WHERE day < 9)
        FROM cs_a a JOIN cs_sales f ON a.id = f.day WHERE a.g = 1""",
    "table expression used twice": """WITH f AS (SELECT v, day, rand() < 2 AS r FROM cs_sales)
        SELECT x.v, y.v FROM f x JOIN f y ON x.v = y.v + 1 JOIN cs_a a ON x.day = a.id
        WHERE a.g = 1""",
    "self-join": """SELECT x.v, y.v FROM cs_sales x JOIN cs_sales y ON x.day = y.day + 1
        JOIN cs_a a ON x.day = a.id WHERE a.g = 1""",
    "intersection": """SELECT day FROM cs_sales WHERE day IN (SELECT id FROM cs_a WHERE g = 1)
        INTERSECT ALL SELECT day FROM cs_sales""",
    "difference": """SELECT day FROM cs_sales EXCEPT ALL
        SELECT day FROM cs_sales WHERE day IN (SELECT id FROM cs_a WHERE g = 1)""",
    "lateral": """SELECT a.id, x.n FROM cs_a a, LATERAL
        (SELECT count(*) AS n FROM cs_sales f WHERE f.day = a.id) x WHERE a.g = 1""",
    "recursive": """WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL
        SELECT f.day + 1 FROM r JOIN (SELECT DISTINCT day FROM cs_sales) f ON f.day = r.n
        WHERE n < 5) SELECT n FROM r""",
}


@pytest.mark.parametrize("query", DUPLICATING.values(), ids=DUPLICATING)
@pytest.mark.parametrize("table", ["cs_sales", "cs_files"])
def test_other_rules_that_duplicate(spark: SparkSession, way: Way, query: str, table: str) -> None:
    """Queries have the right rows if other rules or clauses make Spark scan a table twice."""
    if "RECURSIVE" in query and not spark.conf.isModifiable("spark.sql.cteRecursionLevelLimit"):
        pytest.skip("this Spark has no recursion")
    sql = query.replace("cs_sales", table)
    assert rows_of(way.sql(sql)) == rows_of(spark.sql(sql))
