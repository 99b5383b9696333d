"""Queries with joins keep the expected partitions and return the rows of plain Spark.

More queries are in ``tests/unit/planner/shapes``. ``test_shapes.py`` runs these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession

import splitlib
from tests.integration.planner.tables import (
    FACTS,
    INNER,
    TWICE,
    explained,
    planner_tables,
    pruned,
    rows_of,
)
from tests.integration.planner.ways import Way

pytestmark = pytest.mark.spark
NAMED = FACTS


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    with planner_tables(spark):
        yield


@dataclass(frozen=True)
class Case:
    """A query, and the expected number of kept partitions for each pruned scan."""

    sql: str
    kept: tuple[tuple[str, int], ...]


PRUNES = {
    "inner": Case(INNER, (("p_sales", 1),)),
    "in subquery": Case(
        "SELECT * FROM p_sales WHERE day IN (SELECT id FROM p_days WHERE week = 2)",
        (("p_sales", 4),),
    ),
    "a small table of keys without a condition": Case(
        "SELECT f.v FROM p_sales f JOIN p_weeks w ON f.day = w.week", (("p_sales", 5),)
    ),
    "exists": Case(
        "SELECT * FROM p_sales f WHERE EXISTS "
        "(SELECT 1 FROM p_days d WHERE d.id = f.day AND d.week = 2)",
        (("p_sales", 4),),
    ),
    "right outer with the dimension preserved": Case(
        "SELECT f.v, d.name FROM p_sales f RIGHT JOIN (SELECT * FROM p_days WHERE week = 2) d "
        "ON f.day = d.id",
        (("p_sales", 4),),
    ),
    "left outer with the dimension preserved": Case(
        "SELECT f.v, d.name FROM (SELECT * FROM p_days WHERE week = 2) d LEFT JOIN p_sales f "
        "ON f.day = d.id",
        (("p_sales", 4),),
    ),
    "between subqueries": Case(
        "SELECT f.v FROM p_sales f JOIN p_days d ON f.day = d.id WHERE d.week BETWEEN "
        "(SELECT max(week) - 1 FROM p_weeks) AND (SELECT max(week) - 96 FROM p_days)",
        (("p_sales", 4),),
    ),
    "case of subqueries": Case(
        "SELECT f.v, CASE WHEN (SELECT max(no) FROM p_weeks) > 3 THEN (SELECT max(week) "
        "FROM p_weeks) ELSE 0 END AS c FROM p_sales f JOIN p_days d ON f.day = d.id "
        "WHERE d.week = 2",
        (("p_sales", 4),),
    ),
    "between": Case(
        "SELECT f.v FROM p_sales f JOIN p_days d ON f.day BETWEEN d.id - 1 AND d.id + 1 "
        "WHERE d.name IN ('n5', 'n6')",
        (("p_sales", 4),),
    ),
    "intervals with a gap": Case(
        "SELECT f.v FROM p_sales f JOIN p_days d ON f.day BETWEEN d.id - 1 AND d.id + 1 "
        "WHERE d.name IN ('n3', 'n15')",
        (("p_sales", 6),),
    ),
    "intervals without their ends": Case(
        "SELECT f.v FROM p_sales f JOIN p_days d ON f.day > d.id - 2 AND f.day < d.id + 1 "
        "WHERE d.name IN ('n3', 'n15')",
        (("p_sales", 4),),
    ),
    "intervals with one of their ends": Case(
        "SELECT f.v FROM p_two f JOIN p_days d ON f.d >= d.d AND f.d < date_add(d.d, 2) "
        "WHERE d.name IN ('n0', 'n4')",
        (("p_two", 4),),
    ),
    "intervals of text": Case(
        "SELECT f.v FROM p_two f JOIN (SELECT concat('k', week) AS lo, concat('k', week + 1) AS "
        "hi FROM p_weeks WHERE no = 10) w ON f.k >= w.lo AND f.k < w.hi",
        (("p_two", 2),),
    ),
    "intervals of what is computed": Case(
        "SELECT f.v FROM (SELECT v, day * 2 AS twice FROM p_sales) f JOIN p_days d "
        "ON f.twice > d.id AND f.twice <= d.id + 3 WHERE d.name IN ('n3', 'n15')",
        (("p_sales", 4),),
    ),
    "intervals of two columns": Case(
        "SELECT f.v FROM p_two f JOIN p_weeks w ON f.d BETWEEN DATE'2020-01-01' AND "
        "date_add(DATE'2020-01-01', w.week) AND f.k BETWEEN 'k0' AND concat('k', w.week) "
        "WHERE w.no = 10",
        (("p_two", 2),),
    ),
    "an interval with nothing in it": Case(
        "SELECT f.v FROM p_sales f JOIN p_days d ON f.day > d.id AND f.day < d.id - 1 "
        "WHERE d.name = 'n3'",
        (("p_sales", 0),),
    ),
    "several lower bounds": Case(
        "SELECT f.v FROM p_sales f JOIN p_days d ON f.day >= d.id AND f.day > d.week "
        "AND f.day < d.id + 4 WHERE d.name IN ('n3', 'n15')",
        # For ``id`` 3, both lower bounds are 3. The planner uses the inclusive one and keeps day 3.
        (("p_sales", 8),),
    ),
    "less than": Case(
        "SELECT f.v FROM p_sales f JOIN p_days d ON f.day < d.id WHERE d.name = 'n3'",
        (("p_sales", 3),),
    ),
    "keys that an outer join may have left null": Case(
        "SELECT d.name, f.v FROM (SELECT * FROM p_days WHERE week = 2 AND id < 20) d "
        "LEFT JOIN p_weeks w ON d.id = w.no / 10 LEFT JOIN p_sales f ON f.day = w.week",
        (("p_sales", 1),),
    ),
    "keys of a full outer join": Case(
        "SELECT d.name, f.v FROM (SELECT * FROM p_days WHERE week = 2) d FULL JOIN "
        "(SELECT * FROM p_weeks WHERE no < 20) w ON d.id = w.week LEFT JOIN p_sales f "
        "ON f.day = w.week",
        (("p_sales", 2),),
    ),
    "what has no partner": Case(
        "SELECT d.name FROM p_days d WHERE d.week = 2 AND NOT EXISTS "
        "(SELECT 1 FROM p_sales f WHERE f.day = d.id AND f.v > 390)",
        (("p_sales", 4),),
    ),
    "whether there is a partner": Case(
        "SELECT d.name, d.id = 7 OR EXISTS (SELECT 1 FROM p_sales f WHERE f.day = d.id) AS sold "
        "FROM p_days d WHERE d.week = 2",
        (("p_sales", 4),),
    ),
    "null-safe": Case(
        "SELECT f.v FROM p_sales f JOIN p_days d ON f.day <=> d.id WHERE d.week IN (99, 3)",
        (("p_sales", 5),),
    ),
    "snowflake": Case(
        "SELECT f.v FROM p_sales f JOIN p_days d ON f.day = d.id JOIN p_weeks w "
        "ON d.week = w.week WHERE w.no = 20",
        (("p_sales", 4),),
    ),
    "two dimensions": Case(
        "SELECT f.v FROM p_sales f JOIN p_days d ON f.day = d.id AND d.week IN (1, 2) "
        "JOIN p_days e ON f.day = e.id AND e.name < 'n2'",
        (("p_sales", 5),),
    ),
    "several facts": Case(
        "SELECT count(*) FROM p_sales f JOIN p_returns r ON f.v = r.v JOIN p_days d "
        "ON f.day = d.id JOIN p_days e ON r.day = e.id WHERE d.week = 1 AND e.week = 1",
        (("p_returns", 3), ("p_sales", 4)),
    ),
    "self-chained": Case(
        "SELECT count(*) FROM p_sales f JOIN p_returns r ON f.day = r.day JOIN p_days d "
        "ON f.day = d.id WHERE d.week = 1",
        # The remaining partition values of each fact table are keys for the other fact table.
        (("p_returns", 3), ("p_sales", 3)),
    ),
    "one fact twice with different filters": Case(TWICE, (("p_sales", 1), ("p_sales", 4))),
    "below a union": Case(
        "SELECT u.v, d.name FROM (SELECT v, day FROM p_sales UNION ALL SELECT v, day FROM "
        "p_returns) u JOIN p_days d ON u.day = d.id WHERE d.week = 1",
        (("p_returns", 3), ("p_sales", 4)),
    ),
    "common table expression used twice": Case(
        "WITH d AS (SELECT * FROM p_days WHERE week = 1), f AS (SELECT v, day FROM p_sales) "
        "SELECT f.v FROM f JOIN d ON f.day = d.id UNION ALL "
        "SELECT f.v + 1 FROM f JOIN d ON f.day = d.id WHERE d.name = 'n1'",
        (("p_sales", 1), ("p_sales", 4)),
    ),
    "below an aggregate grouped by the key": Case(
        "SELECT a.day, a.c FROM (SELECT day, count(*) AS c FROM p_sales GROUP BY day) a "
        "JOIN p_days d ON a.day = d.id WHERE d.week = 1",
        (("p_sales", 4),),
    ),
    "below a window partitioned by the key": Case(
        "SELECT a.day, a.r FROM (SELECT day, rank() OVER (PARTITION BY day ORDER BY v) AS r "
        "FROM p_sales) a JOIN p_days d ON a.day = d.id WHERE d.week = 1",
        (("p_sales", 4),),
    ),
    "a renamed column above a join": Case(
        "SELECT t.v FROM (SELECT f.day AS sold, f.v FROM p_sales f JOIN p_weeks w ON f.s = w.week) "
        "t JOIN p_days d ON t.sold = d.id WHERE d.week = 1",
        (("p_sales", 4),),
    ),
    "a computed column above an outer join": Case(
        "WITH t AS (SELECT f.day + 1 AS next, f.v FROM p_sales f LEFT JOIN p_weeks w "
        "ON f.s = w.week) SELECT t.v FROM t JOIN p_days d ON t.next = d.id WHERE d.week = 1",
        (("p_sales", 4),),
    ),
    "a renamed column and the column itself": Case(
        "SELECT t.v FROM (SELECT f.day AS sold, f.day, f.v FROM p_sales f JOIN p_days e "
        "ON f.day = e.id AND e.week = 1) t JOIN p_returns r ON t.sold = r.day JOIN p_days d "
        "ON d.id = t.sold AND d.id = r.day WHERE d.name < 'n2' AND t.sold = t.day",
        (("p_returns", 2), ("p_sales", 2)),
    ),
    "a renamed key of joined dimensions": Case(
        "SELECT f.v FROM p_sales f JOIN (SELECT a.id AS k FROM p_days a JOIN p_weeks b "
        "ON a.week = b.week WHERE b.no = 10) d ON f.day = d.k",
        (("p_sales", 4),),
    ),
    "a view below a semi-join": Case(
        "SELECT v FROM p_view JOIN p_days ON tag = id AND week = 1 "
        "WHERE tag IN (SELECT id FROM p_days WHERE name < 'n2')",
        (("p_sales", 3),),
    ),
    "a renamed column on the null side of an outer join": Case(
        "SELECT d.id, t.v FROM p_days d LEFT JOIN (SELECT f.day AS sold, f.v FROM p_sales f "
        "JOIN p_weeks w ON f.s = w.week) t ON t.sold = d.id WHERE d.week = 1",
        (("p_sales", 4),),
    ),
    "one row of an aggregate": Case(
        "SELECT v FROM p_sales WHERE day IN (SELECT max(id) - 20 FROM p_days)", (("p_sales", 1),)
    ),
    "below a view": Case(
        "SELECT v, tag FROM p_view JOIN p_days ON tag = id WHERE week = 1", (("p_sales", 4),)
    ),
    "in two places that the same keys reach": Case(
        "SELECT f.v, (SELECT max(r.v) FROM p_returns r WHERE r.v < f.v) AS m "
        "FROM p_sales f JOIN p_days d ON f.day = d.id WHERE d.week = 1",
        (("p_sales", 4),),
    ),
    "expression of the partition column": Case(
        "SELECT v FROM (SELECT v, day * 2 AS twice FROM p_sales) f JOIN p_days d "
        "ON f.twice + 1 = d.id WHERE d.week = 2",
        (("p_sales", 3),),
    ),
    "next of the partition column": Case(
        "SELECT f.v FROM p_sales f JOIN p_days d ON f.day + 1 = d.id WHERE d.week = 2",
        (("p_sales", 4),),
    ),
    "cast of the partition column": Case(
        "SELECT f.v FROM p_sales f JOIN p_days d "
        "ON CAST(f.day AS string) = CAST(d.id AS string) WHERE d.week = 1",
        (("p_sales", 4),),
    ),
    "text with the partition column": Case(
        "SELECT f.v FROM p_sales f JOIN p_days d "
        "ON concat('n', CAST(f.day AS string)) = d.name WHERE d.week = 1",
        (("p_sales", 4),),
    ),
    "part of a date": Case(
        "SELECT f.v FROM p_two f JOIN p_weeks w ON dayofmonth(f.d) = w.week WHERE w.no = 20",
        (("p_two", 1),),
    ),
    "in both parts of a union, by other keys": Case(
        "SELECT f.v FROM p_sales f JOIN p_days d ON f.day = d.id WHERE d.week = 1 UNION ALL "
        "SELECT f.v FROM p_sales f JOIN p_days d ON f.day = d.id WHERE d.name = 'n3'",
        (("p_sales", 1), ("p_sales", 4)),
    ),
    "in two places, by more keys in one": Case(
        "SELECT f.v, x.m FROM (SELECT a.* FROM p_sales a JOIN p_days d ON a.day = d.id "
        "WHERE d.week = 1) f, LATERAL (SELECT max(r.v) AS m FROM p_returns r WHERE r.v < f.v) x "
        "JOIN p_days e ON f.day = e.id WHERE e.name = 'n6'",
        (("p_sales", 4),),
    ),
    "text table of Hive": Case(
        "SELECT f.v FROM p_text f JOIN p_days d ON f.day = d.id WHERE d.week = 1",
        (("p_text", 2),),
    ),
    "tuple": Case(
        "SELECT f.v FROM p_two f JOIN (SELECT d, concat('k', week) AS k FROM p_days "
        "WHERE week < 2) e ON f.d = e.d AND f.k = e.k",
        (("p_two", 2),),
    ),
    "static condition in the same enumeration": Case(
        "SELECT f.v FROM p_two f JOIN p_days d ON f.d = d.d WHERE f.k > 'k0' AND d.week = 1",
        (("p_two", 1),),
    ),
    "nothing matches": Case(
        "SELECT f.v FROM p_sales f JOIN p_days d ON f.day = d.id WHERE d.name = 'none'",
        (("p_sales", 0),),
    ),
}

NEVER = {
    "fact preserved": (
        "SELECT f.v, d.name FROM p_sales f LEFT JOIN p_days d ON f.day = d.id AND d.week = 1",
        "LEFT OUTER",
    ),
    "not in": (
        "SELECT v FROM p_sales WHERE day NOT IN (SELECT id FROM p_days WHERE week = 1)",
        "NOT IN",
    ),
    "exists or": (
        "SELECT v FROM p_sales f WHERE f.v = 7 OR f.day IN (SELECT id FROM p_days WHERE week = 1)",
        "one part of an OR",
    ),
    "or": (
        "SELECT f.v FROM p_sales f JOIN p_days d ON (f.day = d.id OR f.v = d.id) AND d.week = 1",
        "not a supported join condition",
    ),
    "a null that an outer join has left is a key": (
        "SELECT d.name, f.v FROM (SELECT * FROM p_days WHERE week = 2) d LEFT JOIN p_weeks w "
        "ON d.id = w.week LEFT JOIN p_sales f ON f.day <=> w.week",
        "from several tables or from an outer join",
    ),
    "what is computed of a null that an outer join has left": (
        "SELECT d.name, f.v FROM (SELECT * FROM p_days WHERE week = 2) d LEFT JOIN p_weeks w "
        "ON d.id = w.week LEFT JOIN p_sales f ON f.day = coalesce(w.week, 5)",
        "from several tables or from an outer join",
    ),
    "not in, looked into": (
        "SELECT name FROM p_days WHERE week = 2 AND id NOT IN (SELECT day FROM p_sales)",
        "OR is not a supported join condition",
    ),
    "all keys present": (
        "SELECT f.v FROM p_returns f JOIN p_days d ON f.day = d.id WHERE d.week < 90",
        "the keys match every partition",
    ),
    "also read where no keys reach": (
        "SELECT f.v, x.m FROM p_sales f, LATERAL (SELECT max(r.v) AS m FROM p_returns r "
        "WHERE r.v < f.v) x JOIN p_days d ON f.day = d.id WHERE d.week = 1",
        "also occurs in a place without join keys",
    ),
    "no join": ("SELECT v FROM p_sales WHERE day = 3", "no join"),
    "no partitions": (
        "SELECT d.id FROM p_days d JOIN p_weeks w ON d.week = w.week WHERE w.no = 10",
        "no partitioned table",
    ),
}


NAMED_SAYS: dict[str, tuple[tuple[tuple[str, int], ...], str]] = {
    # In a named catalog, conditions prune a table even if the query has no join.
    "no join": ((("p_sales", 1),), "partitions 1 of 21"),
    # No null can match the join, so the null partition is dropped.
    "what is computed of a null that an outer join has left": ((("p_sales", 20),), "20 of 21"),
    # For this query, the report gives no reason.
    "a null that an outer join has left is a key": ((), "partitions 21 of 21"),
    "all keys present": ((), "partitions 15 of 15"),
    "also read where no keys reach": ((), "partitions 21 of 21"),
}
"""Results that differ in a named catalog: pruned scans and a text in the report, by query."""


@pytest.mark.parametrize("name", PRUNES)
def test_prunes(spark: SparkSession, way: Way, name: str) -> None:
    """The query returns Spark's rows, and keeps only the expected partitions."""
    case = PRUNES[name]
    optimized = way.sql(case.sql)
    plain = spark.sql(case.sql)
    assert rows_of(optimized) == rows_of(plain)
    assert optimized.schema == plain.schema
    assert pruned(optimized) == list(case.kept)


