"""Which joins prune, which never do, and that the rows stay those of plain Spark.

More shapes of queries, without their rows, are in ``tests/unit/planner``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.spark.jvm.session_catalog import CatalogPartitions
from splitlib.spark.plan_report import ScanPruning
from splitlib.testing import HiveMetastore
from tests.integration.planner.tables import INNER, explained, planner_tables, pruned, rows_of

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    """The tables of all tests here."""
    with planner_tables(spark):
        yield


@dataclass(frozen=True)
class Case:
    """A query, and how many partitions it leaves of each scan that is pruned, by table."""

    sql: str
    kept: tuple[tuple[str, int], ...]


PRUNES = {
    "inner": Case(INNER, (("p_sales", 1),)),
    "in subquery": Case(
        "SELECT * FROM p_sales WHERE day IN (SELECT id FROM p_days WHERE week = 2)",
        (("p_sales", 4),),
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
    "less than": Case(
        "SELECT f.v FROM p_sales f JOIN p_days d ON f.day < d.id WHERE d.name = 'n3'",
        (("p_sales", 3),),
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
        # each is narrowed by what is left of the other
        (("p_returns", 3), ("p_sales", 3)),
    ),
    "one fact twice with different filters": Case(
        "SELECT a.v, b.v FROM p_sales a JOIN p_days d ON a.day = d.id AND d.week = 1 "
        "JOIN p_sales b ON a.s = b.s JOIN p_days e ON b.day = e.id AND e.name = 'n7'",
        (("p_sales", 1), ("p_sales", 4)),
    ),
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
        "not a comparison",
    ),
    "all keys present": (
        "SELECT f.v FROM p_returns f JOIN p_days d ON f.day = d.id WHERE d.week < 90",
        "in every partition",
    ),
    "also read where no keys reach": (
        "SELECT f.v, x.m FROM p_sales f, LATERAL (SELECT max(r.v) AS m FROM p_returns r "
        "WHERE r.v < f.v) x JOIN p_days d ON f.day = d.id WHERE d.week = 1",
        "also read where no keys reach it",
    ),
    "no join": ("SELECT v FROM p_sales WHERE day = 3", "no join"),
    "no partitions": (
        "SELECT d.id FROM p_days d JOIN p_weeks w ON d.week = w.week WHERE w.no = 10",
        "no partitioned table",
    ),
}


@pytest.mark.parametrize("case", PRUNES.values(), ids=PRUNES)
def test_prunes(spark: SparkSession, case: Case) -> None:
    """The same rows from just the partitions that matter."""
    optimized = splitlib.sql(spark, case.sql)
    assert pruned(optimized) == list(case.kept)
    assert rows_of(optimized) == rows_of(spark.sql(case.sql))
    assert optimized.schema == spark.sql(case.sql).schema


@pytest.mark.parametrize(("sql", "reason"), NEVER.values(), ids=NEVER)
def test_never_prunes(spark: SparkSession, sql: str, reason: str) -> None:
    """All partitions are left to Spark, with a reason in a sentence."""
    optimized = splitlib.sql(spark, sql)
    assert pruned(optimized) == []
    assert reason in str(explained(optimized))
    assert rows_of(optimized) == rows_of(spark.sql(sql))


def test_partition_whose_value_is_none_of_its_type_is_kept(spark: SparkSession) -> None:
    """Spark reads it as null, or fails: it is not for the planner to say."""
    lenient = {
        "spark.sql.legacy.skipTypeValidationOnAlterPartition": "true",
        "spark.sql.ansi.enabled": "false",
    }
    spark.sql("CREATE TABLE p_odd (v bigint) PARTITIONED BY (day int) STORED AS textfile")
    try:
        spark.sql("INSERT INTO p_odd SELECT id, CAST(id % 5 AS int) FROM range(20)")
        with changed(spark, lenient):
            spark.sql("ALTER TABLE p_odd ADD PARTITION (day = 'some')")
            sql = "SELECT f.v FROM p_odd f JOIN p_days d ON f.day = d.id WHERE d.week = 1"
            assert pruned(splitlib.sql(spark, sql)) == [("p_odd", 2)]
            assert rows_of(splitlib.sql(spark, sql)) == rows_of(spark.sql(sql))
    finally:
        spark.sql("DROP TABLE p_odd")


def test_directory_and_loaded_table(spark: SparkSession, tmp_path: Path) -> None:
    """Facts that no catalog knows: what is listed already is not listed again, but not read."""
    where = str(tmp_path / "a b%20é")
    spark.table("p_sales").write.partitionBy("day").parquet(where)
    days = spark.table("p_days").where("week = 1")
    directory = spark.read.parquet(where).join(days, F.col("day") == F.col("id"))
    optimized = splitlib.optimize(directory)
    (scan,) = explained(optimized).scans
    assert (scan.partitions_kept, scan.partitions_total) == (4, 21)
    assert scan.nbytes is not None
    assert scan.nbytes_total is not None
    assert 0 < scan.nbytes < scan.nbytes_total
    assert rows_of(optimized) == rows_of(directory)
    assert sorted(optimized.inputFiles()) == sorted(
        f for f in directory.inputFiles() if any(f"day={d}/" in f for d in (1, 6, 11, 16))
    )

    loaded = splitlib.read(spark).table(where, connector="files", format="parquet").load()
    joined = loaded.join(days, F.col("day") == F.col("id"))
    again = splitlib.optimize(joined)
    assert [scan.partitions_kept for scan in explained(again).scans] == [4]
    assert rows_of(again) == rows_of(joined)


def test_small_table_is_left_alone(spark: SparkSession) -> None:
    """Of a few partitions nothing can be saved."""
    sql = "SELECT v FROM p_sales WHERE day IN (SELECT id FROM p_days WHERE week = 1)"
    spark.conf.set("spark.splitlib.plannerSmallFactPartitions", "21")
    try:
        optimized = splitlib.sql(spark, sql)
    finally:
        spark.conf.unset("spark.splitlib.plannerSmallFactPartitions")
    assert "it has only 21 partitions" in str(explained(optimized))


def test_large_dimension_is_left_alone_but_partitions_are_keys(spark: SparkSession) -> None:
    """What a dimension leaves of one fact table are keys for another one."""
    sql = (
        "SELECT r.v, f.n FROM p_returns r JOIN (SELECT day, count(*) AS n FROM p_sales GROUP BY "
        "day) f ON r.day = f.day WHERE f.day IN (SELECT id FROM p_days WHERE week = 1)"
    )
    optimized = splitlib.sql(spark, sql)
    assert pruned(optimized) == [("p_returns", 3), ("p_sales", 3)]
    assert rows_of(optimized) == rows_of(spark.sql(sql))


def test_report(spark: SparkSession) -> None:
    """For people, for notebooks, for machines."""
    optimized = splitlib.sql(spark, INNER)
    report = explained(optimized)
    (scan,) = report.scans
    assert isinstance(scan, ScanPruning)
    text = str(report)
    assert "partitions 1 of 21" in text
    assert "1 value" in text
    assert scan.strip.count("#") == 1
    assert len(scan.strip) == 21
    assert report._repr_html_().count("<rect") == 21
    assert json.loads(json.dumps(report.to_dict()))["scans"][0]["partitions_kept"] == 1
    assert report.catalog_requests == 2  # the names, then the one that matches


def test_table_of_a_named_catalog(spark: SparkSession, metastore: HiveMetastore) -> None:
    """Enumerated by splitlib itself, with the conditions of the query as well as its joins."""
    spark.conf.set("spark.splitlib.catalog.lake.connector", "hive")
    spark.conf.set("spark.splitlib.catalog.lake.uri", metastore.uri)
    try:
        sql = (
            "SELECT p_two.v, 'FROM lake.x.y' AS t FROM lake.default.p_two JOIN lake.default.p_days "
            "d ON lake.default.p_two.d = d.d WHERE p_two.k > 'k0' AND d.week = 1"
        )
        optimized = splitlib.sql(spark, sql)
        assert pruned(optimized) == [("p_two", 1)]
        plain = sql.replace("lake.default.", "")
        assert rows_of(optimized) == rows_of(spark.sql(plain))
        assert optimized.schema == spark.sql(plain).schema
        for where in (
            "d = DATE'2020-01-02' AND v > 10",
            "d IN (SELECT d FROM p_days WHERE week = 1)",
            "d IN (SELECT d FROM lake.default.p_days LIMIT 100)",
            "d > (SELECT max(d) FROM lake.default.p_two WHERE v < 3)",
            # Spark takes subqueries of the same table together, so that one of two scans is gone
            "v < (SELECT sum(v) FROM lake.default.p_two) "
            "AND d < (SELECT max(d) FROM lake.default.p_two)",
        ):
            rest = f"SELECT v, d FROM lake.default.p_two WHERE {where}"
            expected = spark.sql(rest.replace("lake.default.", ""))
            assert rows_of(splitlib.sql(spark, rest)) == rows_of(expected), where
        whole = splitlib.sql(spark, "SELECT v, d, k FROM lake.default.p_two WHERE v < 100")
        assert rows_of(whole) == rows_of(spark.sql("SELECT v, d, k FROM p_two WHERE v < 100"))
        with pytest.raises(splitlib.TableNotFound):
            splitlib.sql(spark, "SELECT * FROM lake.default.no_such_table")
    finally:
        spark.conf.unset("spark.splitlib.catalog.lake.connector")
        spark.conf.unset("spark.splitlib.catalog.lake.uri")


def test_each_table_is_asked_once(spark: SparkSession) -> None:
    """Names once however often a table is read in a query."""
    report = explained(splitlib.sql(spark, PRUNES["one fact twice with different filters"].sql))
    assert report.catalog_requests <= 1 + 2  # the names, and the partitions of each scan


@pytest.mark.parametrize("refused", [(), ("by_name",), ("by_name", "by_condition")])
def test_ways_to_ask_for_partitions(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, refused: tuple[str, ...]
) -> None:
    """By name, else by a filter, else one by one: not every catalog knows all of them."""
    for way in refused:
        monkeypatch.setattr(CatalogPartitions, way, lambda *_: None)
    sql = "SELECT s.v FROM p_sales s JOIN p_days d ON s.day = d.id WHERE d.week IN (1, 2)"
    optimized = splitlib.sql(spark, sql)
    assert rows_of(optimized) == rows_of(spark.sql(sql))
    ((_, kept),) = pruned(optimized)
    assert kept > 4
    requests = 1 + kept if len(refused) == 2 else 1  # the filter is asked for once, and refused
    assert explained(optimized).catalog_requests == 1 + requests


def test_key_in_upper_case(spark: SparkSession) -> None:
    """Hive has it in lower case, and the plan as it was written."""
    sql = "SELECT s.v, s.Day FROM p_upper s JOIN p_days d ON s.Day = d.id WHERE d.week IN (1, 2)"
    optimized = splitlib.sql(spark, sql)
    assert rows_of(optimized) == rows_of(spark.sql(sql))
    assert pruned(optimized) == [("p_upper", 6)]
    assert explained(optimized).catalog_requests == 2


def test_commands_streams_and_errors_are_sparks(spark: SparkSession, tmp_path: Path) -> None:
    """What is no query, or no good one, is left as it is."""
    shown = splitlib.sql(spark, "SHOW TABLES")
    assert "p_sales" in str(rows_of(shown))
    assert explained(shown).reasons
    stream = spark.readStream.schema("id int").parquet(str(tmp_path))
    assert "streaming" in str(explained(splitlib.optimize(stream)))
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        splitlib.sql(spark, "SELECT * FROM no_such_table_at_all")


def test_overwriting_what_is_read_is_refused_as_ever(spark: SparkSession) -> None:
    """Spark goes by the root directories of what a query reads."""
    optimized = splitlib.sql(
        spark,
        "SELECT f.v, f.s, f.day FROM p_sales f JOIN p_days d ON f.day = d.id WHERE d.week = 1",
    )
    assert pruned(optimized) == [("p_sales", 4)]
    with pytest.raises(Exception, match=r"(?i)overwrite"):
        optimized.write.mode("overwrite").insertInto("p_sales")
    assert spark.table("p_sales").count() == 401
