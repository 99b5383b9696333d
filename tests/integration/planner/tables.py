"""Tables that many planner tests share, and helpers that inspect a query after planning."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

import splitlib
from splitlib.report import Report

_SETUP = """
CREATE TABLE p_sales USING parquet PARTITIONED BY (day) AS
  SELECT id AS v, id % 7 AS s, CAST(id % 20 AS int) AS day FROM range(400)
  UNION ALL SELECT 1000, 3, NULL;
CREATE TABLE p_returns USING parquet PARTITIONED BY (day) AS
  SELECT id AS v, CAST(id % 15 AS int) AS day FROM range(150);
CREATE TABLE p_upper USING parquet PARTITIONED BY (Day) AS
  SELECT id AS v, CAST(id % 15 AS int) AS Day FROM range(150);
CREATE TABLE p_text (v bigint) PARTITIONED BY (day int) STORED AS textfile;
INSERT INTO p_text SELECT id, CAST(id % 10 AS int) FROM range(100);
CREATE TABLE p_two USING parquet PARTITIONED BY (d, k) AS
  SELECT id AS v, date_add(DATE'2020-01-01', CAST(id % 6 AS int)) AS d,
         concat('k', id % 3) AS k FROM range(180);
CREATE TABLE p_days USING parquet AS
  SELECT CAST(id AS int) AS id, concat('n', id) AS name, CAST(id % 5 AS int) AS week,
         date_add(DATE'2020-01-01', CAST(id AS int)) AS d FROM range(30)
  UNION ALL SELECT NULL, 'nowhere', 99, NULL;
CREATE TABLE p_weeks USING parquet AS SELECT CAST(id AS int) AS week, id * 10 AS no FROM range(5);
CREATE VIEW p_view AS SELECT v, day AS tag FROM p_sales WHERE v >= 0;
"""
FACTS = ("p_sales", "p_returns", "p_upper", "p_text", "p_two")
"""Names of the partitioned tables."""
_TABLES = (*FACTS, "p_days", "p_weeks")

INNER = "SELECT f.*, d.name FROM p_sales f JOIN p_days d ON f.day = d.id WHERE d.name = 'n3'"
"""A join for which splitlib keeps one of 21 partitions."""

TWICE = """SELECT a.v, b.v FROM p_sales a JOIN p_days d ON a.day = d.id AND d.week = 1
  JOIN p_sales b ON a.s = b.s JOIN p_days e ON b.day = e.id AND e.name = 'n7'"""
"""A query with two scans of one table. The first needs 4 partitions, the second 1 of these."""


@contextmanager
def planner_tables(spark: SparkSession) -> Iterator[None]:
    """Create the tables for the block, and drop them afterwards."""
    for statement in filter(str.strip, _SETUP.split(";")):
        spark.sql(statement)
    yield
    spark.sql("DROP VIEW p_view")
    for table in _TABLES:
        spark.sql(f"DROP TABLE {table}")


def rows_of(df: DataFrame) -> list[str]:
    """Return the rows of a DataFrame as sorted text."""
    return sorted(map(str, df.collect()))


def explained(df: DataFrame) -> Report:
    """Return the report that ``splitlib.explain`` gives for a planned query."""
    return splitlib.explain(df)


def pruned(df: DataFrame) -> list[tuple[str, int]]:
    """Return table name and number of kept partitions for each pruned scan, sorted.

    For a named catalog, the report has numbers even for scans that keep all partitions. These
    scans are left out.
    """
    return sorted(
        (scan.table.rpartition(".")[2], scan.partitions.matched)
        for scan in explained(df).scans
        if scan.partitions.matched is not None
        and (scan.partitions.matched != scan.partitions.total or not scan.partitions.matched)
    )
