"""Spark skips files, row groups and rows of Iceberg tables by conditions and join keys."""

from __future__ import annotations

import datetime
import decimal
import importlib
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)
from pyspark.sql import functions as F

import splitlib
from splitlib.errors import InvalidFilter
from splitlib.filtering.data import DynamicFilteringData
from tests.integration.iceberg.lake import (
    append_files,
    append_rows,
    data_file,
    delete_positions,
    ints,
    rows_of,
    table_of,
    with_id,
)

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

# Type checkers do not understand the metaclasses of these classes, so the module has type ``Any``.
ice: Any = importlib.import_module("pyiceberg.expressions")


def rows_scanned(df):
    """Run ``df``. Return how many rows its Parquet scans read, before any row filter."""
    df.collect()
    leaves = df._jdf.queryExecution().executedPlan().collectLeaves()
    if leaves.head().nodeName() == "AdaptiveSparkPlan":
        leaves = leaves.head().executedPlan().collectLeaves()
    scans = [leaves.apply(i) for i in range(leaves.size())]
    return sum(
        scan.metrics().apply("numOutputRows").value()
        for scan in scans
        if scan.nodeName().startswith("Scan parquet")
    )


@pytest.fixture(scope="module")
def measured(lake):
    """Create a table of ten files. Each has 1000 rows in ten row groups.

    ``k`` is the number of the row, and ``day`` is ``k // 1000``.
    """
    table = lake.create(
        Schema(
            NestedField(1, "k", LongType()),
            NestedField(2, "day", IntegerType()),
            NestedField(3, "n", IntegerType(), required=False),
        ),
        PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day")),
    )
    schema = table.schema().as_arrow()
    with table.transaction() as transaction:
        transaction.set_properties({"write.parquet.row-group-limit": "100"})
    for day in range(10):
        k = list(range(day * 1000, day * 1000 + 1000))
        n = [None if i % 7 == 0 else i % 1000 for i in k]
        table.append(pa.table({"k": k, "day": [day] * 1000, "n": n}, schema=schema))
    return table


def test_keys_skip_row_groups(spark, measured, read, how) -> None:
    wanted = [5, 777, 3050, 3051, 99_999]
    dimension = spark.createDataFrame([(k,) for k in wanted], "key int")
    df = read(measured).filtered_by(dimension, {"k": "key"}).load()
    assert splitlib.explain(df).metrics.files_selected == 2
    assert sorted(row.k for row in df.collect()) == [5, 777, 3050, 3051]
    joined = df.join(dimension, df.k == dimension.key)
    assert sorted(row.k for row in joined.collect()) == [5, 777, 3050, 3051]
    # With ``paths``, a join adds the partition values. ``rows_scanned`` cannot count such a plan.
    if how == "auto":
        assert rows_scanned(df) == 300


def test_many_keys_skip_row_groups_by_range(measured, read, how) -> None:
    keys = DynamicFilteringData.from_values({"k": range(2500, 4600)})
    df = read(measured).filtered_by(keys).load()
    assert df.count() == 2100
    if how == "auto":
        assert rows_scanned(df) == 2100
    ends = read(measured).filtered_by(DynamicFilteringData.from_range({"k": (None, 250)})).load()
    assert ends.count() == 251
    if how == "auto":
        assert rows_scanned(ends) == 300


@pytest.mark.parametrize("null_safe", [False, True])
@pytest.mark.parametrize("how", ["auto"], indirect=True)  # a scan by ``paths`` keeps all rows
def test_rows_of_none_of_many_keys_are_left_out(measured, read, null_safe) -> None:
    """A range of scattered keys drops no rows. A Bloom filter drops most rows without a key."""
    wanted = set(range(0, 10_000, 2))
    df = read(measured).filtered_by(DynamicFilteringData.from_values({"k": sorted(wanted)})).load()
    found = {row.k for row in df.select("k").collect()}
    assert wanted <= found
    assert len(found - wanted) < 5000 // 10
    assert "might_contain" in df._jdf.queryExecution().optimizedPlan().toString()
    nulls = sum(k % 7 == 0 for k in range(10_000))
    keys = DynamicFilteringData.from_values({"n": [None, *range(500, 3000)]})
    loaded = read(measured).filtered_by(keys, null_safe=null_safe).load()
    exact = sum(k % 7 != 0 and k % 1000 >= 500 for k in range(10_000))
    rows = loaded.select("n").collect()
    assert sum(row.n is None for row in rows) == (nulls if null_safe else 0)
    assert sum(row.n is not None and row.n >= 500 for row in rows) == exact


def test_a_condition_that_may_change_drops_no_file(measured, read) -> None:
    """The query may run on another day than the one on which it is planned."""
    df = read(measured).where("day > year(current_date())").load()
    report = splitlib.explain(df)
    assert report.metrics.files_selected == 10
    assert "The condition may change" in str(report)
    assert df.count() == 0


