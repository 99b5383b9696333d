"""A table's schema as Spark's ``StructType``, such as ``spark.table`` shows it.

Spark knows CHAR and VARCHAR as strings, whose metadata hold what was declared: ``char(5)``, or a
whole nested type such as ``struct<c:char(5)>``.
"""

from __future__ import annotations

import json
import re

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, StructField, StructType

from splitlib.hive.types import SPARK_CHAR_VARCHAR, has_char_or_varchar
from splitlib.model import LOGICAL_TYPE, TableMetadata

_CHAR = re.compile(r"char\((\d+)\)")


def spark_schema(metadata: TableMetadata) -> StructType:
    """The columns of a table: Spark's own record of them if the catalog has it, else from Arrow."""
    if metadata.spark_schema is not None:
        fields = StructType.fromJson(json.loads(metadata.spark_schema)).fields
        # files may lack any column, whatever the table's owner once declared
        return StructType([StructField(f.name, f.dataType, True, f.metadata) for f in fields])
    return StructType([_field(field) for field in metadata.schema])


def _field(field: pa.Field) -> StructField:
    logical = (field.metadata or {}).get(LOGICAL_TYPE, b"").decode()
    metadata = {SPARK_CHAR_VARCHAR: logical} if has_char_or_varchar(logical) else {}
    kind = from_arrow_type(field.type, prefer_timestamp_ntz=True)
    return StructField(field.name, kind, True, metadata)


def char_length(field: StructField) -> int | None:
    """The length n of CHAR(n); None for any other type."""
    found = _CHAR.fullmatch(_declared(field) or "")
    return int(found[1]) if found else None


def is_char_or_varchar(field: StructField) -> bool:
    """Whether Spark compares the column with padding that a plain string does not get."""
    return _declared(field) is not None


def declared_type(field: StructField) -> DataType:
    """The type of the column with CHAR and VARCHAR as such."""
    declared = _declared(field)
    return field.dataType if declared is None else DataType.fromDDL(declared)


def _declared(field: StructField) -> str | None:
    declared: str | None = (field.metadata or {}).get(SPARK_CHAR_VARCHAR)
    return declared
