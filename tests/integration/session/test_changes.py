"""Session tables that change after splitlib opened them, and catalogs or storages that fail."""

from __future__ import annotations

import py4j.protocol
import pytest

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.filtering.predicate import Predicate
from splitlib.spark.jvm.active_session import errors_of_the_jvm
from tests.integration.session.session_tables import values_of

pytestmark = pytest.mark.spark

HIVE = "(a INT) PARTITIONED BY (k INT) STORED AS PARQUET"
SPARK = "(a INT, k INT) USING parquet PARTITIONED BY (k)"
ROWS = "INSERT INTO {t} VALUES (1, 1), (2, 2), (3, 3)"


@pytest.fixture(params=[HIVE, SPARK], ids=["hive", "spark"])
def table(request, tables):
    name = tables.create(request.param, ROWS)
    yield name
    tables.spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_a_missing_directory_is_named_and_the_others_are_kept(tables, table):
    for k in range(4, 9):
        tables.add_partition(table, [str(k)], rows=None)
    with tables.open(table) as opened:
        with pytest.raises(splitlib.MissingPartition, match=r"partition=k=4.*missing_partition"):
            values_of(opened)
        kept = values_of(opened, missing_partition="skip")
    assert kept == [{"k": 1}, {"k": 2}, {"k": 3}]


def test_a_partition_that_is_dropped_after_the_names(tables, table):
    with tables.open(table) as opened:
        names = list(opened.list_partitions(Predicate(opened.metadata.partition_schema)))
        tables.spark.sql(f"ALTER TABLE {table} DROP PARTITION (k = 2)")
        assert [len(batch) for batch in names] == [3]
        with pytest.raises(splitlib.MissingPartition, match="1 partitions were dropped"):
            values_of(opened)
        assert values_of(opened, missing_partition="skip") == [{"k": 1}, {"k": 3}]


@pytest.mark.parametrize("keys", ["other INT", "k INT, l INT", None])
@pytest.mark.parametrize("when", ["before the names", "after the names"])
def test_a_table_that_was_dropped_and_perhaps_created_anew(tables, table, keys, when):
    spark = tables.spark
    with tables.open(table) as opened:
        if when == "after the names":
            list(opened.list_partitions(Predicate(opened.metadata.partition_schema)))
        spark.sql(f"DROP TABLE {table}")
        if keys:
            spark.sql(f"CREATE TABLE {table} (a INT) PARTITIONED BY ({keys}) STORED AS PARQUET")
            values = ", ".join("1" for _ in keys.split(","))
            spark.sql(f"INSERT INTO {table} VALUES (1, {values})")
        with pytest.raises(splitlib.TableNotFound, match=table.split(".")[1]):
            values_of(opened, missing_partition="skip")


def test_an_altered_table_is_the_same(tables, table):
    spark = tables.spark
    with tables.open(table) as opened:
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('x' = 'y')")
        spark.sql(f"ALTER TABLE {table} ADD COLUMNS (b INT)")
        for k in (1, 2, 3):
            spark.sql(f"ALTER TABLE {table} DROP PARTITION (k = {k})")
        assert values_of(opened, missing_partition="skip") == []


def test_what_came_since_is_read_by_the_next_one(tables, table):
    reader = tables.session_reader(table)
    assert reader.load().count() == 3
    tables.add_partition(table, ["4"], rows=[4])
    assert sorted(row.k for row in reader.load().collect()) == [1, 2, 3, 4]


def test_a_storage_that_does_not_answer(tables):
    table = tables.create(HIVE, "INSERT INTO {t} VALUES (1, 1)")
    location = "hdfs://127.0.0.1:1/k=2"
    with changed(tables.spark, {"ipc.client.connect.max.retries": "0"}):
        tables.add_partition(table, ["2"], rows=None)
        sql = f"ALTER TABLE {table} PARTITION (k = 2) SET LOCATION '{location}'"
        tables.spark.sql(sql)
        with tables.open(table) as opened:
            with pytest.raises(splitlib.SourceUnavailable, match="ConnectException") as caught:
                values_of(opened, retry_attempts=1)
            assert len(str(caught.value)) < 600
        # The other partition can be read, because it is not in the unreachable storage.
        loaded = tables.session_reader(table).where("k = 1").load()
        assert loaded.count() == 1
    root = tables.directory(table).as_uri()
    tables.spark.sql(f"ALTER TABLE {table} PARTITION (k = 2) SET LOCATION '{root}/k=2'")


FAILURES = [
    ("org.apache.hadoop.security.AccessControlException", splitlib.AccessDenied),
    ("java.net.SocketTimeoutException", splitlib.SourceUnavailable),
    ("java.lang.IllegalStateException", splitlib.SourceError),
    ("java.io.FileNotFoundException", splitlib.SourceError),
]


@pytest.mark.parametrize(("name", "kind"), FAILURES)
def test_errors_of_the_jvm(spark, name, kind):
    """A Java exception becomes the error that fits its class or the class of one of its causes."""
    jvm = spark._jvm
    inner = getattr(jvm, name)("it\nfails here")
    outer = jvm.java.lang.RuntimeException("around it " * 100, inner)
    with pytest.raises(kind) as caught, errors_of_the_jvm():
        jvm.scala.util.Failure(outer).get()
    assert str(caught.value) == f"{name.rpartition('.')[2]}: it"
    assert isinstance(caught.value.__cause__, py4j.protocol.Py4JError)
