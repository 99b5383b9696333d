"""The ``hive`` and ``session`` connectors request only the matching partitions and directories."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import splitlib

pytestmark = pytest.mark.spark

PARTITIONS, FILES, MATCHING = 10_000, 2, 30
KEYS = [str(k) for k in range(0, PARTITIONS, PARTITIONS // MATCHING)][:MATCHING]


@pytest.fixture(scope="module")
def large(spark, metastore):
    """Create a table of 10,000 partitions. Only partitions that match the keys have a directory."""
    spark.sql("CREATE TABLE large (a INT) PARTITIONED BY (k INT) STORED AS PARQUET")
    metastore.bulk_add_partitions("default", "large", [(str(k),) for k in range(PARTITIONS)])
    first = None
    for key in KEYS:
        directory = metastore.warehouse / "large" / f"k={key}"
        directory.mkdir(parents=True)
        for i in range(FILES):
            path = directory / f"{i}.parquet"
            if first is None:
                pq.write_table(pa.table({"a": pa.array([1, 2, 3], pa.int32())}), path)
                first = path
            else:
                os.link(first, path)
    spark.sql(f"CREATE TABLE keys USING parquet AS SELECT explode(array({', '.join(KEYS)})) AS k")
    # Cache the file listing of this table, so that later reads do not change the counters.
    spark.table("keys").count()
    return "default.large"


@pytest.fixture
def spark_metrics(spark):
    """Reset Spark's counters of fetched partitions and of listed files.

    Return a function that returns both counts.
    """
    metrics = spark._jvm.org.apache.spark.metrics.source.HiveCatalogMetrics
    metrics.reset()

    def read():
        return (
            metrics.METRIC_PARTITIONS_FETCHED().getCount(),
            metrics.METRIC_FILES_DISCOVERED().getCount(),
        )

    return read


@pytest.mark.parametrize("batch", [7, 500])
def test_only_what_matches_is_asked_for(spark, metastore, large, spark_metrics, batch):
    keys = spark.table("keys")
    reader = splitlib.read(spark).table(
        large, connector="hive", uri=metastore.uri, partitions_per_request=batch
    )
    sales = reader.filtered_by(keys, "k").load()
    joined = sales.join(keys, "k").groupBy().count().collect()
    assert joined[0][0] == MATCHING * FILES * 3
    metrics = splitlib.explain(sales).metrics
    assert metrics.partitions_total == PARTITIONS
    assert metrics.partitions_matched == MATCHING
    assert metrics.metastore_requests == 1 + -(-MATCHING // batch)
    assert metrics.storage_requests == MATCHING
    assert metrics.files_selected == MATCHING * FILES
    assert spark_metrics() == (0, 0)


def test_the_session_asks_for_no_more(spark, large, spark_metrics):
    """Through the session, Spark's metastore client fetches only the matching partitions."""
    keys = spark.table("keys")
    sales = splitlib.read(spark).table(large).filtered_by(keys, "k").load()
    assert spark_metrics()[0] == MATCHING
    assert sales.join(keys, "k").count() == MATCHING * FILES * 3
    metrics = splitlib.explain(sales).metrics
    assert (metrics.partitions_total, metrics.partitions_matched) == (PARTITIONS, MATCHING)
    assert (metrics.metastore_requests, metrics.storage_requests) == (2, MATCHING)
    assert metrics.files_selected == MATCHING * FILES
    assert spark_metrics()[0] == MATCHING  # Running the query fetches no more partitions.


def test_the_counters_count(spark, large, spark_metrics):
    spark.catalog.refreshTable(large)
    assert spark.table(large).where(f"k = {KEYS[3]}").count() == FILES * 3
    assert spark_metrics() == (1, FILES)


def test_no_keys_no_requests(spark, way, large, spark_metrics):
    nothing = spark.table("keys").where("k < 0")
    reader = splitlib.read(spark).table(large, **way)
    sales = reader.filtered_by(nothing, "k").load()
    assert sales.count() == 0
    metrics = splitlib.explain(sales).metrics
    assert (metrics.metastore_requests, metrics.storage_requests) == (0, 0)
    assert spark_metrics() == (0, 0)


@pytest.mark.parametrize("form", ["USING parquet", "STORED AS PARQUET", "STORED AS TEXTFILE"])
def test_spark_lists_no_table_without_partitions(spark, metastore, spark_metrics, form):
    name = f"whole_{form.split()[-1].lower()}_{form.split()[0].lower()}"
    spark.sql(f"CREATE TABLE {name} (a INT) {form}")
    spark.sql(f"INSERT INTO {name} SELECT id FROM range(0, 6, 1, 2)")
    spark.catalog.refreshTable(name)
    spark._jvm.org.apache.spark.metrics.source.HiveCatalogMetrics.reset()
    reader = splitlib.read(spark).table(f"default.{name}", connector="hive", uri=metastore.uri)
    loaded = reader.load()
    assert sorted(row.a for row in loaded.collect()) == [*range(6)]
    assert spark_metrics() == (0, 0)


def test_a_static_condition_prunes_too(spark, way, large, spark_metrics):
    reader = splitlib.read(spark).table(large, **way)
    sales = reader.where(f"k = {KEYS[1]} AND a > 1").load()
    assert sales.count() == 2 * FILES
    assert splitlib.explain(sales).metrics.storage_requests == 1
    # Spark counts partitions that its own client fetches, not those of the ``hive`` connector.
    assert spark_metrics()[0] == (0 if way else 1)
