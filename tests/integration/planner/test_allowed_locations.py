"""With ``allowed_locations``, splitlib raises an error before anything outside of them is read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.testing import HiveMetastore
from tests.integration.planner.tables import rows_of
from tests.integration.planner.ways import CATALOG, settings
from tests.support.abilities import register_data_source
from tests.support.hive_tables import way_of

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

FACTS, DAYS, TEXTS = "al_facts", "al_days", "al_texts"
OUTSIDE = 6
"""Day whose partition is outside of the allowed locations. It belongs to week 1."""
JOIN = "SELECT f.v, f.day FROM {} f JOIN al_days d ON f.day = d.id WHERE d.week = {}"


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession, metastore: HiveMetastore) -> Iterator[None]:
    """Create a dimension and two fact tables of 15 partitions.

    One partition of each fact table is outside of the warehouse.
    """
    spark.sql(f"""CREATE TABLE {FACTS} USING parquet PARTITIONED BY (day) AS
        SELECT id AS v, CAST(id % 15 AS int) AS day FROM range(45)""")
    spark.sql(f"""CREATE TABLE {TEXTS} (v bigint) PARTITIONED BY (day int)
        STORED AS TEXTFILE""")
    with changed(spark, {"hive.exec.dynamic.partition.mode": "nonstrict"}):
        spark.sql(f"INSERT INTO {TEXTS} SELECT v, day FROM {FACTS}")
    for table in (FACTS, TEXTS):
        elsewhere = metastore.directory / "elsewhere" / table
        directory = metastore.warehouse / table / f"day={OUTSIDE}"
        elsewhere.parent.mkdir(exist_ok=True)
        directory.rename(elsewhere)
        spark.sql(
            f"ALTER TABLE {table} PARTITION (day={OUTSIDE}) SET LOCATION '{elsewhere.as_uri()}'"
        )
        spark.catalog.refreshTable(table)
    spark.sql(f"""CREATE TABLE {DAYS} USING parquet AS
        SELECT CAST(id AS int) AS id, id % 5 AS week FROM range(15)""")
    yield
    for table in (FACTS, TEXTS, DAYS):
        spark.sql(f"DROP TABLE {table}")


@pytest.fixture(autouse=True)
def restricted(spark: SparkSession, metastore: HiveMetastore, tables: None) -> Iterator[None]:
    with changed(spark, {"spark.splitlib.allowedLocations": str(metastore.warehouse)}):
        yield


@pytest.fixture
def unrestricted(spark: SparkSession, restricted: None) -> Iterator[None]:
    with changed(spark, {"spark.splitlib.allowedLocations": "none"}):
        yield


def jobs(spark: SparkSession) -> int:
    """Return the number of jobs that Spark has started."""
    return int(spark._jsc.sc().dagScheduler().numTotalJobs())


def stages(spark: SparkSession, first: int) -> str:
    """Return the names of the stages of jobs, from job number ``first`` on.

    The name of a stage contains the file and the line of Python code that runs it.
    """
    tracker = spark.sparkContext.statusTracker()
    found = [tracker.getJobInfo(job) for job in range(first, jobs(spark))]
    numbers = [number for job in found if job is not None for number in job.stageIds]
    infos = [tracker.getStageInfo(number) for number in numbers]
    return " ".join(info.name for info in infos if info is not None)


def refused():
    return pytest.raises(splitlib.LocationNotAllowed, match="elsewhere")


@pytest.mark.parametrize("table", [FACTS, TEXTS])
def test_only_what_matters_is_compared(spark: SparkSession, table: str) -> None:
    """A query runs as usual if the partition outside of the allowed locations is pruned."""
    found = rows_of(splitlib.sql(spark, JOIN.format(table, 2)))
    with changed(spark, {"spark.splitlib.allowedLocations": "none"}):
        assert found == rows_of(spark.sql(JOIN.format(table, 2)))
    with refused():
        splitlib.sql(spark, JOIN.format(table, 1))
    with refused():
        splitlib.optimize(spark.sql(JOIN.format(table, 1)))


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT count(*) FROM {FACTS}",
        f"SELECT count(*) FROM {TEXTS}",
        f"SELECT 1 WHERE EXISTS (SELECT 1 FROM {FACTS} WHERE day = {OUTSIDE})",
        f"CREATE TABLE al_copy USING parquet AS SELECT * FROM {FACTS}",
    ],
)
def test_nothing_is_left_to_spark_in_silence(spark: SparkSession, query: str) -> None:
    """Locations are also checked for queries and commands that splitlib does not prune."""
    with refused():
        splitlib.sql(spark, query)
    with changed(spark, {"spark.splitlib.dynamicFilteringEnabled": "false"}), refused():
        splitlib.sql(spark, query)
    assert not spark.catalog.tableExists("al_copy")


def test_a_dimension_is_not_run_for_its_keys(spark: SparkSession) -> None:
    query = f"SELECT d.id FROM {DAYS} d JOIN {FACTS} f ON f.day = d.id WHERE f.v > 40"
    with refused():
        splitlib.sql(spark, query)


@pytest.fixture(scope="module")
def large(spark: SparkSession, metastore: HiveMetastore, tables: None) -> Iterator[str]:
    """Create a table that Hive's SerDe reads, with statistics and with all rows elsewhere."""
    place = metastore.directory / "elsewhere" / "al_large"
    spark.sql("CREATE TABLE al_large (v bigint) PARTITIONED BY (day int) STORED AS TEXTFILE")
    spark.sql(f"ALTER TABLE al_large ADD PARTITION (day=1) LOCATION '{place.as_uri()}'")
    spark.sql("INSERT INTO al_large PARTITION (day=1) SELECT id FROM range(20000)")
    spark.sql("ANALYZE TABLE al_large COMPUTE STATISTICS")
    yield "al_large"
    spark.sql("DROP TABLE al_large")


