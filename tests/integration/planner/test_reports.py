"""Reports of planned queries: kept partitions, catalog requests, and reasons not to prune."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.spark.jvm.session_catalog import CatalogPartitions
from splitlib.spark.planner.scan_sites import prunable
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
NAMED = (*FACTS, "p_odd")


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    with planner_tables(spark):
        yield


def test_partition_whose_value_is_none_of_its_type_is_kept(spark: SparkSession, way: Way) -> None:
    """The planner keeps a partition whose value is not valid for the key's type.

    Spark may read the value as null, or fail.
    """
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
            assert pruned(way.sql(sql)) == [("p_odd", 2)]
            assert rows_of(way.sql(sql)) == rows_of(spark.sql(sql))
    finally:
        spark.sql("DROP TABLE p_odd")


def test_directory_and_loaded_table(spark: SparkSession, tmp_path: Path) -> None:
    """A directory and a table loaded by splitlib are pruned like a table of the catalog."""
    where = str(tmp_path / "a b%20é")
    spark.table("p_sales").write.partitionBy("day").parquet(where)
    days = spark.table("p_days").where("week = 1")
    directory = spark.read.parquet(where).join(days, F.col("day") == F.col("id"))
    optimized = splitlib.optimize(directory)
    (scan,) = explained(optimized).scans
    assert scan.partitions == (4, 21)
    assert 0 < (scan.nbytes.matched or 0) < (scan.nbytes.total or 0)
    assert rows_of(optimized) == rows_of(directory)
    assert sorted(optimized.inputFiles()) == sorted(
        f for f in directory.inputFiles() if any(f"day={d}/" in f for d in (1, 6, 11, 16))
    )

    loaded = splitlib.read(spark).table(where, connector="files", format="parquet").load()
    joined = loaded.join(days, F.col("day") == F.col("id"))
    again = splitlib.optimize(joined)
    assert [scan.partitions.matched for scan in explained(again).scans] == [4]
    assert rows_of(again) == rows_of(joined)


def jobs(spark: SparkSession) -> int:
    """Return the number of jobs that Spark has started."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


@pytest.mark.parametrize("connector", ["session", "files"])
def test_a_query_on_a_loaded_table_is_not_planned_again(
    spark: SparkSession, tmp_path: Path, connector: str
) -> None:
    """``load().join(dimension)`` names its table, and the dimension does not run again."""
    name = "p_sales"
    if connector == "files":
        name = str(tmp_path / "sales")
        spark.table("p_sales").write.partitionBy("day").parquet(name)
    days = spark.table("p_days").where("week = 1")
    reader = splitlib.read(spark).table(name, connector=connector)
    by_days = F.col("day") == F.col("id")
    joined = reader.filtered_by(days, on={"day": "id"}).load().join(days, by_days)
    before = jobs(spark)
    report = splitlib.explain(joined)
    assert jobs(spark) == before
    (scan,) = report.scans
    assert scan.table.endswith(name)
    assert scan.partitions == (4, 21)
    assert "pinned-by-splitlib" not in str(report)
    assert "not pruned" not in str(report)
    assert "left to Spark" not in str(report)
    # a query that is derived from a planned query has the same report, even if another query has
    # been planned since then with the same dimension
    planned = splitlib.optimize(spark.table("p_sales").join(days, by_days))
    splitlib.optimize(spark.table("p_returns").join(days, by_days))
    before = jobs(spark)
    assert splitlib.explain(planned.where("v > 3").groupBy("week").count()).scans == (
        explained(planned).scans
    )
    assert jobs(spark) == before


def test_another_table_beside_a_loaded_one_is_planned(spark: SparkSession) -> None:
    days = spark.table("p_days").where("week = 1")
    loaded = splitlib.read(spark).table("p_sales").filtered_by(days, on={"day": "id"}).load()
    joined = loaded.join(days, F.col("day") == F.col("id")).alias("s")
    both = joined.join(spark.table("p_returns").alias("r"), F.col("r.day") == F.col("s.id"))
    first, second = splitlib.explain(both).scans
    assert (first.table.rpartition(".")[2], first.partitions) == ("p_sales", (4, 21))
    assert (second.table.rpartition(".")[2], second.partitions) == ("p_returns", (3, 15))


