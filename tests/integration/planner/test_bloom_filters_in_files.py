"""A few keys of a data column are looked up in the Bloom filters of Parquet files."""

from __future__ import annotations

import os
import random

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

import splitlib
from benchmarks.data_keys import rows_read
from splitlib.spark.planner import data_keys
from splitlib.spark.planner.scan_sites import prunable

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

ROWS, GROUP = 4000, 100


@pytest.fixture(autouse=True)
def small_tables(monkeypatch):
    monkeypatch.setattr(prunable, "LEAST_BYTES", 1)


@pytest.fixture
def bloom_items(spark, tmp_path):
    """Even items in random order, each row group with a Bloom filter of them."""
    items = random.Random(8).sample(range(0, 2 * ROWS, 2), ROWS)
    table = pa.table({"item": items, "amount": [i % 7 for i in items]})
    options = {"item": {"ndv": GROUP, "fpp": 0.001}}
    pq.write_table(
        table, tmp_path / "f.parquet", row_group_size=GROUP, bloom_filter_options=options
    )
    os.utime(tmp_path / "f.parquet", (0, 1_700_000_000))  # old enough that statistics are kept
    spark.read.parquet(str(tmp_path)).createOrReplaceTempView("with_bloom_filters")
    yield items
    spark.catalog.dropTempView("with_bloom_filters")


@pytest.mark.parametrize(("keys", "is_used"), [(3, True), (30, False)])
def test_few_keys_are_looked_up_in_bloom_filters(spark, bloom_items, keys, is_used):
    items = bloom_items
    chosen = [*items[: keys - 1], 7]  # in the first row group, and a key that no row has
    values = ", ".join(f"({item})" for item in chosen)
    query = f"""
        SELECT f.item, f.amount FROM with_bloom_filters f
        JOIN (SELECT * FROM VALUES {values} AS v(id) WHERE id >= 0) d ON f.item = d.id
    """
    df = splitlib.sql(spark, query)
    rows = sorted(df.collect())
    read = rows_read(df, "amount")
    assert rows == sorted(spark.sql(query).collect())
    assert df.count() == keys - 1
    # A Bloom filter may keep a row group without the keys.
    assert (read <= 3 * GROUP) == is_used
    assert ("looks up keys of item in Bloom filters" in str(splitlib.explain(df))) == is_used


def test_statistics_of_the_sample_are_saved(spark, bloom_items, tmp_path_factory):
    """They are saved also if the keys are only looked up in Bloom filters."""
    location = tmp_path_factory.mktemp("statistics")
    item = bloom_items[0]
    spark.conf.set("spark.splitlib.statisticsLocation", str(location))
    try:
        splitlib.sql(
            spark,
            "SELECT f.amount FROM with_bloom_filters f JOIN (SELECT * FROM VALUES "
            f"({item}) AS v(id) WHERE id >= 0) d ON f.item = d.id",
        )
    finally:
        spark.conf.unset("spark.splitlib.statisticsLocation")
    assert [path.suffix for path in location.rglob("*") if path.is_file()] == [".parquet"]


@pytest.mark.parametrize("few_bytes", [0, 1 << 20])
def test_keys_of_a_large_partitioned_table_are_not_collected_for_bloom_filters(
    spark, bloom_items, tmp_path_factory, monkeypatch, few_bytes
):
    """They are rarely few enough for a lookup, and their query takes time."""
    monkeypatch.setattr(data_keys, "FEW_BYTES", few_bytes)
    root = tmp_path_factory.mktemp("returns")
    for day in range(3):
        (root / f"day={day}").mkdir()
        items = pa.table({"id": bloom_items[:2], "reason": [day, 9]})
        pq.write_table(items, root / f"day={day}/f.parquet")
    spark.read.parquet(str(root)).createOrReplaceTempView("returns_by_day")
    query = """
        SELECT f.item, f.amount FROM with_bloom_filters f
        JOIN returns_by_day r ON f.item = r.id WHERE r.reason = 1
    """
    df = splitlib.sql(spark, query)
    spark.catalog.dropTempView("returns_by_day")
    assert len(df.collect()) == 1
    used = [use for scan in splitlib.explain(df).scans for use in scan.filters]
    assert len(used) == (few_bytes > 0)
    assert ("a partitioned table usually has more than 10 keys" in str(splitlib.explain(df))) == (
        not used
    )
