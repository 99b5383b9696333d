"""Spark's cache works for DataFrames of splitlib.

Cached rows are not used for scans of other files. They are stale after the table changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import splitlib
from splitlib.spark.read.reader import TableReader
from splitlib.testing import HiveMetastore
from tests.support.hive_tables import way_of

pytestmark = pytest.mark.spark

JOIN = "SELECT f.v, f.day FROM c_fact f JOIN c_dim d ON f.day = d.id WHERE d.name IN ('n3', 'n4')"

Make = Callable[[], DataFrame]


@pytest.fixture(autouse=True)
def fact(spark: SparkSession, metastore: HiveMetastore) -> Iterator[Path]:
    """Create a fact table of five partitions with eight rows each, and a dimension.

    Return the directory of the fact table.
    """
    spark.sql(
        "CREATE TABLE c_fact USING parquet PARTITIONED BY (day) "
        "AS SELECT id AS v, CAST(id % 5 AS int) AS day FROM range(40)"
    )
    spark.sql(
        "CREATE TABLE c_dim USING parquet AS SELECT CAST(id AS int) AS id, concat('n', id) AS name "
        "FROM range(5)"
    )
    yield metastore.warehouse / "c_fact"
    spark.catalog.clearCache()
    spark.sql("DROP TABLE c_fact")
    spark.sql("DROP TABLE c_dim")


def _query(spark: SparkSession, reader: TableReader) -> DataFrame:
    return splitlib.sql(spark, JOIN)


def _reader(spark: SparkSession, reader: TableReader) -> DataFrame:
    return reader.filtered_by(spark.table("c_dim").where("id IN (3, 4)"), on={"day": "id"}).load()


@pytest.fixture(params=[(_query, "hive"), (_reader, "hive"), (_reader, "session")])
def make(request, spark: SparkSession, metastore) -> Make:
    """Return a function that plans the same join at every call, with ``read`` or with ``sql``."""
    plan, connector = request.param
    reader = splitlib.read(spark).table("default.c_fact", **way_of(metastore, connector))
    return lambda: plan(spark, reader)


def rows_of(df: DataFrame) -> list[str]:
    return sorted(map(str, df.collect()))


def plain(spark: SparkSession) -> list[str]:
    """Return the rows of the join in a new session of plain Spark, without cached rows."""
    session = spark.newSession()
    session.catalog.refreshTable("c_fact")
    return rows_of(session.sql(JOIN))


def is_cached(df: DataFrame) -> bool:
    return "InMemoryRelation" in df._jdf.queryExecution().withCachedData().toString()


def truncate(spark: SparkSession, root: Path) -> None:
    spark.sql("TRUNCATE TABLE c_fact PARTITION (day = 3)")


def drop_partition(spark: SparkSession, root: Path) -> None:
    spark.sql("ALTER TABLE c_fact DROP PARTITION (day = 3)")


def insert(spark: SparkSession, root: Path) -> None:
    spark.sql("INSERT INTO c_fact SELECT 100, 3")


def insert_overwrite(spark: SparkSession, root: Path) -> None:
    spark.sql("INSERT OVERWRITE c_fact PARTITION (day = 3) SELECT 100")


def add_file(spark: SparkSession, root: Path) -> None:
    pq.write_table(pa.table({"v": [100]}), root / "day=3" / "new.parquet")


def replace_file(spark: SparkSession, root: Path) -> None:
    """Replace a data file of the fact table by another one with the same name."""
    old = min((root / "day=3").glob("*.parquet"))
    (old.parent / f".{old.name}.crc").unlink(missing_ok=True)
    pq.write_table(pa.table({"v": [100]}), old)


CHANGES = [
    truncate,
    drop_partition,
    insert,
    add_file,
    replace_file,
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_query_planned_anew_reads_what_is_there_now(spark, fact, make, change):
    cached = make().cache()
    assert cached.count() == 16
    change(spark, fact)
    assert rows_of(make()) == plain(spark)


@pytest.mark.parametrize("change", [drop_partition, insert, insert_overwrite])
def test_what_changes_the_table_makes_a_cached_result_stale(spark, fact, make, change):
    """After a change of the table, Spark computes the cached rows again from the planned files.

    If a file is gone, the query fails, and the error names the file.
    """
    planned = make().cache()
    before = rows_of(planned)
    buffers = planned._jdf.queryExecution().withCachedData()
    assert buffers.cacheBuilder().isCachedColumnBuffersLoaded()
    change(spark, fact)
    assert not buffers.cacheBuilder().isCachedColumnBuffersLoaded()
    if change is insert:
        assert rows_of(planned) == before
    else:
        with pytest.raises(Exception, match=r"(FILE_NOT_EXIST|File)(.|\n)*/c_fact/day=3/part-"):
            planned.collect()


@pytest.mark.parametrize("refresh", ["REFRESH TABLE c_fact", "REFRESH '{}'"])
def test_refreshing_the_table_refreshes_results_and_loses_no_files(spark, fact, make, refresh):
    planned = make().cache()
    before = rows_of(planned)
    buffers = planned._jdf.queryExecution().withCachedData()
    insert(spark, fact)
    assert rows_of(planned) == before  # The planned files do not include the new one.
    spark.sql(refresh.format(fact))
    assert not buffers.cacheBuilder().isCachedColumnBuffersLoaded()
    assert rows_of(planned) == before


def test_the_same_files_are_the_same_scan(spark, make):
    first = make()
    assert first.sameSemantics(make())
    first.cache()
    try:
        assert is_cached(make())
    finally:
        first.unpersist()
    twice = make().groupBy("day").count()
    plan = twice.union(make().groupBy("day").count())
    plan.collect()
    assert "ReusedExchange" in plan._jdf.queryExecution().executedPlan().toString()


def test_other_files_are_another_scan(spark, way):
    reader = splitlib.read(spark).table("default.c_fact", **way)

    def of(day: int) -> DataFrame:
        return reader.where(f"day = {day}").load().select("v")

    first = reader.where("day = 3").load().cache()
    first.count()
    assert not is_cached(reader.where("day = 4").load())
    one, other = (splitlib.sql(spark, JOIN.replace("'n3', 'n4'", f"'n{i}'")) for i in (3, 4))
    assert not one.drop("day").sameSemantics(other.drop("day"))
    assert {v % 5 for (v,) in of(4).union(of(3)).collect()} == {3, 4}


def test_a_dimension_that_changes(spark):
    planned = splitlib.sql(spark, JOIN).cache()
    before = rows_of(planned)
    buffers = planned._jdf.queryExecution().withCachedData()
    spark.sql("INSERT INTO c_dim SELECT 1, 'n3'")
    assert not buffers.cacheBuilder().isCachedColumnBuffersLoaded()
    assert rows_of(planned) == before
    assert rows_of(splitlib.sql(spark, JOIN)) == plain(spark) != before
