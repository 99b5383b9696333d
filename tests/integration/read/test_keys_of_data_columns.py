"""Keys of data columns become conditions by which Spark skips row groups of Parquet files."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from pyspark.sql import functions as F

import splitlib
from benchmarks.data_keys import rows_read
from splitlib.filtering.data import DynamicFilteringData

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

ROWS, GROUP = 10_000, 100


def rows_scanned(df):
    """Run ``df``. Return how many rows its Parquet scans read, before any row filter."""
    df.collect()
    return rows_read(df, "item")


def write(table, path):
    """Write a file without dictionaries, which would answer a list of values exactly."""
    pq.write_table(table, path, row_group_size=GROUP, use_dictionary=False)


def values_of(kind):
    """Return as many ascending values of a type as there are rows."""
    numbers = range(-ROWS // 2, ROWS // 2)
    match kind:
        case "int" | "bigint":
            return list(numbers)
        case "string":
            return [f"é{number + ROWS:06}" for number in numbers]
        case "date":
            return [datetime.date(2000, 1, 1) + datetime.timedelta(n) for n in numbers]
        case "timestamp":
            start = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
            return [start + datetime.timedelta(hours=n) for n in numbers]
        case "decimal(12,2)":
            return [Decimal(number) / 100 for number in numbers]


TYPES = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "date": pa.date32(),
    # Spark passes no condition on TIMESTAMP_NTZ to the Parquet reader.
    "timestamp": pa.timestamp("us", "UTC"),
    "decimal(12,2)": pa.decimal128(12, 2),
}


@pytest.fixture(scope="module", params=TYPES)
def table(request, tmp_path_factory):
    """Return the type, values and directory of a table of two days, each sorted by ``item``."""
    kind = request.param
    root = tmp_path_factory.mktemp("items")
    values = values_of(kind)
    for day in (1, 2):
        (root / f"day={day}").mkdir()
        columns = {"item": pa.array(values, TYPES[kind]), "n": pa.array(range(ROWS))}
        write(pa.table(columns), root / f"day={day}/f.parquet")
    return kind, values, str(root)


@pytest.mark.parametrize(("clusters", "each"), [(1, 5), (2, 40), (3, 400), (8, 12)])
def test_only_row_groups_with_keys_are_read(spark, table, clusters, each):
    """Between clusters of keys no row group is read, whatever the number of keys."""
    kind, values, root = table
    starts = [cluster * (ROWS // clusters) for cluster in range(clusters)]
    chosen = [row for start in starts for row in range(start, start + each)]
    items = pa.table({"item": pa.array([values[row] for row in chosen], TYPES[kind])})
    keys = DynamicFilteringData.from_arrow(items)
    df = splitlib.read(spark).table(root, "files").filtered_by(keys).load()
    assert dict(df.dtypes)["item"] == kind
    groups = {row // GROUP for row in chosen}
    assert rows_scanned(df) == 2 * GROUP * len(groups)
    wanted = spark.createDataFrame(items)
    plain = spark.read.parquet(root).join(wanted, "item", "left_semi")
    joined = df.join(wanted, "item", "left_semi").select(*plain.columns)
    assert sorted(joined.collect()) == sorted(plain.collect())


def test_a_null_key_keeps_nulls(spark, tmp_path):
    items = pa.array([None if n % 100 == 0 else n for n in range(ROWS)], pa.int32())
    write(pa.table({"item": items}), tmp_path / "f.parquet")
    keys = DynamicFilteringData.from_values({"item": [None, *range(50, 70), *range(9000, 9020)]})
    df = splitlib.read(spark).table(str(tmp_path), "files").filtered_by(keys, null_safe=True).load()
    found = df.groupBy(F.col("item").isNull()).count().collect()
    assert sorted(map(tuple, found)) == [(False, 39), (True, 100)]
