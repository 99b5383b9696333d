"""Metadata of tables and partitions that have missing or unexpected fields in the metastore."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import (
    FieldSchema,
    SerDeInfo,
    StorageDescriptor,
    Table,
)

import splitlib
from splitlib_hive.connector import table_metadata

PARQUET = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
SCHEMA = {
    "type": "struct",
    "fields": [{"name": "v", "type": "integer"}, {"name": "k", "type": "string"}],
}
BY_SPARK = {
    "spark.sql.sources.provider": "parquet",
    "spark.sql.sources.schema.numParts": "2",
    "spark.sql.sources.schema.part.0": json.dumps(SCHEMA)[:40],
    "spark.sql.sources.schema.part.1": json.dumps(SCHEMA)[40:],
    "spark.sql.sources.schema.numPartCols": "1",
    "spark.sql.sources.schema.partCol.0": "k",
    "spark.sql.partitionProvider": "catalog",
}


def table_of(parameters: dict[str, str], **changes: Any) -> Table:
    described = StorageDescriptor(
        cols=[FieldSchema("v", "int")],
        location="file:/t",
        serdeInfo=SerDeInfo(serializationLib=PARQUET),
    )
    given: dict[str, Any] = {"sd": described, "partitionKeys": [FieldSchema("k", "string")]}
    return Table(parameters=parameters, **{**given, **changes})


def test_the_whole_is_read():
    for parameters in ({}, BY_SPARK):
        metadata = table_metadata(table_of(parameters))
        assert metadata.schema.names == ["v", "k"]
        assert metadata.partition_keys == ("k",)


@pytest.mark.parametrize(
    "parameters",
    [
        {"spark.sql.sources.schema.numParts": "3"},
        {"spark.sql.sources.schema.numParts": "two"},
        {"spark.sql.sources.schema.part.1": ""},
        pytest.param({"spark.sql.sources.schema": "[" * 100_000}, id="deep"),
        {"spark.sql.sources.schema": "[]"},
        {"spark.sql.sources.schema": '{"fields": [{"name": "v"}]}'},
        {"spark.sql.sources.schema": '{"fields": [{"name": 1, "type": "int"}]}'},
        {"spark.sql.sources.schema": '{"fields": [{"name": "v", "type": {"type": "array"}}]}'},
        {"spark.sql.sources.schema.numPartCols": "-"},
        {"spark.sql.sources.schema.numPartCols": "2"},
    ],
    ids=str,
)
def test_a_schema_of_spark_that_is_damaged(parameters):
    with pytest.raises(splitlib.CorruptMetadata, match="the table is damaged"):
        table_metadata(table_of({**BY_SPARK, **parameters}))


@pytest.mark.parametrize(
    "changes",
    [
        {"sd": None},
        {"sd": StorageDescriptor(cols=[], location="file:/t")},
        {"sd": StorageDescriptor(serdeInfo=SerDeInfo(serializationLib=PARQUET))},
        {"partitionKeys": [FieldSchema("k")]},
        {"partitionKeys": [FieldSchema(None, "int")]},
    ],
    ids=str,
)
def test_a_part_that_is_missing(changes):
    says = "^The metastore's data about the table is damaged: "
    with pytest.raises(splitlib.CorruptMetadata, match=says):
        table_metadata(table_of({}, **changes))


def test_a_table_of_spark_without_a_schema_is_refused():
    with pytest.raises(splitlib.UnsupportedTable, match="its schema is missing"):
        table_metadata(table_of({"spark.sql.sources.provider": "parquet"}))


def schema_of(**columns: str) -> str:
    fields = [{"name": name, "type": kind} for name, kind in columns.items()]
    return json.dumps({"type": "struct", "fields": fields})


def test_spark_remembers_the_case_of_columns():
    """Column names have the case of the schema that Spark stores in the table.

    If Hive has changed the columns since, Hive's schema is used.
    """
    same = {"spark.sql.sources.schema": schema_of(V="integer", K="string")}
    metadata = table_metadata(table_of(same))
    assert (metadata.schema.names, metadata.partition_keys) == (["V", "K"], ("K",))
    assert metadata.spark_schema is not None
    assert json.loads(metadata.spark_schema) == json.loads(same["spark.sql.sources.schema"])
    for other in (schema_of(V="long", K="string"), schema_of(V="integer", J="string")):
        metadata = table_metadata(table_of({"spark.sql.sources.schema": other}))
        assert (metadata.schema.names, metadata.partition_keys) == (["v", "k"], ("k",))
        assert metadata.spark_schema is None


HIVE = "org.apache.hadoop.hive."


@pytest.mark.parametrize(
    ("serde", "is_required"),
    [
        (PARQUET, True),
        (f"{HIVE}ql.io.orc.OrcSerde", True),
        (f"{HIVE}serde2.lazy.LazySimpleSerDe", False),
    ],
)
def test_readers_of_hive_ignore_that_a_column_is_required(serde, is_required):
    fields: Any = SCHEMA["fields"]
    required = [{**field, "nullable": False} for field in fields]
    described = StorageDescriptor(
        cols=[FieldSchema("v", "int")],
        location="file:/t",
        inputFormat="org.apache.hadoop.mapred.TextInputFormat",
        serdeInfo=SerDeInfo(serializationLib=serde),
    )
    schema = {"spark.sql.sources.schema": json.dumps({**SCHEMA, "fields": required})}
    metadata = table_metadata(table_of(schema, sd=described))
    fields = json.loads(metadata.spark_schema or "")["fields"]
    assert [(field["name"], field["nullable"]) for field in fields] == [
        ("v", not is_required),
        ("k", not is_required),
    ]
