"""Functions that PySpark 3.5 lacks, on every supported PySpark."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark import StorageLevel
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from splitlib.spark import compat
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.gateway import analyzed_plan

pytestmark = pytest.mark.spark

VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "i": (pa.int32(), 7),
    "n": (pa.int64(), 1 << 40),
    "x": (pa.float64(), float("inf")),
    "m": (pa.decimal128(20, 3), Decimal("12345678901234567.125")),
    "s": (pa.string(), "caf\u00e9 \U0001f600"),
    "b": (pa.binary(), b"\x00\xff"),
    "ok": (pa.bool_(), True),
    "d": (pa.date32(), date(1, 1, 1)),
    "t": (pa.timestamp("us", "UTC"), datetime(1899, 12, 31, 23, 59, 59, 999999, UTC)),
    "z": (pa.timestamp("us"), datetime(2024, 3, 10, 2, 30)),  # a time that New York skips
    "e": (pa.duration("us"), timedelta(days=-1)),
    "l": (pa.list_(pa.int32()), [1, None]),
    "r": (pa.struct([("a", pa.string())]), {"a": None}),
}
TABLE = pa.table({k: pa.array([value, None], kind) for k, (kind, value) in VALUES.items()})


@pytest.mark.parametrize("rows", [2, 0])
def test_arrow_tables_keep_types_and_values(spark: SparkSession, rows: int) -> None:
    table = TABLE.slice(0, rows)
    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    found = compat.to_arrow(compat.dataframe_of_arrow(spark, table, schema))
    assert found.schema.names == table.schema.names
    assert found.to_pylist() == table.to_pylist()


def test_columns_of_equal_names(spark: SparkSession) -> None:
    found = compat.to_arrow(spark.sql("SELECT 1 AS a, 'x' AS a"))
    assert [column.to_pylist() for column in found.columns] == [[1], ["x"]]


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_casts_give_null_where_they_fail(spark: SparkSession, ansi: str) -> None:
    before = str(spark.conf.get("spark.sql.ansi.enabled"))
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        texts = spark.sql("SELECT * FROM VALUES ('7'), ('1.5'), ('x'), ('3000000000') AS t(s)")
        casts = texts.select("s", compat.try_cast(F.col("s"), "int").alias("i"))
        expected = texts.selectExpr("s", "try_cast(s AS int) AS i")
        assert casts.collect() == expected.collect()
        assert [row.i for row in casts.collect()] == [7, None, None, None]
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


def test_settings_have_their_values(spark: SparkSession) -> None:
    spark.conf.set("spark.splitlib.test.password", "not redacted")
    try:
        assert compat.all_settings(spark)["spark.splitlib.test.password"] == "not redacted"
    finally:
        spark.conf.unset("spark.splitlib.test.password")
    assert compat.setting_of(spark, "spark.sql.shuffle.partitions") == "2"
    assert compat.setting_of(spark, "spark.sql.noSuchSetting") is None


def test_a_local_checkpoint_is_computed_once(spark: SparkSession) -> None:
    kept = compat.local_checkpoint(
        spark.range(9).select(F.rand().alias("x")), StorageLevel.MEMORY_AND_DISK
    )
    assert kept.collect() == kept.collect()
    leaf = analyzed_plan(kept)
    execution = Catalyst(spark).execution
    assert execution.stored_bytes(leaf) > 0
    execution.forget(leaf)


def test_rows_if_another_query_has_none(spark: SparkSession) -> None:
    rows = spark.range(3)
    assert compat.if_empty(rows, spark.range(0)).count() == 3
    assert compat.if_empty(rows, spark.range(1)).count() == 0


def test_the_inspected_plan_has_no_dynamic_pruning(spark: SparkSession) -> None:
    session, name = spark.newSession(), "spark.sql.optimizer.dynamicPartitionPruning.enabled"
    session.conf.unset(name)  # Spark's default, which is not the default of these tests
    assert session.conf.get(name) == "true"
    assert Catalyst(session).execution.own_session.conf().get(name) == "false"
