"""A command runs once, even if its result is optimized, explained or collected again."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

import splitlib

pytestmark = pytest.mark.spark
JOINED = "SELECT CAST(v AS int) AS v, 7 AS grp FROM c_fact JOIN c_dim ON k = id WHERE grp = 1"


@pytest.fixture
def tables(spark):
    spark.sql("CREATE TABLE c_fact (v bigint, k int) USING parquet PARTITIONED BY (k)")
    spark.sql("INSERT INTO c_fact SELECT id, CAST(id % 5 AS int) FROM range(10)")
    spark.sql("CREATE TABLE c_dim (id int, grp int) USING parquet")
    spark.sql("INSERT INTO c_dim VALUES (1, 1), (2, 1), (3, 2)")
    spark.sql("CREATE TABLE c_target (v int, grp int) USING parquet")
    yield
    for table in ("c_fact", "c_dim", "c_target"):
        spark.sql(f"DROP TABLE {table}")


@pytest.mark.parametrize(
    "command",
    [
        f"INSERT INTO c_target {JOINED}",
        f"WITH j AS ({JOINED}) INSERT INTO c_target SELECT * FROM j",
        f"FROM ({JOINED}) INSERT INTO c_target SELECT v, 1 INSERT INTO c_target SELECT v, 2",
    ],
)
def test_an_insert(spark, tables, command):
    spark.sql(command)
    once = spark.table("c_target").count()
    assert once > 0

    returned = splitlib.sql(spark, command)
    assert spark.table("c_target").count() == 2 * once
    again = splitlib.optimize(returned)
    assert "it is a command, which has run" in str(splitlib.explain(again))
    assert spark.table("c_target").count() == 2 * once


def test_what_a_command_returns_can_be_joined(spark, tables):
    days = spark.sql("SHOW PARTITIONS c_fact").selectExpr("int(substr(partition, 3)) AS day")
    joined = spark.table("c_fact").join(days.where("day = 3"), F.expr("k = day"))
    assert splitlib.optimize(joined).count() == joined.count() == 2
