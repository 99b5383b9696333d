"""splitlib reads tables of the session's catalog without access to Spark's internals."""

from __future__ import annotations

import pyarrow as pa
import pytest

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib import SourceError, TableNotFound, UnsupportedTable
from splitlib.spark.session_catalog.public_statements import files_by_directory
from splitlib.spark.session_catalog.public_table import refuse_guarded
from splitlib_conformance.base import everything
from tests.integration.read.public_session import (
    char_keys_and_other_places,
    missing_directories,
    odd_names,
    pruned,
    same,
)
from tests.support.abilities import describes_json, skip_unless_it_describes_json

pytestmark = pytest.mark.spark

OVER_CONNECT = """
    from pathlib import Path
    from tests.integration.read.public_session import check

    check(spark, Path(sys.argv[1]))
"""


def test_over_spark_connect(over_connect, tmp_path):
    place = tmp_path / "tables"
    place.mkdir()
    over_connect(OVER_CONNECT, place)


@pytest.fixture(scope="module")
def database(spark):
    """Create a database, which is the current one during the tests of this module."""
    skip_unless_it_describes_json(spark)
    spark.sql("CREATE DATABASE public_session")
    spark.sql("USE public_session")
    yield "public_session"
    for table in spark.catalog.listTables():
        if not table.isTemporary:
            spark.sql(f"DROP {'VIEW' if table.tableType == 'VIEW' else 'TABLE'} {table.name}")
    # DROP DATABASE fails in this metastore, so only the tables are dropped.
    spark.sql("USE default")


def test_with_reserved_keywords(spark):
    """Spark without DESCRIBE … AS JSON then reports a syntax error at AS, and not at JSON."""
    spark.sql("CREATE TABLE reserved USING parquet PARTITIONED BY (k) AS SELECT 1 AS v, 2 AS k")
    reserved = ("spark.sql.ansi.enabled", "spark.sql.ansi.enforceReservedKeywords")
    reader = splitlib.read(spark).config(spark_scan="paths")
    with changed(spark, dict.fromkeys(reserved, "true")):
        if describes_json(spark):
            same(reader.table("reserved").load(), spark.table("reserved"))
        else:
            with pytest.raises(UnsupportedTable, match="this version of Spark does not support"):
                reader.table("reserved").load()
    spark.sql("DROP TABLE reserved")


def test_on_a_metastore(spark, database, tmp_path):
    odd_names(spark)
    char_keys_and_other_places(spark, tmp_path)
    missing_directories(spark, tmp_path)


def test_tables_of_hive(spark, metastore, database):
    spark.sql("CREATE TABLE t (a INT, c CHAR(3)) PARTITIONED BY (k INT) STORED AS TEXTFILE")
    spark.sql("INSERT INTO t PARTITION (k) VALUES (1, 'x', 1), (2, NULL, 2), (3, 'z', 3)")
    spark.sql("ALTER TABLE t SET SERDEPROPERTIES ('serialization.null.format' = 'x')")
    reader = splitlib.read(spark).config(spark_scan="paths").table("t")
    loaded = reader.where("k < 2").load()
    assert splitlib.explain(loaded).metrics.storage_requests == 1
    same(loaded, spark.table("t").where("k < 2"))
    same(reader.load(), spark.table("t"))

    metastore.bulk_add_partitions(database, "t", [("07",)])
    same(reader.where("k < 3").load(), spark.table("t").where("k < 3"))
    with pytest.raises(UnsupportedTable, match="in this form") as raised:
        reader.where("k > 2").load()
    assert raised.value.partition == "k=07"

    spark.sql("CREATE TABLE p (a INT) PARTITIONED BY (k STRING) STORED AS PARQUET")
    spark.sql("INSERT INTO p PARTITION (k) VALUES (1, 'x'), (2, 'y')")
    pruned_to_x = pruned(spark, "p", pa.table({"k": ["x"]}), 1)
    same(pruned_to_x, spark.table("p").where("k = 'x'"))
    spark.sql(
        "CREATE TABLE r (a STRING) ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.RegexSerDe'"
        " WITH SERDEPROPERTIES ('input.regex' = '(.*)')"
    )
    with pytest.raises(UnsupportedTable, match="RegexSerDe"):
        reader.table("r").load()


def test_partitions_that_spark_does_not_ask_the_catalog_for(spark, database):
    spark.sql("CREATE TABLE unmanaged (a INT, k INT) USING parquet PARTITIONED BY (k)")
    spark.sql("INSERT INTO unmanaged VALUES (1, 1), (2, 2)")
    setting = "spark.sql.hive.manageFilesourcePartitions"
    reader = splitlib.read(spark).config(spark_scan="paths").table("unmanaged")
    with changed(spark, {setting: "False"}):
        with pytest.raises(UnsupportedTable, match=f"set {setting} to true"):
            reader.load()
        same(reader.config(spark_scan="auto").load(), spark.table("unmanaged"))
    same(reader.load(), spark.table("unmanaged"))


