"""Compare Spark's Hive reader with splitlib's column expressions on the same bytes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from splitlib.spark.formats.hive_text import hive_text_columns
from tests.spark_session import JVM_ZONE

LAZY = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"


class Hive:
    """Reads the same bytes with Spark's Hive reader and with splitlib's column expressions."""

    def __init__(self, spark: SparkSession, warehouse: Path) -> None:
        self.spark = spark
        self.warehouse = warehouse
        self.names = map("text{}".format, itertools.count())

    def table(
        self,
        columns: str,
        data: bytes,
        properties: dict[str, str],
        serde: str = LAZY,
    ) -> str:
        name = next(self.names)
        spelled = ", ".join(f"{_sql(k)} = {_sql(v)}" for k, v in properties.items())
        with_properties = f"WITH SERDEPROPERTIES ({spelled})" if properties else ""
        self.spark.sql(
            f"CREATE TABLE {name} ({columns}) ROW FORMAT SERDE '{serde}' {with_properties}"
            " STORED AS TEXTFILE"
        )
        (self.warehouse / name / "part").write_bytes(data)
        return name

    def same(
        self,
        columns: str,
        data: bytes,
        properties: dict[str, str] | None = None,
    ) -> list[tuple[Any, ...]]:
        """Assert that both readers return the same rows. Return these rows."""
        properties = properties or {}
        name = self.table(columns, data, properties)
        table = self.spark.table(name)
        ours = self.spark.read.text(str(self.warehouse / name)).select(
            hive_text_columns(F.col("value"), table.schema, properties, time_zone=JVM_ZONE)
        )
        assert ours.schema.simpleString() == table.schema.simpleString()
        expected = collected(table)
        assert differences(collected(ours), expected, data) == []
        self.spark.sql(f"DROP TABLE {name}")
        return expected


def _sql(text: str) -> str:
    return "'" + "".join(f"\\u{ord(c):04x}" for c in text) + "'"


def collected(frame: Any) -> list[tuple[Any, ...]]:
    """Return rows as values that compare exactly: strings as bytes, timestamps as numbers."""
    exact = [_exact(F.col(f"`{f.name}`"), f.dataType).alias(f.name) for f in frame.schema.fields]
    return [tuple(row) for row in frame.select(exact).collect()]


def _exact(column: Column, data_type: Any) -> Column:
    match data_type.typeName():
        case "string":
            return F.hex(column.cast("binary"))
        case "binary":
            return F.hex(column)
        case "timestamp":
            return F.unix_micros(column)
        case "date":
            return F.unix_date(column)
        case "float" | "double":
            return column.cast("string")
        case "array":
            return F.transform(column, lambda e: _exact(e, data_type.elementType))
        case "map":
            return F.transform(
                F.map_entries(column),
                lambda e: F.struct(
                    _exact(e["key"], data_type.keyType), _exact(e["value"], data_type.valueType)
                ),
            )
        case "struct":
            fields = (_exact(column[f.name], f.dataType).alias(f.name) for f in data_type.fields)
            return F.when(column.isNotNull(), F.struct(*fields))
    return column


def differences(ours: list[Any], theirs: list[Any], data: bytes) -> list[Any]:
    assert len(ours) == len(theirs)
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return [
        (line, i, a, b)
        for line, mine, hive in zip(lines, ours, theirs, strict=False)
        for i, (a, b) in enumerate(zip(mine, hive, strict=True))
        if a != b
    ]