@pytest.mark.parametrize(
    ("query", "reader"),
    [
        (f"SELECT f.v FROM {FACTS} f JOIN {{}} l ON f.day = int(l.v) WHERE l.v < 2", "compat.py"),
        (
            f"""SELECT l.v FROM {{}} l JOIN (SELECT f.v FROM {FACTS} f JOIN {DAYS} d
                ON f.day = d.id WHERE d.week = 2) f ON l.v = f.v""",
            "runtime_filters.py",
        ),
    ],
)
def test_planning_reads_no_row(spark: SparkSession, large: str, query: str, reader: str) -> None:
    """Neither the keys of a dimension nor the rows to try a Bloom filter on are read."""
    small = {
        "spark.splitlib.runtimeFilterBytes": "0",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
    }
    with changed(spark, small):
        first = jobs(spark)
        with refused():
            splitlib.sql(spark, query.format(large))
        assert reader not in stages(spark, first)
        with changed(spark, {"spark.splitlib.allowedLocations": "none"}):
            splitlib.sql(spark, query.format(large))
        assert reader in stages(spark, first)


def test_directories(spark: SparkSession, metastore: HiveMetastore) -> None:
    """A directory of ``spark.read`` is refused, although Spark has already listed it."""
    path = metastore.directory / "elsewhere" / FACTS
    with refused():
        splitlib.optimize(spark.read.parquet(str(path)))
    inside = spark.read.parquet(str(metastore.warehouse / DAYS))
    assert splitlib.optimize(inside).count() == 15


@pytest.mark.parametrize("first_interface", ["parquet", ""])
def test_files_that_a_stream_has_written(
    spark: SparkSession, metastore: HiveMetastore, first_interface: str
) -> None:
    """In the output of a stream, ``_spark_metadata`` may name files in another location."""
    place = metastore.warehouse / "al_sink"
    written = next((metastore.directory / "elsewhere" / FACTS).glob("*.parquet"))
    file = metastore.directory / "elsewhere" / "al_sink" / "p=1" / written.name
    file.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(written, file)
    entry = {
        "path": file.as_uri(),
        "size": file.stat().st_size,
        "isDir": False,
        "modificationTime": 0,
        "blockReplication": 1,
        "blockSize": 1,
        "action": "add",
    }
    (place / "_spark_metadata").mkdir(parents=True)
    try:
        (place / "_spark_metadata" / "0").write_text(f"v1\n{json.dumps(entry)}")
        with changed(spark, {"spark.sql.sources.useV1SourceList": first_interface}):
            found = spark.read.parquet(str(place))
            assert found.count() > 0
            with refused():
                splitlib.optimize(found)
    finally:
        shutil.rmtree(place)