def test_partitions_that_a_condition_leaves_are_counted(spark: SparkSession) -> None:
    sql = "SELECT f.v FROM p_sales f JOIN p_days d ON f.day = d.id WHERE f.day = 3 AND d.week = 3"
    (scan,) = explained(splitlib.sql(spark, sql)).scans
    assert (scan.partitions, scan.without_joins) == ((None, 21), 1)
    assert "partitions 1 of 21 by the conditions of the query: joins leave out none" in str(scan)


def test_small_table_is_left_alone(spark: SparkSession) -> None:
    sql = "SELECT v FROM p_sales WHERE day IN (SELECT id FROM p_days WHERE week = 1)"
    spark.conf.set("spark.splitlib.plannerSmallFactPartitions", "21")
    try:
        optimized = splitlib.sql(spark, sql)
    finally:
        spark.conf.unset("spark.splitlib.plannerSmallFactPartitions")
    assert "the table has only 21 partitions" in str(explained(optimized))


def test_large_dimension_is_left_alone_but_partitions_are_keys(
    spark: SparkSession, way: Way
) -> None:
    """After a fact table is pruned, its remaining partition values are keys for another one."""
    sql = (
        "SELECT r.v, f.n FROM p_returns r JOIN (SELECT day, count(*) AS n FROM p_sales GROUP BY "
        "day) f ON r.day = f.day WHERE f.day IN (SELECT id FROM p_days WHERE week = 1)"
    )
    optimized = way.sql(sql)
    if not way.is_named:
        assert pruned(optimized) == [("p_returns", 3), ("p_sales", 3)]
    assert rows_of(optimized) == rows_of(spark.sql(sql))


def test_report(spark: SparkSession) -> None:
    """The report has the numbers of partitions as text, as HTML and as a dict."""
    optimized = splitlib.sql(spark, INNER)
    report = explained(optimized)
    (scan,) = report.scans
    assert isinstance(scan, splitlib.Report)
    text = str(report)
    assert "partitions 1 of 21" in text
    assert "1 value" in text
    assert [(one.read, one.total) for one in scan.ranges if one.read] == [(1, 1)]
    assert sum(one.total for one in scan.ranges) == 21
    (values,) = json.loads(json.dumps(report.to_dict()))["scans"]
    assert values["partitions"] == {"matched": 1, "total": 21}
    # One request lists the partition names, and one fetches the matching partition.
    assert report.catalog_requests == 2


CONDITIONS = {
    "value": "d = DATE'2020-01-02' AND v > 10",
    "in subquery": "d IN (SELECT d FROM p_days WHERE week = 1)",
    "in subquery with a limit": "d IN (SELECT d FROM p_days LIMIT 100)",
    "scalar subquery of itself": "d > (SELECT max(d) FROM p_two WHERE v < 3)",
    # Spark merges subqueries of the same table into one, so only one of their scans remains.
    "two subqueries of itself": "v < (SELECT sum(v) FROM p_two) AND d < (SELECT max(d) FROM p_two)",
    "no partition column": "v < 100",
}


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS)
def test_conditions(spark: SparkSession, way: Way, condition: str) -> None:
    """A query without a join, with conditions on its own table, has the right rows."""
    sql = f"SELECT v, d, k FROM p_two WHERE {condition}"
    assert rows_of(way.sql(sql)) == rows_of(spark.sql(sql))


def test_names_that_qualify_columns(spark: SparkSession, way: Way) -> None:
    """Column names may be qualified by the table name. Table names in literals stay unchanged."""
    sql = (
        "SELECT p_two.v, 'FROM lake.x.y' AS t FROM p_two JOIN p_days d ON p_two.d = d.d "
        "WHERE p_two.k > 'k0' AND d.week = 1"
    )
    optimized = way.sql(sql)
    assert pruned(optimized) == [("p_two", 1)]
    assert rows_of(optimized) == rows_of(spark.sql(sql))
    assert optimized.schema == spark.sql(sql).schema


