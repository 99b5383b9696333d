"""A DataFrame of splitlib is planned once.

Later changes of its tables make it fail, or appear only after ``splitlib.replan``.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.spark.jvm.active_session import name_path
from splitlib.spark.read.reader import TableReader

pytestmark = pytest.mark.spark

JOIN = "SELECT f.v, f.day FROM r_fact f JOIN r_dim d ON f.day = d.id WHERE d.name = 'n3'"
GONE = r"(FILE_NOT_EXIST|File)(.|\n)*/r_fact/day=3/part-"


@pytest.fixture(autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    """Create a fact table of five partitions with eight rows each, and its dimension."""
    spark.sql(
        "CREATE TABLE r_fact USING parquet PARTITIONED BY (day) "
        "AS SELECT id AS v, CAST(id % 5 AS int) AS day FROM range(40)"
    )
    spark.sql(
        "CREATE TABLE r_dim USING parquet AS SELECT CAST(id AS int) AS id, concat('n', id) AS name "
        "FROM range(5)"
    )
    yield
    spark.sql("DROP TABLE r_fact")
    spark.sql("DROP TABLE r_dim")


@pytest.fixture
def reader(spark: SparkSession, way: dict[str, str]) -> TableReader:
    """Return a reader of the fact table, filtered by one row of the dimension."""
    found = splitlib.read(spark).table("default.r_fact", **way)
    return found.filtered_by(spark.table("r_dim").where("name = 'n3'"), on={"day": "id"})


def test_the_query_is_planned_again_on_the_tables_as_they_are(spark, reader):
    by_text = splitlib.sql(spark, JOIN)
    by_query = splitlib.optimize(spark.sql(JOIN))
    by_name = reader.load()
    twice = splitlib.replan(by_text)
    for change, before, after in (
        ("INSERT INTO r_fact SELECT 100, 3", 8, 9),
        ("INSERT INTO r_dim SELECT 4, 'n3'", 9, 17),
        ("ALTER TABLE r_fact DROP PARTITION (day = 3)", 17, 8),
    ):
        planned = [by_text, by_query, by_name, twice]
        for df in planned:
            assert df.count() == before
        spark.sql(change)
        by_text, by_query, by_name, twice = (splitlib.replan(df) for df in planned)
        for df in (by_text, by_query, by_name, twice):
            assert df.count() == after == spark.sql(JOIN).count()
            assert splitlib.explain(df) is not splitlib.explain(planned[0])


def test_what_is_not_pruned_is_planned_again_too(spark):
    plain = spark.table("r_dim")
    same = splitlib.optimize(plain)
    assert same is plain
    assert splitlib.replan(same).count() == 5
    alive = weakref.ref(same)
    del plain, same
    gc.collect()
    assert alive() is None


def test_what_cannot_be_planned_again_says_so(spark, reader):
    planned = splitlib.sql(spark, JOIN)
    for df in (planned.select("v"), spark.table("r_dim")):
        with pytest.raises(splitlib.ConfigError, match=r"not planned by splitlib"):
            splitlib.replan(df)
    done = splitlib.sql(spark, "INSERT INTO r_fact SELECT 100, 3")
    with pytest.raises(splitlib.ConfigError):
        splitlib.replan(done)
    assert spark.table("r_fact").count() == 41
    dim = spark.table("r_dim").where("name = 'n3'")
    joined = splitlib.optimize(reader.load().join(dim, F.expr("day = id")))
    with pytest.raises(splitlib.ConfigError, match=r"result of load\(\)"):
        splitlib.replan(joined)


def test_names_and_literals_mean_the_same_or_it_is_refused(spark):
    session = spark.newSession()
    session.sql("CREATE DATABASE IF NOT EXISTS r_other")
    session.sql("CREATE TABLE r_other.r_fact USING parquet AS SELECT 7 AS v, 3 AS day")
    try:
        session.range(3).createOrReplaceTempView("r_names")
        by_name = splitlib.read(session).table("r_fact").load()
        full = splitlib.read(session).table("default.r_fact").load()
        by_text = splitlib.sql(session, "SELECT v FROM r_fact JOIN r_names ON day = id")
        session.sql("USE r_other")
        for df in (by_name, by_text):
            with pytest.raises(splitlib.ConfigError, match=r"`default`.*`r_other`"):
                splitlib.replan(df)
        assert splitlib.replan(full).count() == 40
        session.sql("USE default")
        session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        for df in (by_name, by_text):
            with pytest.raises(splitlib.ConfigError, match=r"spark\.sql\.session\.timeZone"):
                splitlib.replan(df)
        session.conf.unset("spark.sql.session.timeZone")
        session.conf.set("spark.sql.shuffle.partitions", "3")
        assert splitlib.replan(by_name).count() == 40
        assert splitlib.replan(by_text).count() == 24
        session.range(1).createOrReplaceTempView("r_names")
        with pytest.raises(splitlib.ConfigError, match=r"replaced or dropped .*: r_names"):
            splitlib.replan(by_text)
        if name_path(session):
            session.conf.set("spark.sql.path.enabled", "true")
            by_text = splitlib.sql(session, "SELECT v FROM r_fact")
            session.sql("SET PATH = spark_catalog.r_other, system.builtin")
            assert session.table("r_fact").count() == 1
            with pytest.raises(
                splitlib.ConfigError, match=r"now looked up.*r_other(.|\n)*SET PATH"
            ):
                splitlib.replan(by_text)
    finally:
        # DROP DATABASE fails in this metastore, so only the table is dropped.
        session.sql("DROP TABLE r_other.r_fact")


# Temporary objects. By name of the object: statements that create it, query it and replace it.
TEMPORARY = {
    "r_local": (
        "CREATE OR REPLACE TEMPORARY VIEW r_local AS SELECT 1 AS a",
        "SELECT a FROM r_local",
        "CREATE OR REPLACE TEMPORARY VIEW r_local AS SELECT 2 AS a",
    ),
    r"global_temp\.r_global": (
        "CREATE GLOBAL TEMPORARY VIEW r_global AS SELECT 1 AS a",
        "SELECT a FROM global_temp.r_global",
        "CREATE OR REPLACE GLOBAL TEMPORARY VIEW r_global AS SELECT 2 AS a",
    ),
    r"r_function\(\)": (
        "CREATE TEMPORARY FUNCTION r_function() RETURNS int RETURN 1",
        "SELECT R_Function() AS a",
        "CREATE OR REPLACE TEMPORARY FUNCTION r_function() RETURNS int RETURN 2",
    ),
    r"r_rows\(\)": (
        "CREATE TEMPORARY FUNCTION r_rows() RETURNS TABLE(a int) RETURN SELECT 1",
        "SELECT a FROM r_rows()",
        "CREATE OR REPLACE TEMPORARY FUNCTION r_rows() RETURNS TABLE(a int) RETURN SELECT 2",
    ),
    "variable r_value": (
        "DECLARE VARIABLE r_value int DEFAULT 1",
        "SELECT r_value AS a",
        "SET VAR r_value = 2",
    ),
    "variable r_typed": (
        "DECLARE VARIABLE r_typed int DEFAULT 1",
        "SELECT r_typed || '' AS a",
        "DECLARE OR REPLACE VARIABLE r_typed string DEFAULT '1'",
    ),
}
AROUND = [
    "{query}",
    "SELECT * FROM r_around_view",
    "SELECT a, r_around_function() FROM ({query})",
    "SELECT * FROM IDENTIFIER('r_around' || '_view')",
]


def runs(session: SparkSession, statement: str) -> bool:
    """Run a statement, and return whether this Spark has its syntax."""
    try:
        session.sql(statement)
    except ParseException:
        return False
    return True


def test_changed_temporary_names_are_refused(spark: SparkSession) -> None:
    session = spark.newSession()
    made = {name: one for name, one in TEMPORARY.items() if runs(session, one[0])}
    assert len(made) >= 2
    unrelated = splitlib.sql(session, "SELECT 'r_global2'")
    try:
        for name, (_, query, change) in made.items():
            planned = planned_with(session, query)
            planned[0] = splitlib.replan(planned[0])
            session.sql(change)
            for df in planned:
                with pytest.raises(splitlib.ConfigError, match=rf"dropped since .*: .*{name}"):
                    splitlib.replan(df)
        assert splitlib.replan(unrelated).count() == 1
    finally:
        session.sql("DROP VIEW global_temp.r_global")


def planned_with(session: SparkSession, query: str) -> list[DataFrame]:
    """Plan DataFrames that contain a query: directly, in a view, in a function, in a condition."""
    session.sql(f"CREATE OR REPLACE TEMPORARY VIEW r_around_view AS {query}")
    has_functions = runs(
        session,
        "CREATE OR REPLACE TEMPORARY FUNCTION r_around_function() RETURNS string "
        f"RETURN (SELECT max(a) FROM ({query}))",
    )
    around = [text for text in AROUND if has_functions or "r_around_function" not in text]
    read = splitlib.read(session).table("default.r_fact")
    condition = f"CAST(day AS string) IN ({query})"
    return [
        *(splitlib.sql(session, text.format(query=query)) for text in around),
        read.where(condition).load(),
        read.where(F.expr(condition)).load(),
    ]


def test_changed_substituted_settings_are_refused(spark: SparkSession) -> None:
    with changed(spark, {"r.day": "3"}):
        planned = splitlib.sql(spark, "SELECT v FROM r_fact WHERE day = ${r.day}")
        assert splitlib.replan(planned).count() == 8
    with changed(spark, {"r.day": "17"}), pytest.raises(splitlib.ConfigError, match=r"r\.day"):
        splitlib.replan(planned)


IGNORING = [
    {},
    {"spark.sql.files.ignoreMissingFiles": "true", "spark.sql.files.ignoreCorruptFiles": "true"},
]


@pytest.mark.parametrize("settings", IGNORING, ids=["", "ignoring"])
def test_a_file_that_has_gone_is_an_error_that_names_it(spark, reader, settings):
    with changed(spark, settings):
        planned = [splitlib.sql(spark, JOIN), reader.load()]
        planned[0].createOrReplaceTempView("r_view")
        spark.sql("INSERT OVERWRITE r_fact PARTITION (day = 3) SELECT 100")
        for df in planned:
            for rows in (df, df.select("v"), df.groupBy().count()):
                with pytest.raises(Exception, match=GONE):
                    rows.collect()
        with pytest.raises(Exception, match=GONE):
            spark.table("r_view").collect()
        spark.catalog.dropTempView("r_view")
        for df in planned:
            assert [v for v, *_ in splitlib.replan(df).collect()] == [100]


@pytest.mark.parametrize(
    "name", ["parquet.binaryAsString", "parquet.mergeSchema", "files.ignoreMissingFiles"]
)
def test_settings_of_files_that_change_rows_are_refused(spark, reader, name):
    planned = [splitlib.sql(spark, JOIN), reader.load()]
    with changed(spark, {f"spark.sql.{name}": "true"}):
        for df in planned:
            with pytest.raises(splitlib.ConfigError, match=name):
                splitlib.replan(df)


def test_a_command_runs_once(spark):
    spark.sql("CREATE TABLE r_copy (v bigint, day int) USING parquet")
    try:
        splitlib.sql(spark, f"INSERT INTO r_copy {JOIN}")
        assert spark.table("r_copy").count() == 8
        done = splitlib.sql(spark, f"INSERT OVERWRITE r_copy {JOIN}")
        splitlib.optimize(done)
        assert spark.table("r_copy").count() == 8
        assert "the result of a command" in str(splitlib.explain(done))
    finally:
        spark.sql("DROP TABLE r_copy")
