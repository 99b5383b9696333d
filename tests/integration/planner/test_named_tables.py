"""Queries and statements of ``splitlib.sql`` on tables of named catalogs."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.spark.named_tables import named_tables
from splitlib.testing import HiveMetastore
from tests.integration.planner.tables import explained, rows_of
from tests.integration.planner.ways import settings

pytestmark = pytest.mark.spark

_SETUP = """
CREATE TABLE nt_facts USING parquet PARTITIONED BY (i, big, f, s, t, z, x, day) AS SELECT id AS v,
  CAST(id % 10 AS int) AS i, id % 10 * 3000000001 AS big, CAST(id % 10 AS float) / 4 AS f,
  CAST(concat(id % 10, '.0') AS string) AS s,
  timestamp_ntz'2024-01-01 07:30:00' + make_interval(0, 0, 0, CAST(id % 10 AS int)) AS t,
  timestamp'2024-01-01 07:30:00' + make_interval(0, 0, 0, CAST(id % 10 AS int)) AS z,
  CAST(id % 10 + 0.5 AS decimal(5,2)) AS x,
  date_add(DATE'2024-01-01', CAST(id % 3 AS int)) AS day FROM range(40);
CREATE TABLE nt_days USING parquet AS SELECT CAST(id AS int) AS id, id AS big,
  date_add(DATE'2024-01-01', CAST(id AS int)) AS dt, CAST(id AS string) AS txt,
  CAST(id AS double) / 4 AS f, CAST(id + 0.5 AS decimal(20,4)) AS wide, id % 5 AS week,
  CAST(date_add(DATE'2024-01-01', CAST(id AS int)) AS timestamp_ntz) AS ntz,
  CAST(date_add(DATE'2024-01-01', CAST(id AS int)) AS timestamp) AS ts FROM range(10);
"""
LOST = [
    "date(f.t) = d.dt",
    "date(f.z) = d.dt",
    "date(f.t) >= d.dt",
    "CAST(f.x AS int) = d.id",
    "CAST(f.x AS decimal(5,0)) = d.id",
    "CAST(f.f AS int) = d.id",
    "try_cast(f.f AS int) = d.id",
    "CAST(f.big AS float) = CAST(d.big * 3000000001 AS float)",
    "CAST(CAST(f.s AS double) AS int) = d.id",
    "CAST(f.i AS boolean) = CAST(d.id AS boolean)",
    "CAST(f.day AS timestamp) = d.ts",
    "CAST(f.z AS timestamp_ntz) > d.ntz",
    "CAST(f.i AS string) = d.txt",
    "f.i = d.f",
    "CAST(f.f AS double) = d.f",  # In joins, Spark normalizes NaN and -0.0.
]
KEPT = [
    "CAST(f.i AS bigint) = d.big",
    "CAST(f.i AS decimal(20,4)) = d.wide - 0.5",
    "CAST(f.x AS decimal(20,4)) = d.wide",
    "CAST(f.day AS timestamp_ntz) = d.ntz",
]


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession, metastore: HiveMetastore) -> Iterator[None]:
    """Create a fact and a dimension, which are also available in the named catalog ``lake``."""
    few = {"spark.splitlib.plannerSmallFactPartitions": "0"}
    setup = _SETUP
    try:
        spark.sql("CREATE TABLE nt_key (v INT, t TIMESTAMP_NTZ) USING parquet PARTITIONED BY (t)")
        spark.sql("DROP TABLE nt_key")
    except AnalysisException:
        # Older Spark cannot store such partition keys in the metastore.
        setup = setup.replace("s, t, z", "s, z")
    for statement in filter(str.strip, setup.split(";")):
        spark.sql(statement)
    with changed(spark, settings(metastore.uri) | few):
        yield
    for table in ("nt_facts", "nt_days"):
        spark.sql(f"DROP TABLE {table}")


JOINED = "SELECT f.v, d.id FROM {} f JOIN nt_days d ON "


@pytest.mark.parametrize("condition", LOST + KEPT)
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_casts(spark: SparkSession, condition: str, ansi: str) -> None:
    """Conditions on casts return the right rows. Lossless casts of a partition key always prune."""
    sql = f"{JOINED}{condition} WHERE d.week = 2"
    with changed(spark, {"spark.sql.ansi.enabled": ansi}):
        optimized = splitlib.sql(spark, sql.format("lake.default.nt_facts"))
        assert rows_of(optimized) == rows_of(spark.sql(sql.format("nt_facts")))
        (scan,) = explained(optimized).scans
        assert scan.filters or condition in LOST, scan


@pytest.mark.newest_spark  # Spark 4.0 formats some values differently.
@pytest.mark.parametrize("condition", LOST)
def test_casts_prune_by_what_spark_says(spark: SparkSession, condition: str) -> None:
    """Conditions on lossy casts keep the same partitions as in the session's catalog."""
    sql = f"{JOINED}{condition} WHERE d.week = 2"
    (named,) = explained(splitlib.sql(spark, sql.format("lake.default.nt_facts"))).scans
    (scan,) = explained(splitlib.sql(spark, sql.format("nt_facts"))).scans
    assert named.filters
    assert named.partitions.matched == scan.partitions.matched


