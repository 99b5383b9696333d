"""``splitlib.read`` and ``splitlib.sql`` close every table that they open, also after errors."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException

import splitlib
from benchmarks.tpcds.settings import changed
from tests.support.counted_connector import Opens

pytestmark = pytest.mark.spark

CATALOG = {"spark.splitlib.catalog.counted_lake.connector": "counted"}


@pytest.fixture
def opens(spark, tmp_path):
    for k in range(3):
        (tmp_path / f"table/k={k}").mkdir(parents=True)
        pq.write_table(pa.table({"a": [1, 2]}), tmp_path / f"table/k={k}/f.parquet")
    opens = Opens(tmp_path / "table", tmp_path / "notes")
    splitlib.register("counted", opens.connector())
    with changed(spark, CATALOG):
        yield opens


def test_read(spark, opens):
    reader = splitlib.read(spark).table("t", "counted")
    loaded = reader.filtered_by({"k": [1]}).load()
    assert opens.taken() == 1
    assert loaded.count() == 2
    assert opens.taken() == 0
    assert splitlib.replan(loaded).count() == 2
    assert opens.taken() == 1
    for wrong in (reader.where("nonsense > 1"), reader.config(max_partitions=1)):
        with pytest.raises((splitlib.SplitlibError, AnalysisException)):
            wrong.load()
        assert opens.taken() == 1


JOINS = {
    "keys": ("SELECT f.a FROM {t} f JOIN VALUES 1 AS d(k) ON f.k = d.k", 1, 2),
    "two tables": ("SELECT f.a FROM {t} f JOIN {u} g ON f.k = g.k WHERE g.k = 1", 2, 4),
    "one twice": ("SELECT f.a FROM {t} f JOIN {t} g ON f.k = g.k WHERE g.k = 1", 1, 4),
    "no join": ("SELECT a FROM {t}", 1, 6),
}


@pytest.mark.parametrize("name", JOINS)
def test_sql(spark, opens, name):
    query, tables, rows = JOINS[name]
    query = query.format(t="counted_lake.db.t", u="counted_lake.db.u")
    planned = splitlib.sql(spark, query)
    assert opens.taken() == tables
    assert planned.count() == rows
    assert opens.taken() == 0
    splitlib.replan(planned)
    assert opens.taken() == tables


def test_sql_that_fails(spark, opens):
    table = "counted_lake.db.t"
    with pytest.raises(AnalysisException):
        splitlib.sql(spark, f"SELECT nonsense FROM {table}")
    assert opens.taken() == 1
    with changed(spark, {"spark.splitlib.maxPartitions": "1"}):
        with pytest.raises(splitlib.TooManyPartitions):
            splitlib.sql(spark, f"SELECT * FROM {table} f JOIN {table} g ON f.k = g.k")
        assert opens.taken() == 1
