"""Attributes that a connector omits get default values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from splitlib.model import PartitionBatch, PartitionField, ReadFormat, TableMetadata

PARQUET = ReadFormat("parquet")
SCHEMA = pa.schema([("a", pa.int64()), ("k", pa.int32()), ("l", pa.string())])
KEYS = pa.schema([SCHEMA.field("k"), SCHEMA.field("l")])


def test_fields_are_the_columns_themselves():
    values, refs = pa.record_batch({"k": ["1", "2"], "l": ["a", "b"]}), pa.array(["x", "y"])
    own = (PartitionField("k", "k"), PartitionField("l", "l"))
    left_out: tuple[dict[str, Any], ...] = ({}, {"fields": None})
    for given in left_out:
        batch = PartitionBatch(values, refs, **given)
        assert batch.fields == batch.take(pa.array([1])).fields == batch.slice(1, 1).fields == own
    other = (PartitionField("k", "a"), PartitionField("l", "l"))
    assert PartitionBatch(values, refs, fields=other).fields == other
    assert PartitionBatch(values, refs, fields=()).fields == ()


def test_without_statistics_the_partition_columns_prune():
    for metadata in (
        TableMetadata(SCHEMA, ("k", "l"), PARQUET),
        TableMetadata(SCHEMA, ("k", "l"), PARQUET, filter_schema=None),
        TableMetadata(SCHEMA, ("k", "l"), PARQUET, filter_schema=SCHEMA, has_statistics=False),
    ):
        assert metadata.filter_schema == metadata.partition_schema == KEYS
        assert not metadata.has_statistics
        assert replace(metadata, snapshot_id="1").filter_schema == KEYS
    other = replace(metadata, schema=pa.schema([("l", pa.int8()), ("k", pa.int16())]))
    assert other.filter_schema == pa.schema([("k", pa.int16()), ("l", pa.int8())])


def test_a_filter_schema_comes_of_statistics():
    for columns in (SCHEMA, KEYS):  # KEYS contains only the partition columns
        metadata = TableMetadata(SCHEMA, ("k", "l"), PARQUET, filter_schema=columns)
        for same in (metadata, replace(metadata, location="/t")):
            assert same.filter_schema == columns
            assert same.partition_schema == KEYS
            assert same.has_statistics
