"""If only Hadoop supports a scheme, splitlib lists files through Spark's Hadoop filesystems.

These tests use ``viewfs`` with mounted local directories. ``make interop`` tests HDFS.
"""

from __future__ import annotations

import os
import shutil
from itertools import count

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hmsclient.genthrift.hive_metastore.ttypes import FieldSchema

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.spark.jvm.hadoop import HadoopFileSystem
from splitlib.spark.session import storage_options_of
from splitlib.storage import Storage
from tests.support.thrift_client import parquet_table, thrift_client

pytestmark = pytest.mark.spark

NAMES = ["1", "a b", "50%", "a%2Fb", "ü", "x+y", "[z]", "\\d"]
_clusters = count()


@pytest.fixture
def cluster(spark, tmp_path):
    """Return the root ``viewfs://NAME`` of a new filesystem.

    Its ``/data`` is mounted on a local directory with a partitioned table ``t``.
    """
    name = f"cluster{next(_clusters)}"  # Hadoop caches filesystems by name.
    for number, value in enumerate(NAMES):
        directory = tmp_path / "t" / f"k={value}"
        directory.mkdir(parents=True)
        pq.write_table(pa.table({"a": [number, number + 100]}), directory / "f.parquet")
        (directory / "_hidden").write_bytes(b"x")
    (tmp_path / "t" / "_SUCCESS").touch()
    with changed(spark, {f"fs.viewfs.mounttable.{name}.link./data": tmp_path.as_uri()}):
        yield f"viewfs://{name}"


def rows(df):
    return sorted(map(tuple, df.select("a", "k").collect()))


def test_a_table_is_read_as_spark_reads_it(spark, cluster):
    reader = splitlib.read(spark).table(
        f"{cluster}/data/t", connector="files", partition_schema="k string"
    )
    assert rows(reader.load()) == rows(
        spark.read.schema("a long, k string").parquet(f"{cluster}/data/t")
    )
    keys = spark.createDataFrame([("50%",), ("ü",)], "k string")
    pruned = reader.filtered_by(keys, on="k").load()
    assert rows(pruned) == [(2, "50%"), (4, "ü"), (102, "50%"), (104, "ü")]
    assert pruned.inputFiles()
    assert all("viewfs://" in path for path in pruned.inputFiles())


def test_partitions_of_a_metastore(spark, metastore, cluster):
    table = parquet_table("on_viewfs", FieldSchema("a", "bigint", ""), [])
    table.partitionKeys = [FieldSchema("k", "string", "")]
    with thrift_client(metastore) as client:
        client.create_table(table)
    locations = [f"{cluster}/data/t/k={value}" for value in NAMES]
    metastore.bulk_add_partitions("default", "on_viewfs", [(v,) for v in NAMES], locations)
    reader = splitlib.read(spark).table("on_viewfs", connector="hive", uri=metastore.uri)
    assert len(rows(reader.load())) == 2 * len(NAMES)
    keys = spark.createDataFrame([("x+y",)], "k string")
    assert rows(reader.filtered_by(keys, on="k").load()) == [(5, "x+y"), (105, "x+y")]


def test_it_tells_what_the_local_disk_tells(spark, cluster, tmp_path):
    storage, local = Storage(storage_options_of(spark)), Storage()
    deep = tmp_path / "deep" / "k=1" / "sub"
    deep.mkdir(parents=True)
    (deep / "f").write_bytes(b"abc")
    for directory in ("t", "deep", "deep/k=1", *(f"t/k={name}" for name in NAMES)):
        found, expected = (
            s.level(f"{root}/{directory}")
            for s, root in ((storage, f"{cluster}/data"), (local, str(tmp_path)))
        )
        assert found.directories == expected.directories
        named = [
            (os.path.relpath(path, f"{cluster}/data"), size, modified)
            for path, size, modified in found.files
        ]
        assert named == [
            (os.path.relpath(path, tmp_path), size, modified)
            for path, size, modified in expected.files
        ]
    below, _ = storage.files_below(f"{cluster}/data/deep")
    assert [file.path for file in below] == [f"{cluster}/data/deep/k=1/sub/f"]


def test_what_is_missing(spark, cluster, tmp_path):
    storage = Storage(storage_options_of(spark))
    with pytest.raises(splitlib.MissingPartition):
        storage.level(f"{cluster}/data/none")
    with pytest.raises(splitlib.TableNotFound):
        splitlib.read(spark).table(f"{cluster}/data/none", connector="files").load()
    shutil.rmtree(tmp_path)
    # If the filesystem itself does not exist, the error names it.
    with pytest.raises(splitlib.SplitlibError, match="nobody"):
        storage.level("viewfs://nobody/data/t")


def test_a_file_is_read_at_any_place(spark, cluster, tmp_path):
    content = bytes(range(256)) * 300
    (tmp_path / "content").write_bytes(content)
    filesystem = HadoopFileSystem(spark)
    with filesystem.open(f"{cluster}/data/content") as file:
        file.seek(70_000)
        assert file.read(100) == content[70_000:70_100]
        file.seek(0)
        assert file.read() == content
    assert filesystem.info(f"{cluster}/data/content")["size"] == len(content)
    with pytest.raises(FileNotFoundError):
        filesystem.open(f"{cluster}/data/none")
    with pytest.raises(NotImplementedError):
        filesystem.open(f"{cluster}/data/content", "wb")


def test_it_is_not_for_what_fsspec_reaches(spark, tmp_path):
    (tmp_path / "f").write_bytes(b"x")
    storage = Storage(storage_options_of(spark))
    for location in (str(tmp_path), "s3a://bucket/t", "memory://t"):
        assert not isinstance(storage.filesystem(location)[0], HadoopFileSystem)
    for location in ("hdfs://namenode/t", "ofs://volume/t", "viewfs:/t", "oss-hdfs://bucket/t"):
        assert isinstance(storage.filesystem(location)[0], HadoopFileSystem)


def test_options_that_are_given_are_not_for_it(cluster):
    with pytest.raises(splitlib.ConnectorNotInstalled, match="viewfs"):
        Storage({"host": "namenode"}).level(f"{cluster}/data/t")


def test_who_lists_may_be_limited(spark, cluster):
    reader = splitlib.read(spark).config(allowed_locations=[f"{cluster}/data/other"])
    reader = reader.table(f"{cluster}/data/t", connector="files")
    with pytest.raises(splitlib.LocationNotAllowed):
        reader.load()