@pytest.mark.parametrize("connector", ["hive", "session"])
@pytest.mark.parametrize("table", [FACTS, TEXTS])
def test_readers(spark: SparkSession, metastore: HiveMetastore, connector: str, table: str) -> None:
    """The ``hive`` and ``session`` connectors check the locations of all matching partitions."""
    days = {"day": [1, 2]}
    way = way_of(metastore, connector)
    reader = splitlib.read(spark).table(f"default.{table}", **way)
    assert reader.filtered_by(days).load().count() == 6
    with refused() as caught:
        reader.load()
    assert "connector=" in str(caught.value)
    elsewhere = {"allowed_locations": [str(metastore.directory / "elsewhere")]}
    with pytest.raises(splitlib.LocationNotAllowed, match="warehouse"):
        reader.config(**elsewhere).filtered_by(days).load()


@pytest.mark.parametrize("connector", ["hive", "session"])
@pytest.mark.parametrize("table", [FACTS, TEXTS])
def test_a_directory_elsewhere_is_not_listed(
    spark: SparkSession, metastore: HiveMetastore, connector: str, table: str
) -> None:
    """A listing would raise another error, because the directory does not exist."""
    gone = (metastore.directory / "elsewhere" / "gone").as_uri()
    spark.sql(f"ALTER TABLE {table} ADD PARTITION (day=99) LOCATION '{gone}'")
    Path(urlsplit(gone).path).rmdir()
    try:
        way = way_of(metastore, connector)
        reader = splitlib.read(spark).table(f"default.{table}", **way)
        with refused():
            reader.filtered_by({"day": [99]}).load()
    finally:
        spark.sql(f"ALTER TABLE {table} DROP PARTITION (day=99)")


@pytest.mark.parametrize("how", ["auto", "paths"])
def test_the_whole_table_elsewhere_is_not_listed(
    spark: SparkSession, metastore: HiveMetastore, unrestricted: None, how: str
) -> None:
    """The settings of a call apply to a table that was opened without restrictions."""
    gone = metastore.directory / "elsewhere" / f"gone_{how}"
    spark.sql(f"CREATE TABLE al_gone (v int) STORED AS TEXTFILE LOCATION '{gone.as_uri()}'")
    gone.rmdir()
    try:
        with splitlib.load_table("default.al_gone", spark=spark, spark_scan=how) as table:
            with pytest.raises(splitlib.MissingPartition):
                splitlib.paths(table)
            with refused():
                splitlib.paths(
                    table,
                    config=splitlib.SplitConfig(allowed_locations=(str(metastore.warehouse),)),
                )
    finally:
        spark.sql("DROP TABLE al_gone")


@pytest.mark.parametrize("how", ["auto", "paths"])
def test_the_table_itself_is_elsewhere(
    spark: SparkSession, metastore: HiveMetastore, unrestricted: None, how: str
) -> None:
    place = metastore.directory / "elsewhere" / f"whole_{how}"
    spark.sql(f"CREATE TABLE al_whole USING parquet LOCATION '{place.as_uri()}' AS SELECT 1 AS v")
    try:
        inside = {"allowed_locations": str(metastore.warehouse), "spark_scan": how}
        jvm: Any = spark._jvm
        listed = jvm.org.apache.spark.metrics.source.HiveCatalogMetrics
        before = listed.METRIC_FILES_DISCOVERED().getCount()
        with refused():
            splitlib.read(spark).table("default.al_whole").config(**inside).load()
        assert listed.METRIC_FILES_DISCOVERED().getCount() == before
        with changed(spark, {"spark.splitlib.allowedLocations": str(metastore.warehouse)}):
            with refused():
                splitlib.sql(spark, "SELECT * FROM al_whole")
            with refused():
                splitlib.sql(spark, f"SELECT * FROM al_whole, {DAYS}")
    finally:
        spark.sql("DROP TABLE al_whole")