@pytest.mark.parametrize("name", NEVER)
def test_never_prunes(spark: SparkSession, way: Way, name: str) -> None:
    """The query keeps all partitions, and the report gives the reason."""
    sql, reason = NEVER[name]
    kept: tuple[tuple[str, int], ...] = ()
    if way.is_named:
        kept, reason = NAMED_SAYS.get(name, (kept, reason))
    optimized = way.sql(sql)
    assert pruned(optimized) == list(kept)
    assert reason in str(explained(optimized))
    assert rows_of(optimized) == rows_of(spark.sql(sql))


def test_what_a_join_as_of_looks_into_is_pruned(spark: SparkSession) -> None:
    left, right = spark.sql("SELECT id, d FROM p_days WHERE week = 2"), spark.table("p_sales")
    joined = left._joinAsOf(  # The pandas API on Spark uses this method.
        right,
        leftAsOfColumn=left["id"] * 10,
        rightAsOfColumn=right["v"],
        on=left["id"] == right["day"],
        how="left",
    )
    optimized = splitlib.optimize(joined)
    assert rows_of(optimized) == rows_of(joined)
    assert pruned(optimized) == [("p_sales", 4)]


@pytest.mark.parametrize(
    ("other", "partitions"),
    [("p_sales WHERE v % 2 = 0 OR v = 1000", [5, 5]), ("p_returns", [5, 3])],
)
def test_null_is_a_key_of_the_other_side_of_intersect(
    spark: SparkSession, other: str, partitions: list[int]
) -> None:
    """Spark compares the sides by ``<=>``. The keys are week 1, with 4 days, and null."""
    query = f"""SELECT u.* FROM (SELECT day FROM p_sales INTERSECT SELECT day FROM {other}) u
      JOIN p_days d ON u.day <=> d.id WHERE d.week IN (1, 99)"""
    planned = splitlib.sql(spark, query)
    assert rows_of(planned) == rows_of(spark.sql(query))
    assert [scan.partitions.matched for scan in explained(planned).scans] == partitions
