"""splitlib runs a command only once, even if its result is optimized, explained or collected."""

from __future__ import annotations

import pyspark
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.spark.compat import condition_of

pytestmark = pytest.mark.spark
JOINED = "SELECT CAST(v AS int) AS v, 7 AS grp FROM c_fact JOIN c_dim ON k = id WHERE grp = 1"


@pytest.fixture
def tables(spark):
    spark.sql("CREATE TABLE c_fact (v bigint, k int) USING parquet PARTITIONED BY (k)")
    spark.sql("INSERT INTO c_fact SELECT id, CAST(id % 5 AS int) FROM range(10)")
    spark.sql("CREATE TABLE c_dim (id int, grp int) USING parquet")
    spark.sql("INSERT INTO c_dim VALUES (1, 1), (2, 1), (3, 2)")
    spark.sql("CREATE TABLE c_target (v int, grp int) USING parquet")
    yield
    for table in ("c_fact", "c_dim", "c_target"):
        spark.sql(f"DROP TABLE {table}")


@pytest.mark.parametrize(
    "command",
    [
        f"INSERT INTO c_target {JOINED}",
        f"WITH j AS ({JOINED}) INSERT INTO c_target SELECT * FROM j",
        f"FROM ({JOINED}) INSERT INTO c_target SELECT v, 1 INSERT INTO c_target SELECT v, 2",
    ],
)
def test_an_insert(spark, tables, command):
    spark.sql(command)
    once = spark.table("c_target").count()
    assert once > 0

    returned = splitlib.sql(spark, command)
    assert spark.table("c_target").count() == 2 * once
    again = splitlib.optimize(returned)
    assert "the result of a command" in str(splitlib.explain(again))
    assert spark.table("c_target").count() == 2 * once


@pytest.mark.parametrize(
    "command",
    [
        "INSERT INTO c_target {}",
        "INSERT OVERWRITE c_target {}",
        "INSERT INTO c_target (grp, v) SELECT grp, v FROM ({})",
        "INSERT INTO c_target BY NAME SELECT grp, v FROM ({})",
        "WITH j AS ({}) INSERT INTO c_target SELECT * FROM j",
        "CREATE TABLE c_made USING parquet AS {}",
    ],
)
def test_what_a_command_reads_is_pruned_before_it_runs(spark, tables, command):
    spark.sql("INSERT INTO c_fact SELECT id, CAST(id % 9 AS int) FROM range(9)")
    made = "c_made" if "c_made" in command else "c_target"
    try:
        spark.sql(command.format(JOINED))
        once = sorted(spark.table(made).collect())
        spark.sql("DROP TABLE c_made" if made == "c_made" else "TRUNCATE TABLE c_target")
        returned = splitlib.sql(spark, command.format(JOINED))
        assert sorted(spark.table(made).collect()) == once
        (scan,) = splitlib.explain(returned).scans
        assert scan.partitions == (2, 9)
    finally:
        spark.sql("DROP TABLE IF EXISTS c_made")


@pytest.mark.parametrize(
    "command",
    [
        "INSERT OVERWRITE DIRECTORY '{}' USING parquet {}",
        "INSERT OVERWRITE LOCAL DIRECTORY '{}' STORED AS PARQUET {}",
        "WITH j AS ({1}) INSERT OVERWRITE DIRECTORY '{0}' USING parquet SELECT * FROM j",
    ],
)
def test_what_is_written_to_a_directory_is_pruned(spark, tables, tmp_path, command):
    spark.sql("INSERT INTO c_fact SELECT id, CAST(id % 9 AS int) FROM range(9)")
    spark.sql(command.format(tmp_path / "spark", JOINED))
    returned = splitlib.sql(spark, command.format(tmp_path / "splitlib", JOINED))
    written = [spark.read.parquet(str(tmp_path / name)) for name in ("spark", "splitlib")]
    assert written[0].schema == written[1].schema
    rows = [sorted(each.collect()) for each in written]
    assert rows[0] == rows[1] != []
    (scan,) = splitlib.explain(returned).scans
    assert scan.partitions == (2, 9)


def test_a_directory_that_is_read_is_not_overwritten(spark, tables, tmp_path):
    spark.sql(f"CREATE TABLE c_here (k int) USING parquet LOCATION '{tmp_path / 'here'}'")
    try:
        spark.sql("INSERT INTO c_here VALUES (1), (3)")
        command = (
            f"INSERT OVERWRITE DIRECTORY 'file:{tmp_path / 'here'}' USING parquet "
            "SELECT k FROM c_fact JOIN c_here USING (k) JOIN c_dim ON k = id WHERE grp = 1"
        )
        conditions = []
        for run in (type(spark).sql, splitlib.sql):
            with pytest.raises(AnalysisException) as refused:
                run(spark, command)
            conditions.append(condition_of(refused.value))
        assert conditions[0] == conditions[1] is not None
        assert spark.table("c_here").count() == 2
    finally:
        spark.sql("DROP TABLE c_here")


