"""The planner requests partitions of session tables by name, and then lists no names."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import splitlib
from splitlib.report import Report
from splitlib.spark.jvm.session_catalog import CatalogPartitions
from splitlib.testing import HiveMetastore
from splitlib.testing.spark_counts import measure
from tests.integration.planner.tables import explained, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

PARTITIONS, MATCHING = 1_000, 30
WANTED = [f"p{10 * i}" for i in range(MATCHING)]

BY_NAME = "SELECT f.a, f.k FROM bn_facts f JOIN bn_keys d ON f.k = d.k WHERE d.grp = 1"


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession, metastore: HiveMetastore) -> Iterator[None]:
    """Create a table of 1,000 partitions, and two tables with two partition keys each."""
    spark.sql("CREATE TABLE bn_facts (a INT) PARTITIONED BY (k STRING) STORED AS PARQUET")
    names = [(f"p{k}",) for k in range(PARTITIONS)]
    metastore.bulk_add_partitions("default", "bn_facts", names)
    first = None
    for key in WANTED:
        path = metastore.warehouse / "bn_facts" / f"k={key}" / "0.parquet"
        path.parent.mkdir(parents=True)
        if first is None:
            pq.write_table(pa.table({"a": pa.array([1, 2, 3], pa.int32())}), path)
            first = path
        else:
            os.link(first, path)
    spark.sql("CREATE TABLE bn_keys (k STRING, day INT, region STRING, grp INT) USING parquet")
    rows = [f"('{key}', {i}, 'r{i % 5}', {i % 2})" for i, key in enumerate([*WANTED, "gone"])]
    rows += [f"('{key}', {i}, 'r{i % 5}', 1)" for i, key in enumerate(WANTED)]
    spark.sql(f"INSERT INTO bn_keys VALUES {', '.join(rows)}")
    spark.sql("""CREATE TABLE bn_two USING parquet PARTITIONED BY (Region, name) AS
        SELECT id AS a, concat('r', id % 5) AS Region, concat('p', id % 40) AS name
        FROM range(200)""")
    spark.sql("""CREATE TABLE bn_days USING parquet PARTITIONED BY (region, day) AS
        SELECT id AS a, concat('r', id % 5) AS region, CAST(id % 50 AS INT) AS day
        FROM range(200)""")
    yield
    for table in ("bn_facts", "bn_keys", "bn_two", "bn_days"):
        spark.sql(f"DROP TABLE {table}")


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the tables for which all partition names are listed during the test."""
    found = []
    names = CatalogPartitions.names

    def counted(self: CatalogPartitions) -> list[str]:
        found.append(self.name.rpartition(".")[2])
        return names(self)

    monkeypatch.setattr(CatalogPartitions, "names", counted)
    return found


def planned(spark: SparkSession, query: str) -> tuple[DataFrame, Report]:
    """Plan a query, and assert that its rows equal Spark's. Return it and its report."""
    found = splitlib.sql(spark, query)
    assert rows_of(found) == rows_of(spark.sql(query))
    return found, explained(found)


