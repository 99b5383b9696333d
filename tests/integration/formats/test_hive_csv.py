"""splitlib and Spark's Hive reader return the same rows of Hive CSV tables."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from splitlib.spark.formats.hive_text import hive_csv_columns
from tests.integration.formats.hive_reader import Hive, collected, differences
from tests.support.abilities import struct_of

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

CSV = "org.apache.hadoop.hive.serde2.OpenCSVSerde"
CSV_COLUMNS = "a string, b string, c string, d string"


def same_csv(hive: Hive, data: bytes, properties: dict[str, str]) -> list[tuple[Any, ...]]:
    name = hive.table(CSV_COLUMNS, data, properties, CSV)
    table = hive.spark.table(name)
    ours = hive.spark.read.text(str(hive.warehouse / name)).select(
        hive_csv_columns(F.col("value"), table.schema, properties)
    )
    expected = collected(table)
    assert differences(collected(ours), expected, data) == []
    hive.spark.sql(f"DROP TABLE {name}")
    return expected


def test_csv(hive: Hive) -> None:
    data = b"""a,b,c
"a","b,c",d
"a""b",c
"x\\"y",z

,,
"",
 a "b" c,d
"unclosed,x
x,"unclosed
  "b",c
a,  "b" ,c
\xff,\xed\xa0\x80,"\xc3",\xe6\xbc"""
    rows = same_csv(hive, data, {})
    assert rows[1] == ("61", "622C63", "64", None)
    assert rows[4] == (None, None, None, None)


@settings(max_examples=3, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@pytest.mark.parametrize(
    ("alphabet", "properties"),
    [
        ('a\xe9,," "\\\\\U0001f600\t', {}),
        ('a,"', {}),
        ("ab|''^\"", {"separatorChar": "|", "quoteChar": "'", "escapeChar": "^"}),
    ],
)
@given(data=st.data())
def test_any_csv_line(
    hive: Hive, alphabet: str, properties: dict[str, str], data: st.DataObject
) -> None:
    line = st.text(alphabet, max_size=14)
    lines = data.draw(st.lists(line, min_size=300, max_size=300))
    same_csv(hive, "\n".join(lines).encode(), properties)


@pytest.mark.parametrize(
    ("columns", "properties", "message"),
    [
        ("a int", {}, "supports only STRING columns"),
        ("a string", {"quoteChar": ","}, "different characters"),
        ("a string", {"separatorChar": ""}, "separatorChar"),
        ("a string", {"textinputformat.record.delimiter": ";"}, "record delimiter"),
    ],
)
def test_csv_refusals(hive: Hive, columns: str, properties: dict[str, str], message: str) -> None:
    schema = struct_of(columns)
    assert isinstance(schema, StructType)
    with pytest.raises(ValueError, match=message):
        hive_csv_columns(F.col("value"), schema, properties)
