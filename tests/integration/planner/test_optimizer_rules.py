"""Join keys prune scans below other operators, such as windows, aggregates and generators.

If an operator prevents pruning, the report names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.spark.compat import VARIANT
from splitlib.spark.planner.scan_sites import prunable
from tests.integration.planner.tables import explained, pruned, rows_of

pytestmark = pytest.mark.spark

_SETUP = """
CREATE TABLE or_facts USING parquet PARTITIONED BY (p) AS
  SELECT id AS v, id % 3 AS s, {variant} AS j, CAST(id % 20 AS int) AS p
  FROM range(200);
CREATE TABLE or_days USING parquet AS
  SELECT /*+ REPARTITION(5) */ CAST(id AS int) AS k, CAST(id % 5 AS int) AS week FROM range(20);
"""


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    variant = "parse_json('{\"a\": 1}')" if VARIANT else "'no VARIANT'"
    for statement in filter(str.strip, _SETUP.replace("{variant}", variant).split(";")):
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
            marks=pytest.mark.skipif(not VARIANT, reason="this Spark has no VARIANT"),
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


def _joined(rows: str) -> str:
    return f"SELECT x.* FROM ({rows}) x JOIN or_days ON x.p = k WHERE week = 1"


ROW_BY_ROW = {
    "explode": "SELECT p, explode(array(v, s)) AS e FROM or_facts",
    "posexplode": "SELECT p, i, e FROM or_facts LATERAL VIEW OUTER posexplode(array(v)) t AS i, e",
    "stack": "SELECT p, e FROM or_facts LATERAL VIEW stack(2, v, s) t AS e",
    "EXCEPT ALL": "SELECT p, s FROM or_facts EXCEPT ALL SELECT p, s FROM or_facts WHERE v < 90",
    "UNPIVOT": "SELECT p, x FROM (SELECT p, v, s FROM or_facts) UNPIVOT (x FOR n IN (v, s))",
    "GROUPING SETS": """SELECT p, s, sum(v) AS t FROM or_facts
      GROUP BY p, s GROUPING SETS ((p, s), (p))""",
    "several DISTINCT": """SELECT p, count(DISTINCT v) AS a, count(DISTINCT s) AS b
      FROM or_facts GROUP BY p""",
    "renamed window": """SELECT q AS p, sum(v) OVER (PARTITION BY q) AS t
      FROM (SELECT p AS q, v FROM or_facts)""",
    "computed window": """SELECT date_add(DATE'2020-01-01', p) AS d, p,
      sum(v) OVER (PARTITION BY date_add(DATE'2020-01-01', p), p) AS t FROM or_facts""",
}
"""Queries with an operator through which keys for ``p`` reach the scan."""
BLOCKED = {
    "LIMIT": "SELECT p, v FROM or_facts ORDER BY v LIMIT 60",
    "OFFSET": "SELECT p, v FROM or_facts ORDER BY v OFFSET 60",
    "ROLLUP": "SELECT p, s, count(*) AS n FROM or_facts GROUP BY ROLLUP (p, s)",
    "generator": "SELECT v, explode(array(p, p + 1)) AS p FROM or_facts",
    "window": "SELECT p, sum(v) OVER (PARTITION BY p % 3) AS t FROM or_facts",
    "aggregate": "SELECT max(p) AS p, s FROM or_facts GROUP BY s",
}
"""Queries with an operator that prevents pruning, by a word in the reported reason."""


@pytest.mark.parametrize("name", ROW_BY_ROW)
def test_keys_pass_row_by_row_operators(spark: SparkSession, name: str) -> None:
    sql = _joined(ROW_BY_ROW[name])
    planned = splitlib.sql(spark, sql)
    assert pruned(planned) == [("or_facts", 4)] * (2 if "EXCEPT" in name else 1)
    assert rows_of(planned) == rows_of(spark.sql(sql))


@pytest.mark.parametrize("name", BLOCKED)
def test_the_report_names_the_blocking_operator(spark: SparkSession, name: str) -> None:
    sql = _joined(BLOCKED[name])
    planned = splitlib.sql(spark, sql)
    (scan,) = explained(planned).scans
    assert pruned(planned) == []
    assert all(name in reason for reason in scan.reasons)
    assert rows_of(planned) == rows_of(spark.sql(sql))


@pytest.mark.parametrize(
    ("group", "key", "day"),
    [("CAST(p AS int)", "try_cast(p AS int)", 1), ("p * 2", "try_multiply(p, 2)", 2)],
)
def test_groups_whose_key_wraps_around(spark: SparkSession, group: str, key: str, day: int) -> None:
    """Without ANSI mode, ``group`` has the same value in three partitions, and ``key`` NULL."""
    sql = f"""SELECT n FROM (
        SELECT b, count(*) OVER (PARTITION BY a) AS n
        FROM (SELECT {group} AS a, {key} AS b FROM or_wide)
      ) JOIN or_days ON b = k WHERE k = {day}"""
    far = "1 + shiftleft(1L, 32), 1 + shiftleft(1L, 63)"
    wide = f"element_at(array(1, 2, {far}), CAST(id % 4 + 1 AS int))"
    with changed(spark, {"spark.sql.ansi.enabled": "false"}):
        spark.sql(
            f"""CREATE TABLE or_wide USING parquet PARTITIONED BY (p) AS
              SELECT id AS v, {wide} AS p FROM range(8)"""
        )
        try:
            assert rows_of(splitlib.sql(spark, sql)) == rows_of(spark.sql(sql))
        finally:
            spark.sql("DROP TABLE or_wide")


def test_units_that_dates_are_not_truncated_to(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``trunc`` of a date is NULL for a unit such as DAY, so a NULL key matches every row."""
    monkeypatch.setattr(prunable, "LEAST_BYTES", 0)
    dates = "SELECT date_add(DATE'2020-01-01', k) AS d, k FROM or_days"
    for rows, name in ((dates, "or_dates"), ("SELECT CAST(NULL AS date) AS x, 1 AS y", "or_null")):
        spark.sql(f"CREATE TABLE {name} USING parquet AS {rows}")
    try:
        sql = "SELECT k FROM or_dates JOIN or_null ON trunc(d, 'DAY') <=> x WHERE y = 1"
        assert rows_of(splitlib.sql(spark, sql)) == rows_of(spark.sql(sql))
    finally:
        for name in ("or_dates", "or_null"):
            spark.sql(f"DROP TABLE {name}")


