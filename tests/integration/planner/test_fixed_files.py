"""A planned query does not read files that were added after it was planned."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import splitlib
from splitlib.spark.planner import materialize
from tests.integration.planner.tables import explained, rows_of

pytestmark = pytest.mark.spark

_SETUP = """
CREATE TABLE ff_few USING parquet PARTITIONED BY (p) AS
  SELECT id AS v, CAST(id % 4 AS int) AS p FROM range(40);
CREATE TABLE ff_many USING parquet PARTITIONED BY (p) AS
  SELECT id AS v, CAST(id % 20 AS int) AS p FROM range(40);
CREATE TABLE ff_flat USING orc AS SELECT id AS v FROM range(40);
CREATE TABLE ff_hive (v bigint) STORED AS parquet;
INSERT INTO ff_hive SELECT id FROM range(40);
CREATE TABLE ff_text (v bigint) PARTITIONED BY (p int) STORED AS textfile;
INSERT INTO ff_text SELECT id, CAST(id % 4 AS int) FROM range(40);
CREATE TABLE ff_dim USING parquet AS
  SELECT CAST(id AS int) AS k, CAST(id % 5 AS int) AS g FROM range(20);
CREATE TABLE ff_struct USING parquet AS
  SELECT named_struct('k', k, 'g', g, 'other', 'x') AS s, k AS v FROM ff_dim;