VIEW_BESIDE = {
    "no alias": "SELECT nt_facts.v FROM lake.default.nt_facts WHERE nt_facts.i = 3",
    "whole name": "SELECT lake.default.nt_facts.v FROM lake.default.nt_facts",
    "alias": "SELECT f.v, g.one FROM lake.default.nt_facts f JOIN global_temp.nt_facts g "
    "ON f.i = g.one",
    "alias with AS": "SELECT f.v FROM lake.default.nt_facts AS f -- as f",
    "both": "SELECT a.v, nt_facts.i FROM lake.default.nt_facts a JOIN `lake`.default . nt_facts "
    "ON a.v = nt_facts.v + 1",
    "a join": "SELECT nt_facts.v, d.id FROM lake.default.nt_facts JOIN nt_days d "
    "ON nt_facts.i = d.id WHERE d.week = 1",
}


@pytest.mark.parametrize("query", VIEW_BESIDE.values(), ids=VIEW_BESIDE)
def test_view_of_the_same_name(spark: SparkSession, query: str) -> None:
    """A query on a named table does not change a global temporary view of the same name."""
    spark.sql("SELECT 1 AS one").createGlobalTempView("nt_facts")
    before = spark.catalog.listTables("global_temp")
    try:
        plain = query.replace("`lake`.default . ", "").replace("lake.default.", "")
        assert rows_of(splitlib.sql(spark, query)) == rows_of(spark.sql(plain))
        assert spark.table("global_temp.nt_facts").columns == ["one"]
        assert spark.catalog.listTables("global_temp") == before
    finally:
        spark.catalog.dropGlobalTempView("nt_facts")


CHANGES = [
    "INSERT INTO {} SELECT * FROM nt_facts",
    "insert /* it */ into table {} VALUES (1)",
    "INSERT OVERWRITE {} SELECT * FROM nt_facts",
    "WITH a AS (SELECT * FROM nt_facts) INSERT INTO {} SELECT * FROM a",
    "FROM nt_facts INSERT INTO {} SELECT *",
    "UPDATE {} SET v = 1",
    "DELETE FROM {} WHERE v = 1",
    "MERGE INTO {} t USING nt_days d ON t.i = d.id WHEN MATCHED THEN DELETE",
    "TRUNCATE TABLE {}",
    "DROP TABLE IF EXISTS {}",
    "ALTER TABLE {} DROP PARTITION (day = DATE'2024-01-01')",
    "CREATE OR REPLACE TABLE {} AS SELECT 1 AS v",
    "CREATE TABLE IF NOT EXISTS {} (v int)",
]


@pytest.mark.parametrize("statement", CHANGES)
def test_named_tables_are_read_only(spark: SparkSession, statement: str) -> None:
    """The error names the table and says that it is read-only."""
    with pytest.raises(splitlib.UnsupportedTable, match="can only be read") as caught:
        splitlib.sql(spark, statement.format("lake.default.nt_facts"))
    assert caught.value.table == "lake.default.nt_facts"
    assert spark.table("nt_facts").count() == 40


KEEP_TEXT = [
    "CREATE OR REPLACE TEMPORARY VIEW nt_kept AS SELECT v FROM lake.default.nt_facts",
    "CREATE VIEW nt_kept AS SELECT v FROM lake.default.nt_facts",
    "CACHE LAZY TABLE nt_kept AS SELECT v FROM lake.default.nt_facts",
    "CREATE TEMPORARY FUNCTION nt_kept() RETURNS BIGINT RETURN "
    "SELECT max(v) FROM lake.default.nt_facts",
]


@pytest.mark.parametrize("statement", KEEP_TEXT)
def test_text_of_a_query_is_not_kept(spark: SparkSession, statement: str) -> None:
    """A kept query would read another table, if a later one has the same name."""
    with pytest.raises(splitlib.UnsupportedTable, match="cannot keep a query") as caught:
        splitlib.sql(spark, statement)
    assert "createOrReplaceTempView" in str(caught.value)
    splitlib.sql(spark, "SELECT v FROM lake.default.nt_facts").createOrReplaceTempView("nt_kept")
    assert spark.table("nt_kept").count() == 40
    spark.catalog.dropTempView("nt_kept")