def test_a_sample_has_the_rows_of_its_seed(spark: SparkSession) -> None:
    sampled = "SELECT p, v FROM or_facts TABLESAMPLE (50 PERCENT) REPEATABLE (3)"
    planned = splitlib.sql(spark, _joined(sampled))
    (scan,) = explained(planned).scans
    assert "sample()" in scan.reasons[0]
    assert rows_of(planned) == rows_of(spark.sql(_joined(sampled)))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("condition", ["", "WHERE week < 4"])
def test_a_sampled_dimension_has_the_rows_of_its_seed(
    spark: SparkSession, seed: int, condition: str
) -> None:
    sample = f"or_days TABLESAMPLE (40 PERCENT) REPEATABLE ({seed})"
    # The day differs for nearly every choice of rows.
    day = f"SELECT CAST(sum(3 * k + 7) % 20 AS int) FROM {sample} {condition}"
    sql = f"SELECT v FROM or_facts WHERE p = ({day})"
    assert rows_of(splitlib.sql(spark, sql)) == rows_of(spark.sql(sql))


def test_keys_that_are_compared_together_with_other_columns(spark: SparkSession) -> None:
    sql = "SELECT v FROM or_facts JOIN or_days ON p + s = k WHERE week = 1"
    planned = splitlib.sql(spark, sql)
    (scan,) = explained(planned).scans
    (reason,) = scan.reasons
    assert "a join condition combines the partition columns with other columns." in reason
    assert rows_of(planned) == rows_of(spark.sql(sql))


