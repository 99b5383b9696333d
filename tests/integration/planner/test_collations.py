"""Joins on collated text and on nested values return the same rows as plain Spark.

Under a collation, texts with different bytes can be equal.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyspark
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.testing import HiveMetastore
from tests.integration.planner.tables import explained, pruned, rows_of
from tests.integration.planner.ways import Way, settings
from tests.support.abilities import COLLATES

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not COLLATES, reason="this Spark has no collations"),
]
NAMED = ("co_a", "co_b")

_SETUP = """
CREATE TABLE co_a USING parquet PARTITIONED BY (day, p) AS SELECT id AS v,
  CAST(id % 6 AS int) AS day, element_at(array('a', 'B', 'c ', 'É', 'd'), CAST(id % 5 + 1 AS int))
  AS p FROM range(60);
CREATE TABLE co_b USING parquet PARTITIONED BY (day, p) AS SELECT id AS v,
  CAST(id % 6 AS int) AS day, element_at(array('A', 'b', 'C', 'é', 'd '), CAST(id % 5 + 1 AS int))
  AS p FROM range(60);
CREATE TABLE co_days USING parquet AS
  SELECT CAST(id AS int) AS id, CAST(id % 3 AS int) AS week,
  element_at(array('A', 'b', 'C', 'É', 'D'), CAST(id % 5 + 1 AS int)) AS q FROM range(20);
"""
COLLATIONS = ["UTF8_LCASE", "UNICODE", "UNICODE_CI", "UNICODE_CI_AI"]
if not pyspark.__version__.startswith("4.0."):  # Spark 4.0 does not have RTRIM.
    COLLATIONS.append("UTF8_BINARY_RTRIM")
SHAPES = {
    "between facts": """SELECT a.v, b.v FROM co_a a JOIN co_b b
        ON a.p COLLATE {0} = b.p COLLATE {0} AND a.v % 7 = b.v % 7
        JOIN co_days d ON a.day = d.id WHERE d.week = 1""",
    "cast": """SELECT a.v, b.v FROM co_a a JOIN co_b b
        ON CAST(a.p AS STRING COLLATE {0}) = CAST(b.p AS STRING COLLATE {0}) AND a.v % 7 = b.v % 7
        JOIN co_days d ON a.day = d.id WHERE d.week = 1""",
    "in a tuple": """SELECT a.v, b.v FROM co_a a JOIN co_b b
        ON a.p COLLATE {0} = b.p COLLATE {0} AND a.day = b.day
        JOIN co_days d ON a.day = d.id WHERE d.week = 1""",
    "of a dimension": """SELECT a.v, d.id FROM co_a a JOIN co_days d
        ON a.p COLLATE {0} = d.q COLLATE {0} WHERE d.week = 1""",
    "of a dimension in a tuple": """SELECT a.v, d.id FROM co_a a JOIN co_days d
        ON a.p COLLATE {0} = d.q COLLATE {0} AND a.day = d.id WHERE d.week = 1""",
    "of a range": """SELECT a.v, d.id FROM co_a a JOIN co_days d
        ON a.p COLLATE {0} > d.q COLLATE {0} WHERE d.id IN (1, 2)""",
    "of a condition": """SELECT a.v FROM co_a a JOIN co_days d ON a.day = d.id
        WHERE d.week = 1 AND a.p COLLATE {0} = 'C' AND a.p COLLATE {0} IN ('b', 'C')""",
    "through what is equal": """SELECT a.v, b.v FROM co_a a JOIN co_days d ON a.p = d.q
        JOIN (SELECT q COLLATE {0} AS q, week FROM co_days WHERE week = 1) e
        ON d.q COLLATE {0} = e.q JOIN co_b b ON b.p = CAST(e.q AS STRING)""",
}


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    """Create two fact tables and a dimension with texts that differ only in case."""
    for statement in filter(str.strip, _SETUP.split(";")):
        spark.sql(statement)
    with changed(spark, {"spark.splitlib.plannerSmallFactPartitions": "0"}):
        yield
    for table in ("co_a", "co_b", "co_days"):
        spark.sql(f"DROP TABLE {table}")


@pytest.mark.parametrize("collation", COLLATIONS)
@pytest.mark.parametrize("query", SHAPES.values(), ids=SHAPES)
def test_collations(spark: SparkSession, way: Way, query: str, collation: str) -> None:
    """A partition is kept if its value equals a key under the collation, with different bytes."""
    sql = query.format(collation)
    assert rows_of(way.sql(sql)) == rows_of(spark.sql(sql))


def test_the_rest_of_a_tuple_prunes(spark: SparkSession, way: Way) -> None:
    """Of a tuple of keys, only the collated key does not prune. The report gives the reason."""
    sql = SHAPES["of a dimension in a tuple"].format("UTF8_LCASE")
    optimized = way.sql(sql)
    assert rows_of(optimized) == rows_of(spark.sql(sql))
    ((table, kept),) = pruned(optimized)
    assert (table, kept < 30) == ("co_a", True)
    assert "collate UTF8_LCASE can only be compared by Spark" in str(explained(optimized))


def test_declared_collation(spark: SparkSession, way: Way) -> None:
    """The column of the dimension has a collation. A partition key cannot have one."""
    spark.sql("CREATE TABLE co_lcase (q STRING COLLATE UTF8_LCASE, id int) USING parquet")
    spark.sql("INSERT INTO co_lcase VALUES ('A', 1), ('C', 2)")
    try:
        for on in (
            "a.p COLLATE UTF8_LCASE = l.q",
            "a.p COLLATE UTF8_LCASE <=> l.q",
            "a.p COLLATE UTF8_LCASE >= l.q",
            "a.p = CAST(l.q AS STRING COLLATE UTF8_BINARY)",
        ):
            sql = f"SELECT a.v, l.id FROM co_a a JOIN co_lcase l ON {on} WHERE l.id > 0"
            assert rows_of(way.sql(sql)) == rows_of(spark.sql(sql)), on
    finally:
        spark.sql("DROP TABLE co_lcase")


NESTED = {
    "struct": "struct(a.day, a.p) = struct(b.day, b.p)",
    "array": "array(a.day, 1) = array(b.day, 1)",
    "one of two": "array(a.p) = array(b.p) AND a.day = b.day",
}


@pytest.mark.parametrize("condition", NESTED.values(), ids=NESTED)
def test_nested_keys_between_facts(spark: SparkSession, way: Way, condition: str) -> None:
    """Struct and array keys do not prune partitions, but the query's other join does."""
    sql = f"""SELECT a.v, b.v FROM co_a a JOIN co_b b ON {condition} AND a.v % 7 = b.v % 7
        JOIN co_days d ON a.day = d.id WHERE d.week = 1"""
    optimized = way.sql(sql)
    assert rows_of(optimized) == rows_of(spark.sql(sql))
    assert "co_a" in [table for table, _ in pruned(optimized)]
    assert not explained(optimized).reasons