SAME_NAME = {
    "whole names": "SELECT lake.default.nt_facts.v, lake.nt_other.nt_facts.w "
    "FROM lake.default.nt_facts JOIN lake.nt_other.nt_facts "
    "ON lake.default.nt_facts.v = lake.nt_other.nt_facts.w",
    "names of databases": "SELECT default.nt_facts.v FROM lake.default.nt_facts "
    "JOIN lake.nt_other.nt_facts ON default.nt_facts.v = nt_other.nt_facts.w",
    "aliases": "SELECT a.v, b.w FROM lake.default.nt_facts a JOIN lake.nt_other.nt_facts b "
    "ON a.v = b.w + 1",
    "a subquery": "SELECT nt_facts.w FROM lake.nt_other.nt_facts "
    "WHERE w IN (SELECT v FROM lake.default.nt_facts WHERE nt_facts.v > 3)",
    "columns after FROM": "SELECT EXTRACT(DAY FROM lake.default.nt_facts.day) "
    "FROM nt_days, lake.default.nt_facts WHERE id IS NOT DISTINCT FROM lake.default.nt_facts.i",
    "a function": "SELECT replace(lake.default.nt_facts.s, '1', 'x') FROM lake.default.nt_facts",
}


@pytest.mark.parametrize("query", SAME_NAME.values(), ids=SAME_NAME)
def test_tables_of_the_same_name(spark: SparkSession, query: str) -> None:
    """Columns may be qualified as in Spark, also if the tables differ only in their database."""
    spark.sql("CREATE DATABASE IF NOT EXISTS nt_other")
    try:
        spark.sql("CREATE TABLE nt_other.nt_facts USING parquet AS SELECT id AS w FROM range(9)")
        plain = spark.sql(query.replace("lake.", "spark_catalog."))
        assert rows_of(splitlib.sql(spark, query)) == rows_of(plain)
    finally:
        # Dropping the database fails in this metastore, so only the table is dropped.
        spark.sql("DROP TABLE nt_other.nt_facts")


COPIES = {
    "insert": "INSERT INTO nt_copy SELECT v FROM lake.default.nt_facts WHERE i < 7",
    "insert of a table expression": "WITH a AS (SELECT v FROM lake.default.nt_facts WHERE i < 7) "
    "INSERT INTO nt_copy SELECT v FROM a",
    "table first": "FROM lake.default.nt_facts INSERT INTO nt_copy SELECT v WHERE i < 7 "
    "INSERT INTO nt_copy SELECT v WHERE i < 0",
    "parameters": "INSERT INTO nt_copy SELECT v FROM lake.default.nt_facts WHERE i < :most",
    "a name in an expression": "INSERT INTO IDENTIFIER('nt_' || 'copy') "
    "SELECT v FROM lake.default.nt_facts WHERE i < 7",
}


@pytest.mark.parametrize("statement", COPIES.values(), ids=COPIES)
def test_insert_from_a_named_table(spark: SparkSession, statement: str) -> None:
    """An INSERT runs immediately, and copies all rows that it selects from a named table."""
    spark.sql("CREATE TABLE nt_copy (v bigint) USING parquet")
    try:
        splitlib.sql(spark, statement, args={"most": 7})
        expected = rows_of(spark.sql("SELECT v FROM nt_facts WHERE i < 7"))
        assert rows_of(spark.table("nt_copy")) == expected
    finally:
        spark.sql("DROP TABLE nt_copy")


@pytest.mark.parametrize("other", ["{none}", "(SELECT -1L)", "(SELECT -1L) EXCEPT ALL SELECT -2L"])
def test_queries_that_do_not_begin_with_select(spark: SparkSession, other: str) -> None:
    """They are planned, and can be planned again."""
    query = (
        "WITH d AS (SELECT id FROM nt_days WHERE week = 2) SELECT f.v "
        f"FROM lake.default.nt_facts f JOIN d ON f.i = d.id EXCEPT ALL SELECT * FROM {other}"
    )
    given = {"none": spark.range(0)} if "{" in other else {}
    planned = splitlib.sql(spark, query, **given)
    assert "partitions 6 of" in str(splitlib.explain(planned))
    assert rows_of(splitlib.replan(planned)) == rows_of(planned)
    assert planned.count() == 8


@pytest.mark.parametrize(
    ("target", "given"), [("nt_counts", {"most": 7}), ("IDENTIFIER('nt_counts')", {})]
)
def test_a_command_that_is_parsed_later_runs_once(
    spark: SparkSession, target: str, given: dict[str, int]
) -> None:
    """Spark's parser does not show that these texts are commands, before Spark 4.3 at least."""
    most = "{most}" if given else "7"
    command = f"INSERT INTO {target} SELECT count(*) FROM lake.default.nt_facts WHERE i < {most}"
    spark.sql("CREATE TABLE nt_counts (n bigint) USING parquet")
    try:
        done = splitlib.sql(spark, command, **given)
        with pytest.raises(splitlib.ConfigError, match="not planned by splitlib"):
            splitlib.replan(done)
        assert [row.n for row in spark.table("nt_counts").collect()] == [28]
    finally:
        spark.sql("DROP TABLE nt_counts")


