"""Conditions that are added to a planned query may read columns that the query does not select.

Spark then changes the plan of the query: it adds the columns to projections, and computes parts
that the optimizer dropped before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import splitlib
from benchmarks.tpcds.settings import changed
from tests.integration.planner.tables import FACTS, planner_tables, pruned, rows_of
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
    "a table that LATERAL shows": (
        "SELECT f.v FROM p_sales f, "
        "LATERAL (SELECT d.name, d.week FROM p_days d WHERE d.id = f.day AND d.week = 2) t",
        "t.name",
    ),
    "a dropped aggregate of LATERAL": (
        "SELECT d.name FROM p_days d, "
        "LATERAL (SELECT max(day) AS top, count(v) AS n FROM p_sales) t "
        "WHERE d.id = top",
        "n",
    ),
    "hidden columns of a dropped join": (
        "SELECT f.v FROM p_sales f LEFT JOIN (SELECT DISTINCT day FROM p_returns) t USING (day) "
        "JOIN p_days d ON f.day = d.id WHERE d.week = 2",
        "t.day",
    ),
    "hidden columns of an inner dropped join": (
        "SELECT v FROM (p_sales f LEFT JOIN (SELECT DISTINCT day FROM p_returns) t USING (day)) "
        "JOIN p_days d ON f.day = d.id WHERE d.week = 2",
        "t.day",
    ),
    "an aggregate that the optimizer merges": (
        "SELECT top FROM (SELECT max(day) AS top, count(1) AS n FROM "
        "(SELECT day FROM p_sales GROUP BY day) s) t",
        "n",
    ),
    "hidden columns below DISTINCT": (
        "SELECT DISTINCT f.v FROM p_sales f "
        "LEFT JOIN (SELECT DISTINCT day - 7 AS day FROM p_sales) t USING (day) "
        "JOIN p_days d ON f.day = d.id WHERE d.week = 2",
        "t.day",
    ),
    "hidden columns of a dropped join below DISTINCT": (
        "SELECT DISTINCT v FROM p_sales f LEFT JOIN (SELECT DISTINCT day FROM p_returns) t "
        "USING (day) JOIN p_days d ON f.day = d.id WHERE d.week = 2",
        "t.day",
    ),
    "a function that is never computed": (
        "SELECT f.v, CASE WHEN false THEN n END AS never FROM "
        "(SELECT v, day, count(*) OVER (PARTITION BY v % 2) AS n FROM p_sales) f "
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
# Directly above an aggregate, df.where works like HAVING.
GROUPED: Final = {
    "a dimension": (
        "SELECT f.day, count(*) AS n FROM p_sales f JOIN p_days d ON f.day = d.id WHERE d.week = 2 "
        "GROUP BY f.day",
        "max(name)",
    ),
    "a table that the optimizer drops": (
        f"SELECT d.name, count(*) AS n FROM p_days d LEFT JOIN {MAXIMA} t ON d.id = t.day "
        "GROUP BY d.name",
        "max(most)",
    ),
    "a dropped window": (
        "SELECT f.day, count(*) AS c FROM (SELECT v, day, count(*) OVER (PARTITION BY v % 2) AS n "
        "FROM p_sales) f JOIN p_days d ON f.day = d.id WHERE d.week = 2 GROUP BY f.day",
        "max(n)",
    ),
}
STEPS: Final[dict[str, Callable[[DataFrame, str], DataFrame]]] = {
    "null": lambda df, column: df.where(f"{column} IS NULL"),
    "not null": lambda df, column: df.where(f"{column} IS NOT NULL"),
    "compared": lambda df, column: df.where(f"CAST({column} AS STRING) > '2'"),
    "sorted": lambda df, column: df.orderBy(F.expr(column), *df.columns).limit(3),
}


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    with planner_tables(spark):
        yield


@pytest.mark.parametrize(
    ("text", "column"),
    [*QUERIES.values(), *GROUPED.values()],
    ids=[*QUERIES, *(f"grouped: {name}" for name in GROUPED)],
)
def test_columns_that_are_not_selected(way: Way, text: str, column: str) -> None:
    plain, planned = way.spark.sql(text), way.sql(text)
    assert rows_of(planned) == rows_of(plain)
    for name, step in STEPS.items():
        assert rows_of(step(planned, column)) == rows_of(step(plain, column)), name


def test_functions_of_a_table_that_is_not_read(way: Way) -> None:
    planned = way.sql("SELECT max(day) AS top FROM p_sales")
    assert rows_of(planned.where("top > 1")) == ["Row(top=19)"]
    with pytest.raises(AnalysisException):
        planned.where("count(v) > 50").collect()


def test_functions_above_a_table_that_is_read(spark: SparkSession) -> None:
    for text in (
        "SELECT r.day, count(*) AS n FROM p_returns r JOIN (SELECT max(day) AS m FROM p_sales) t "
        "ON r.day <= t.m GROUP BY r.day",
        "SELECT count(*) AS n FROM (SELECT * FROM p_sales ORDER BY day DESC LIMIT 10)",
    ):
        plain, planned = spark.sql(text), splitlib.sql(spark, text)
        assert rows_of(planned.where("sum(v) > 0")) == rows_of(plain.where("sum(v) > 0"))


def joined(spark: SparkSession, *, is_sorted: bool) -> DataFrame:
    """Join three tables without aliases at the top, so that the plan shows all columns."""
    returned = spark.table("p_returns").select("day").distinct().alias("t")
    both = spark.table("p_sales").alias("f").join(returned, "day", "left")
    if is_sorted:
        both = both.sort("f.v")
    return both.join(spark.table("p_days").alias("d"), F.expr("f.day = d.id")).where("d.week = 2")


def lateral(spark: SparkSession) -> DataFrame:
    most = spark.table("p_returns").groupBy(F.col("day").alias("dd")).agg(F.max("v").alias("most"))
    base = spark.table("p_sales").alias("f").join(most, F.expr("f.day = dd"), "left")
    base = base.join(spark.table("p_days").alias("d"), F.expr("f.day = d.id")).where("d.week = 2")
    weeks = spark.table("p_weeks").where(F.col("week") == F.col("v").outer() % 5).select("no")
    return base.select("f.v", "f.day").lateralJoin(weeks)


@pytest.mark.parametrize("case", ["sorted", "selected", "all", "lateral"])
def test_columns_of_dataframes(spark: SparkSession, case: str) -> None:
    """DataFrames have no aliases at the top of their plans, unlike texts."""
    if case == "lateral":
        if not hasattr(DataFrame, "lateralJoin"):
            pytest.skip("this Spark has no DataFrame.lateralJoin")
        df, column = lateral(spark), "most"
    else:
        df, column = joined(spark, is_sorted=case == "sorted"), "t.day"
        df = df if case == "all" else df.select("f.v")
    planned = splitlib.optimize(df)
    assert rows_of(planned) == rows_of(df)
    for name, step in STEPS.items():
        assert rows_of(step(planned, column)) == rows_of(step(df, column)), name
    if case == "all":
        assert rows_of(planned.select(column)) == rows_of(df.select(column))


@pytest.mark.parametrize("is_grouped", [False, True])
def test_dimensions_of_data_sources(spark: SparkSession, tmp_path: Path, is_grouped: bool) -> None:
    """Small tables of DataSource V2 are read once, with the columns that may be read later."""
    spark.table("p_days").write.parquet(str(tmp_path / "days"))
    with changed(spark, {"spark.sql.sources.useV1SourceList": "avro"}):
        days = spark.read.parquet(str(tmp_path / "days")).alias("d")
        df = spark.table("p_sales").alias("f").join(days, F.expr("f.day = d.id")).where("week = 2")
        df = df.groupBy("f.day").count() if is_grouped else df.select("f.v")
        planned = splitlib.optimize(df)
        assert "RelationV2" in str(df._jdf.queryExecution().analyzed())
        assert "RelationV2" not in str(planned._jdf.queryExecution().analyzed())
        assert pruned(planned) == [("p_sales", 4)]
        column = "max(name)" if is_grouped else "name"
        for name, step in STEPS.items():
            assert rows_of(step(planned, column)) == rows_of(step(df, column)), name


def test_structs_of_data_sources(spark: SparkSession, tmp_path: Path) -> None:
    """The optimizer removes fields of structs, and so changes the type of a column."""
    days = spark.table("p_days").selectExpr("id", "week", "named_struct('a', d, 'b', name) AS s")
    days.write.parquet(str(tmp_path / "days"))
    with changed(spark, {"spark.sql.sources.useV1SourceList": "avro"}):
        inner = spark.read.parquet(str(tmp_path / "days")).selectExpr("id", "week", "s.b AS sb")
        df = spark.table("p_sales").alias("f").join(inner, F.expr("f.day = id")).where("week = 2")
        df = df.select("f.v")
        planned = splitlib.optimize(df)
        assert pruned(planned) == [("p_sales", 4)]
        for name, step in STEPS.items():
            assert rows_of(step(planned, "sb")) == rows_of(step(df, "sb")), name


WINDOW: Final = "count(*) OVER (PARTITION BY day)"


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT f.v, n, m FROM (SELECT *, {WINDOW} AS n, sum(v) OVER (PARTITION BY day) AS m "
        "FROM p_sales) f JOIN p_days d ON f.day = d.id WHERE d.week = 2",
        f"SELECT f.v, n FROM (SELECT *, {WINDOW} AS n FROM p_sales) f JOIN (SELECT *, row_number() "
        "OVER (ORDER BY id) AS i FROM p_days) d ON f.day = d.id WHERE d.week = 2",
        "SELECT f.day, count(*) FROM p_sales f JOIN p_days d ON f.day = d.id WHERE d.week = 2 "
        "GROUP BY f.day ORDER BY f.day LIMIT 5",
    ],
    ids=["two windows", "a dropped window beside it", "an aggregate"],
)
def test_pruned_all_the_same(way: Way, text: str) -> None:
    planned = way.sql(text)
    assert rows_of(planned) == rows_of(way.spark.sql(text))
    assert pruned(planned) == [("p_sales", 4)]
