"""Tables that change in the metastore after splitlib opened them, and interrupted requests."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from thrift.transport.TSocket import TSocket

import splitlib
from splitlib import DynamicFileEnumerator, SplitConfig
from splitlib_hive.client import MetastoreClient, parse_uris
from tests.support.abilities import skip_unless_it_describes_json
from tests.support.thrift_client import thrift_client

pytestmark = pytest.mark.spark
SKIP = SplitConfig(missing_partition="skip")


def create(spark, name, keys="k INT"):
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    columns = [key.split()[0] for key in keys.split(",")]
    spark.sql(f"CREATE TABLE {name} (a INT) PARTITIONED BY ({keys}) STORED AS PARQUET")
    for value in (1, 2, 3):
        values = ", ".join([str(value)] * len(columns))
        spark.sql(f"INSERT INTO {name} VALUES ({value}, {values})")


def open_(metastore, name):
    return splitlib.load_table(f"default.{name}", "hive", uri=metastore.uri)


def splits(table):
    return list(DynamicFileEnumerator(table, SKIP).enumerate_splits())


@pytest.mark.parametrize("keys", ["other INT", "k INT, l INT", None])
@pytest.mark.parametrize("when", ["before the names", "after the names"])
def test_a_table_that_was_dropped_and_perhaps_created_anew(
    spark, metastore, monkeypatch, keys, when
):
    create(spark, "replaced")

    def replace():
        spark.sql("DROP TABLE replaced")
        if keys:
            create(spark, "replaced", keys)

    with open_(metastore, "replaced") as table:
        assert len(splits(table)) == 3
        if when == "before the names":
            replace()
        else:
            names = MetastoreClient.get_partition_names

            def then_replace(client, *of_table):
                found = names(client, *of_table)
                replace()
                return found

            monkeypatch.setattr(MetastoreClient, "get_partition_names", then_replace)
        with pytest.raises(splitlib.TableNotFound, match="replaced"):
            splits(table)
    spark.sql("DROP TABLE IF EXISTS replaced")


def test_partitions_that_were_dropped_one_by_one_are_skipped(spark, metastore, monkeypatch):
    create(spark, "thinned")
    with open_(metastore, "thinned") as table:
        names = pa.array(["k=1", "k=2", "k=3"])
        spark.sql("ALTER TABLE thinned DROP PARTITION (k=2)")
        monkeypatch.setattr(MetastoreClient, "get_partition_names", lambda *_: names)
        assert [split.partition_values for split in splits(table)] == [{"k": 1}, {"k": 3}]


def test_an_altered_table_is_the_same(spark, metastore):
    create(spark, "altered")
    with open_(metastore, "altered") as table:
        spark.sql("ALTER TABLE altered SET TBLPROPERTIES ('x' = 'y')")
        spark.sql("ALTER TABLE altered ADD COLUMNS (b INT)")
        for k in (1, 2, 3):
            spark.sql(f"ALTER TABLE altered DROP PARTITION (k={k})")
        assert splits(table) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_call(spark, metastore, monkeypatch, error):
    create(spark, "interrupted")
    client = MetastoreClient(parse_uris(metastore.uri))
    described = client.get_table("default", "interrupted")
    databases = client.get_databases()
    read = TSocket.read

    def interrupt(self, size):
        monkeypatch.setattr(TSocket, "read", read)
        raise error

    monkeypatch.setattr(TSocket, "read", interrupt)
    with pytest.raises(error):
        client.get_partition_names("default", "interrupted")
    assert client.get_table("default", "interrupted") == described
    assert client.get_databases() == databases
    client.close()


def test_a_partition_without_a_location(spark, metastore, tmp_path, monkeypatch):
    create(spark, "nowhere")
    client = MetastoreClient(parse_uris(metastore.uri))
    (partition,) = client.get_partitions_by_names("default", "nowhere", ["k=2"])
    partition.sd.location = ""
    with thrift_client(metastore) as thrift:
        thrift.alter_partition("default", "nowhere", partition)
    (stored,) = client.get_partitions_by_names("default", "nowhere", ["k=2"])
    client.close()
    assert stored.sd.location == ""
    # An empty path could mean the working directory. No file there may be read as table data.
    monkeypatch.chdir(tmp_path)
    Path("data.parquet").write_bytes(b"PAR1")
    with pytest.raises(Exception, match="empty string"):
        spark.table("nowhere").collect()
    with (
        open_(metastore, "nowhere") as table,
        pytest.raises(splitlib.CorruptMetadata, match=r"no location.*partition=k=2"),
    ):
        splits(table)


@pytest.fixture
def linked(spark, metastore, tmp_path):
    """Create a table whose file and two partitions are symbolic links. Other links are broken."""
    create(spark, "linked")
    root = metastore.warehouse / "linked"
    (data,) = (root / "k=1").glob("*.parquet")
    data.rename(tmp_path / "elsewhere.parquet")
    data.symlink_to(tmp_path / "elsewhere.parquet")
    (root / "k=1" / "nowhere.parquet").symlink_to(tmp_path / "gone")
    (root / "k=1" / "itself.parquet").symlink_to(root / "k=1" / "itself.parquet")
    (root / "k=1" / "a directory").symlink_to(root / "k=3")
    (root / "k=2").rename(tmp_path / "partition")
    (root / "k=2").symlink_to(tmp_path / "partition")
    yield root
    os.unlink(root / "k=2")
    (tmp_path / "partition").rename(root / "k=2")


@pytest.mark.parametrize("how", ["pinned", "paths"])
def test_links(spark, way, linked, how):
    if how == "paths" and "connector" not in way:
        skip_unless_it_describes_json(spark)
    dimension = spark.sql("SELECT explode(array(1, 2)) AS k")
    reader = splitlib.read(spark).config(spark_scan=how)
    loaded = reader.table("default.linked", **way)
    spark.catalog.refreshTable("linked")
    reference = spark.table("linked").where("k IN (1, 2)")
    rows = Counter(reference.collect())
    assert len(rows) == 2
    assert Counter(loaded.filtered_by(dimension, "k").load().collect()) == rows
    of_files = reader.table(str(linked), connector="files", partition_schema="k int")
    # Outside of a catalog, Spark also reads subdirectories of partitions, even linked ones.
    reference = spark.read.schema("a INT, k INT").parquet(str(linked))
    assert Counter(of_files.load().collect()) == Counter(reference.collect())
    of_keys = of_files.filtered_by(dimension, "k").load()
    assert Counter(of_keys.collect()) == Counter(reference.where("k IN (1, 2)").collect())


def test_a_partition_that_is_a_link_to_nowhere(spark, way, linked, tmp_path):
    os.rename(tmp_path / "partition", tmp_path / "away")
    try:
        spark.catalog.refreshTable("linked")
        assert spark.table("linked").where("k = 2").count() == 0
        with splitlib.load_table("default.linked", spark=spark, **way) as table:
            assert [split.partition_values["k"] for split in splits(table)] == [1, 3]
            with pytest.raises(splitlib.MissingPartition, match="k=2"):
                list(DynamicFileEnumerator(table, SplitConfig()).enumerate_splits())
    finally:
        os.rename(tmp_path / "away", tmp_path / "partition")