@pytest.mark.parametrize(
    ("query", "partitions"),
    [
        ("SELECT v FROM lake.default.nt_facts WHERE i < 7", 21),
        ("SELECT f.v FROM lake.default.nt_facts f JOIN nt_days d ON f.i = d.id WHERE week = 2", 6),
        ("WITH a AS (SELECT * FROM lake.default.nt_facts) SELECT v FROM a WHERE i < 7", None),
    ],
)
def test_commands_read_matching_partitions(
    spark: SparkSession, query: str, partitions: int | None
) -> None:
    """INSERT and CREATE TABLE AS read the matching partitions; with a CTE, they read all of them.

    They do so even if splitlib is switched off, because Spark cannot read the table.
    """
    expected = rows_of(spark.sql(query.replace("lake.", "")))
    try:
        for start in ("CREATE TABLE nt_copy USING parquet AS", "INSERT OVERWRITE nt_copy"):
            found = explained(splitlib.sql(spark, f"{start} {query}"))
            assert rows_of(spark.table("nt_copy")) == expected
            assert [scan.partitions.matched for scan in found.scans] == (
                [partitions] if partitions else []
            )
        with changed(spark, {"spark.splitlib.dynamicFilteringEnabled": "false"}):
            splitlib.sql(spark, f"INSERT OVERWRITE nt_copy {query}")
        assert rows_of(spark.table("nt_copy")) == expected
        with pytest.raises(AnalysisException, match="nope"):
            splitlib.sql(spark, "INSERT INTO nt_copy SELECT nope FROM lake.default.nt_facts")
    finally:
        spark.sql("DROP TABLE IF EXISTS nt_copy")


@pytest.mark.parametrize(
    "query",
    [
        "TABLE lake.default.nt_strict",
        "TABLE lake.default.nt_strict UNION ALL SELECT f.* FROM lake.default.nt_strict f"
        " JOIN nt_days d ON f.k = d.id WHERE d.id = 1",
        "SELECT * FROM lake.default.nt_strict f LEFT SEMI JOIN nt_days d ON f.k = d.id",
    ],
)
def test_partition_columns_that_are_not_null(spark: SparkSession, query: str) -> None:
    columns = "(v INT, k INT NOT NULL) USING parquet PARTITIONED BY (k)"
    spark.sql(f"CREATE TABLE nt_strict {columns}")
    try:
        spark.sql("INSERT INTO nt_strict VALUES (1, 1), (2, 2), (30, 30)")
        expected = rows_of(spark.sql(query.replace("lake.", "")))
        assert rows_of(splitlib.sql(spark, query)) == expected
    finally:
        spark.sql("DROP TABLE nt_strict")


def test_table_made_of_a_named_table(spark: SparkSession) -> None:
    """CREATE TABLE AS SELECT and EXPLAIN can read a named table."""
    spark.sql("DROP TABLE IF EXISTS nt_made")
    splitlib.sql(
        spark, "CREATE TABLE nt_made USING parquet AS SELECT v, day FROM lake.default.nt_facts"
    )
    assert spark.table("nt_made").count() == 40
    spark.sql("DROP TABLE nt_made")
    shown = splitlib.sql(spark, "EXPLAIN SELECT v FROM lake.default.nt_facts")
    assert "Physical Plan" in str(shown.collect())


def test_an_alias_of_the_name_of_a_catalog(spark: SparkSession) -> None:
    """A field of a struct is not taken for a table of the catalog."""
    rows = "(SELECT named_struct('nt_facts', named_struct('v', 5)) AS default) AS lake"
    query = f"SELECT lake.default.nt_facts.v, lake.default.nt_facts FROM {rows}"
    assert splitlib.sql(spark, query).collect() == spark.sql(query).collect()


def test_a_query_without_named_tables_needs_no_catalogs(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPLITLIB_CATALOGS_FILE", "/nowhere.toml")
    assert rows_of(splitlib.sql(spark, "SELECT count(*) AS n FROM nt_days")) == ["Row(n=10)"]


def test_commands_on_named_tables_run_at_the_same_time(spark: SparkSession) -> None:
    """A query in another thread does not wait for the first, and gets a view of another name."""
    query = "SELECT /*+ BROADCAST(nt_facts) */ nt_facts.* FROM lake.default.nt_facts"
    with (
        ExitStack() as opened,
        ThreadPoolExecutor(1) as threads,
        named_tables(spark, query, opened),
    ):
        other = threads.submit(lambda: rows_of(splitlib.sql(spark, query)))
        assert len(other.result(60)) == 40
