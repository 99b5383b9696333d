"""Queries for the latest partition, such as ``day = (SELECT max(day) FROM t)``, are pruned."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.spark.compat import condition_of
from splitlib.testing import HiveMetastore
from tests.integration.planner.tables import explained, rows_of
from tests.integration.planner.ways import Way, settings

pytestmark = pytest.mark.spark
NAMED = ("l_sales", "l_text")
DAYS = 12


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    """Create the tables. ``l_sales`` has one partition per day, and a null partition.

    Its first and its last partition have no rows.
    """
    spark.sql(
        f"""CREATE TABLE l_sales USING parquet PARTITIONED BY (day, country) AS
            SELECT id AS v, id % 3 AS s, CAST(id % {DAYS} AS INT) AS day,
                   IF(id % 2 = 0, 'de', 'fr') AS country FROM RANGE(120)
            UNION ALL SELECT 1000, 0, NULL, 'de'"""
    )
    spark.sql("ALTER TABLE l_sales ADD PARTITION (day = 90, country = 'de')")
    spark.sql("ALTER TABLE l_sales ADD PARTITION (day = -90, country = 'de')")
    spark.sql("""CREATE TABLE l_text (v BIGINT) PARTITIONED BY (day STRING) STORED AS TEXTFILE""")
    spark.sql(
        f"""INSERT INTO l_text
            SELECT id, DATE_FORMAT(DATE_ADD(DATE'2024-02-25', CAST(id % {DAYS} AS INT)),
                                   'yyyy-MM-dd') FROM RANGE(60)"""
    )
    spark.sql(
        "CREATE TABLE l_loads USING parquet AS SELECT 9 AS day, 'done' AS state UNION ALL "
        "SELECT 11, 'failed'"
    )
    yield
    for table in (*NAMED, "l_loads"):
        spark.sql(f"DROP TABLE {table}")


# Queries, each with the expected numbers of kept partitions. The numbers are those of the pruned
# scans, in plan order. With None, only the rows are compared.
ASKED = {
    "of the table itself": (
        "SELECT * FROM l_sales WHERE day = (SELECT max(day) FROM l_sales)",
        [2, 1],
    ),
    "with a condition on rows": (
        "SELECT v FROM l_sales WHERE day = (SELECT max(day) FROM l_sales WHERE v < 5)",
        [14, 1],
    ),
    "with a condition on partitions": (
        "SELECT v FROM l_sales WHERE day = (SELECT max(day) FROM l_sales WHERE country = 'fr')",
        [1, 1],
    ),
    "the first one": ("SELECT v FROM l_sales WHERE day = (SELECT min(day) FROM l_sales)", [2, 1]),
    "under another name and type": (
        "SELECT v FROM l_sales WHERE day = (SELECT max(d) FROM (SELECT CAST(day AS BIGINT) AS d "
        "FROM l_sales))",
        [2, 1],
    ),
    "all since": (
        "SELECT v FROM l_sales WHERE day >= (SELECT max(day) - 2 FROM l_loads)",
        [4],
    ),
    "computed from the value": (
        "SELECT v FROM l_sales WHERE day = (SELECT max(day) FROM l_sales) - 3",
        [2, 1],
    ),
    "between two values": (
        "SELECT v FROM l_sales WHERE day BETWEEN (SELECT min(day) FROM l_loads) AND "
        "(SELECT max(day) FROM l_loads)",
        [3],
    ),
    "of another table": (
        "SELECT v FROM l_sales WHERE day = (SELECT max(day) FROM l_loads WHERE state = 'done')",
        [1],
    ),
    "of text": ("SELECT v FROM l_text WHERE day = (SELECT max(day) FROM l_text)", [1, 1]),
    "of a text as date": (
        "SELECT v FROM l_text WHERE CAST(day AS DATE) = (SELECT max(CAST(day AS DATE)) FROM l_text "
        "WHERE v > 50)",
        None,
    ),
    "null": (
        "SELECT v FROM l_sales WHERE day = (SELECT max(day) FROM l_loads WHERE day > 99)",
        [0],
    ),
    "null of the table itself": (
        "SELECT v FROM l_sales WHERE day = (SELECT max(day) FROM l_sales WHERE day < -90)",
        None,
    ),
    "without any subquery": ("SELECT max(day) FROM l_sales", [2]),
    "twice": ("SELECT max(day) AS a, max(day) AS b FROM l_sales WHERE country = 'fr'", [1]),
    "the last rows": ("SELECT v, day FROM l_sales ORDER BY day DESC, v LIMIT 3", [2]),
    "the last rows of a few days": ("SELECT v FROM l_sales ORDER BY day DESC, v LIMIT 25", [6]),
    "the last rows with a condition": (
        "SELECT v + 1 AS w FROM l_sales WHERE s = 0 AND country = 'fr' "
        "ORDER BY day DESC, v LIMIT 6",
        [2],
    ),
    "the first rows": ("SELECT v FROM l_sales ORDER BY day NULLS LAST, v LIMIT 3", [2]),
    "the first rows, with nulls before": ("SELECT v FROM l_sales ORDER BY day, v LIMIT 3", None),
    "the last rows by another type": (
        "SELECT v FROM l_text ORDER BY CAST(day AS DATE) DESC, v LIMIT 3",
        None,
    ),
    "the last rows in the order of something else": (
        "SELECT v FROM l_sales ORDER BY v DESC, day DESC LIMIT 3",
        None,
    ),
    "more rows than there are": ("SELECT v FROM l_sales ORDER BY day DESC, v LIMIT 999", None),
    "no row at all": ("SELECT v FROM l_sales ORDER BY day DESC, v LIMIT 0", None),
    "rows after others": ("SELECT v FROM l_sales ORDER BY day DESC, v LIMIT 3 OFFSET 2", None),
    "the last rows of a join": (
        "SELECT f.v FROM l_sales f JOIN l_loads l ON f.day = l.day "
        "ORDER BY f.day DESC, f.v LIMIT 3",
        None,
    ),
    "the last rows in a subquery": (
        "SELECT v FROM l_sales WHERE v IN (SELECT v FROM l_sales ORDER BY day DESC, v LIMIT 3)",
        None,
    ),
    "first and last": ("SELECT min(day), max(day) FROM l_sales", None),
    "beside something else": ("SELECT max(day), count(*) FROM l_sales", None),
    "of some rows": ("SELECT max(day) FILTER (WHERE v < 5) FROM l_sales", None),
    "by group": ("SELECT country, max(day) FROM l_sales GROUP BY country", None),
    "of a joined table": (
        "SELECT max(f.day) FROM l_sales f JOIN l_loads l ON f.day = l.day",
        None,
    ),
    "joined with": (
        "SELECT f.v FROM l_sales f JOIN (SELECT max(day) AS day FROM l_sales) m ON f.day = m.day",
        [2, 1],
    ),
    "in a HAVING": (
        "SELECT day, count(*) FROM l_sales GROUP BY day HAVING day = (SELECT max(day) "
        "FROM l_sales)",
        [2, 1],
    ),
    "in a nested subquery": (
        "SELECT v FROM l_sales WHERE day = (SELECT max(day) FROM l_sales WHERE day < "
        "(SELECT max(day) FROM l_sales))",
        None,
    ),
    "correlated": (
        "SELECT v FROM l_sales f WHERE day = (SELECT max(day) FROM l_loads l WHERE l.day > f.s)",
        None,
    ),
    "only one part of an OR": (
        "SELECT v FROM l_sales WHERE v = 3 OR day = (SELECT max(day) FROM l_loads)",
        None,
    ),
}


def looked_at(way: Way, query: str) -> list[int]:
    """Plan a query. Return the number of kept partitions of each pruned scan."""
    return [
        scan.partitions.matched
        for scan in explained(way.sql(query)).scans
        if scan.partitions.matched is not None
        and (scan.partitions.matched != scan.partitions.total or not scan.partitions.matched)
    ]


@pytest.mark.parametrize("name", ASKED)
def test_rows_and_partitions(spark: SparkSession, way: Way, name: str) -> None:
    query, expected = ASKED[name]
    # Plain Spark sends conditions such as "day < -90" to the metastore. Derby may evaluate them for
    # partitions of other tables, too, and then fails if their values are not numbers.
    with changed(spark, {"spark.sql.hive.metastorePartitionPruningFallbackOnException": "true"}):
        plain = rows_of(spark.sql(query))
    assert rows_of(way.sql(query)) == plain
    if expected is not None:
        assert looked_at(way, query) == expected


@pytest.mark.parametrize("source", ["l_own", "l_log"])
def test_a_value_is_that_of_the_plan(spark: SparkSession, source: str) -> None:
    """A planned query keeps the latest value from planning time until it is planned again."""
    spark.sql(
        "CREATE TABLE l_own USING parquet PARTITIONED BY (day) AS SELECT id AS v, "
        "CAST(id % 6 AS INT) AS day FROM RANGE(12)"
    )
    spark.sql("CREATE TABLE l_log USING parquet AS SELECT 5 AS day")
    try:
        query = f"SELECT v FROM l_own WHERE day = (SELECT max(day) FROM {source})"
        planned = splitlib.sql(spark, query)
        assert sorted(row.v for row in planned.collect()) == [5, 11]
        spark.sql("INSERT INTO l_own VALUES (70, 7)")
        spark.sql("INSERT INTO l_log VALUES (7)")
        assert sorted(row.v for row in planned.collect()) == [5, 11]
        assert [row.v for row in splitlib.replan(planned).collect()] == [70]
    finally:
        for table in ("l_own", "l_log"):
            spark.sql(f"DROP TABLE {table}")


def test_a_row_that_is_drawn_is_not_kept(spark: SparkSession) -> None:
    """A query with a random condition is not pruned, because it may select other rows later."""
    query = "SELECT max(day) FROM l_sales WHERE rand(3) < 0.5"
    assert not [s for s in explained(splitlib.sql(spark, query)).scans if s.is_pruned]


@pytest.mark.parametrize(
    "subquery",
    [
        "SELECT day FROM l_loads LIMIT 1",
        "SELECT first(day) FROM l_loads",
        "SELECT max(day) FROM l_loads WHERE day = (SELECT any_value(day) FROM l_loads)",
        "SELECT max(day) FROM l_loads TABLESAMPLE (99 PERCENT)",
    ],
)
def test_a_value_that_may_be_another_one_prunes_nothing(spark: SparkSession, subquery: str) -> None:
    """A subquery that may return another value when the query runs does not prune."""
    planned = splitlib.sql(spark, f"SELECT v FROM l_sales WHERE day = ({subquery})")
    (scan,) = [scan for scan in explained(planned).scans if scan.table.endswith("l_sales")]
    assert not scan.is_pruned
    assert "may return other rows when the join runs" in str(scan.reasons)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT v, s, day, country FROM l_sales WHERE day = (SELECT max(day) FROM l_sales)",
        "SELECT v, s, day, country FROM l_sales ORDER BY day DESC, v LIMIT 3",
        "SELECT 0L AS v, 0L AS s, max(day) AS day, 'de' AS country FROM l_sales",
    ],
)
def test_overwriting_the_table_is_refused(spark: SparkSession, query: str) -> None:
    """Spark refuses to overwrite a table that the query reads, even if it is pruned."""
    for rows in (spark.sql(query), splitlib.sql(spark, query)):
        with pytest.raises(AnalysisException) as refused:
            rows.write.insertInto("l_sales", overwrite=True)
        assert condition_of(refused.value) == "UNSUPPORTED_OVERWRITE.TABLE"


def test_many_empty_partitions_are_left_to_spark(spark: SparkSession) -> None:
    """After several partitions without rows, the planner stops looking for the latest row."""
    spark.sql(
        "CREATE TABLE l_long USING parquet PARTITIONED BY (day) AS "
        "SELECT id AS v, CAST(id AS INT) AS day FROM RANGE(30)"
    )
    try:
        planned = splitlib.sql(spark, "SELECT max(day) FROM l_long WHERE v < 5")
        assert not [scan for scan in explained(planned).scans if scan.is_pruned]
        assert planned.collect() == [(4,)]
        planned = splitlib.sql(spark, "SELECT max(day) FROM l_long WHERE v < 9 AND day < 20")
        assert [scan.partitions.matched for scan in explained(planned).scans] == [20]
        assert planned.collect() == [(8,)]
    finally:
        spark.sql("DROP TABLE l_long")


def test_small_tables_are_left_to_spark(spark: SparkSession) -> None:
    with changed(spark, {"spark.splitlib.plannerSmallFactPartitions": "20"}):
        planned = splitlib.sql(spark, "SELECT max(day) FROM l_sales")
    assert not [scan for scan in explained(planned).scans if scan.is_pruned]


@pytest.mark.newest_spark
def test_the_report_says_what_was_asked_for_by_name(
    spark: SparkSession, metastore: HiveMetastore
) -> None:
    """If partitions are requested by name, the report does not have their total number."""
    with changed(spark, settings(metastore.uri)):
        way = Way(spark, NAMED, is_named=True)
        planned = way.sql(ASKED["of text"][0])
    scans = explained(planned).scans
    assert [scan.partitions for scan in scans] == [(1, None), (1, None)]
    assert str(explained(planned)).count("partitions 1 (requested by name, so") == 2


def test_the_report_says_what_it_looked_for(spark: SparkSession, way: Way) -> None:
    """The report names the column, and says that the last partition with a row was needed."""
    report = str(explained(way.sql("SELECT max(day) FROM l_sales")))
    assert "filter day: the last partition with a row" in report
    assert "partitions 2 of 15" in report
