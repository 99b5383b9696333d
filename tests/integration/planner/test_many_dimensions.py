"""Planning a join of many dimensions stays fast, even if the dimensions share their keys."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import pytest
from pyspark.sql import SparkSession

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.spark.planner import join_graph as discovery
from tests.integration.planner.tables import pruned, rows_of

pytestmark = pytest.mark.spark

MANY = 12


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    """Create a fact table and a dimension. The query joins the dimension many times."""
    spark.sql("""CREATE TABLE md_facts USING parquet PARTITIONED BY (day) AS
        SELECT id AS v, CAST(id % 20 AS int) AS day FROM range(40)""")
    spark.sql("""CREATE TABLE md_days USING parquet AS
        SELECT CAST(id AS int) AS id, CAST(id AS int) AS other, id % 30 AS n FROM range(30)""")
    yield
    spark.sql("DROP TABLE md_facts")
    spark.sql("DROP TABLE md_days")


@pytest.mark.parametrize("column", ["id", "other"])
def test_keys_equated_in_pairs(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    """The planner considers at most as many dimensions as the square of the number of joins."""
    made: list[object] = []

    class Counted(discovery.Dimension):
        def __post_init__(self) -> None:
            made.append(self)

    monkeypatch.setattr(discovery, "Dimension", Counted)
    dimensions = " ".join(
        f"JOIN md_days d{i} ON f.day = d{i}.id AND d{i}.n > {i}" for i in range(MANY)
    )
    pairs = " AND ".join(f"d{i}.{column} = d{j}.{column}" for i, j in combinations(range(MANY), 2))
    sql = f"SELECT f.v FROM md_facts f {dimensions} WHERE {pairs}"
    with changed(spark, {"spark.sql.cbo.joinReorder.enabled": "false"}):
        optimized = splitlib.sql(spark, sql)
        assert pruned(optimized) == [("md_facts", 20 - MANY)]
        assert len(made) <= MANY * MANY
        assert rows_of(optimized) == rows_of(spark.sql(sql))


def test_calls_to_the_jvm_for_each_dimension(spark: SparkSession, jvm_calls: list[str]) -> None:
    """Each further dimension of a join costs a limited number of calls into the JVM."""

    def calls(number: int) -> int:
        dimensions = " ".join(
            f"JOIN md_days d{i} ON f.v % 7 = d{i}.other AND d{i}.n > {i}" for i in range(number)
        )
        days = "JOIN md_days d ON f.day = d.id AND d.n > 3"
        sql = f"SELECT f.v FROM md_facts f {days} {dimensions}"
        splitlib.sql(spark, sql)  # a first run, so that cached lookups do not count
        jvm_calls.clear()
        assert pruned(splitlib.sql(spark, sql)) == [("md_facts", 16)]
        return len(jvm_calls)

    assert (calls(5) - calls(1)) / 4 < 140