def test_null_keys_keep_null_rows(measured, read) -> None:
    nulls = sum(k % 7 == 0 for k in range(10_000))
    ones = sum(k % 7 != 0 and k % 1000 == 1 for k in range(10_000))
    keys = DynamicFilteringData.from_values({"n": [None, 1]})
    assert read(measured).filtered_by(keys, null_safe=True).load().count() == nulls + ones
    assert read(measured).filtered_by(keys).load().count() == ones
    many = DynamicFilteringData.from_values({"n": [None, *range(5000)]})
    assert read(measured).filtered_by(many, null_safe=True).load().count() == 10_000
    only = DynamicFilteringData.from_values({"n": pa.array([None], pa.int32())})
    assert read(measured).filtered_by(only, null_safe=True).load().count() == nulls
    assert read(measured).filtered_by(only).load().count() == 0


def test_keys_of_partition_values_alone_open_no_file(measured, read) -> None:
    """Keys on a partition column prune partitions, so the scan does not need a row filter."""
    keys = DynamicFilteringData.from_values({"day": [3, 4]})
    df = read(measured).filtered_by(keys).load()
    assert df.count() == 2000
    plan = df._jdf.queryExecution().optimizedPlan().toString()
    assert "day" in plan
    assert " IN (3,4)" not in plan


def test_deleted_rows_stay_deleted(lake, read) -> None:
    table = lake.create(Schema(NestedField(1, "id", IntegerType())))
    file = data_file(table, table_of(ints("id", 1, range(1000))), row_group_size=100)
    append_files(table, file)
    delete_positions(table, {file.file_path: [550, 999]})
    # The new column gets the old name of the renamed column.
    with table.update_schema() as update:
        update.rename_column("id", "was_id")
    with table.update_schema() as update:
        update.add_column("id", IntegerType())
    keys = DynamicFilteringData.from_values({"was_id": [550, 551, 999]})
    assert rows_of(read(table).filtered_by(keys).load()) == [(551, None)]
    nothing = DynamicFilteringData.from_values({"id": [550, 551]})
    assert rows_of(read(table).filtered_by(nothing).load()) == []
    nulls = DynamicFilteringData.from_values({"id": pa.array([None], pa.int32())})
    assert read(table).filtered_by(nulls, null_safe=True).load().count() == 998