@pytest.mark.parametrize(
    ("command", "parameters", "reason"),
    [
        (f"INSERT INTO c_target {JOINED} AND v < :v", {"v": 9}, "commands with parameters"),
        (f"INSERT INTO c_target {JOINED} AND v < ?", [9], "commands with parameters"),
        (
            f"FROM ({JOINED}) INSERT INTO c_target SELECT v, 1 INSERT INTO c_target SELECT v, 2",
            None,
            "this command",
        ),
        (f"CACHE TABLE c_cached AS {JOINED}", None, "this command"),
        ("SHOW TABLES", None, "this command"),
        pytest.param(
            f"BEGIN {JOINED}; END",
            None,
            "this command",
            marks=pytest.mark.skipif(pyspark.__version__ < "4", reason="Spark 3.5 has no scripts"),
        ),
    ],
)
def test_why_a_command_is_not_planned(spark, tables, command, parameters, reason):
    try:
        given = () if parameters is None else (parameters,)
        with changed(spark, {"spark.sql.scripting.enabled": "true"}):
            shown = str(splitlib.explain(splitlib.sql(spark, command, *given)))
    finally:
        spark.catalog.dropTempView("c_cached")
    assert f"left to Spark: splitlib does not plan {reason}." in shown


def test_a_cache_does_not_hide_the_table_to_overwrite(spark, tables):
    """Only a table in a subquery is pruned, and the cached rows replace the other one."""
    spark.sql("INSERT INTO c_fact SELECT id, CAST(id % 9 AS int) FROM range(9)")
    spark.sql("CREATE TABLE c_overwritten USING parquet AS SELECT id AS k FROM range(3)")
    command = """INSERT OVERWRITE c_overwritten SELECT * FROM c_overwritten
        WHERE k IN (SELECT v FROM c_fact JOIN c_dim ON c_fact.k = id WHERE grp = 1)"""
    try:
        spark.table("c_overwritten").cache()
        for run in (type(spark).sql, splitlib.sql):
            with pytest.raises(AnalysisException, match=r"(?i)overwrite"):
                run(spark, command)
        assert spark.table("c_overwritten").count() == 3
    finally:
        spark.sql("DROP TABLE c_overwritten")


@pytest.mark.skipif(pyspark.__version__ < "4", reason="Spark 3.5 has neither")
@pytest.mark.parametrize("text", ["EXECUTE IMMEDIATE '{}'", "BEGIN {}; SELECT 1; END"])
def test_statements_that_run_commands_are_not_run_again(spark, tables, text):
    spark.sql("CREATE TABLE c_once (v int) USING parquet")
    try:
        with changed(spark, {"spark.sql.scripting.enabled": "true"}):
            done = splitlib.sql(spark, text.format("INSERT INTO c_once VALUES (1)"))
            with pytest.raises(splitlib.ConfigError, match="not planned by splitlib"):
                splitlib.replan(done)
        assert spark.table("c_once").count() == 1
    finally:
        spark.sql("DROP TABLE c_once")


def test_an_insert_that_reads_what_it_overwrites_is_refused_as_ever(spark, tables):
    spark.sql("INSERT INTO c_fact SELECT id, CAST(id % 9 AS int) FROM range(9)")
    command = "INSERT OVERWRITE c_fact SELECT v, k FROM c_fact JOIN c_dim ON k = id WHERE grp = 1"
    messages = []
    for run in (type(spark).sql, splitlib.sql):
        with pytest.raises(AnalysisException) as refused:
            run(spark, command)
        messages.append(str(refused.value).partition(".")[0])
    assert messages[0] == messages[1]
    assert spark.table("c_fact").count() == 19


def test_limits_hold_in_a_command(spark, tables):
    spark.sql("INSERT INTO c_fact SELECT id, CAST(id % 9 AS int) FROM range(9)")
    few = changed(spark, {"spark.splitlib.maxPartitions": "1"})
    with few, pytest.raises(splitlib.TooManyPartitions):
        splitlib.sql(spark, f"INSERT INTO c_target {JOINED}")
    assert spark.table("c_target").count() == 0


@pytest.mark.parametrize(
    "command",
    [
        "INSERT INTO c_target VALUES (1, DEFAULT)",
        "INSERT INTO c_target SELECT v, DEFAULT FROM c_fact",
        "INSERT INTO c_target SELECT CAST(v AS int), 1 FROM c_fact",
        "TRUNCATE TABLE c_target",
    ],
)
def test_a_command_without_a_join_runs_as_it_is(spark, tables, command):
    outcomes: list[object] = []
    for run in (type(spark).sql, splitlib.sql):
        spark.sql("TRUNCATE TABLE c_target")
        try:
            run(spark, command)
        except AnalysisException as error:
            outcomes.append(condition_of(error))
        else:
            outcomes.append(sorted(spark.table("c_target").collect(), key=str))
    assert outcomes[0] == outcomes[1]


def test_what_a_command_returns_can_be_joined(spark, tables):
    days = spark.sql("SHOW PARTITIONS c_fact").selectExpr("int(substr(partition, 3)) AS day")
    joined = spark.table("c_fact").join(days.where("day = 3"), F.expr("k = day"))
    assert splitlib.optimize(joined).count() == joined.count() == 2