@pytest.mark.parametrize(
    "statement",
    [
        "BEGIN SELECT count(*) FROM {}; END",
        "FROM {} INSERT INTO al_days SELECT day, 1 INSERT INTO al_days SELECT day, 2",
        "SET VAR al_v = (SELECT count(*) FROM {})",
        "EXECUTE IMMEDIATE 'SELECT count(*) FROM {}'",
        "SELECT TRANSFORM(v) USING 'cat' AS (v) FROM {}",
        "CACHE TABLE al_cached AS SELECT * FROM {}",
        "ANALYZE TABLE {} COMPUTE STATISTICS FOR ALL COLUMNS",
        "EXPLAIN SELECT * FROM {}",
    ],
)
def test_statements_that_are_not_understood(spark: SparkSession, statement: str) -> None:
    """A statement raises an error before it runs if splitlib cannot check its tables."""
    for table in (FACTS, DAYS):
        with pytest.raises(splitlib.LocationNotAllowed, match="cannot be checked"):
            splitlib.sql(spark, statement.format(table))
    assert spark.table(DAYS).count() == 15


SCRIPTS = [
    "SELECT * FROM (SELECT TRANSFORM(id) USING 'cat {}' AS (y STRING) FROM al_days)",
    "WITH s AS (SELECT TRANSFORM(id) USING 'cat {}' AS (y STRING) FROM al_days) SELECT * FROM s",
    "SELECT (SELECT max(y) FROM (SELECT TRANSFORM(id) USING 'cat {}' AS (y STRING) FROM al_days))",
]


@pytest.mark.parametrize("query", SCRIPTS, ids=["from", "with", "subquery"])
def test_programs_in_a_query(spark: SparkSession, tmp_path: Path, query: str) -> None:
    (tmp_path / "secret").write_text("secret")
    text = query.format(tmp_path / "secret")
    with pytest.raises(splitlib.LocationNotAllowed, match="TRANSFORM"):
        splitlib.sql(spark, text)
    with pytest.raises(splitlib.LocationNotAllowed, match="TRANSFORM"):
        splitlib.optimize(spark.sql(text))


