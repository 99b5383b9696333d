"""Joins on an interval, such as ``f.day BETWEEN d.lo AND d.hi``, prune partitions.

A partition is kept if and only if its value is within an interval of the dimension.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import ge, gt, le, lt

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import splitlib
from benchmarks.tpcds.settings import changed
from tests.integration.planner.tables import explained, rows_of

# On other Spark versions, ``test_joins`` tests one interval join of each kind.
pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

DAYS = range(24)
LOWER, UPPER = {">": gt, ">=": ge}, {"<": lt, "<=": le}
BOUND = st.none() | st.integers(-3, 27)


@pytest.fixture(scope="module", autouse=True)
def fact(spark: SparkSession) -> Iterator[None]:
    """Create a table with one partition per day and one of nulls. Its four keys have four types."""
    spark.sql(
        f"""CREATE TABLE i_fact USING parquet PARTITIONED BY (number, day, month, text) AS
            SELECT id AS v, CAST(id AS INT) AS number, DATE_ADD(DATE'2024-02-20', id) AS day,
                   CAST(id / 8 AS DECIMAL(9, 3)) AS month, LPAD(CAST(id AS STRING), 2, '0') AS text
            FROM (SELECT CAST(id AS INT) AS id FROM RANGE({len(DAYS)}))
            UNION ALL SELECT -1, NULL, NULL, NULL, NULL"""
    )
    yield
    spark.sql("DROP TABLE i_fact")


OF_TYPE = {
    "number": "{}",
    "day": "DATE_ADD(DATE'2024-02-20', {})",
    "month": "CAST({} / 8 AS DECIMAL(9, 3))",
    "text": "LPAD(CAST({} AS STRING), 2, '0')",
}


def kept(spark: SparkSession, query: str) -> int:
    """Assert that the query's rows equal Spark's. Return the number of kept partitions."""
    planned = splitlib.sql(spark, query)
    assert rows_of(planned) == rows_of(spark.sql(query))
    (scan,) = explained(planned).scans
    if scan.partitions.matched is None:  # Spark itself drops the null partition.
        (reason,) = scan.reasons
        assert ": the keys match every partition that is read." in reason
        return len(DAYS)
    return scan.partitions.matched


def dimension(rows: list[tuple[int | None, int | None]]) -> str:
    """Return a subquery that gives the bounds as rows.

    Because of the LIMIT, the planner expects few rows and uses them as keys.
    """
    values = ", ".join(f"({lo}, {hi})" for lo, hi in rows).replace("None", "NULL")
    return f"(SELECT * FROM VALUES {values}, (0, 0) AS t(lo, hi) LIMIT {len(rows)}) d"


@pytest.mark.parametrize("column", OF_TYPE)
@given(
    rows=st.lists(st.tuples(BOUND, BOUND), min_size=1, max_size=5),
    after=st.sampled_from(list(LOWER)),
    before=st.sampled_from(list(UPPER)),
)
@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_what_an_interval_meets_is_kept_and_nothing_else(
    spark: SparkSession, column: str, rows, after: str, before: str
) -> None:
    if column == "text":  # As text, negative numbers have another order.
        rows = [(lo and max(lo, 0), hi and max(hi, 0)) for lo, hi in rows]
    low, high = (OF_TYPE[column].format(f"d.{end}") for end in ("lo", "hi"))
    query = (
        f"SELECT f.v, d.lo, d.hi FROM i_fact f JOIN {dimension(rows)} "
        f"ON f.{column} {after} {low} AND f.{column} {before} {high}"
    )
    met = {
        day
        for day in DAYS
        for lo, hi in rows
        if lo is not None and hi is not None and LOWER[after](day, lo) and UPPER[before](day, hi)
    }
    assert kept(spark, query) == len(met)


def test_too_many_intervals_are_one(spark: SparkSession) -> None:
    """If there are too many intervals, one range from the lowest to the highest bound prunes."""
    query = (
        f"SELECT f.v, d.lo FROM i_fact f JOIN {dimension([(1, 2), (5, 6), (20, 21)])} "
        "ON f.number BETWEEN d.lo AND d.hi"
    )
    assert kept(spark, query) == 6
    with changed(spark, {"spark.splitlib.filterMaxValues": "2"}):
        assert kept(spark, query) == 21
        limit = (
            "there are more than 2 intervals, the maximum for spark.splitlib.filterMaxValues (2)"
        )
        assert limit in str(splitlib.explain(splitlib.sql(spark, query)))


def test_what_has_valid_from_and_valid_to(spark: SparkSession) -> None:
    """The validity periods of a slowly changing dimension prune the days of the fact table."""
    query = """
        SELECT f.v, c.plan FROM i_fact f JOIN (
          SELECT * FROM VALUES
            (1, 'free', DATE'2024-02-20', DATE'2024-02-23'),
            (1, 'paid', DATE'2024-02-23', DATE'2024-03-01'),
            (1, 'free', DATE'2024-03-01', DATE'2024-03-04'),
            (1, 'paid', DATE'2024-03-04', DATE'9999-12-31')
          AS t(id, plan, valid_from, valid_to)
        ) c ON f.day >= c.valid_from AND f.day < c.valid_to WHERE c.plan = 'free'"""
    assert kept(spark, query) == 6