def test_keys_that_are_names(spark: SparkSession, listed: list[str]) -> None:
    """A single request fetches the matching partitions, and no names are listed."""
    spark.catalog.refreshTable("bn_facts")
    spark.table("bn_keys").count()
    made: list[DataFrame] = []

    def run() -> DataFrame:
        made.append(splitlib.sql(spark, BY_NAME))
        return made[0]

    counts = measure(spark, run)
    report = explained(made[0])
    (scan,) = report.scans
    assert listed == []
    assert (report.catalog_requests, report.storage_requests) == (1, MATCHING)
    assert scan.partitions == (MATCHING, None)
    assert (scan.asked_for, scan.ranges, scan.files.matched) == ("by name", (), MATCHING)
    assert f"─ partitions {MATCHING} (requested by name, so" in str(report)
    assert (counts.partitions_fetched, counts.files_discovered) == (MATCHING, 0)
    assert len(counts.result) == 3 * (MATCHING + MATCHING // 2)


TWICE = f"""{BY_NAME} UNION ALL
  SELECT -f.a, f.k FROM bn_facts f JOIN bn_keys d ON f.k = d.k WHERE d.grp = 0"""


def test_two_scans_ask_for_what_both_need_once(spark: SparkSession, listed: list[str]) -> None:
    _, report = planned(spark, TWICE)
    assert listed == []
    assert [scan.asked_for for scan in report.scans] == ["by name"] * 2
    assert report.catalog_requests <= 2
    assert report.storage_requests == MATCHING


def test_names_are_listed_where_one_of_two_scans_needs_them(
    spark: SparkSession, listed: list[str]
) -> None:
    other = "SELECT -f.a, f.k FROM bn_facts f JOIN bn_keys d ON concat(f.k, 'x') = concat(d.k, 'x')"
    _, report = planned(spark, f"{BY_NAME} UNION ALL {other} WHERE d.grp = 0")
    assert listed == ["bn_facts"]
    assert [scan.partitions.total for scan in report.scans] == [PARTITIONS] * 2
    assert report.catalog_requests <= 1 + 2


@pytest.mark.parametrize(
    ("joined", "asked_for"),
    [("f.k = d.k", "by name"), ("f.k = d.k AND f.k <> 'p0'", "by name"), ("f.k <= d.k", "")],
)
def test_sites_of_one_scan_ask_for_what_one_of_them_needs(
    spark: SparkSession, listed: list[str], joined: str, asked_for: str
) -> None:
    """For a lateral subquery, Spark scans the outer table a second time to collect values."""
    query = f"""SELECT f.k, f.a, x.least FROM
          (SELECT f.* FROM bn_facts f JOIN bn_keys d ON {joined} WHERE d.grp = 1 AND d.day < 3) f,
          LATERAL (SELECT min(r.a) AS least FROM bn_two r WHERE r.a > f.a) x"""
    _, report = planned(spark, query)
    scan = next(scan for scan in report.scans if scan.table.endswith("bn_facts"))
    assert scan.asked_for == asked_for
    assert listed == ([] if asked_for else ["bn_facts"])


@pytest.mark.parametrize(
    ("joined", "asked_for", "requests"),
    [
        ("f.region = d.region AND f.name = d.k", "by name", 1),
        ("f.region = 'r3' AND f.name = d.k", "by name", 1),
        ("f.region IN ('r3', 'no') AND f.name = d.k", "by name", 1),
        ("f.region = 'r3' AND f.name > d.k", "by the start of their names: 1 prefix", 2),
        ("f.region = 'r3' AND f.name = d.k AND upper(f.name) <> 'P0'", "by name", 1),
        ("f.region = 'r3' AND f.name = concat(d.k, '')", "by name", 1),
        ("f.region = d.region AND f.name <=> d.k", "", 2),
        ("f.region = d.region", "", 2),
        ("f.name = d.k", "", 2),
        ("upper(f.region) = upper(d.region) AND f.name = d.k", "", 2),
    ],
)
def test_conditions_and_joins_say_names_together(
    spark: SparkSession, listed: list[str], joined: str, asked_for: str, requests: int
) -> None:
    query = f"SELECT f.* FROM bn_two f JOIN bn_keys d ON {joined} WHERE d.day < 3"
    _, report = planned(spark, query)
    (scan,) = report.scans
    assert scan.asked_for == asked_for
    assert listed == ([] if asked_for else ["bn_two"])
    assert report.catalog_requests == requests


def test_a_number_may_be_spelled_otherwise(spark: SparkSession, listed: list[str]) -> None:
    query = "SELECT f.* FROM bn_days f JOIN bn_keys d ON f.region = d.region AND f.day = d.day"
    _, report = planned(spark, f"{query} WHERE d.k = 'p30'")
    assert listed == ["bn_days"]
    assert report.scans[0].partitions.total == 50
    listed.clear()
    _, report = planned(spark, f"{query} WHERE d.k = 'p30' AND f.region = 'r3'")
    assert listed == []
    assert report.scans[0].asked_for == "by the start of their names: 1 prefix"
    assert report.catalog_requests == 2


def test_no_keys(spark: SparkSession, listed: list[str]) -> None:
    _, report = planned(spark, f"{BY_NAME} AND d.day = -1")
    (scan,) = report.scans
    assert (scan.partitions.matched, scan.asked_for, listed) == (0, "by name", [])
    assert report.catalog_requests == 0


def test_too_many_names_for_one_request(spark: SparkSession, listed: list[str]) -> None:
    """If there are too many names for one request, all partition names are listed instead."""
    many = "SELECT concat('p', id) AS k FROM range(290, 6000) WHERE id % 2 = 0"
    _, report = planned(spark, f"SELECT f.a FROM bn_facts f JOIN ({many}) d ON f.k = d.k")
    assert listed == ["bn_facts"]
    assert report.scans[0].partitions.total == PARTITIONS


def test_the_latest_row_of_a_region(spark: SparkSession, listed: list[str]) -> None:
    query = "SELECT max(day) FROM bn_days WHERE region = 'r2'"
    _, report = planned(spark, query)
    assert listed == []
    assert "requested by the start of their names" in str(report)