CREATE VIEW ff_view AS SELECT v, p FROM ff_few WHERE p >= 2;
"""
_TABLES = ("ff_few", "ff_many", "ff_flat", "ff_hive", "ff_text", "ff_dim", "ff_struct")
_PRUNED = "SELECT * FROM ff_many f JOIN ff_dim d ON f.p = d.k"


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    for statement in filter(str.strip, _SETUP.split(";")):
        spark.sql(statement)
    yield
    spark.sql("DROP VIEW ff_view")
    for table in _TABLES:
        spark.sql(f"DROP TABLE {table}")


@pytest.mark.parametrize(
    ("sql", "written"),
    [
        pytest.param(
            "SELECT * FROM ff_few f JOIN ff_dim d ON f.p = d.k WHERE d.g = 1", "ff_few", id="few"
        ),
        pytest.param(
            "SELECT * FROM ff_view f JOIN ff_dim d ON f.p = d.k WHERE d.g = 3", "ff_few", id="view"
        ),
        pytest.param(
            "SELECT f.v FROM ff_many f JOIN ff_few d ON f.v = d.v WHERE d.p = 1",
            "ff_few",
            id="other columns compared",
        ),
        pytest.param(f"{_PRUNED} WHERE d.k < 100", "ff_many", id="keys of every partition"),
        pytest.param(_PRUNED, "ff_dim", id="dimension without a condition"),
        pytest.param(
            f"{_PRUNED} JOIN ff_flat o ON o.v = f.v WHERE d.g = 1", "ff_flat", id="no partitions"
        ),
        pytest.param(
            f"{_PRUNED} JOIN ff_hive o ON o.v = f.v WHERE d.g = 1", "ff_hive", id="of Hive"
        ),
        pytest.param(
            f"{_PRUNED} WHERE d.g = 1 AND f.v IN (SELECT v FROM ff_flat)", "ff_flat", id="subquery"
        ),
        pytest.param(
            "SELECT f.v FROM ff_many f JOIN ff_struct d ON f.p = d.s.k WHERE d.s.g = 1",
            "ff_struct",
            id="some fields of a struct",
        ),
        pytest.param(
            f"{_PRUNED} JOIN (SELECT * FROM ff_flat UNION ALL SELECT * FROM ff_flat WHERE false) o"
            " ON o.v = f.v WHERE d.g = 1",
            "ff_flat",
            id="empty branch",
        ),
    ],
)
def test_a_later_insert_is_not_read(spark: SparkSession, sql: str, written: str) -> None:
    """Rows inserted after planning appear only after ``replan``, also in unpruned tables."""
    before = rows_of(spark.sql(sql))
    planned = splitlib.sql(spark, sql)
    assert explained(planned).notes == ()
    spark.sql(f"INSERT INTO {written} SELECT * FROM {written}")
    assert rows_of(planned) == before
    after = rows_of(spark.sql(sql))
    assert len(after) > len(before) or "IN (SELECT" in sql
    assert rows_of(splitlib.replan(planned)) == after


def test_a_dimension_that_fails_in_planning_is_read_from_the_same_files(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise Py4JError("The dimension fails.")

    monkeypatch.setattr(materialize, "internal_rows", fail)
    sql = f"{_PRUNED} WHERE d.g = 1"
    before = rows_of(spark.sql(sql))
    planned = splitlib.sql(spark, sql)
    spark.sql("INSERT INTO ff_dim SELECT k, 1 FROM ff_dim")
    assert rows_of(planned) == before != rows_of(spark.sql(sql))
    assert explained(planned).notes == ()


@pytest.mark.parametrize("reads", ["files", "an RDD"])
def test_inputs_without_columns_keep_their_own_rows(
    spark: SparkSession, tmp_path: Path, reads: str
) -> None:
    for rows in (2, 3):
        if reads == "files":
            spark.range(rows).coalesce(1).write.parquet(f"{tmp_path}/{rows}")
            empty = spark.read.schema(StructType()).parquet(f"{tmp_path}/{rows}")
        else:
            rdd = spark.sparkContext.parallelize([()] * rows)
            empty = spark.createDataFrame(rdd, StructType())
        empty.createOrReplaceTempView(f"ff_rows{rows}")
    dimension = "SELECT k, count(*) AS n FROM ff_dim, ff_rows2, ff_rows3 WHERE g = 1 GROUP BY k"
    sql = f"SELECT v, n FROM ff_many JOIN ({dimension}) ON p = k CROSS JOIN ff_rows3"
    assert rows_of(splitlib.sql(spark, sql)) == rows_of(spark.sql(sql)) != []
    for rows in (2, 3):
        spark.catalog.dropTempView(f"ff_rows{rows}")


def test_a_table_that_hive_reads_is_named(spark: SparkSession) -> None:
    """Spark lists the files of a Hive text table at run time, and the report names the table."""
    planned = splitlib.sql(
        spark, "SELECT f.v FROM ff_text f JOIN ff_dim d ON f.p = d.k WHERE d.g = 1"
    )
    (note,) = explained(planned).notes
    assert note == "files listed at run time: spark_catalog.default.ff_text"
    assert note in str(explained(planned))
    assert note in explained(planned)._repr_html_()


def test_what_the_query_leaves_out_is_not_listed(spark: SparkSession) -> None:
    """Files are listed only in partitions that match the query's own condition.

    Here the condition matches one partition.
    """
    sql = "SELECT f.v FROM ff_many f JOIN ff_few d ON f.v = d.v WHERE f.p = 7"
    planned = splitlib.sql(spark, sql)
    assert rows_of(planned) == rows_of(spark.sql(sql))
    files = [f for f in planned.inputFiles() if "/ff_many/" in f]
    assert files
    assert all("/p=7/" in f for f in files)


def test_statistics_are_still_those_of_the_table(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """A scan with fixed files keeps the statistics of ANALYZE TABLE. Spark plans joins by them."""
    spark.sql("ANALYZE TABLE ff_flat COMPUTE STATISTICS FOR ALL COLUMNS")
    planned = splitlib.sql(spark, f"{_PRUNED} JOIN ff_flat o ON o.v = f.v WHERE d.g = 1")
    spark.conf.set("spark.sql.cbo.enabled", "true")
    try:
        planned.explain("cost")
        text = capsys.readouterr().out
    finally:
        spark.conf.unset("spark.sql.cbo.enabled")
    (line,) = [row for row in text.splitlines() if "ff_flat" in row and "Relation" in row][:1]
    assert "rowCount=" in line
