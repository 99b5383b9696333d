"""Rules of the optimizer that exchange a scan, or put an operator above it: it is still pruned."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import splitlib
from tests.integration.planner.tables import pruned, rows_of

pytestmark = pytest.mark.spark

_SETUP = """
CREATE TABLE or_facts USING parquet PARTITIONED BY (p) AS
  SELECT id AS v, id % 3 AS s, parse_json('{"a": 1}') AS j, CAST(id % 20 AS int) AS p
  FROM range(200);
CREATE TABLE or_days USING parquet AS
  SELECT CAST(id AS int) AS k, CAST(id % 5 AS int) AS week FROM range(20);
"""


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    """The tables of all tests here."""
    for statement in filter(str.strip, _SETUP.split(";")):
        spark.sql(statement)
    yield
    for table in ("or_facts", "or_days"):
        spark.sql(f"DROP TABLE {table}")


def _ranked(function: str, keys: str) -> str:
    ranked = f"{function}() OVER (PARTITION BY {keys} ORDER BY v) AS n"
    return f"""SELECT v, p FROM (SELECT v, p, {ranked} FROM or_facts)
      JOIN or_days ON p = k WHERE week = 1 AND n <= 2"""


@pytest.mark.parametrize(
    "sql",
    [
        pytest.param(
            "SELECT v, variant_get(j, '$.a', 'int') AS a FROM or_facts JOIN or_days ON p = k "
            "WHERE week = 1 AND variant_get(j, '$.a', 'int') = 1",
            id="VARIANT",
        ),
        pytest.param(_ranked("row_number", "p"), id="row_number"),
        pytest.param(_ranked("rank", "s, p"), id="rank"),
    ],
)
def test_it_is_pruned(spark: SparkSession, sql: str) -> None:
    planned = splitlib.sql(spark, sql)
    assert pruned(planned) == [("or_facts", 4)]
    assert rows_of(planned) == rows_of(spark.sql(sql))


def test_ranks_among_all_partitions_need_all_of_them(spark: SparkSession) -> None:
    sql = _ranked("row_number", "s")
    planned = splitlib.sql(spark, sql)
    assert pruned(planned) == []
    assert rows_of(planned) == rows_of(spark.sql(sql))
