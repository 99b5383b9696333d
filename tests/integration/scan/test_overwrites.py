"""A DataFrame of splitlib cannot overwrite a table that it reads.

The error is the same as in plain Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.spark.compat import condition_of
from splitlib.testing import HiveMetastore
from tests.support.hive_tables import way_of

pytestmark = pytest.mark.spark

KINDS = {"file": "USING parquet", "hive": "STORED AS PARQUET", "serde": "STORED AS TEXTFILE"}
JOIN = "FROM {0}_fact f JOIN {0}_dim d ON f.day = d.id WHERE d.name = 'n3'"


@dataclass(frozen=True)
class Star:
    """A fact table of five partitions and its dimension."""

    spark: SparkSession
    metastore: HiveMetastore
    name: str

    def query(self, table: str) -> str:
        """Return a join of the two tables that selects the columns of one of them."""
        columns = "f.v, f.day" if table == "fact" else "d.id, d.name"
        return f"SELECT {columns} {JOIN.format(self.name)}"

    def read(self, connector: str = "hive") -> DataFrame:
        """Return the fact table, read with splitlib and filtered by the dimension."""
        dim = self.spark.table(f"{self.name}_dim").where("name = 'n3'")
        reader = splitlib.read(self.spark).table(
            f"default.{self.name}_fact", **way_of(self.metastore, connector)
        )
        return reader.filtered_by(dim, on={"day": "id"}).load()

    def rows(self, table: str) -> list[str]:
        """Return all rows of a table."""
        return sorted(map(str, self.spark.table(f"{self.name}_{table}").collect()))


def created(spark: SparkSession, metastore: HiveMetastore, name: str, kind: str) -> Star:
    """Create a fact table and its dimension, in a format such as ``USING parquet``."""
    fact = "SELECT id AS v, CAST(id % 5 AS int) AS day FROM range(40)"
    if kind.startswith("USING"):
        spark.sql(f"CREATE TABLE {name}_fact {kind} PARTITIONED BY (day) AS {fact}")
    else:
        spark.sql(f"CREATE TABLE {name}_fact (v bigint) PARTITIONED BY (day int) {kind}")
        spark.sql(f"INSERT INTO {name}_fact {fact}")
    dim = "SELECT CAST(id AS int) AS id, concat('n', id) AS name FROM range(5)"
    spark.sql(f"CREATE TABLE {name}_dim {kind} AS {dim}")
    return Star(spark, metastore, name)


@pytest.fixture(scope="module")
def stars(spark: SparkSession, metastore: HiveMetastore) -> Iterator[dict[str, Star]]:
    """Create the tables in each format. All tests share them, because refused writes keep them."""
    yield {k: created(spark, metastore, f"i_{k}", kind) for k, kind in KINDS.items()}
    for kind in KINDS:
        spark.sql(f"DROP TABLE IF EXISTS i_{kind}_fact")
        spark.sql(f"DROP TABLE IF EXISTS i_{kind}_dim")


def save_as_table(rows: DataFrame, table: str) -> None:
    rows.write.mode("overwrite").saveAsTable(table)


def insert_into(rows: DataFrame, table: str) -> None:
    rows.write.insertInto(table, overwrite=True)


def insert_from_view(rows: DataFrame, table: str) -> None:
    rows.createOrReplaceTempView("i_view")
    try:
        rows.sparkSession.sql(f"INSERT OVERWRITE TABLE {table} SELECT * FROM i_view")
    finally:
        rows.sparkSession.catalog.dropTempView("i_view")


def refusal(write: Callable[[DataFrame, str], None], rows: DataFrame, table: str) -> str | None:
    """Assert that a write fails with an AnalysisException. Return the error condition."""
    with pytest.raises(AnalysisException) as caught:
        write(rows, table)
    return condition_of(caught.value)


REFUSED = [
    *(("file", table, w) for table in ("fact", "dim") for w in (insert_into, insert_from_view)),
    *((kind, table, save_as_table) for table in ("fact", "dim") for kind in KINDS),
    ("hive", "dim", insert_into),
]


@pytest.mark.parametrize(("kind", "table", "write"), REFUSED)
def test_what_is_read_is_not_overwritten(spark, stars, kind, table, write):
    star = stars[kind]
    target, before = f"{star.name}_{table}", star.rows(table)
    condition = refusal(write, spark.sql(star.query(table)), target)
    planned = splitlib.sql(spark, star.query(table))
    assert splitlib.explain(planned).scans[0].partitions.matched == 1
    ways = [planned, planned.where("1 = 1").limit(3), planned.union(planned)]
    if table == "fact":
        ways += [star.read(), star.read().where("v > 3").select("v", "day"), star.read("session")]
    for rows in ways:
        assert refusal(write, rows, target) == condition == "UNSUPPORTED_OVERWRITE.TABLE"
    assert star.rows(table) == before


def test_a_table_that_hive_may_overwrite_is_overwritten(spark, metastore):
    def plain(star):
        return spark.sql(star.query("fact"))

    for make in (plain, Star.read, partial(Star.read, connector="session")):
        star = created(spark, metastore, "i_ow", "STORED AS PARQUET")
        before = star.rows("fact")
        insert_into(make(star).where("v < 20"), "i_ow_fact")
        assert len(before) - len(star.rows("fact")) == 4
        spark.sql("DROP TABLE i_ow_fact")
        spark.sql("DROP TABLE i_ow_dim")


def test_a_dimension_that_is_computed_once_or_cached_is_not_overwritten(spark, stars):
    star = stars["file"]
    dim = spark.table("i_file_dim").where("name = 'n3'")
    other_rows = splitlib.optimize(
        spark.table("i_file_fact").join(dim.where(F.rand() < 2), F.expr("day = id"))
    )
    assert splitlib.explain(other_rows).scans[0].partitions.matched == 1
    spark.table("i_file_dim").cache()
    try:
        cached = splitlib.sql(spark, star.query("dim"))
        rows = [other_rows.select("id", "name"), cached]
        for write in (save_as_table, insert_into):
            for df in rows:
                assert refusal(write, df, "i_file_dim") == "UNSUPPORTED_OVERWRITE.TABLE"
    finally:
        spark.catalog.uncacheTable("i_file_dim")


def test_a_table_of_a_named_catalog_that_the_session_knows(spark, metastore, stars):
    settings = {
        "spark.splitlib.catalog.here.connector": "hive",
        "spark.splitlib.catalog.here.uri": metastore.uri,
    }
    with changed(spark, settings):
        query = stars["file"].query("fact").replace("i_file_fact", "here.default.i_file_fact")
        rows = splitlib.sql(spark, query)
        assert refusal(save_as_table, rows, "i_file_fact") == "UNSUPPORTED_OVERWRITE.TABLE"
        assert refusal(insert_into, rows, "i_file_fact") == "UNSUPPORTED_OVERWRITE.TABLE"


def test_the_directory_of_a_table_that_the_session_does_not_know(spark, metastore, tmp_path):
    """The overwrite is refused if a table has the location of the directory that is read.

    splitlib reads the directory by path, and the session has a table there.
    """
    path = tmp_path / "events"
    spark.range(6).selectExpr("id AS v", "id % 3 AS k").write.partitionBy("k").parquet(str(path))
    spark.sql(f"CREATE TABLE i_other (v bigint, k bigint) USING parquet LOCATION '{path}'")
    try:
        plain = spark.read.parquet(str(path))
        rows = splitlib.read(spark).table(str(path), connector="files", format="parquet").load()
        for df in (plain, rows):
            same = df.selectExpr("v", "CAST(k AS bigint) AS k")
            assert refusal(insert_into, same, "i_other") == "UNSUPPORTED_OVERWRITE.TABLE"
    finally:
        spark.sql("DROP TABLE i_other")


def test_the_plan_that_runs_reads_nothing_more(spark, stars):
    star = stars["file"]
    for rows in (splitlib.sql(spark, star.query("fact")), star.read(), star.read("session")):
        plan = rows._jdf.queryExecution().optimizedPlan().toString()
        assert "LeftAnti" not in plan
        assert plan.count("Relation") == 1 + plan.count("LocalRelation")
        assert rows.count() == 8
        assert len(rows.inputFiles()) == 2 == len(set(rows.inputFiles()))
    assert stars["file"].read().select("v", "_metadata.file_name").distinct().count() == 8


@pytest.mark.parametrize("kind", KINDS)
def test_a_pruned_scan_is_pruned_further(stars, spark, kind):
    star = stars[kind]
    once = splitlib.optimize(
        spark.sql(f"SELECT f.* FROM i_{kind}_fact f JOIN i_{kind}_dim d ON day = id WHERE id < 4")
    )
    dim = spark.table(f"i_{kind}_dim").where("name = 'n3'")
    for way, rows in {"sql": once, "hive": star.read(), "session": star.read("session")}.items():
        joined = rows.join(dim, F.col("day") == F.col("id"))
        again = splitlib.optimize(joined)
        # A Hive SerDe scan that is already limited to some partitions cannot be pruned again.
        assert bool(splitlib.explain(again).reasons) == ((kind, way) == ("serde", "session"))
        assert sorted(map(str, again.collect())) == sorted(map(str, joined.collect()))
        assert again.count() == 8
