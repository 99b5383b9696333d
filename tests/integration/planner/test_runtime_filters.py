"""A Bloom filter of the join keys of a small table drops rows of a large scan."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.report import FilterUse, Report
from tests.integration.planner.tables import explained, rows_of
from tests.support.abilities import COLLATES, without_collations

pytestmark = pytest.mark.spark

# Every 31st sale has a return, at most two days later.
_SALES = """CREATE TABLE r_sales USING parquet PARTITIONED BY (day) AS
  SELECT id AS ticket, CAST(id % 500 AS int) AS item, rand(7) AS price,
         IF(id % 50 = 0, NULL, concat('t', id)) AS text, CAST(id AS double) AS real,
         CAST(id AS decimal(20, 2)) AS amount,
         date_add(DATE'2020-01-01', CAST(id % 3000 AS int)) AS d,
         timestamp_millis(id * 1000) AS t, CAST(CAST(id AS string) AS binary) AS bytes,
         CAST(concat('t', id) AS string COLLATE UTF8_LCASE) AS lower,
         CAST(id % 20 AS int) AS day
  FROM range(20000)"""
_RETURNS = """CREATE TABLE r_returns USING parquet PARTITIONED BY (day) AS
  SELECT ticket, item, text, real, amount, d, t, bytes, upper(lower) AS lower,
         CAST((day + ticket % 3) % 20 AS int) AS day
  FROM r_sales WHERE ticket % 31 = 0"""
_DAYS = "(SELECT day FROM r_days WHERE week = 1)"
_RETURNED = f"(SELECT r.* FROM r_returns r JOIN {_DAYS} days ON r.day = days.day)"


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    spark.sql(without_collations(_SALES))
    spark.sql(_RETURNS)
    spark.sql(
        "CREATE TABLE r_days USING parquet AS SELECT CAST(id AS int) AS day, id DIV 5 AS week"
        " FROM range(0, 20, 1, 1)"
    )
    # Without statistics, the planner does not know the size of a table that it does not prune.
    spark.sql("ANALYZE TABLE r_sales COMPUTE STATISTICS")
    # With these thresholds, the planner treats the small test tables as large.
    settings = {
        "spark.splitlib.runtimeFilterBytes": "0",
        "spark.sql.autoBroadcastJoinThreshold": "2000",
        "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
    }
    with changed(spark, settings):
        yield
    for table in ("r_sales", "r_returns", "r_days"):
        spark.sql(f"DROP TABLE {table}")


def bloom_filter(scan: Report) -> FilterUse | None:
    """Return the Bloom filter in the report on a scan; None if there is none."""
    return next((f for f in scan.filters if f.description == "Bloom filter"), None)


def filter_of_sales(spark: SparkSession, query: str) -> FilterUse | None:
    """Return the Bloom filter on the scan of ``r_sales``; None if it does not have one.

    Also assert that the query's rows equal Spark's.
    """
    planned = splitlib.sql(spark, query)
    assert rows_of(planned) == rows_of(spark.sql(query))
    scans = [scan for scan in explained(planned).scans if scan.table.endswith("r_sales")]
    (found,) = {bloom_filter(scan) for scan in scans}
    text = planned._jdf.queryExecution().optimizedPlan().toString()
    assert ("might_contain" in text) == (found is not None and found.is_used)
    return found


def test_rows_without_a_return_are_dropped_where_they_are_read(spark: SparkSession) -> None:
    query = f"SELECT s.ticket, s.price FROM r_sales s JOIN {_RETURNED} r ON s.ticket = r.ticket"
    found = filter_of_sales(spark, query)
    assert found is not None
    assert found.is_used
    assert found.fields == ("ticket",)
    kept, sampled = found.rows
    assert 0 < (kept or 0) < (sampled or 0) / 20
    text = str(splitlib.explain(splitlib.sql(spark, query)))
    assert "filter ticket: Bloom filter (" in text
    assert f" - keeps {kept:,} of {sampled:,} sampled rows" in text


def test_no_row_of_the_smaller_side_is_no_row_of_the_larger_one(spark: SparkSession) -> None:
    query = f"""SELECT s.ticket FROM r_sales s JOIN {_RETURNED} r ON s.ticket = r.ticket
        WHERE r.item < 0"""
    found = filter_of_sales(spark, query)
    assert found is not None
    assert found.is_used
    assert found.rows.matched in (0, 1)


def test_several_columns_are_one_key(spark: SparkSession) -> None:
    on = "s.ticket = r.ticket AND s.item = r.item"
    query = f"SELECT s.ticket, s.price FROM r_sales s JOIN {_RETURNED} r ON {on}"
    found = filter_of_sales(spark, query)
    assert found is not None
    assert found.is_used
    assert set(found.fields) == {"ticket", "item"}


def test_a_filter_that_keeps_most_rows_is_not_used(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE r_items USING parquet PARTITIONED BY (day) AS SELECT item, day FROM r_days"
        " CROSS JOIN (SELECT DISTINCT item FROM r_sales WHERE item % 10 < 8)"
    )
    try:
        items = f"(SELECT i.item FROM r_items i JOIN {_DAYS} d ON i.day = d.day)"
        query = f"SELECT count(*) FROM r_sales s JOIN {items} i ON s.item = i.item"
        found = filter_of_sales(spark, query)
        assert found is not None
        assert not found.is_used
        kept, sampled = found.rows
        assert 0.7 * (sampled or 0) < (kept or 0) < 0.9 * (sampled or 0)
    finally:
        spark.sql("DROP TABLE r_items")


@pytest.mark.newest_spark
@pytest.mark.parametrize(
    ("join", "drops"),
    [
        ("r_sales s {kind} {returned} r ON s.ticket = r.ticket", {"JOIN", "RIGHT JOIN"}),
        ("{returned} r {kind} r_sales s ON s.ticket = r.ticket", {"JOIN", "LEFT JOIN"}),
    ],
    ids=["left", "right"],
)
@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
def test_rows_that_an_outer_join_keeps_stay(
    spark: SparkSession, join: str, drops: set[str], kind: str
) -> None:
    source = join.format(kind=kind, returned=_RETURNED)
    found = filter_of_sales(spark, f"SELECT s.ticket, r.item FROM {source}")
    assert (found is not None and found.is_used) == (kind in drops)


_SUBQUERIES = {
    "IN": (True, "r_sales s WHERE s.ticket IN (SELECT ticket FROM {returned})"),
    "EXISTS": (True, "r_sales s WHERE EXISTS (SELECT 1 FROM {returned} r WHERE {on})"),
    "NOT EXISTS": (False, "r_sales s WHERE NOT EXISTS (SELECT 1 FROM {returned} r WHERE {on})"),
    "NOT EXISTS, looked into": (
        True,
        "{returned} s WHERE NOT EXISTS (SELECT 1 FROM r_sales r WHERE {on} AND r.item < 9)",
    ),
    "EXISTS in an OR": (
        False,
        "r_sales s WHERE s.item = 3 OR EXISTS (SELECT 1 FROM {returned} r WHERE {on})",
    ),
}


@pytest.mark.newest_spark
@pytest.mark.parametrize("name", _SUBQUERIES)
def test_subqueries(spark: SparkSession, name: str) -> None:
    drops, source = _SUBQUERIES[name]
    source = source.format(returned=_RETURNED, on="r.ticket = s.ticket")
    found = filter_of_sales(spark, f"SELECT s.ticket, s.item FROM {source}")
    assert (found is not None and found.is_used) == drops


@pytest.mark.newest_spark
@pytest.mark.parametrize(
    ("column", "operator"),
    [("text", "<=>"), *((column, "=") for column in ("text", "amount", "d", "t", "bytes"))],
)
def test_types_whose_equality_is_that_of_their_hashes(
    spark: SparkSession, column: str, operator: str
) -> None:
    on = f"s.{column} {operator} r.{column}"
    query = f"SELECT s.ticket, r.ticket FROM r_sales s JOIN {_RETURNED} r ON {on}"
    found = filter_of_sales(spark, query)
    assert found is not None
    assert found.is_used
    assert found.fields == (column,)


@pytest.mark.parametrize(
    "on",
    ["s.real = r.real", "s.lower = r.lower", "s.item = r.ticket", "s.ticket + 1 = r.ticket"],
)
def test_keys_that_may_be_equal_and_have_other_hashes(spark: SparkSession, on: str) -> None:
    if "lower" in on and not COLLATES:
        pytest.skip("this Spark has no collations")
    query = f"SELECT s.ticket, r.ticket FROM r_sales s JOIN {_RETURNED} r ON {on}"
    assert filter_of_sales(spark, query) is None


def test_a_side_that_may_change_until_the_query_runs_gives_no_filter(spark: SparkSession) -> None:
    query = f"""SELECT s.ticket FROM r_sales s JOIN {_DAYS} days ON s.day = days.day
        JOIN r_returns r ON s.ticket = r.ticket WHERE r.item < 100"""
    assert filter_of_sales(spark, query) is None


def test_keys_that_cannot_be_computed_give_no_filter_and_no_error(spark: SparkSession) -> None:
    # In ANSI mode, comparing a number with invalid text is an error. Spark does not always raise it
    # for an empty join, so the test only plans the query and does not run it.
    query = f"SELECT s.ticket FROM r_sales s JOIN {_RETURNED} r ON s.ticket = r.text"
    with changed(spark, {"spark.sql.ansi.enabled": "true"}):
        planned = splitlib.sql(spark, f"{query} WHERE s.item < 0")
        scans = {scan.table.split(".")[-1]: scan for scan in explained(planned).scans}
        assert bloom_filter(scans["r_sales"]) is None


_SIDES_ALONE = {
    "each ticket": (True, f"(SELECT ticket, max(item) AS item FROM {_RETURNED} GROUP BY ticket)"),
    "LIMIT": (False, f"(SELECT * FROM {_RETURNED} LIMIT 500)"),
    "first": (False, f"(SELECT first(ticket) AS ticket, item FROM {_RETURNED} GROUP BY item)"),
    "rand": (False, f"(SELECT * FROM {_RETURNED} WHERE rand() < 0.5)"),
}


@pytest.mark.parametrize("name", _SIDES_ALONE)
def test_rows_that_may_be_others_when_the_query_runs_give_no_filter(
    spark: SparkSession, name: str
) -> None:
    is_same_each_time, side = _SIDES_ALONE[name]
    planned = splitlib.sql(spark, f"SELECT s.ticket FROM r_sales s JOIN {side} r USING (ticket)")
    found = [bloom_filter(scan) for scan in explained(planned).scans]
    assert any(found) == is_same_each_time


def test_no_partition_is_looked_at_for_a_sample_that_the_query_does_not_read(
    spark: SparkSession,
) -> None:
    query = f"""SELECT s.ticket FROM r_sales s JOIN {_RETURNED} r ON s.ticket = r.ticket
        WHERE s.day = 3"""
    assert filter_of_sales(spark, query) is None


def test_a_scan_at_two_places_keeps_what_either_needs(spark: SparkSession) -> None:
    query = f"""WITH s AS (SELECT * FROM r_sales), r AS (SELECT * FROM {_RETURNED})
        SELECT s.ticket, 'returned' FROM s JOIN r ON s.ticket = r.ticket
        UNION ALL SELECT ticket, 'cheap' FROM s WHERE price < 0.1"""
    planned = splitlib.sql(spark, query)
    assert rows_of(planned) == rows_of(spark.sql(query))
    scans = [scan for scan in explained(planned).scans if scan.table.endswith("r_sales")]
    found = [bloom_filter(scan) for scan in scans]
    assert sum(one is not None and one.is_used for one in found) == 1


def test_small_scans_are_left_alone(spark: SparkSession) -> None:
    query = f"SELECT s.ticket FROM r_sales s JOIN {_RETURNED} r ON s.ticket = r.ticket"
    with changed(spark, {"spark.splitlib.runtimeFilterBytes": "100000000"}):
        assert filter_of_sales(spark, query) is None


_SIDES = (
    "r_sales",
    _RETURNED,
    "(SELECT * FROM r_sales WHERE price < 0.5)",
    f"(SELECT ticket, max(item) AS item, max(text) AS text, max(d) AS d, max(real) AS real"
    f" FROM {_RETURNED} GROUP BY ticket)",
    f"(SELECT ticket + 31 AS ticket, item, text, d, real FROM {_RETURNED})",
    "(SELECT ticket, item, text, d, real FROM r_sales WHERE item < 20"
    f" UNION ALL SELECT ticket, item, text, d, real FROM {_RETURNED})",
)
_KINDS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
_COMPARED = st.tuples(
    st.sampled_from(["ticket", "text", "d", "real"]), st.sampled_from(["=", "<=>"])
)


@st.composite
def joins(draw: st.DrawFn) -> str:
    """Draw a join of two or three tables. The result omits tables of semi and anti joins."""
    sides = draw(st.lists(st.sampled_from(_SIDES), min_size=2, max_size=3))
    kinds = [draw(st.sampled_from(_KINDS)) for _ in sides[1:]]
    source, shown = f"{sides[0]} t0", ["t0"]
    for i, (side, kind) in enumerate(zip(sides[1:], kinds, strict=True), 1):
        compared = draw(st.lists(_COMPARED, min_size=1, max_size=2, unique_by=lambda c: c[0]))
        other = draw(st.sampled_from(shown))
        # The join on ``item`` keeps the result small.
        on = " AND ".join(f"{other}.{c} {op} t{i}.{c}" for c, op in [("item", "="), *compared])
        source += f" {kind} {side} t{i} ON {on}"
        shown += [] if "SEMI" in kind or "ANTI" in kind else [f"t{i}"]
    hashed = ", ".join(f"{t}.{c}" for t in shown for c in ("ticket", "item", "text"))
    return f"SELECT count(*), bit_xor(xxhash64({hashed})), sum(hash({hashed})) FROM {source}"


@pytest.mark.newest_spark
@given(query=joins())
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_rows_of_random_joins(spark: SparkSession, query: str) -> None:
    assert rows_of(splitlib.sql(spark, query)) == rows_of(spark.sql(query))
