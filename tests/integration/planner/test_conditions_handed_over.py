"""splitlib adds the join keys as a condition to scans whose files it does not list.

Examples are JDBC tables and Spark's V2 file sources.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.report import size_text
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.pinned_relation import PlannedFiles, planned_files
from tests.support.sql_metrics import collected

pytestmark = pytest.mark.spark

WHERE = {"driver": "org.apache.derby.jdbc.EmbeddedDriver"}
URL = "jdbc:derby:memory:handed_over;create=true"
# The rows have unusual values of many types. ``k`` and ``s`` contain nulls.
ROWS = """
    SELECT id, CAST(IF(id % 13 = 0, NULL, id % 10 - 5) AS INT) AS k,
           CAST(id % 7 AS SMALLINT) AS small, CAST(id % 6 AS BIGINT) AS big,
           CAST(id % 5 - 2.5 AS DECIMAL(10, 2)) AS dec,
           DATE_ADD(DATE'2024-02-27', CAST(id % 4 AS INT)) AS day,
           TIMESTAMP'2024-03-10 01:30:00 UTC' + MAKE_INTERVAL(0, 0, 0, 0, id % 9) AS ts,
           CASE id % 6 WHEN 0 THEN 'a' WHEN 1 THEN 'A' WHEN 2 THEN 'a ' WHEN 3 THEN 'it''s'
                       WHEN 4 THEN 'back\\\\slash' ELSE NULL END AS s,
           CAST(CASE id % 4 WHEN 0 THEN 0.0 WHEN 1 THEN -0.0 WHEN 2 THEN 1.5 ELSE 2.5 END AS DOUBLE)
               AS dbl,
           id % 2 = 0 AS flag
    FROM RANGE(48)
"""


@pytest.fixture(scope="module", params=["database", "table"])
def fact(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Create the view ``fact`` over a JDBC table, or over files of a Spark V2 source."""
    root = str(tmp_path_factory.mktemp("handed_over"))
    rows = spark.sql(ROWS)
    rows.write.mode("overwrite").parquet(f"{root}/dim")
    spark.read.parquet(f"{root}/dim").createOrReplaceTempView("dim")
    if request.param == "database":
        # Spark inserts null strings as CLOB, which a VARCHAR column of Derby does not accept.
        rows = rows.withColumn("s", F.coalesce("s", F.lit("")))
        columns = rows.write.option("createTableColumnTypes", "s VARCHAR(32)")
        columns.jdbc(URL, "facts", "overwrite", WHERE)
        spark.read.jdbc(URL, "facts", properties=WHERE).createOrReplaceTempView("fact")
    else:
        # With twelve files, the fact table is larger than the dimension.
        rows.repartition(12).write.parquet(f"{root}/fact")
        with changed(spark, {"spark.sql.sources.useV1SourceList": ""}):
            spark.read.parquet(f"{root}/fact").createOrReplaceTempView("fact")
    yield "fact"
    for view in ("dim", "fact"):
        spark.catalog.dropTempView(view)


def condition_of(df: DataFrame) -> str | None:
    """Return the first condition that splitlib added to a scan; None if it added none."""
    conditions = [scan.condition for scan in splitlib.explain(df).scans if scan.condition]
    return conditions[0] if conditions else None


def checked(spark: SparkSession, query: str) -> DataFrame:
    """Plan a query, and assert that its rows equal plain Spark's. Return the planned query."""
    planned = splitlib.sql(spark, query)
    assert Counter(planned.collect()) == Counter(spark.sql(query).collect())
    return planned


def test_what_is_left_is_told_as_far_as_the_source_does(spark: SparkSession, fact: str) -> None:
    """The report has the sizes that the source of a scan gives.

    A database gives none. Spark's V2 file sources give bytes, which are the same with a condition
    on a data column.
    """
    planned = splitlib.sql(spark, "SELECT f.* FROM fact f JOIN dim d ON f.k = d.k WHERE d.id < 3")
    (told,) = [scan for scan in splitlib.explain(planned).scans if scan.condition]
    assert told.files == (None, None)
    if spark.table(fact).inputFiles():
        assert told.nbytes.matched == told.nbytes.total
        size = size_text(told.nbytes.matched or 0)
        assert size != "0 B"
        assert f"bytes {size} of {size}" in str(splitlib.explain(planned))
    else:
        assert told.nbytes == (None, None)
        assert "bytes" not in str(splitlib.explain(planned)).partition("added condition")[2]