def test_insert_of_default_values(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE al_defaults (a INT, b INT DEFAULT 7) USING parquet")
    try:
        splitlib.sql(spark, "INSERT INTO al_defaults VALUES (1, DEFAULT)")
        splitlib.sql(spark, f"INSERT INTO al_defaults SELECT id, DEFAULT FROM {DAYS} WHERE id = 2")
        with refused():
            splitlib.sql(spark, f"INSERT INTO al_defaults SELECT v, DEFAULT FROM {FACTS}")
        assert rows_of(spark.table("al_defaults")) == ["Row(a=1, b=7)", "Row(a=2, b=7)"]
    finally:
        spark.sql("DROP TABLE al_defaults")


def test_a_table_to_write_that_is_named_by_an_expression(spark: SparkSession) -> None:
    with pytest.raises(splitlib.LocationNotAllowed):
        splitlib.sql(spark, f"INSERT INTO IDENTIFIER('al_days') SELECT day, 1 FROM {FACTS}")
    assert spark.table(DAYS).count() == 15


def test_statements_that_are(spark: SparkSession, tmp_path: Path) -> None:
    splitlib.sql(spark, f"SELECT * FROM {DAYS} LIMIT ALL").count()
    splitlib.sql(spark, f"WITH d AS (FROM {DAYS}) VALUES (1) UNION SELECT id FROM d").count()
    splitlib.sql(spark, f"SELECT * FROM {DAYS} WHERE id = :x", {"x": 1}).count()
    written = f"INSERT OVERWRITE DIRECTORY '{tmp_path}' USING parquet SELECT * FROM"
    splitlib.sql(spark, f"{written} {DAYS}")
    with refused():
        splitlib.sql(spark, f"{written} {FACTS}")
    splitlib.sql(spark, "USE default")
    assert splitlib.sql(spark, "SHOW TABLES").count() >= 3
    with pytest.raises(ParseException):
        splitlib.sql(spark, "SELECT (1")
    with pytest.raises(splitlib.LocationNotAllowed, match="parameters"):
        splitlib.sql(spark, f"INSERT INTO {DAYS} SELECT id, :x FROM {DAYS}", {"x": 1})


@pytest.mark.parametrize("inner", [f"FROM {FACTS}", f"FROM {FACTS} WHERE day = {OUTSIDE}"])
def test_dimensions(spark: SparkSession, inner: str) -> None:
    """Dimensions and subqueries are checked by every function that computes them."""
    dimension = spark.sql(f"SELECT v, day {inner}")
    with refused():
        splitlib.condition(dimension, on={"id": "day"})
    with refused():
        splitlib.merge_condition(dimension, on={"id": "day"})
    with refused():
        splitlib.freeze(dimension)
    reader = splitlib.read(spark).table(f"default.{FACTS}").filtered_by({"day": [1]})
    with refused():
        reader.filtered_by(dimension, on="day").load()
    for condition in (f"day IN (SELECT day {inner})", f"v > (SELECT max(v) {inner})"):
        with refused():
            reader.where(condition).load()
    days = spark.table(DAYS)
    assert splitlib.freeze(days).count() == 15
    inside = f"day IN (SELECT id FROM {DAYS} WHERE week = 1)"
    assert reader.filtered_by(days, on={"day": "id"}).where(inside).load().count() == 3


def test_a_cached_dimension(spark: SparkSession) -> None:
    """The cached rows of a table are refused if the table's files would be."""
    dimension = spark.table(FACTS).where("v < 0").cache()
    try:
        with refused():
            splitlib.freeze(dimension)
    finally:
        dimension.unpersist()


def test_named_catalogs(spark: SparkSession, metastore: HiveMetastore) -> None:
    with changed(spark, settings(metastore.uri)):
        table = f"{CATALOG}.default.{FACTS}"
        assert splitlib.sql(spark, JOIN.format(table, 2)).count() == 9
        with refused():
            splitlib.sql(spark, JOIN.format(table, 1))


def test_the_data_source(spark: SparkSession, metastore: HiveMetastore) -> None:
    register_data_source(spark)
    reader = spark.read.format("splitlib").options(connector="hive", uri=metastore.uri)
    allowed = reader.option("allowedLocations", f"{metastore.warehouse},{metastore.directory}")
    assert allowed.load(f"default.{FACTS}").count() == 45
    with pytest.raises(Exception, match="outside of allowed_locations"):
        reader.option("allowedLocations", str(metastore.warehouse)).load(
            f"default.{FACTS}"
        ).collect()
    # A data source gets the session's setting only in tasks. While Spark plans the query, the data
    # source does not have it.
    by_itself = spark.read.format("splitlib").options(connector="hive", uri=metastore.uri)
    with pytest.raises(Exception, match="outside of allowed_locations"):
        by_itself.load(f"default.{FACTS}").collect()
    assert by_itself.load(f"default.{DAYS}").count() == 15
    with pytest.raises(splitlib.LocationNotAllowed, match=r"option\(\"allowedLocations\""):
        splitlib.optimize(by_itself.load(f"default.{DAYS}"))
    same = by_itself.option("allowedLocations", str(metastore.warehouse))
    assert splitlib.optimize(same.load(f"default.{DAYS}")).count() == 15


def test_what_spark_does_not_verify_is_told(spark: SparkSession) -> None:
    reader = splitlib.read(spark).table(f"default.{FACTS}").filtered_by({"day": [1]})
    assert "verify_files" in str(splitlib.explain(reader.config(verify_files=True).load()))
    assert "verify_files" not in str(splitlib.explain(reader.load()))


@pytest.mark.parametrize("name", ["allowedLocation", "alowedLocations", "allowedlocations"])
def test_a_misspelt_setting_is_not_ignored(spark: SparkSession, name: str) -> None:
    query = JOIN.format(FACTS, 1)
    with changed(spark, {f"spark.splitlib.{name}": "/nowhere"}):
        for run in (
            lambda: splitlib.sql(spark, query),
            lambda: splitlib.optimize(spark.sql(query)),
            lambda: splitlib.freeze(spark.table(DAYS)),
        ):
            with pytest.raises(splitlib.ConfigError, match=name):
                run()
