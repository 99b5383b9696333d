"""Fuzz target: column types in the notation of Hive and Spark."""

from __future__ import annotations

import pyarrow as pa

from splitlib import UnsupportedTable
from splitlib.hive.partition_values import field_of, parse_schema, parse_type

TOKENS = tuple(
    b"array< map< struct< > < ( ) , : ` int string decimal(10,2) char(5) timestamp_ntz".split()
)
_TYPES = [
    "int",
    "decimal(10,2)",
    "timestamp with local time zone",
    "array<map<string, struct<a:int,`b c`:decimal(3)>>>",
    "k int, `d` decimal(3,1), s struct<a:int,b:array<varchar(5)>>",
]


def seeds() -> list[bytes]:
    return [text.encode() for text in _TYPES]


def run(data: bytes) -> bool:
    text = data.decode("utf-8", "replace")
    used = False
    for read in (parse_type, parse_schema, _column):
        try:
            read(text)
            used = True
        except UnsupportedTable:
            pass
    return used


def _column(text: str) -> pa.Field:
    found = field_of("c", text)
    assert found.type == parse_type(text)
    return found