def test_a_scan_that_cannot_be_planned_tells_nothing(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load()
    assert planned_files(Catalyst(spark), stream) == PlannedFiles()


@pytest.mark.parametrize(
    ("query", "condition"),
    [
        ("SELECT f.* FROM fact f JOIN dim d ON f.k = d.k WHERE d.id < 3", "`k` = -4"),
        ("SELECT * FROM fact WHERE k IN (SELECT k FROM dim WHERE id < 3)", "`k` = -4"),
        (
            "SELECT * FROM fact f WHERE EXISTS (SELECT 1 FROM dim d WHERE d.k = f.k AND d.id < 2)",
            "`k` = -4",
        ),
        (
            "SELECT f.id, d.id FROM dim d LEFT JOIN fact f ON f.k = d.k WHERE d.id < 3",
            "`k` = -4",
        ),
        (
            "SELECT f.id FROM fact f JOIN dim d ON f.k = d.k AND f.small = d.small WHERE d.id < 3",
            "`k` = -4 AND `small` = 1",
        ),
        ("SELECT f.id FROM fact f JOIN dim d ON f.k <=> d.k WHERE d.id IN (1, 13)", "IS NULL"),
        ("SELECT f.id FROM fact f JOIN dim d ON f.k = d.big WHERE d.id < 3", "CAST(`k` AS bigint)"),
        ("SELECT f.id FROM fact f JOIN dim d ON f.k <= d.k WHERE d.id = 1", "`k` <= -4"),
        (
            "SELECT f.id FROM fact f JOIN dim d ON f.k >= d.k AND f.k < d.k + 2 "
            "WHERE d.id IN (1, 6)",
            "((`k` >= -4 AND `k` < -2) OR (`k` >= 1 AND `k` < 3))",
        ),
        (
            "SELECT f.id FROM fact f JOIN dim d ON f.day BETWEEN d.day AND date_add(d.day, 1) "
            "WHERE d.id IN (0, 1, 5)",
            "(`day` >= DATE'2024-02-27' AND `day` <= DATE'2024-02-29')",
        ),
        (
            "SELECT k, n FROM (SELECT k, count(*) AS n FROM fact GROUP BY k) JOIN dim USING (k) "
            "WHERE dim.id < 3",
            "`k` = -4",
        ),
        (
            "SELECT f.id FROM fact f JOIN dim a ON f.k = a.k JOIN dim b ON f.small = b.small "
            "WHERE a.id < 4 AND b.id < 2",
            "AND",
        ),
        ("SELECT f.id FROM fact f JOIN dim d ON f.k = d.k WHERE d.id < 0", "false"),
        ("SELECT f.id FROM fact f JOIN dim d ON f.k + 1 = d.k WHERE d.id < 3", None),
        ("SELECT * FROM fact WHERE k NOT IN (SELECT k FROM dim WHERE id = 1)", None),
        ("SELECT f.id, d.id FROM fact f LEFT JOIN dim d ON f.k = d.k AND d.id < 3", None),
        ("SELECT * FROM fact WHERE id = 7 OR k IN (SELECT k FROM dim WHERE id < 3)", None),
        ("SELECT f.id, d.id FROM fact f FULL JOIN dim d ON f.k = d.k WHERE d.id < 3", "`k`"),
        (
            "SELECT a.id FROM fact a JOIN fact b ON a.id = b.id JOIN dim d ON a.k = d.k "
            "WHERE d.id < 3",
            "`k` = -4",
        ),
        (
            "SELECT id FROM fact WHERE k IN (SELECT k FROM dim WHERE id < 3) "
            "UNION ALL SELECT id FROM fact",
            "`k` = -4",
        ),
        (
            "WITH f AS (SELECT * FROM fact) SELECT a.id FROM f a JOIN dim d ON a.k = d.k "
            "JOIN f b ON b.id = a.id + 1 WHERE d.id < 3",
            "`k` = -4",
        ),
        (
            "SELECT id, (SELECT max(small) FROM fact), (SELECT count(*) FROM fact WHERE k > 0) "
            "FROM fact WHERE k IN (SELECT k FROM dim WHERE id < 3)",
            "`k` = -4",
        ),
        (
            "SELECT u.id FROM (SELECT id, k FROM fact UNION ALL SELECT id, k FROM dim) u "
            "JOIN dim d ON u.k = d.k WHERE d.id < 3",
            "`k` = -4",
        ),
    ],
)
def test_shapes(spark: SparkSession, fact: str, query: str, condition: str | None) -> None:
    found = condition_of(checked(spark, query))
    if condition is None:
        assert found is None
    else:
        assert found is not None
        assert condition in found


@pytest.mark.parametrize("of_dimension", ["=", "<=>"])
@pytest.mark.parametrize("column", ["k", "small", "big", "dec", "day", "ts", "s", "dbl", "flag"])
@pytest.mark.parametrize("ids", ["id < 3", "id % 3 = 1", "id > 40"])
def test_types(spark: SparkSession, fact: str, column: str, of_dimension: str, ids: str) -> None:
    zone = {"spark.sql.session.timeZone": "America/New_York"}
    with changed(spark, zone):
        planned = checked(
            spark,
            f"SELECT f.id, d.id FROM fact f JOIN dim d ON f.{column} {of_dimension} d.{column} "
            f"WHERE d.{ids}",
        )
    is_database = "JDBC" in str(splitlib.explain(planned))
    is_refused = column == "dbl" or (column in ("ts", "flag") and is_database)
    assert (condition_of(planned) is None) is is_refused


def test_text_of_a_database_that_it_may_not_compare(spark: SparkSession) -> None:
    # The column is a CLOB in Derby, which cannot compare CLOBs.
    rows = spark.sql("SELECT id, CONCAT('a', id) AS k FROM RANGE(10)")
    rows.write.jdbc(URL, "texts", "overwrite", WHERE)
    fact = spark.read.jdbc(URL, "texts", properties=WHERE)
    assert splitlib.optimize(fact.join(rows.where("id > 7"), "k")).count() == 2


def test_the_rows_that_a_database_sends(spark: SparkSession) -> None:
    rows = spark.range(1000).selectExpr("id", "CAST(id % 100 AS INT) AS k", "id % 10 AS other")
    rows.write.jdbc(URL, "counted", "overwrite", WHERE)
    fact = spark.read.jdbc(URL, "counted", properties=WHERE)
    dim = spark.range(100).selectExpr("CAST(id AS INT) AS k", "id % 25 AS grp").where("grp = 7")
    joined = fact.join(dim, "k").select("id", "grp")
    plain, sent_before = collected(joined, "Scan JDBC", "number of output rows")
    found, sent = collected(splitlib.optimize(joined), "Scan JDBC", "number of output rows")
    assert Counter(found) == Counter(plain)
    assert (sent_before, sent, len(found)) == (1000, 40, 40)


@pytest.mark.parametrize(
    ("literals", "condition"),
    [
        ("1000", "`big` = 0L"),
        ("4", "(`big` >= 0L AND `big` <= "),
    ],
)
def test_many_keys(spark: SparkSession, fact: str, literals: str, condition: str) -> None:
    settings = {
        "spark.splitlib.conditionLiterals": literals,
        "spark.splitlib.conditionLiteralsJdbc": literals,
    }
    with changed(spark, settings):
        query = "SELECT f.id FROM fact f JOIN dim d ON f.big = d.big WHERE d.id <> 1"
        planned = checked(spark, query)
        assert condition in (condition_of(planned) or ""), splitlib.explain(planned)
        by_string = "SELECT f.id FROM fact f JOIN dim d ON f.s = d.s WHERE d.id <> 1"
        planned = checked(spark, by_string)
        if literals == "4" and "JDBC" in str(splitlib.explain(planned)):
            # With at most 4 literals, these keys become a range. The database may order strings
            # differently from Spark, so it does not receive a range of strings.
            assert condition_of(planned) is None
        else:
            assert condition_of(planned) is not None


def test_partitioned_tables_beside_it_are_pruned_as_ever(spark: SparkSession, fact: str) -> None:
    spark.sql("CREATE TABLE ho_fact (v BIGINT, k INT) USING parquet PARTITIONED BY (k)")
    spark.sql("INSERT INTO ho_fact SELECT id, CAST(id % 9 AS INT) FROM RANGE(27)")
    try:
        # If the source can compute the subquery, the optimizer may replace it with its value.
        for more in ("(SELECT count(*) FROM fact)", "(SELECT max(k) FROM fact WHERE small > 1)"):
            planned = checked(
                spark,
                f"SELECT v, {more} FROM ho_fact JOIN dim d USING (k) WHERE d.id IN (8, 9)",
            )
            scans = {scan.table.split(".")[-1]: scan for scan in splitlib.explain(planned).scans}
            assert scans["ho_fact"].partitions.matched == 2, splitlib.explain(planned)
    finally:
        spark.sql("DROP TABLE ho_fact")


def test_it_is_explained(spark: SparkSession, fact: str) -> None:
    planned = splitlib.sql(spark, "SELECT f.id FROM fact f JOIN dim d ON f.k = d.k WHERE d.id = 1")
    report = splitlib.explain(planned)
    (scan,) = report.scans
    assert scan.condition == "`k` = -4"
    assert "added condition: `k` = -4" in str(report)
    assert report.to_dict()["scans"][0]["condition"] == "`k` = -4"
    assert "`k` = -4" in report._repr_html_()


def test_what_is_cached_is_read_from_there(spark: SparkSession, fact: str) -> None:
    query = "SELECT f.id FROM fact f JOIN dim d ON f.k = d.k WHERE d.id < 3"
    whole = spark.table("fact").cache()
    try:
        assert condition_of(checked(spark, query)) is None
    finally:
        whole.unpersist()
    planned = checked(spark, query).cache()
    try:
        assert Counter(planned.collect()) == Counter(spark.sql(query).collect())
    finally:
        planned.unpersist()
    again = splitlib.optimize(checked(spark, query))
    assert Counter(again.collect()) == Counter(spark.sql(query).collect())