@pytest.mark.parametrize(
    ("dimension", "partitions"),
    [
        ("SELECT explode(array(k, k + 1)) AS k FROM or_days WHERE week = 1", 8),
        ("SELECT explode(array(1, 2)) AS k", 2),
        ("SELECT id AS k FROM range(3, 6)", 3),
    ],
)
def test_dimensions_without_a_table(spark: SparkSession, dimension: str, partitions: int) -> None:
    sql = f"SELECT v FROM or_facts f JOIN ({dimension}) d ON f.p = d.k"
    planned = splitlib.sql(spark, sql)
    assert pruned(planned) == [("or_facts", partitions)]
    assert rows_of(planned) == rows_of(spark.sql(sql))


def test_recursive_dimension(spark: SparkSession) -> None:
    if not spark.conf.isModifiable("spark.sql.cteRecursionLevelLimit"):
        pytest.skip("This Spark version has no recursive queries.")
    sql = """WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 4)
      SELECT v FROM or_facts JOIN r ON p = n"""
    planned = splitlib.sql(spark, sql)
    assert pruned(planned) == [("or_facts", 4)]
    assert rows_of(planned) == rows_of(spark.sql(sql))


def _days(spark: SparkSession) -> DataFrame:
    return spark.table("or_days").where("week = 1")


def test_python_functions(spark: SparkSession) -> None:
    """A Python function prevents pruning only if it computes the join key."""
    plus = F.udf(lambda x: x + 1, "int")
    facts = spark.table("or_facts")

    def query() -> DataFrame:
        return (
            facts.select("p", plus("s").alias("t"))
            .where("t > 1")
            .join(_days(spark), F.expr("p = k"))
        )

    planned = splitlib.optimize(query())
    assert pruned(planned) == [("or_facts", 4)]
    assert rows_of(planned) == rows_of(query())
    of_key = splitlib.optimize(
        facts.select(plus("p").alias("q")).join(_days(spark), F.expr("q = k"))
    )
    (scan,) = explained(of_key).scans
    assert "a Python function" in scan.reasons[0]


def test_rows_made_by_python_are_made_once(spark: SparkSession) -> None:
    """``mapInArrow`` runs once, because a Python function may return other rows the next time."""
    runs = spark.sparkContext.accumulator(0)

    def made(batches: Iterator[object]) -> Iterator[object]:
        runs.add(1)
        yield from batches

    days = spark.table("or_days").where("week = 1").coalesce(1).mapInArrow(made, "k int, week int")
    planned = splitlib.optimize(spark.table("or_facts").select("p").join(days, F.expr("p = k")))
    assert pruned(planned) == [("or_facts", 4)]
    assert planned.count() == 40
    assert runs.value == 1


def _of_facts(
    days: DataFrame, facts: DataFrame, observe: Callable[[DataFrame], DataFrame]
) -> DataFrame:
    return observe(facts).join(days.where("week = 1"), F.expr("p = k"))


def _of_days(
    days: DataFrame, facts: DataFrame, observe: Callable[[DataFrame], DataFrame]
) -> DataFrame:
    return facts.join(
        observe(days).selectExpr("k", "week + 1 AS w").where("w = 2"), F.expr("p = k")
    )


@pytest.mark.parametrize("query", [_of_facts, _of_days])
def test_observed_rows(spark: SparkSession, query: Callable[..., DataFrame]) -> None:
    """``observe`` prevents pruning, so that its metrics count the same rows as in plain Spark."""
    facts, count = spark.table("or_facts").select("p", "v"), F.count(F.lit(1)).alias("n")
    plain, planned = Observation(), Observation()
    assert query(spark.table("or_days"), facts, lambda df: df.observe(plain, count)).count() == 40
    df = query(spark.table("or_days"), facts, lambda df: df.observe(planned, count))
    df = splitlib.optimize(df)
    assert len(df.collect()) == 40
    (scan,) = explained(df).scans
    assert "observe" in scan.reasons[0]
    assert planned.get == plain.get
