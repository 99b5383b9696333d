"""Queries drawn at random give the same rows with pruning and without it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.spark.planner.report import PlanReport
from tests.integration.star_queries import DIRECTORY, DIRECTORY_OF, NAMES, TABLES, StarQueries

pytestmark = pytest.mark.spark

QUERIES = int(os.environ.get("RANDOM_QUERIES", "500"))
SEED = int(os.environ.get("RANDOM_SEED", "20201121"))
_AT_A_TIME = 5
# Queries over so few rows take much longer to compile, and to plan again and again, than to run.
QUICK = {
    "spark.splitlib.plannerSmallFactPartitions": "0",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Spark itself fails where a subquery that is null is pushed down
    "spark.sql.orc.filterPushdown": "false",
}


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    """The tables that queries are drawn over; all are small, and none is too small."""
    for statement in TABLES.split(";"):
        spark.sql(statement)
    described = spark.sql(f"DESCRIBE FORMATTED {DIRECTORY_OF}").where("col_name = 'Location'")
    spark.read.parquet(described.collect()[0][1]).createOrReplaceTempView(DIRECTORY)
    with changed(spark, QUICK):
        yield
    spark.catalog.dropTempView(DIRECTORY)
    for table in NAMES:
        spark.sql(f"DROP TABLE {table}")


@pytest.fixture(scope="module")
def pruned() -> list[str]:
    """The queries that splitlib has pruned so far."""
    return []


@pytest.mark.parametrize("start", range(0, QUERIES, _AT_A_TIME))
def test_same_rows(spark: SparkSession, start: int, pruned: list[str]) -> None:
    """Each query with plain Spark and with splitlib, which handles all of them."""
    queries = StarQueries(SEED + start)
    for _ in range(_AT_A_TIME):
        query = queries.draw()
        plain = spark.sql(query)
        optimized = splitlib.optimize(plain)
        report = splitlib.explain(optimized)
        assert isinstance(report, PlanReport)
        expected = sorted(map(str, plain.collect()))
        assert sorted(map(str, optimized.collect())) == expected, query
        if any(scan.is_pruned for scan in report.scans):
            pruned.append(query)
        assert not any(word in str(report.reasons) for word in ("Error", "Exception")), query


def test_enough_were_pruned(pruned: list[str]) -> None:
    """Or all of the above would say nothing."""
    assert len(pruned) >= QUERIES // 5
