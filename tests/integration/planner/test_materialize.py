"""The planner computes a dimension once, and uses its rows for the keys and for the join."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import splitlib
from splitlib.spark.compat import to_arrow
from splitlib.spark.jvm.catalyst import rows_in_plan
from tests.integration.planner.tables import (
    FACTS,
    INNER,
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


@pytest.mark.parametrize(
    "days",
    ["SELECT id FROM p_days WHERE rand() < 0.3", "SELECT id FROM p_days LIMIT 3"],
)
def test_dimension_with_other_rows_each_time_is_computed_once(
    spark: SparkSession, way: Way, days: str
) -> None:
    """If a dimension is random, its keys and the join still use the same rows."""
    sql = f"SELECT f.v, f.day FROM p_sales f JOIN ({days}) d ON f.day = d.id"
    optimized = way.sql(sql)
    assert "LogicalRDD" in optimized._jdf.queryExecution().analyzed().toString()
    [(_, kept)] = pruned(optimized)
    found = {row.day for row in optimized.select("day").collect()}
    assert len(found) == kept
    listed = ", ".join(map(str, sorted(found))) or "NULL"
    whole = spark.sql(f"SELECT v, day FROM p_sales WHERE day IN ({listed})")
    assert rows_of(optimized) == rows_of(whole)


DRAWN = {
    "a function of Python": lambda rows: rows.select(
        F.udf(lambda _: random.randrange(20), "int").asNondeterministic()("id").alias("id")
    ),
    "rand()": lambda rows: rows.select((F.rand() * 20).cast("int").alias("id")),
    "dropDuplicates()": lambda rows: rows.dropDuplicates(["week"]).select("id"),
    "limit()": lambda rows: rows.limit(3).select("id"),
    "row_number()": lambda rows: rows.select(
        "id", F.row_number().over(Window.partitionBy("week").orderBy("week")).alias("n")
    ).where("n = 1"),
    "group()": lambda rows: rows.groupBy("id").count().where("id < 3"),
}


@pytest.mark.parametrize("drawn", DRAWN)
def test_cached_dimension_that_is_random_is_computed_once(spark: SparkSession, drawn: str) -> None:
    """Spark computes a cached dimension again after ``unpersist()``."""
    is_random = drawn != "group()"
    days = DRAWN[drawn](spark.table("p_days").where("week < 3")).cache()
    sales = spark.table("p_sales")
    optimized = splitlib.optimize(sales.join(days, sales.day == days.id).select("day"))
    kept = {row.id for row in days.collect()}
    days.unpersist(blocking=True)
    plan = optimized._jdf.queryExecution().analyzed().toString()
    assert ("InMemoryRelation" in plan) != is_random
    if is_random:
        assert {row.day for row in optimized.collect()} == kept


def test_keys_of_computed_rows_need_no_job(spark: SparkSession) -> None:
    """The dimension runs in one job. Its keys are then in the plan, if they are integers."""
    days = spark.table("p_days").where("week = 1")
    joined = spark.table("p_sales").join(days, F.col("day") == F.col("id"))
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    before = scheduler.numTotalJobs()
    assert pruned(splitlib.optimize(joined)) == [("p_sales", 4)]
    assert scheduler.numTotalJobs() == before + 1


@pytest.mark.parametrize("kind", ["tinyint", "smallint", "int", "bigint", "date"])
def test_rows_in_the_plan(spark: SparkSession, kind: str) -> None:
    value = "DATE'1582-10-04'" if kind == "date" else "-128"
    rows = spark.sql(
        f"SELECT CAST({value} AS {kind}) AS `a.b`, CAST(NULL AS {kind}) AS c, id "
        "FROM VALUES (1L), (NULL) AS t (id)"
    )
    found = rows_in_plan(rows)
    assert found is not None
    assert found.equals(to_arrow(rows).cast(found.schema))
    empty = rows_in_plan(rows.limit(0))
    assert empty is not None
    assert (empty.num_rows, empty.schema) == (0, found.schema)


@pytest.mark.parametrize("query", ["VALUES ('1')", "SELECT id FROM range(3)", "VALUES (1.5)"])
def test_other_rows_are_computed_by_a_job(spark: SparkSession, query: str) -> None:
    assert rows_in_plan(spark.sql(query)) is None


@pytest.mark.parametrize(
    "condition",
    [
        "CAST(reflect('java.lang.Math', 'random') AS double) * 20 < f.day + 10",
        pytest.param("randstr(1) < CAST(f.day AS string)", marks=pytest.mark.newest_spark),
    ],
)
def test_unknown_functions_are_called_for_each_row(
    spark: SparkSession, way: Way, condition: str
) -> None:
    """Called once for each partition, these functions would drop whole partitions."""
    sql = (
        f"SELECT f.v FROM p_sales f JOIN p_days d ON f.day = d.id WHERE d.week = 1 AND {condition}"
    )
    optimized = way.sql(sql)
    assert pruned(optimized) == ([("p_sales", 20)] if way.is_named else [])
    assert "not deterministic" in str(explained(optimized))


def test_query_that_is_not_deterministic_itself_is_left_alone(
    spark: SparkSession, way: Way
) -> None:
    """A random condition on the fact prevents pruning: with fewer files, it selects other rows."""
    sql = (
        "SELECT f.v FROM p_sales f JOIN p_days d ON f.day = d.id WHERE d.week = 1 AND rand() < f.v"
    )
    optimized = way.sql(sql)
    # In a named catalog, splitlib still drops the null partition, which the join cannot match.
    assert pruned(optimized) == ([("p_sales", 20)] if way.is_named else [])
    assert "not deterministic" in str(explained(optimized))
    frozen = splitlib.freeze(spark.sql("SELECT * FROM p_days WHERE rand() < 0.3"))
    joined = spark.table("p_sales").join(frozen, F.col("day") == F.col("id"))
    assert rows_of(splitlib.optimize(joined)) == rows_of(joined)
    assert len(pruned(splitlib.optimize(joined))) == 1


def test_dimension_of_local_rows(spark: SparkSession) -> None:
    """The dimension has rows from Python, or is an RDD with random rows."""
    local = spark.createDataFrame([(3,), (4,), (None,)], "id int")
    joined = spark.table("p_sales").join(local, F.col("day") == F.col("id"))
    assert pruned(splitlib.optimize(joined)) == [("p_sales", 2)]
    assert rows_of(splitlib.optimize(joined)) == rows_of(joined)

    changing = spark.sparkContext.parallelize(range(20), 2).filter(
        lambda _: __import__("random").random() < 0.5
    )
    rows = spark.createDataFrame(changing.map(lambda i: (i,)), "id int")
    optimized = splitlib.optimize(spark.table("p_sales").join(rows, F.col("day") == F.col("id")))
    (scan,) = explained(optimized).scans
    assert optimized.select("day").distinct().count() == scan.partitions.matched


def test_cached_dimension(spark: SparkSession) -> None:
    """The keys of a cached dimension prune the fact table."""
    cached = spark.table("p_days").where("week = 1").cache()
    try:
        joined = spark.table("p_sales").join(cached, F.col("day") == F.col("id"))
        optimized = splitlib.optimize(joined)
        assert pruned(optimized) == [("p_sales", 4)]
        assert rows_of(optimized) == rows_of(joined)
    finally:
        cached.unpersist(blocking=True)


def test_dimension_runs_once(way: Way) -> None:
    """The planned query contains the rows of the dimension and does not scan its table again."""
    optimized = way.sql(INNER)
    text = optimized._jdf.queryExecution().optimizedPlan().toString()
    assert "p_days" not in text
    assert "LogicalRDD" in text


WHOLE_ROWS = {
    "a join": lambda fact, days: fact.join(days, fact.day == days.id),
    "a union": lambda fact, days: (
        fact.where("day < 9")
        .join(days, F.col("day") == days.id)
        .union(fact.where("day >= 9").join(days, F.col("day") == days.id))
    ),
    "duplicates": lambda fact, days: fact.join(days, fact.day == days.id).distinct().select("v"),
    "an order": lambda fact, days: fact.join(days, fact.day == days.id).sort("v").limit(1000),
}


@pytest.mark.parametrize("excluded", ["", "org.apache.spark.sql.catalyst.optimizer.ColumnPruning"])
@pytest.mark.parametrize("query", WHOLE_ROWS.values(), ids=WHOLE_ROWS)
def test_columns_that_nothing_names(
    spark: SparkSession, query: Callable[[DataFrame, DataFrame], DataFrame], excluded: str
) -> None:
    """The rows are right if a query uses all columns, and if Spark does not prune columns."""
    rule = "spark.sql.optimizer.excludedRules"
    df = query(spark.table("p_sales"), spark.table("p_days").where("week = 2"))
    spark.conf.set(rule, excluded)
    try:
        optimized = splitlib.optimize(df)
        assert pruned(optimized)
        assert {kept for _, kept in pruned(optimized)} <= {1, 2, 4}
        assert rows_of(optimized) == rows_of(df)
    finally:
        spark.conf.unset(rule)


def unread(df: DataFrame) -> list[list[bool]]:
    """Return, for each dimension with computed rows, which columns of its first row are null."""
    leaves = df._jdf.queryExecution().analyzed().collectLeaves()
    nodes = [leaves.apply(i) for i in range(leaves.size())]
    rows = [(n.rdd().first(), n.output().size()) for n in nodes if n.nodeName() == "LogicalRDD"]
    return [[row.isNullAt(i) for i in range(size)] for row, size in rows]


def test_dimension_is_read_for_what_the_query_reads(way: Way) -> None:
    """The planner reads only the columns of a dimension that the query or later conditions use.

    The other columns are null in the computed rows.
    """
    join = "FROM {} f JOIN p_days d ON f.day = d.id WHERE d.week = 2"
    one = way.sql(f"SELECT sum(f.v) {join.format('p_sales')} LIMIT 1")
    assert unread(one) == [[False, True, False, True]]  # The columns are id, name, week and d.
    later = way.sql(f"SELECT f.v {join.format('p_sales')}")
    assert unread(later) == [[False] * 4]  # later.where("name = 'n2'") is possible
    two = f"SELECT name {join.format('p_sales')} UNION ALL SELECT d {join.format('p_returns')}"
    assert unread(way.sql(two)) == [[False] * 4] * 2


def rdds(df: DataFrame) -> list[int]:
    """Return the id of the RDD with the rows of each dimension."""
    leaves = df._jdf.queryExecution().analyzed().collectLeaves()
    nodes = [leaves.apply(i) for i in range(leaves.size())]
    return [node.rdd().id() for node in nodes if node.nodeName() == "LogicalRDD"]


def test_equal_dimensions_share_their_rows(spark: SparkSession, way: Way) -> None:
    """Spark broadcasts the rows once. A further query does not compute them again."""
    one = "SELECT f.v, d.id FROM {} f JOIN p_days d ON f.day = d.id WHERE d.week = 2"
    both = way.sql(f"{one.format('p_sales')} UNION ALL {one.format('p_returns')}")
    first, second = rdds(both)
    assert first == second
    assert len(rows_of(both)) > 0
    plan = both._jdf.queryExecution().executedPlan().toString()
    assert plan.partition("Initial Plan")[0].count("ReusedExchange") == 1
    planned = way.sql(one.format("p_sales"))
    days = spark.table("p_upper").withColumnsRenamed({"v": "u", "Day": "day"})
    again = splitlib.optimize(planned.join(days, F.col("id") == F.col("day")))
    assert pruned(again) == [("p_upper", 3)]
    assert rdds(again) == rdds(planned)


def test_subquery_of_a_dimension_is_run_once(spark: SparkSession, way: Way) -> None:
    """A subquery of the dimension runs once, for the keys. It is not part of the planned query."""
    sql = (
        "SELECT f.v FROM p_sales f JOIN p_days d ON f.day = d.id "
        "WHERE d.week > (SELECT max(week) + 1 FROM p_weeks WHERE no = 20) AND d.week < 90"
    )
    optimized = way.sql(sql)
    assert pruned(optimized) == [("p_sales", 4)]
    assert rows_of(optimized) == rows_of(spark.sql(sql))
    assert "p_weeks" in spark.sql(sql)._jdf.queryExecution().optimizedPlan().toString()
    plan = optimized._jdf.queryExecution().optimizedPlan().toString()
    assert not re.search("p_weeks|p_days", plan)


def test_current_time_is_that_of_planning(way: Way) -> None:
    """A dimension may use ``current_date()``, which keeps its value from planning time."""
    sql = (
        "SELECT f.v FROM p_sales f JOIN p_days d ON f.day = d.id "
        "WHERE d.d < current_date() AND d.week = 1"
    )
    assert pruned(way.sql(sql)) == [("p_sales", 4)]
