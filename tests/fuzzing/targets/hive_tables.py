"""Fuzz target: tables in a metastore. Their parameters may contain Spark's schema as JSON."""

from __future__ import annotations

import json

from hmsclient.genthrift.hive_metastore.ttypes import (
    FieldSchema,
    SerDeInfo,
    StorageDescriptor,
    Table,
)

from splitlib import SplitlibError
from splitlib_hive.connector import table_metadata

_SOURCES = "spark.sql.sources."
_SERDES = (
    "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
    "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
    "org.apache.hadoop.hive.serde2.OpenCSVSerde",
)
_FIELDS = [
    {"name": "v", "type": "integer", "nullable": True, "metadata": {}},
    {"name": "c", "type": "string", "metadata": {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}},
    {"name": "u", "type": "string", "metadata": {"__COLLATIONS": {"u": "icu.UNICODE_CI"}}},
    {"name": "l", "type": {"type": "array", "elementType": "long", "containsNull": True}},
    {"name": "m", "type": {"type": "map", "keyType": "string", "valueType": "interval day"}},
    {"name": "s", "type": {"type": "struct", "fields": [{"name": "x", "type": "date"}]}},
    {"name": "k", "type": "string"},
]
TOKENS = (
    b'"fields":', b'"type":', b'"metadata":', b'"elementType":', b'"keyType":', b'"valueType":',
    b"{}", b"[]", b"null", b"\nv=", b"\nk=", b"sql.sources.schema=", b"schema.numParts=",
    b"schema.numPartCols=", b"table_type=", b"transactional=", b"field.delim=", b"VIEW",
)  # fmt: skip


def seeds() -> list[bytes]:
    """Return inputs. Each describes a table by its kind, SerDe, column types and parameters."""
    schema = json.dumps({"type": "struct", "fields": _FIELDS})
    spark = [
        f"{_SOURCES}provider=parquet",
        f"{_SOURCES}schema={schema}",
        f"{_SOURCES}schema.numPartCols=1",
        f"{_SOURCES}schema.partCol.0=k",
        "spark.sql.partitionProvider=catalog",
    ]
    parts = [
        f"{_SOURCES}schema.numParts=2",
        f"{_SOURCES}schema.part.0={schema[:99]}",
        f"{_SOURCES}schema.part.1={schema[99:]}",
    ]
    small = json.dumps({"type": "struct", "fields": [_FIELDS[0], _FIELDS[-1]]})
    tables = [
        ["MANAGED_TABLE", _SERDES[0], "int", "string", *spark],
        ["EXTERNAL_TABLE", _SERDES[0], "int", "string", spark[0], *parts, *spark[2:]],
        ["MANAGED_TABLE", _SERDES[0], "int", "string", f"{_SOURCES}schema={small}"],
        ["MANAGED_TABLE", _SERDES[1], "array<int>", "char(3)", "field.delim=,"],
        ["VIRTUAL_VIEW", _SERDES[2], "string", "date", "transactional=true"],
    ]
    return ["\n".join(lines).encode() for lines in tables]


def run(data: bytes) -> bool:
    lines = data.decode("utf-8", "replace").split("\n")
    kind, serde, value, key, *parameters = [*lines, "", "", "", ""][: max(4, len(lines))]
    descriptor = StorageDescriptor(
        cols=[FieldSchema("v", value)],
        location="file:/t",
        inputFormat="org.apache.hadoop.mapred.TextInputFormat",
        serdeInfo=SerDeInfo(serializationLib=serde, parameters={}),
    )
    table = Table(
        tableType=kind,
        sd=descriptor,
        partitionKeys=[FieldSchema("k", key)],
        parameters={name: value for name, _, value in (line.partition("=") for line in parameters)},
    )
    try:
        metadata = table_metadata(table)
    except SplitlibError:
        return False
    # The schema must contain every partition column. Otherwise queries could not read it.
    assert metadata.partition_schema.names == list(metadata.partition_keys)
    assert len(metadata.data_schema) + len(metadata.partition_keys) == len(metadata.schema)
    return True
