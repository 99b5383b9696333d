"""For the same keys, a planned query and a reader have equal scans, which Spark can reuse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import splitlib

pytestmark = pytest.mark.spark

SQL = "SELECT f.* FROM ol_facts f LEFT SEMI JOIN (SELECT * FROM ol_days WHERE week = {}) d "
SQL += "ON f.day = d.id"


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    """Create a fact table and its dimension."""
    spark.sql("""CREATE TABLE ol_facts USING parquet PARTITIONED BY (day) AS
        SELECT id AS v, CAST(id % 15 AS int) AS day FROM range(45)""")
    spark.sql("""CREATE TABLE ol_days USING parquet AS
        SELECT CAST(id AS int) AS id, id % 5 AS week FROM range(15)""")
    yield
    spark.sql("DROP TABLE ol_facts")
    spark.sql("DROP TABLE ol_days")


def leaf_of(df: DataFrame) -> Any:
    """Return the relation that scans the selected files.

    The other leaves of the plan are not read.
    """
    leaves = df._jdf.queryExecution().optimizedPlan().collectLeaves()
    found = [leaves.apply(i) for i in range(leaves.size())]
    (leaf,) = [leaf for leaf in found if leaf.nodeName().startswith("LogicalRelation")]
    return leaf


def read_of(spark: SparkSession, week: int) -> DataFrame:
    """Return the fact table, read with splitlib for the days of a week."""
    days = spark.table("ol_days").where(f"week = {week}")
    reader = splitlib.read(spark).table("default.ol_facts")
    return reader.filtered_by(days, {"day": "id"}).load()


def root_and_files(leaf: Any) -> tuple[list[str], list[str]]:
    """Return the root paths and the files of a scan."""
    location = leaf.relation().location()
    roots = location.rootPaths()
    return [roots.apply(i).toString() for i in range(roots.size())], sorted(location.inputFiles())


def test_same_root_and_files(spark: SparkSession) -> None:
    """Scans for the same keys have the same root path and files. For other keys, both differ."""
    by_query = root_and_files(leaf_of(splitlib.sql(spark, SQL.format(1))))
    by_reader = root_and_files(leaf_of(read_of(spark, 1)))
    others = root_and_files(leaf_of(read_of(spark, 2)))
    assert by_query == by_reader
    assert others[0] != by_query[0]
    assert set(others[1]).isdisjoint(by_query[1])


def test_same_result(spark: SparkSession) -> None:
    """Spark treats scans for the same keys as equal, but not scans for other keys."""
    by_query = leaf_of(splitlib.sql(spark, SQL.format(1)))
    assert by_query.sameResult(leaf_of(read_of(spark, 1)))
    assert leaf_of(read_of(spark, 1)).sameResult(by_query)
    assert not by_query.sameResult(leaf_of(read_of(spark, 2)))
    assert not by_query.sameResult(leaf_of(splitlib.sql(spark, SQL.format(2))))
    whole = spark.sql("SELECT * FROM ol_facts")._jdf.queryExecution().optimizedPlan()
    assert not by_query.sameResult(whole.collectLeaves().head())