@pytest.mark.parametrize("collation", COLLATIONS)
def test_data_columns_of_named_catalogs(
    spark: SparkSession, metastore: HiveMetastore, collation: str
) -> None:
    """Bounds of a file are in byte order, so they must not exclude files for a collated column."""
    spark.sql(f"""CREATE TABLE co_data (t STRING COLLATE {collation}, v bigint, day int)
        USING parquet PARTITIONED BY (day)""")
    spark.sql("""INSERT INTO co_data SELECT IF(id % 2 = 0, 'abc', 'ABC '), id, id % 4
        FROM range(16)""")
    try:
        with changed(spark, settings(metastore.uri)):
            for where in ("t = 'abc'", "t > 'ABC'", "t IN ('ABC', 'x')", "t <= 'abc'"):
                sql = f"SELECT t, v FROM {{}} WHERE {where}"
                expected = rows_of(spark.sql(sql.format("co_data")))
                optimized = splitlib.sql(spark, sql.format("lake.default.co_data"))
                assert rows_of(optimized) == expected, where
            sql = f"""SELECT f.v FROM {{}} f JOIN co_days d
                ON f.t = (d.q || 'bc') COLLATE {collation} WHERE d.week = 1"""
            expected = rows_of(spark.sql(sql.format("co_data")))
            assert rows_of(splitlib.sql(spark, sql.format("lake.default.co_data"))) == expected
    finally:
        spark.sql("DROP TABLE co_data")


def test_partition_columns_have_no_collation(spark: SparkSession) -> None:
    """So equal texts of a partition column are the same, also in a group."""
    with pytest.raises(AnalysisException, match="INVALID_PARTITION_COLUMN_DATA_TYPE"):
        spark.sql("""CREATE TABLE co_none (v int, t STRING COLLATE UTF8_LCASE)
            USING parquet PARTITIONED BY (t)""")
    query = """SELECT a.p, a.n FROM (SELECT p, count(*) AS n FROM co_a GROUP BY p) a
        JOIN co_days d ON lower(a.p) = lower(d.q) WHERE d.week = 1 AND d.id < 8"""
    optimized = splitlib.sql(spark, query)
    assert rows_of(optimized) == rows_of(spark.sql(query))
    assert pruned(optimized) == [("co_a", 12)]
    collated = query.replace("SELECT p, c", "SELECT p COLLATE UTF8_LCASE AS p, c")
    collated = collated.replace("lower", "ascii")  # which differs between equal texts
    assert rows_of(splitlib.sql(spark, collated)) == rows_of(spark.sql(collated))
