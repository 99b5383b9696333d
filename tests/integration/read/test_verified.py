"""With ``verify_files``, a scan fails if a file has changed since splitlib listed it."""

from __future__ import annotations

import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

import splitlib
from benchmarks.tpcds.settings import changed

pytestmark = pytest.mark.spark

CHANGED = r"f\.parquet has changed since it was listed: its modification time was 20\d\d-"
# If a subquery fails, Spark may raise a Java exception for which PySpark has no class.
ERRORS = (PySparkException, Py4JJavaError)


@pytest.fixture
def root(tmp_path):
    """Create partitions ``k=0`` to ``k=3``. Each has one file of two rows."""
    for k in range(4):
        write(tmp_path / f"k={k}", [10 * k, 10 * k + 1])
    return tmp_path


def write(directory, values):
    directory.mkdir(exist_ok=True)
    pq.write_table(pa.table({"a": pa.array(values, pa.int64())}), directory / "f.parquet")


def touch(root, k):
    """Increase the modification time of a partition's file by one minute."""
    path = root / f"k={k}" / "f.parquet"
    stat = path.stat()
    os.utime(path, (stat.st_atime, stat.st_mtime + 60))


def load(spark, root, how="auto", **settings):
    reader = splitlib.read(spark).config(verify_files=True, spark_scan=how, **settings)
    reader = reader.table(root, connector="files", partition_schema="k int")
    return reader.filtered_by({"k": [1, 2]}).load()


USES = {
    "rows": lambda df: df.collect(),
    "their number": lambda df: df.count(),
    "some": lambda df: df.limit(1).collect(),
    "partition keys alone": lambda df: df.select("k").distinct().collect(),
    "one partition": lambda df: df.where("k = 2").collect(),
    "none that there are": lambda df: df.where("a > 1000").collect(),
    "a join": lambda df: df.join(df.groupBy("k").count(), "k").collect(),
    "a union": lambda df: df.union(df).count(),
    "a cache": lambda df: df.cache().count(),
}


@pytest.mark.parametrize("how", ["auto", "paths"])
def test_files_that_are_the_same(spark, root, how):
    df = load(spark, root, how)
    expected = [(10, 1), (11, 1), (20, 2), (21, 2)]
    assert sorted(map(tuple, df.collect())) == expected
    touch(root, 3)  # The scan does not read this partition.
    assert sorted(map(tuple, df.collect())) == expected
    assert "verify_files" in str(splitlib.explain(df))


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_file_of_another_time(spark, root, use):
    df = load(spark, root)
    touch(root, 1)
    try:
        for _ in range(2):
            with pytest.raises(ERRORS, match=CHANGED):
                use(df)
        use(splitlib.replan(df))
    finally:
        spark.catalog.clearCache()


def test_each_query_compares(spark, root):
    df = load(spark, root)
    assert df.count() == 4
    touch(root, 1)
    with pytest.raises(ERRORS, match=CHANGED):
        df.count()


def test_rows_that_a_file_has_no_more(spark, root):
    """A scan fails even if the changed file no longer has any rows."""
    df = load(spark, root)
    write(root / "k=1", [])
    with pytest.raises(ERRORS, match=r"f\.parquet has changed since .* its size was \d"):
        df.where("k = 1").collect()


def test_metadata_can_still_be_asked_for(spark, root):
    df = load(spark, root)
    assert {row[0].rpartition("/")[2] for row in df.select("_metadata.file_path").collect()} == {
        "f.parquet"
    }


@pytest.mark.parametrize("how", ["auto", "paths"])
def test_a_file_of_another_size(spark, root, how):
    df = load(spark, root, how)
    write(root / "k=2", list(range(1000)))
    with pytest.raises(ERRORS, match=r"f\.parquet has changed since .* its size was \d"):
        df.count()
    with pytest.raises(ERRORS, match="has changed since it was listed"):
        df.write.format("noop").mode("overwrite").save()


def test_a_file_that_has_gone(spark, root):
    df = load(spark, root)
    shutil.rmtree(root / "k=1")
    with pytest.raises(ERRORS, match=r"FILE_NOT_EXIST|does not exist"):
        df.count()


def test_nothing_to_read(spark, root):
    reader = splitlib.read(spark).config(verify_files=True)
    reader = reader.table(root, connector="files", partition_schema="k int")
    assert reader.filtered_by({"k": [7]}).load().collect() == []


def test_without_it_only_the_size_tells(spark, root):
    df = splitlib.read(spark).table(root, connector="files", partition_schema="k int").load()
    touch(root, 1)
    assert df.count() == 8


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_queries_over_tables_of_the_session(spark, root, form):
    spark.sql(f"CREATE TABLE verified (a BIGINT, k INT) USING {form} PARTITIONED BY (k)")
    try:
        spark.sql("INSERT INTO verified SELECT id, id % 10 FROM range(40)")
        query = "SELECT a, v.k FROM verified v JOIN VALUES (3), (4) AS d(k) ON v.k = d.k"
        with changed(spark, {"spark.splitlib.verifyFiles": "true"}):
            df = splitlib.sql(spark, query)
            assert sorted(df.collect()) == sorted(spark.sql(query).collect())
            (file, *_) = sorted(path for path in df.inputFiles() if "k=3" in path)
            path = file.removeprefix("file://")
            os.utime(path, (os.stat(path).st_atime, os.stat(path).st_mtime + 60))
            with pytest.raises(ERRORS, match="has changed since it was listed"):
                df.count()
            assert splitlib.sql(spark, query).count() == 8
    finally:
        spark.sql("DROP TABLE verified")