@pytest.mark.parametrize(
    ("kind", "arrow", "values"),
    [
        (StringType(), pa.string(), ["it's", 'a"b\\', "é\n", ""]),
        (BinaryType(), pa.binary(), [b"\0'", b""]),
        (DateType(), pa.date32(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
        (
            DecimalType(20, 10),
            pa.decimal128(20, 10),
            [decimal.Decimal("0.0000000001"), decimal.Decimal("-9999999999.5")],
        ),
        (
            TimestampType(),
            pa.timestamp("us"),
            [datetime.datetime(2024, 3, 10, 2, 30, 0, 1), datetime.datetime(1, 1, 1)],
        ),
        (
            TimestamptzType(),
            pa.timestamp("us", "UTC"),
            [datetime.datetime(2024, 11, 3, h, 30, tzinfo=datetime.UTC) for h in (5, 6)],
        ),
        (LongType(), pa.int64(), [-(2**63), 2**63 - 1]),
        (DoubleType(), pa.float64(), [float("nan"), -0.0, float("inf")]),
    ],
    ids=str,
)
def test_keys_of_any_type(lake, read, kind, arrow, values) -> None:
    table = lake.create(
        Schema(NestedField(1, "id", IntegerType()), NestedField(2, "v", kind, required=False))
    )
    ids = list(range(len(values) + 1))
    column = (with_id("v", arrow, 2), pa.array([*values, None], arrow))
    append_files(table, data_file(table, table_of(ints("id", 1, ids), column)))
    for i, value in enumerate(values):
        keys = DynamicFilteringData.from_arrow(pa.table({"v": pa.array([value], arrow)}))
        found = {row.id for row in read(table).filtered_by(keys).load().collect()}
        assert i in found
        assert arrow == pa.float64() or found == {i}


# Tests of conditions that the reader's ``where`` receives.

DAYS = [datetime.datetime(2024, 1, day, 12, tzinfo=datetime.UTC) for day in range(1, 6)]


@pytest.fixture(scope="module")
def events(lake):
    """Create a table with one file per day. ``n`` is 100 times the day of the month."""
    inner = StructType(NestedField(6, "a", IntegerType(), required=False))
    table = lake.create(
        Schema(
            NestedField(1, "ts", TimestamptzType()),
            NestedField(2, "n", IntegerType(), required=False),
            NestedField(3, "name", StringType(), required=False),
            NestedField(4, "x", DoubleType(), required=False),
            NestedField(5, "s", inner, required=False),
        ),
        PartitionSpec(PartitionField(1, 1000, DayTransform(), "ts_day")),
    )
    for day, ts in enumerate(DAYS, 1):
        one = {"ts": ts, "n": 100 * day, "name": f"it's {day}", "x": float(day), "s": {"a": day}}
        other = {"ts": ts, "n": None, "name": f"other {day}", "x": float("nan"), "s": None}
        append_rows(table, [one, other])
    return table


@pytest.mark.parametrize(
    ("condition", "files"),
    [
        ("n = 300", 1),
        ("n BETWEEN 150 AND 350", 2),
        ("n NOT BETWEEN 100 AND 400", 5),
        ("n = 200 OR n = 400 OR n = 7", 2),
        ("NOT (n < 400)", 2),
        ("n > 400 AND NOT (n <=> NULL)", 1),
        ("(n = 100 AND s.a = 1) OR (n = 200 AND s.a = 2)", 2),
        ("n = 200 OR rand() > 2", 5),
        ("NOT (n IN (100, NULL))", 0),
        ("x BETWEEN 2 AND 3 OR isnan(x)", 5),
        ("x > 4", 5),
        ("name BETWEEN 'it' AND 'it\\'s 2' AND n IS NOT NULL", 2),
        ("n > 5000000000", 5),
        ("CAST(n AS BIGINT) BETWEEN 300 AND 5000000000", 3),
        ("false", 0),
        ("n > 250 AND ts < TIMESTAMP'2024-01-05 00:00:00Z'", 2),
        ("n BETWEEN 150 AND 350 OR name = 'no'", 5),
        ("n IN (100, 500, 7)", 2),
        ("100 >= n", 1),
        ("ts >= TIMESTAMP'2024-01-04 00:00:00Z'", 2),
        ("name = 'it\\'s 2' AND x IS NOT NULL", 2),
        ("s.a = 4", 1),
        ("n IS NULL", 5),
        ("n <=> 200", 1),
        ("n = null", 0),
        ("n + 0 = 100", 5),
        ("n = 100.5", 5),
        (ice.EqualTo("n", 300), 1),
        (ice.And(ice.GreaterThan("n", 250), ice.LessThan("ts", "2024-01-05T00:00:00+00:00")), 2),
        (ice.In("n", [100, 500]), 2),
        (ice.Not(ice.Or(ice.LessThan("n", 400), ice.EqualTo("name", "it's 5"))), 2),
        (ice.NotIn("n", [100, 200]), 5),
        (ice.NotEqualTo("n", 100), 5),
        (ice.StartsWith("name", "it's"), 5),
        (ice.NotStartsWith("name", "it"), 5),
        (ice.IsNull("n"), 5),
        (ice.NotNull("n"), 5),
        (ice.EqualTo("s.a", 4), 1),
        (ice.AlwaysTrue(), 5),
    ],
    ids=str,
)
def test_where(events, read, how, condition, files) -> None:
    df = read(events).where(condition).load()
    if isinstance(condition, str):
        everything = read(events).load()
        # As text, NaN equals NaN. As a Python float, it does not.
        assert repr(rows_of(df)) == repr(rows_of(everything.where(condition)))
    else:
        assert sorted(rows_of(df.select("name"))) == _names(events, condition)
    report = splitlib.explain(df)
    # With ``paths``, conditions on data columns do not prune files.
    assert report.metrics.files_selected <= (files if how == "auto" else 5)
    assert report.filters  # The report must list every filter, also unused ones.


def test_where_takes_columns(events, read, how) -> None:
    everything = read(events).load()
    for condition, files in (
        (F.col("n").between(150, 350), 2),
        (F.col("n").isin([100, 500]) & F.col("s")["a"].isNotNull(), 2),
        (F.col("n").isNull() | (F.col("name") == "no"), 5),
    ):
        df = read(events).where(condition).load()
        assert repr(rows_of(df)) == repr(rows_of(everything.where(condition)))
        assert splitlib.explain(df).metrics.files_selected == (files if how == "auto" else 5)


def test_an_open_end_of_a_partition_is_left_out(measured, read, how) -> None:
    for condition, partitions in (
        ("day > 7", 2),
        ("day < 2", 2),
        ("day > 2 AND day < 4", 1),
        ("day NOT BETWEEN 1 AND 8", 2),
        ("day < 1 OR day > 8", 2),
    ):
        df = read(measured).where(condition).load()
        assert df.count() == partitions * 1000
        if how == "auto":
            assert splitlib.explain(df).metrics.partitions_matched == partitions, condition


def _names(table, condition):
    return [(name,) for name in sorted(table.scan(condition).to_arrow()["name"].to_pylist())]


def test_conditions_and_keys_hold_together(events, read, how) -> None:
    reader = read(events).where("n >= 200").where(ice.LessThanOrEqual("n", 400))
    keys = DynamicFilteringData.from_values({"n": [100, 300, 400, 500]})
    df = reader.filtered_by(keys).load()
    assert sorted(row.n for row in df.collect()) == [300, 400]
    report = splitlib.explain(df)
    assert report.metrics.files_total == 5
    selected = 2 if how == "auto" else 4  # With ``paths``, only the keys prune files.
    assert report.metrics.files_selected == selected
    assert sum(report.metrics.files_dropped.values()) == 5 - selected
    assert "dropped: " in str(report)


@pytest.mark.parametrize("condition", [ice.EqualTo("nope", 1), ice.EqualTo("n.nope", 1)], ids=str)
def test_conditions_on_what_does_not_exist(events, read, condition) -> None:
    with pytest.raises(InvalidFilter, match="nope"):
        read(events).where(condition).load()
