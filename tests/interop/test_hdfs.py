"""Tables on a real HDFS. Spark's Hadoop client lists directories if the connector has no client."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import FieldSchema

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.testing import HiveMetastore
from tests.support.hdfs_server import running_hdfs
from tests.support.thrift_client import parquet_table, thrift_client

JARS = "INTEROP_HDFS_JARS"
"""Environment variable with the directory of the jars, which ``make interop`` downloads."""
VALUES = [*map(str, range(12)), "a b", "50%", "ü"]


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory):
    """Start an HDFS, and yield its address."""
    jars = os.environ.get(JARS)
    if not jars:
        pytest.fail(f"{JARS} is not set: run these tests by `make interop`")
    with running_hdfs(Path(jars), tmp_path_factory.mktemp("hdfs")) as address:
        yield address


@pytest.fixture(scope="module")
def table(spark, hdfs):
    """Create a table on HDFS with a string as partition key, and return its location."""
    rows = spark.createDataFrame(
        [(n, v) for v in VALUES for n in range(3)], "n long, k string"
    ).repartition(1)
    rows.write.partitionBy("k").parquet(f"{hdfs}/t")
    return f"{hdfs}/t"


def found(df):
    return sorted(map(tuple, df.select("n", "k").collect()))


def keys(spark, *values):
    return spark.createDataFrame([(value,) for value in values], "k string")


def test_directories(spark, table):
    reader = splitlib.read(spark).table(table, connector="files")
    assert found(reader.load()) == [(n, v) for n in range(3) for v in sorted(VALUES)]
    pruned = reader.filtered_by(keys(spark, "50%", "7"), on="k").load()
    assert found(pruned) == [(n, v) for n in range(3) for v in ("50%", "7")]
    assert len(pruned.inputFiles()) == 2
    assert "partitions 2 of 15" in str(splitlib.explain(pruned))


def test_without_the_host(spark, hdfs, table):
    reader = splitlib.read(spark).table("hdfs:///t", connector="files")
    # Hadoop caches its client for ``localhost``, which was created without a default filesystem. So
    # use another name for the host.
    default = hdfs.replace("localhost", "127.0.0.1")
    with changed(spark, {"fs.defaultFS": default}):
        pruned = reader.filtered_by(keys(spark, "ü"), on="k").load()
        assert found(pruned) == [(n, "ü") for n in range(3)]


def test_partitions_of_a_metastore(spark, table, tmp_path):
    with HiveMetastore(tmp_path) as metastore:
        with thrift_client(metastore) as client:
            columns = FieldSchema("n", "bigint", ""), [FieldSchema("k", "string", "")]
            client.create_table(parquet_table("on_hdfs", *columns))
        # Spark escapes characters that Hive does not allow in directory names.
        places = [f"{table}/k={value.replace('%', '%25')}" for value in VALUES]
        metastore.bulk_add_partitions("default", "on_hdfs", [(v,) for v in VALUES], places)
        reader = splitlib.read(spark).table("on_hdfs", connector="hive", uri=metastore.uri)
        pruned = reader.filtered_by(keys(spark, "50%", "a b"), on="k").load()
        assert found(pruned) == [(n, v) for n in range(3) for v in ("50%", "a b")]


def test_what_is_missing(spark, hdfs, table):
    with pytest.raises(splitlib.TableNotFound):
        splitlib.read(spark).table(f"{hdfs}/none", connector="files").load()
    with pytest.raises(splitlib.SourceUnavailable):  # no server listens on this port
        splitlib.read(spark).config(retry_attempts=1, call_deadline_seconds=10).table(
            "hdfs://127.0.0.1:1/t", connector="files"
        ).load()
