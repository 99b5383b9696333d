"""Values that Spark fixes each time it optimizes a query, such as the current database.

Also the current catalog, which a clone of a session lacks.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.spark.determinism import why_not_deterministic
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.gateway import jvm_of
from tests.integration.planner.tables import pruned, rows_of

pytestmark = pytest.mark.spark
NO_BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "-1"}


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    spark.sql(
        """CREATE TABLE fv_sales USING parquet PARTITIONED BY (day) AS
          SELECT id AS v, CAST(id % 20 AS int) AS day FROM range(200)"""
    )
    spark.sql(
        """CREATE TABLE fv_days USING parquet AS
          SELECT CAST(id AS int) AS id, if(id % 2 = 0, 'default', 'fv_other') AS db,
                 if(id = 3, current_date() + 1000, DATE'2020-01-01') AS d FROM range(20)"""
    )
    # It is not dropped, because DROP DATABASE fails in this metastore.
    spark.sql("CREATE DATABASE IF NOT EXISTS fv_other")
    yield
    for table in ("fv_sales", "fv_days"):
        spark.sql(f"DROP TABLE default.{table}")


IN_JOIN = """SELECT d.id, count(f.v) AS n FROM fv_days d LEFT JOIN fv_sales f ON f.day = d.id
  WHERE d.db = current_database() GROUP BY d.id"""
IN_SUBQUERY = """SELECT f.day, count(*) AS n FROM default.fv_sales f
  WHERE f.day IN (SELECT id FROM default.fv_days WHERE db = current_database()) GROUP BY f.day"""


@pytest.mark.parametrize("sql", [IN_JOIN, IN_SUBQUERY], ids=["join", "subquery"])
@pytest.mark.parametrize("settings", [{}, NO_BROADCAST], ids=["broadcast", "shuffled"])
def test_the_database_of_the_time_of_planning(
    spark: SparkSession, sql: str, settings: dict[str, str]
) -> None:
    expected = rows_of(spark.sql(sql))
    with changed(spark, settings):
        planned = splitlib.sql(spark, sql)
        spark.sql("USE fv_other")
        try:
            assert rows_of(planned) == expected
        finally:
            spark.sql("USE default")
    assert len(expected) == 10
    assert pruned(planned)


def test_special_dates_in_the_result(spark: SparkSession) -> None:
    """They are constants without nulls, where the schema of the query allows nulls."""
    sql = """SELECT f.v, CAST('today' AS date) AS t, to_date('2020-01-01') AS d FROM fv_sales f
      JOIN fv_days d ON f.day = d.id WHERE d.db = current_database()"""
    optimized = splitlib.sql(spark, sql)
    assert rows_of(optimized) == rows_of(spark.sql(sql))
    assert [kept for _, kept in pruned(optimized)] == [10]


SPECIAL = ["CAST('today' AS date)", "to_date('now')", "CAST('tomorrow' AS timestamp)"]


@pytest.mark.parametrize("special", SPECIAL)
def test_special_dates_are_fixed(spark: SparkSession, special: str) -> None:
    sql = f"""SELECT f.v FROM fv_sales f JOIN fv_days d ON f.day = d.id WHERE d.d > {special}
      AND f.day IN (SELECT id FROM fv_days WHERE d > {special})"""
    analyzed = str(Catalyst(spark).execution.analyzed(spark.sql(sql)))
    assert special.split("'")[1] not in analyzed
    optimized = splitlib.sql(spark, sql)
    assert rows_of(optimized) == rows_of(spark.sql(sql))
    assert [kept for _, kept in pruned(optimized)] == [1]


@pytest.mark.parametrize("special", SPECIAL)
def test_special_dates_in_dimensions_are_not_deterministic(
    spark: SparkSession, special: str
) -> None:
    def of(df: DataFrame) -> str | None:
        return why_not_deterministic(df)

    assert of(spark.sql(f"SELECT * FROM fv_days WHERE d > {special}")) == "it uses the current time"
    inner = f"SELECT * FROM fv_days WHERE id IN (SELECT id FROM fv_days WHERE d > {special})"
    assert of(spark.sql(inner)) == "it uses the current time"
    assert of(spark.sql("SELECT * FROM fv_days WHERE d > to_date('2020-01-01')")) is None
    condition = F.expr(f"d > {special}")
    with pytest.raises(splitlib.NonDeterministicDimension):
        splitlib.read(spark).table("fv_sales").filtered_by(
            spark.table("fv_days").where(condition), on={"day": "id"}
        ).load()


@pytest.mark.parametrize("rows", ["FROM VALUES (1), (2), (3) AS t(x)", ""])
def test_functions_that_the_optimizer_evaluates(spark: SparkSession, rows: str) -> None:
    """A further optimization would draw other keys."""
    sql = f"""SELECT f.v, d.drawn FROM fv_sales f JOIN (SELECT
      CAST(20 * CAST(reflect('java.lang.Math', 'random') AS DOUBLE) AS INT) AS id, 1 AS drawn
      {rows}) d ON f.day = d.id"""
    for _ in range(3):
        assert len(splitlib.sql(spark, sql).collect()) == (30 if rows else 10)


@pytest.fixture
def other_catalog(spark: SparkSession) -> Iterator[None]:
    """Make a database of Derby the current catalog, with an empty table APP.T1."""
    catalog = "spark.sql.catalog.fv_derby"
    settings = {
        catalog: "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        f"{catalog}.url": "jdbc:derby:memory:fv_derby;create=true",
    }
    jvm_of(spark).class_("java.lang.System").setProperty("derby.stream.error.file", "/dev/null")
    with changed(spark, settings):
        spark.sql("CREATE TABLE IF NOT EXISTS fv_derby.APP.T1 (v int)")
        spark.sql("USE fv_derby.APP")
        try:
            yield
        finally:
            spark.sql("USE spark_catalog.default")


def test_the_current_catalog(spark: SparkSession, other_catalog: None) -> None:
    sql = """SELECT f.v FROM spark_catalog.default.fv_sales f
      JOIN spark_catalog.default.fv_days d ON f.day = d.id
      WHERE d.id = CASE WHEN current_catalog() = 'fv_derby' AND current_schema() = 'APP'
        THEN 3 ELSE 4 END"""
    optimized = splitlib.sql(spark, sql)
    assert rows_of(optimized) == rows_of(spark.sql(sql))
    assert len(rows_of(optimized)) == 10


@pytest.mark.parametrize("use", ["USE fv_derby", "SET spark.sql.defaultCatalog = fv_derby"])
def test_a_catalog_without_a_namespace(spark: SparkSession, other_catalog: None, use: str) -> None:
    """Spark accepts no empty namespace, although it is the current one."""
    spark.sql("USE spark_catalog.default")
    with changed(spark, {"spark.sql.defaultCatalog": "spark_catalog"}):
        spark.sql(use)
        sql = """SELECT f.v FROM spark_catalog.default.fv_sales f
          JOIN spark_catalog.default.fv_days d ON f.day = d.id WHERE d.db = 'default'"""
        assert [kept for _, kept in pruned(splitlib.sql(spark, sql))] == [10]
        loaded = splitlib.read(spark).table("spark_catalog.default.fv_sales").load()
        assert loaded.count() == 200
        with pytest.raises(splitlib.UnsupportedTable, match="not from files"):
            splitlib.read(spark).table("fv_derby.APP.T1").load()


def test_names_in_the_current_catalog(spark: SparkSession, other_catalog: None) -> None:
    spark.sql("CREATE DATABASE IF NOT EXISTS spark_catalog.app")
    spark.sql("CREATE TABLE spark_catalog.app.t1 USING parquet AS SELECT 42 AS v")
    try:
        assert spark.table("APP.T1").collect() == []
        with pytest.raises(splitlib.UnsupportedTable, match="not from files"):
            splitlib.read(spark).table("APP.T1").load()
        found = splitlib.read(spark).table("spark_catalog.app.t1").load()
        assert [row.v for row in found.collect()] == [42]
    finally:
        spark.sql("DROP TABLE spark_catalog.app.t1")
