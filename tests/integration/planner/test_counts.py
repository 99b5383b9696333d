"""Planned queries and readers request only the matching partitions and directories."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import splitlib
from splitlib.testing import HiveMetastore
from splitlib.testing.spark_counts import QueryCounts, measure
from tests.integration.planner.tables import explained

pytestmark = pytest.mark.spark

PARTITIONS, FILES, MATCHING = 1_000, 2, 30
FIRST = range(0, 10 * MATCHING, 10)
"""Partitions that match the keys of group 1."""
SECOND = range(100, 100 + 10 * MATCHING, 10)
"""Partitions that match the keys of group 2. 20 of them also match group 1."""
BOTH = sorted({*FIRST, *SECOND})

ONE_SCAN = "SELECT f.a FROM cn_facts f JOIN cn_keys d ON f.k = d.k WHERE d.grp = 1"
TWO_SCANS = f"""{ONE_SCAN} UNION ALL
  SELECT -f.a FROM cn_facts f JOIN cn_keys d ON f.k = d.k WHERE d.grp = 2"""


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession, metastore: HiveMetastore) -> Iterator[None]:
    """Create a fact table and its dimension.

    Only fact partitions that match a key have a directory, with two files.
    """
    spark.sql("CREATE TABLE cn_facts (a INT) PARTITIONED BY (k INT) STORED AS PARQUET")
    metastore.bulk_add_partitions("default", "cn_facts", [(str(k),) for k in range(PARTITIONS)])
    first = None
    for key in BOTH:
        directory = metastore.warehouse / "cn_facts" / f"k={key}"
        directory.mkdir(parents=True)
        for i in range(FILES):
            path = directory / f"{i}.parquet"
            if first is None:
                pq.write_table(pa.table({"a": pa.array([1, 2, 3], pa.int32())}), path)
                first = path
            else:
                os.link(first, path)
    groups = [f"({k}, {g})" for g, keys in ((1, FIRST), (2, SECOND)) for k in keys]
    spark.sql("CREATE TABLE cn_keys (k INT, grp INT) USING parquet")
    spark.sql(f"INSERT INTO cn_keys VALUES {', '.join(groups)}")
    # Cache the file listing of this table, so that later reads do not change the counters.
    spark.table("cn_keys").count()
    yield
    spark.sql("DROP TABLE cn_facts")
    spark.sql("DROP TABLE cn_keys")


def counted(spark: SparkSession, make: list[DataFrame], query: str) -> QueryCounts:
    """Count the requests of a query with empty caches. Append its DataFrame to ``make``."""
    spark.catalog.refreshTable("cn_facts")
    spark.table("cn_keys").count()

    def run() -> DataFrame:
        make.append(splitlib.sql(spark, query))
        return make[0]

    return measure(spark, run)


def test_one_scan(spark: SparkSession) -> None:
    """One catalog request lists the partition names, and one fetches the matching partitions."""
    made: list[DataFrame] = []
    counts = counted(spark, made, ONE_SCAN)
    assert len(counts.result) == MATCHING * FILES * 3
    assert explained(made[0]).catalog_requests == 2
    (scan,) = explained(made[0]).scans
    assert scan.partitions == (MATCHING, PARTITIONS)
    assert scan.files.matched == counts.files_read == MATCHING * FILES
    assert explained(made[0]).storage_requests == MATCHING
    # splitlib itself increments Spark's counter for the partitions that it fetches.
    assert (counts.partitions_fetched, counts.files_discovered) == (MATCHING, 0)


def test_two_scans(spark: SparkSession) -> None:
    """Two scans share one listing of the names, and each partition is fetched only once."""
    made: list[DataFrame] = []
    counts = counted(spark, made, TWO_SCANS)
    assert len(counts.result) == 2 * MATCHING * FILES * 3
    assert [scan.partitions.matched for scan in explained(made[0]).scans] == [MATCHING] * 2
    # One request lists the names. Each scan may need one more for the details of its partitions.
    assert explained(made[0]).catalog_requests <= 1 + 2
    assert explained(made[0]).storage_requests == len(BOTH)
    assert (counts.partitions_fetched, counts.files_discovered) == (len(BOTH), 0)


def test_reader(spark: SparkSession) -> None:
    """A reader makes as many requests as a query, and its metrics contain the numbers."""
    days = spark.table("cn_keys").where("grp = 1")
    made: list[DataFrame] = []

    def run() -> DataFrame:
        facts = splitlib.read(spark).table("default.cn_facts").filtered_by(days, "k").load()
        made.append(facts)
        return facts.join(days, "k")

    counts = measure(spark, run)
    assert len(counts.result) == MATCHING * FILES * 3
    metrics = splitlib.explain(made[0]).metrics
    assert (metrics.partitions_total, metrics.partitions_matched) == (PARTITIONS, MATCHING)
    assert metrics.metastore_requests == 2
    assert metrics.storage_requests == MATCHING
    assert metrics.files_selected == counts.files_read == MATCHING * FILES
    assert (counts.partitions_fetched, counts.files_discovered) == (MATCHING, 0)
