"""Join keys prune even if their type differs from that of the partition key.

Pruning follows the conversions of Spark's join.
"""

from __future__ import annotations

import logging
from datetime import date

import pyarrow as pa
import pytest

import splitlib
from benchmarks.tpcds.settings import changed

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]


@pytest.fixture
def tables(spark):
    spark.sql("CREATE TABLE ck_text (v INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    spark.sql(
        "INSERT INTO ck_text SELECT /*+ COALESCE(1) */ CAST(id AS INT),"
        " IF(id = 7, NULL, CAST(DATE_ADD(DATE'2024-01-01', CAST(id AS INT)) AS STRING))"
        " FROM RANGE(8)"
    )
    spark.sql("CREATE TABLE ck_number (v INT, x DOUBLE) USING parquet PARTITIONED BY (x)")
    spark.sql(
        "INSERT INTO ck_number SELECT /*+ COALESCE(1) */ CAST(id AS INT), id / 2 FROM RANGE(8)"
    )
    yield
    spark.sql("DROP TABLE ck_text")
    spark.sql("DROP TABLE ck_number")


@pytest.mark.parametrize("scan", ["auto", "paths"])
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_dates_against_text(spark, tables, ansi, scan):
    days = spark.sql("SELECT DATE'2024-01-03' AS d UNION ALL SELECT DATE'2024-01-05'")
    with changed(spark, {"spark.sql.ansi.enabled": ansi}):
        read = splitlib.read(spark).table("ck_text").config(spark_scan=scan)
        loaded = read.filtered_by(days, {"dt": "d"}).load()
        assert sorted(row.v for row in loaded.collect()) == [2, 4]
        assert splitlib.explain(loaded).metrics.partitions_matched == 2


def test_null_safe_and_none(spark, tables):
    read = splitlib.read(spark).table("ck_text")
    null = spark.sql("SELECT CAST(NULL AS DATE) AS d UNION ALL SELECT DATE'2024-01-03'")
    loaded = read.filtered_by(null, {"dt": "d"}, null_safe=True).load()
    assert sorted(row.v for row in loaded.collect()) == [2, 7]
    none = null.where("d > DATE'2030-01-01'")
    assert read.filtered_by(none, {"dt": "d"}).load().count() == 0


def test_whole_numbers_against_a_double(spark, tables):
    numbers = spark.sql("SELECT 1 AS n UNION ALL SELECT 3 UNION ALL SELECT 99")
    for keys, column in ((numbers, "n"), (pa.table({"x": [1, 3, 99]}), "x")):
        loaded = splitlib.read(spark).table("ck_number").filtered_by(keys, {"x": column}).load()
        assert sorted(row.v for row in loaded.collect()) == [2, 6]
        assert splitlib.explain(loaded).metrics.partitions_matched == 2


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_value_that_is_no_date(spark, tables, ansi):
    """A partition value that is not a date does not match. Rows that match are still returned."""
    spark.sql("INSERT INTO ck_text VALUES (100, 'no day')")
    keys = {"d": [date(2024, 1, 3)]}
    with changed(spark, {"spark.sql.ansi.enabled": ansi}):
        loaded = splitlib.read(spark).table("ck_text").filtered_by(keys, {"dt": "d"}).load()
        assert 2 in {row.v for row in loaded.collect()}


def test_only_the_fields_of_the_join_are_keys(spark, tables):
    """A filter may have other fields, also of the name of a column, and may be used twice."""
    keys = splitlib.DynamicFilteringData.from_values({"n": [1, 3], "v": [0, None]})
    read = splitlib.read(spark).table("ck_number")
    loaded = read.filtered_by(keys, {"x": "n"}).load()
    assert sorted(row.v for row in loaded.collect()) == [2, 6]
    loaded = read.filtered_by(keys, {"x": "n", "v": "n"}).load()
    assert splitlib.explain(loaded).metrics.partitions_matched == 2
    with pytest.raises(splitlib.InvalidFilter, match="no column 'm'"):
        read.filtered_by(keys, {"x": "m"}).load()


def test_what_cannot_prune_is_logged_with_its_table(spark, tables, caplog):
    keys = splitlib.DynamicFilteringData.from_range({"x": (1, 3)})
    with caplog.at_level(logging.WARNING, "splitlib"):
        loaded = splitlib.read(spark).table("ck_number").filtered_by(keys).load()
    assert loaded.count() == 8
    (said,) = (r.getMessage() for r in caplog.records if "prunes nothing" in r.getMessage())
    assert "ck_number" in said
