"""Queries of ``splitlib.sql`` on Iceberg tables of a named catalog."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField
from pyspark.sql import SparkSession

import splitlib
from benchmarks.tpcds.settings import changed
from tests.integration.iceberg.lake import Lake, full_name

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

FILES = 6


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession, lake: Lake) -> Iterator[None]:
    """Create ``lake.db.t0`` without partitions, and ``lake.db.t1`` by ``day``, with equal files.

    A file has the rows of one day, and ``k`` grows with the day. The temporary views ``whole`` and
    ``by_day`` have the same rows.
    """
    for name, spec in {
        "whole": UNPARTITIONED_PARTITION_SPEC,
        "by_day": PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day")),
    }.items():
        columns = NestedField(1, "k", LongType()), NestedField(2, "day", IntegerType())
        table = lake.create(Schema(*columns), spec)
        for day in range(FILES):
            k = range(day * 10, day * 10 + 10)
            rows = {"k": k, "day": [day] * 10}
            table.append(pa.table(rows, schema=table.schema().as_arrow()))
        read = splitlib.read(spark).table(full_name(table), connector="iceberg", **lake.options)
        read.load().createOrReplaceTempView(name)
    options = {"connector": "iceberg", **lake.options}
    with changed(spark, {f"spark.splitlib.catalog.lake.{k}": v for k, v in options.items()}):
        yield
    for name in ("whole", "by_day"):
        spark.catalog.dropTempView(name)


def test_nested_namespaces(spark: SparkSession, lake: Lake) -> None:
    lake.catalog.create_namespace_if_not_exists(("db", "deep"))
    schema = Schema(NestedField(1, "k", LongType()))
    table = lake.catalog.create_table(("db", "deep", "t"), schema)
    table.append(pa.table({"k": [1, 2]}))
    query = "SELECT lake.db.deep.t.k FROM lake.db.deep.t WHERE lake.db.deep.t.k > 1"
    assert [row.k for row in splitlib.sql(spark, query).collect()] == [2]


QUERIES = {
    "the table": ("TABLE {t}", 6),
    "a join": ("SELECT k, n FROM {t} JOIN VALUES (7, 1), (8, 2) AS d(id, n) ON k = id", 1),
    "a condition": ("SELECT k FROM {t} WHERE k > 42", 2),
    "a dimension": (
        "SELECT f.k, d.day FROM {t} f JOIN {t} d ON f.k = d.k + 20 WHERE d.k IN (3, 4)",
        2,
    ),
    "a dimension in a subquery": (
        "SELECT k FROM {t} WHERE k IN (SELECT day FROM {t} WHERE k = 33)",
        2,
    ),
    "greatest": ("SELECT max(k), min(k) FROM {t} WHERE k < 35", 4),
    "ordered": ("SELECT k FROM {t} ORDER BY k DESC LIMIT 3", 6),
}


@pytest.mark.parametrize(("table", "view"), [("lake.db.t0", "whole"), ("lake.db.t1", "by_day")])
@pytest.mark.parametrize("query", QUERIES)
def test_bounds_of_files(spark: SparkSession, table: str, view: str, query: str) -> None:
    """Keys and conditions on data columns prune files, with and without partition columns.

    A table of the catalog also gives keys, whose size is known only after its files are listed.
    """
    text, files = QUERIES[query]
    found = splitlib.sql(spark, text.format(t=table))
    report = splitlib.explain(found)
    assert sorted(found.collect()) == sorted(spark.sql(text.format(t=view)).collect())
    assert not report.reasons
    assert sum(scan.files.matched or 0 for scan in report.scans) == files
