"""Rows that are older than an Iceberg column have the column's initial default."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
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
    UUIDType,
)

import splitlib
from splitlib.model import INITIAL_DEFAULT, TableMetadata
from splitlib_iceberg import IcebergConnector
from tests.integration.iceberg.lake import (
    append_files,
    data_file,
    ints,
    rows_of,
    table_of,
    with_id,
)

pytestmark = pytest.mark.spark


class _WithDefaults(IcebergConnector):
    """An Iceberg connector that adds initial defaults to the schema.

    Only format version 3 has initial defaults, and PyIceberg cannot write it.
    """

    defaults: ClassVar[dict[str, object]] = {}

    def describe(self) -> TableMetadata:
        found = super().describe()
        return replace(found, schema=pa.schema([self._with_default(f) for f in found.schema]))

    def _with_default(self, field: pa.Field) -> pa.Field:
        if pa.types.is_struct(field.type):
            field = field.with_type(pa.struct([self._with_default(f) for f in field.type]))
        if field.name not in self.defaults:
            return field
        default = {INITIAL_DEFAULT: json.dumps(self.defaults[field.name]).encode()}
        return field.with_metadata({**field.metadata, **default})


@pytest.fixture
def _declared_defaults() -> Iterator[None]:
    splitlib.register("iceberg", _WithDefaults)
    yield
    splitlib.register("iceberg", IcebergConnector)


@pytest.mark.usefixtures("_declared_defaults")
def test_values_of_rows_older_than_their_column(lake, read, monkeypatch) -> None:
    a = with_id("a", pa.int32(), 3)
    struct = StructType(NestedField(3, "a", IntegerType()))
    table = lake.create(Schema(NestedField(1, "id", IntegerType()), NestedField(2, "s", struct)))
    values = pa.array([{"a": 1}, None], pa.struct([a]))
    rows = table_of(ints("id", 1, [1, 2]), (with_id("s", values.type, 2), values))
    append_files(table, data_file(table, rows))
    added = {
        "text": (StringType(), "it's \\ é", "it's \\ é"),
        "n": (LongType(), 2**40, 2**40),
        "d": (DateType(), "2020-02-29", datetime.date(2020, 2, 29)),
        "ts": (
            TimestamptzType(),
            "2020-01-01T01:02:03.000004+00:00",
            datetime.datetime(2020, 1, 1, 1, 2, 3, 4, tzinfo=datetime.UTC),
        ),
        "ntz": (
            TimestampType(),
            "2020-01-01T01:02:03.000004",
            datetime.datetime(2020, 1, 1, 1, 2, 3, 4),
        ),
        "dec": (DecimalType(9, 2), "-1.50", decimal.Decimal("-1.50")),
        "b": (BinaryType(), "0027", b"\x00\x27"),
        "u": (UUIDType(), str(uuid.UUID(int=5)), str(uuid.UUID(int=5))),
        "flag": (BooleanType(), False, False),
        "f": (DoubleType(), -0.25, -0.25),
    }
    with table.update_schema() as update:
        for name, (kind, _, _) in added.items():
            update.add_column(name, kind)
    monkeypatch.setattr(_WithDefaults, "defaults", {n: text for n, (_, text, _) in added.items()})
    shown = tuple(value for _, _, value in added.values())
    df = read(table).load()
    assert rows_of(df) == [(1, {"a": 1}, *shown), (2, None, *shown)]
    assert df.where("text LIKE 'it%' AND n > 5").count() == 2
    # Without the defaults of ``b`` and ``u``, Spark's Parquet reader fills in all defaults itself.
    for name in ("b", "u"):
        monkeypatch.delitem(_WithDefaults.defaults, name)
    by_spark = tuple(None if name in ("b", "u") else added[name][2] for name in added)
    df = read(table).load()
    assert rows_of(df) == [(1, {"a": 1}, *by_spark), (2, None, *by_spark)]
    assert df.where("text LIKE 'it%' AND n > 5").count() == 2
    with table.update_schema() as update:
        update.add_column(("s", "inner"), StringType())
    monkeypatch.setattr(_WithDefaults, "defaults", {"inner": "x"})
    df = read(table).load().select("id", "s")
    assert rows_of(df) == [(1, {"a": 1, "inner": "x"}), (2, None)]


@pytest.mark.usefixtures("_declared_defaults")
def test_instants_where_timestamps_have_no_zone_by_default(lake, read, spark, monkeypatch) -> None:
    table = lake.create(Schema(NestedField(1, "id", IntegerType())))
    append_files(table, data_file(table, table_of(ints("id", 1, [1]))))
    with table.update_schema() as update:
        update.add_column("ts", TimestamptzType())
    monkeypatch.setattr(_WithDefaults, "defaults", {"ts": "2020-01-01T01:02:03+00:00"})
    before = spark.conf.get("spark.sql.timestampType")
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        found = read(table).load().selectExpr("unix_micros(ts)").collect()
    finally:
        spark.conf.set("spark.sql.timestampType", before)
    assert [tuple(row) for row in found] == [(1577840523000000,)]
