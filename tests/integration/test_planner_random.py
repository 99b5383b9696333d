"""Queries drawn at random give the same rows with pruning and without it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import splitlib
from splitlib.spark.planner.report import PlanReport
from tests.integration.star_queries import NAMES, TABLES, StarQueries

pytestmark = pytest.mark.spark

QUERIES = int(os.environ.get("RANDOM_QUERIES", "500"))
SEED = int(os.environ.get("RANDOM_SEED", "20201121"))
_AT_A_TIME = 50


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    """The tables that queries are drawn over; all are small, and none is too small."""
    for statement in TABLES.split(";"):
        spark.sql(statement)
    spark.conf.set("spark.splitlib.plannerSmallFactPartitions", "0")
    yield
    spark.conf.unset("spark.splitlib.plannerSmallFactPartitions")
    for table in NAMES:
        spark.sql(f"DROP TABLE {table}")


@pytest.mark.parametrize("start", range(0, QUERIES, _AT_A_TIME))
def test_same_rows(spark: SparkSession, start: int) -> None:
    """Each query with plain Spark and with splitlib; and enough of them are pruned to matter."""
    queries = StarQueries(SEED + start)
    pruned = failed = 0
    for _ in range(_AT_A_TIME):
        query = queries.draw()
        plain = spark.sql(query)
        optimized = splitlib.optimize(plain)
        report = splitlib.explain(optimized)
        assert isinstance(report, PlanReport)
        expected = sorted(map(str, plain.collect()))
        assert sorted(map(str, optimized.collect())) == expected, query
        pruned += any(scan.is_pruned for scan in report.scans)
        failed += any("Error" in reason or "Exception" in reason for reason in report.reasons)
    assert failed == 0
    assert pruned >= _AT_A_TIME // 5