def test_no_such_table(way: Way) -> None:
    """A missing table raises the error of the catalog: Spark's, or ``TableNotFound``."""
    wanted = splitlib.TableNotFound if way.is_named else AnalysisException
    name = "lake.default.no_such_table" if way.is_named else "no_such_table"
    with pytest.raises(wanted, match="no_such_table"):
        splitlib.sql(way.spark, f"SELECT * FROM {name}")


def test_each_table_is_asked_once(spark: SparkSession) -> None:
    """The partition names of a table are listed once, even if the query scans it twice."""
    report = explained(splitlib.sql(spark, TWICE))
    # One request lists the names. Each scan may need one more for its partitions.
    assert report.catalog_requests <= 1 + 2


@pytest.mark.parametrize("refused", [(), ("by_name",), ("by_name", "by_condition")])
def test_ways_to_ask_for_partitions(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, refused: tuple[str, ...]
) -> None:
    """Partitions are requested by name, else by a filter, else one by one.

    Catalogs differ in which of these requests they support.
    """
    for way in refused:
        monkeypatch.setattr(CatalogPartitions, way, lambda *_: None)
    sql = "SELECT s.v FROM p_sales s JOIN p_days d ON s.day = d.id WHERE d.week IN (1, 2)"
    optimized = splitlib.sql(spark, sql)
    assert rows_of(optimized) == rows_of(spark.sql(sql))
    ((_, kept),) = pruned(optimized)
    assert kept > 4
    # If neither works, each partition is one request. The refused filter counts as one more.
    requests = 1 + kept if len(refused) == 2 else 1
    assert explained(optimized).catalog_requests == 1 + requests


def test_key_in_upper_case(spark: SparkSession, way: Way) -> None:
    """A partition key in upper case prunes, although Hive stores its name in lower case."""
    sql = "SELECT s.v, s.Day FROM p_upper s JOIN p_days d ON s.Day = d.id WHERE d.week IN (1, 2)"
    optimized = way.sql(sql)
    assert rows_of(optimized) == rows_of(spark.sql(sql))
    assert pruned(optimized) == [("p_upper", 6)]


def test_commands_and_streams_are_sparks(spark: SparkSession, tmp_path: Path) -> None:
    shown = splitlib.sql(spark, "SHOW TABLES")
    assert "p_sales" in str(rows_of(shown))
    assert explained(shown).reasons
    stream = spark.readStream.schema("id int").parquet(str(tmp_path))
    assert "streaming" in str(explained(splitlib.optimize(stream)))


def test_overwriting_what_is_read_is_refused_as_ever(spark: SparkSession) -> None:
    """Spark refuses to overwrite a table with a planned query that reads it."""
    optimized = splitlib.sql(
        spark,
        "SELECT f.v, f.s, f.day FROM p_sales f JOIN p_days d ON f.day = d.id WHERE d.week = 1",
    )
    assert pruned(optimized) == [("p_sales", 4)]
    with pytest.raises(Exception, match=r"(?i)overwrite"):
        optimized.write.mode("overwrite").insertInto("p_sales")
    assert spark.table("p_sales").count() == 401


def test_too_many_keys_are_a_reason(spark: SparkSession, way: Way) -> None:
    """If there are too many keys, the table is not pruned, and the report gives this reason."""
    limits = {"spark.splitlib.filterMaxValues": "1", "spark.splitlib.filterOnExceed": "all"}
    sql = "SELECT v FROM p_sales WHERE {} IN (SELECT id FROM p_days WHERE week = 1)"
    for key in ("day", "day + 1"):
        with changed(spark, limits):
            (scan,) = explained(way.sql(sql.format(key))).scans
        assert scan.filters == ()
        limit = "keys, more than spark.splitlib.filterMaxValues (1). Raise this limit, or set "
        assert any(limit in reason for reason in scan.reasons)


def test_a_large_dimension_that_prunes_is_not_reported(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prunable, "LEAST_BYTES", 1)
    report = splitlib.explain(splitlib.sql(spark, INNER))
    assert [scan.table.rpartition(".")[2].strip("`") for scan in report.scans] == ["p_sales"]
