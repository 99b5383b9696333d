"""``max_partitions`` and ``missing_partition`` apply to planned queries and to readers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.testing import HiveMetastore
from tests.integration.planner.tables import rows_of
from tests.integration.planner.ways import CATALOG, settings

pytestmark = pytest.mark.spark

SQL = "SELECT f.v, f.day FROM {} f JOIN li_days d ON f.day = d.id WHERE d.week = 1"
KEPT = (1, 6, 11)
"""Days of week 1, whose partitions the queries keep."""
MISSING = 6

Query = Callable[[SparkSession, HiveMetastore], DataFrame]


def by_sql(spark: SparkSession, _: HiveMetastore) -> DataFrame:
    return splitlib.sql(spark, SQL.format("li_facts"))


def by_optimize(spark: SparkSession, _: HiveMetastore) -> DataFrame:
    return splitlib.optimize(spark.sql(SQL.format("li_facts")))


def by_name(spark: SparkSession, metastore: HiveMetastore) -> DataFrame:
    with changed(spark, settings(metastore.uri)):
        return splitlib.sql(spark, SQL.format(f"{CATALOG}.default.li_facts"))


def by_reader(spark: SparkSession, metastore: HiveMetastore) -> DataFrame:
    days = spark.table("li_days").where("week = 1")
    facts = splitlib.read(spark).table("default.li_facts").filtered_by(days, {"day": "id"})
    joined = facts.load().join(days, F.col("day") == F.col("id"))
    return joined.select("v", "day")


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    """Create a fact table of 15 partitions and its dimension."""
    spark.sql("""CREATE TABLE li_facts USING parquet PARTITIONED BY (day) AS
        SELECT id AS v, CAST(id % 15 AS int) AS day FROM range(45)""")
    spark.sql("""CREATE TABLE li_days USING parquet AS
        SELECT CAST(id AS int) AS id, id % 5 AS week FROM range(15)""")
    yield
    spark.sql("DROP TABLE li_facts")
    spark.sql("DROP TABLE li_days")


@pytest.fixture
def without_directory(spark: SparkSession, metastore: HiveMetastore) -> Iterator[None]:
    """Move away the directory of a partition that the queries keep and the catalog still lists."""
    directory = metastore.warehouse / "li_facts" / f"day={MISSING}"
    shutil.move(directory, aside := metastore.directory / "aside")
    spark.catalog.refreshTable("li_facts")
    yield
    shutil.move(aside, directory)
    spark.catalog.refreshTable("li_facts")


ALL = [by_sql, by_optimize, by_name, by_reader]


@pytest.mark.parametrize("query", ALL)
def test_too_many_partitions(spark: SparkSession, metastore: HiveMetastore, query: Query) -> None:
    """A query that keeps more than ``max_partitions`` partitions raises an error."""
    with (
        changed(spark, {"spark.splitlib.maxPartitions": str(len(KEPT) - 1)}),
        pytest.raises(splitlib.TooManyPartitions, match=r"max_?[Pp]artitions"),
    ):
        query(spark, metastore)


@pytest.mark.parametrize("query", ALL)
def test_just_as_many_partitions(
    spark: SparkSession, metastore: HiveMetastore, query: Query
) -> None:
    """Pruned partitions do not count towards ``max_partitions``."""
    with changed(spark, {"spark.splitlib.maxPartitions": str(len(KEPT))}):
        rows = rows_of(query(spark, metastore))
    assert rows == rows_of(spark.sql(SQL.format("li_facts")))


@pytest.mark.parametrize("query", ALL)
def test_missing_partition_is_an_error(
    spark: SparkSession, metastore: HiveMetastore, without_directory: None, query: Query
) -> None:
    """With ``missing_partition="error"``, the error names the partition."""
    with (
        changed(spark, {"spark.splitlib.missingPartition": "error"}),
        pytest.raises(splitlib.MissingPartition, match=f"day={MISSING}"),
    ):
        query(spark, metastore)


@pytest.mark.parametrize("query", ALL)
def test_missing_partition_is_skipped(
    spark: SparkSession, metastore: HiveMetastore, without_directory: None, query: Query
) -> None:
    """With ``missing_partition="skip"``, the rows of the other partitions are returned."""
    with changed(spark, {"spark.splitlib.missingPartition": "skip"}):
        rows = query(spark, metastore).collect()
    assert {row.day for row in rows} == set(KEPT) - {MISSING}
    assert len(rows) == 6


@pytest.mark.parametrize("query", [by_sql, by_optimize])
def test_queries_are_as_lenient_as_spark(
    spark: SparkSession, metastore: HiveMetastore, without_directory: None, query: Query
) -> None:
    """By default, a query over session tables skips a missing partition, as plain Spark does."""
    rows = rows_of(query(spark, metastore))
    assert rows == rows_of(spark.sql(SQL.format("li_facts")))
    assert len(rows) == 6


def test_a_query_is_strict_if_the_environment_says_so(
    spark: SparkSession,
    metastore: HiveMetastore,
    without_directory: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPLITLIB_MISSING_PARTITION", "error")
    with pytest.raises(splitlib.MissingPartition, match=f"day={MISSING}"):
        by_sql(spark, metastore)


@pytest.mark.parametrize("query", [by_name, by_reader])
def test_other_reads_are_strict(
    spark: SparkSession, metastore: HiveMetastore, without_directory: None, query: Query
) -> None:
    """By default, a missing partition is an error for readers and named catalogs."""
    with pytest.raises(splitlib.MissingPartition, match=f"day={MISSING}"):
        query(spark, metastore)