def test_changes_while_it_is_open(spark, database):
    spark.sql("CREATE TABLE changing (a BIGINT, k BIGINT) USING parquet PARTITIONED BY (k)")
    spark.range(3).selectExpr("id", "id AS k").write.insertInto("changing")
    config = splitlib.SplitConfig(spark_scan="paths", missing_partition="skip")
    with splitlib.load_table("changing", spark=spark, config=config) as table:
        (batch,) = table.list_partitions(everything(table))
        spark.sql("ALTER TABLE changing DROP PARTITION (k = 1)")
        kept = table.load_details(batch, config)
        assert kept.values.to_pydict() == {"k": ["0", "2"]}
        table.check_identity(config)
        spark.sql("DROP TABLE changing")
        with pytest.raises(TableNotFound):
            table.check_identity(config)


def test_directories_below_partitions_of_hive(spark, database, tmp_path):
    """A partition with subdirectories is read only if Spark's own reader reads the table.

    Hive on Tez writes such subdirectories for UNION ALL. Hive's reader fails on them.
    """
    setting = "spark.sql.hive.convertMetastoreParquet"
    for form in ("TEXTFILE", "PARQUET"):
        name, place = f"below_{form.lower()}", tmp_path / form
        spark.sql(
            f"CREATE TABLE {name} (a INT) PARTITIONED BY (k INT) STORED AS {form} "
            f"LOCATION '{place.as_uri()}'"
        )
        for a in (1, 2):
            spark.sql(f"INSERT INTO {name} PARTITION (k = 1) VALUES ({a})")
        first = min(path for path in (place / "k=1").iterdir() if path.name.startswith("part-"))
        (place / "k=1" / "HIVE_UNION_SUBDIR_1").mkdir()
        first.rename(place / "k=1" / "HIVE_UNION_SUBDIR_1" / first.name)
        (place / "k=1" / f".{first.name}.crc").unlink()
        spark.catalog.refreshTable(name)
    reader = splitlib.read(spark).config(spark_scan="paths")
    with pytest.raises(Exception, match="is a directory"):
        spark.table("below_textfile").collect()
    with pytest.raises(UnsupportedTable, match="HIVE_UNION_SUBDIR_1"):
        reader.table("below_textfile").load()
    same(reader.table("below_parquet").load(), spark.table("below_parquet"))
    with changed(spark, {setting: "false"}), pytest.raises(UnsupportedTable, match="HIVE_UNION"):
        reader.table("below_parquet").load()


def test_files_of_directories():
    files = pa.table(
        {
            "path": ["file:/t/k=1/a", "file:/t/k=1/sub/b", "s3a://b/t/k=1/c", "hdfs://n/x/d"],
            "size": [1, 2, 3, 4],
            "modified": [5, 6, 7, 8],
        }
    )

    def rows(directories, below="ignored"):
        found = files_by_directory(files, directories, below).to_pylist()
        return sorted((row["path"][-1], row["partition"]) for row in found)

    everywhere = ["file:///t/k=1/", "s3a://b/t//k=1", "hdfs:/x"]
    assert rows(everywhere) == [("a", 0), ("c", 1), ("d", 2)]
    assert rows([*everywhere, "file:/t/k=1"])[:2] == [("a", 0), ("a", 3)]
    assert rows(everywhere, "keys refused") == rows(everywhere)
    assert rows(everywhere, "read") == [("a", 0), ("b", 0), ("c", 1), ("d", 2)]
    assert rows(["file:/t", *everywhere[1:]], "read")[:2] == [("a", 0), ("b", 0)]
    assert len(files_by_directory(files.slice(0, 0), everywhere)) == 0
    with pytest.raises(UnsupportedTable, match="k=1"):
        rows(["file:/t", *everywhere[1:]], "keys refused")
    with pytest.raises(UnsupportedTable, match="k=1/sub"):
        rows(everywhere, "refused")
    with pytest.raises(SourceError, match="not requested"):
        rows(everywhere[:2])
    with pytest.raises(SourceError, match="same"):
        rows([*everywhere, "hdfs://n/x"])


def test_guarded_tables():
    plan = "a: int, c: string\nProject [a#1, c#2]\n+- SubqueryAlias spark_catalog.default.t\n"
    refuse_guarded(plan + "   +- Relation spark_catalog.default.t[a#1,c#2] parquet")
    refuse_guarded(plan + "   +- Project [a#1, staticinvoke(…, readSidePadding, c#2, 4) AS c#2]")
    for guard in ("Filter (a#1 = 3)", "Project [mask(a#1) AS a#1, c#2]"):
        with pytest.raises(UnsupportedTable, match=guard.partition(" ")[0]):
            refuse_guarded(f"{plan}   +- {guard}\n      +- Relation t[a#1,c#2] parquet")
