"""Conditions that are added to a planned query may read columns that the query does not select.

Spark then changes the plan of the query: it adds the columns to projections, and computes parts
that the optimizer dropped before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.integration.planner.tables import FACTS, planner_tables, rows_of
from tests.integration.planner.ways import Way

pytestmark = pytest.mark.spark
NAMED = FACTS

INNER: Final = "SELECT f.v FROM p_sales f JOIN p_days d ON f.day = d.id WHERE d.week = 2"
MAXIMA: Final = "(SELECT day, max(v) AS most FROM p_sales GROUP BY day)"
QUERIES: Final = {
    "a dimension": (INNER, "name"),
    "a dimension below a limit": (f"{INNER} LIMIT 1000", "name"),
    "a fact": (INNER, "f.day"),
    "a sorted dimension": (f"{INNER} ORDER BY f.v", "name"),
    "a dimension in a subquery": (
        "SELECT f.v FROM p_sales f "
        "JOIN (SELECT id, upper(name) AS big FROM p_days WHERE week = 2) d "
        "ON f.day = d.id",
        "big",
    ),
    "a table that the optimizer drops": (
        f"SELECT d.name FROM p_days d LEFT JOIN {MAXIMA} t ON d.id = t.day WHERE d.week = 2",
        "most",
    ),
    "a dropped table beside a pruned one": (
        "SELECT f.v FROM p_sales f JOIN p_days d ON f.day = d.id "
        f"LEFT JOIN {MAXIMA} t ON f.day = t.day WHERE d.week = 2",
        "most",
    ),
    "a dropped aggregate": (
        "SELECT name FROM (SELECT d.name, max(d.week) AS last, count(*) AS n FROM p_sales f "
        "JOIN p_days d ON f.day = d.id WHERE d.week = 2 GROUP BY d.name) t",
        "last",
    ),
    "the last partition": (
        "SELECT top FROM (SELECT max(day) AS top, count(v) AS n FROM p_sales) t",
        "n",
    ),
    "a dropped window above a fact": (
        "SELECT f.v FROM (SELECT v, day, count(*) OVER (PARTITION BY v % 2) AS n FROM p_sales) f "
        "JOIN p_days d ON f.day = d.id WHERE d.week = 2",
        "n",
    ),
    "a dropped window above a dimension": (
        "SELECT f.v FROM p_sales f JOIN "
        "(SELECT id, week, count(*) OVER (PARTITION BY week % 2) AS n FROM p_days) d "
        "ON f.day = d.id WHERE d.week = 2",
        "n",
    ),
}
STEPS: Final[dict[str, Callable[[DataFrame, str], DataFrame]]] = {
    "null": lambda df, column: df.where(f"{column} IS NULL"),
    "not null": lambda df, column: df.where(f"{column} IS NOT NULL"),
    "least": lambda df, column: df.where(f"CAST({column} AS STRING) > '2'"),
    "sorted": lambda df, column: df.orderBy(F.expr(column), *df.columns).limit(3),
}


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    with planner_tables(spark):
        yield


@pytest.mark.parametrize("query", QUERIES)
def test_columns_that_are_not_selected(way: Way, query: str) -> None:
    text, column = QUERIES[query]
    plain, planned = way.spark.sql(text), way.sql(text)
    assert rows_of(planned) == rows_of(plain)
    for name, step in STEPS.items():
        assert rows_of(step(planned, column)) == rows_of(step(plain, column)), name
