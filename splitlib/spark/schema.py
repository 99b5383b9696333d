"""A table's schema as Spark's ``StructType``, such as ``spark.table`` shows it."""

from __future__ import annotations

import json

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from splitlib.model import LOGICAL_TYPE, TableMetadata

# Spark knows CHAR and VARCHAR as strings with this in their metadata, and pads them itself.
_SPARK_CHAR = "__CHAR_VARCHAR_TYPE_STRING"


def spark_schema(metadata: TableMetadata) -> StructType:
    """The columns of a table: Spark's own record of them if the catalog has it, else from Arrow."""
    if metadata.spark_schema is not None:
        fields = StructType.fromJson(json.loads(metadata.spark_schema)).fields
        # files may lack any column, whatever the table's owner once declared
        return StructType([StructField(f.name, f.dataType, True, f.metadata) for f in fields])
    return StructType([_field(field) for field in metadata.schema])


def _field(field: pa.Field) -> StructField:
    logical = (field.metadata or {}).get(LOGICAL_TYPE, b"").decode()
    metadata = {_SPARK_CHAR: logical} if logical.startswith(("char(", "varchar(")) else {}
    kind = from_arrow_type(field.type, prefer_timestamp_ntz=True)
    return StructField(field.name, kind, True, metadata)


def char_length(field: StructField) -> int | None:
    """The length n of CHAR(n); None for any other type."""
    declared = str((field.metadata or {}).get(_SPARK_CHAR, ""))
    return int(declared[5:-1]) if declared.startswith("char(") else None


def is_char_or_varchar(field: StructField) -> bool:
    """Whether Spark compares the column with padding that a plain string does not get."""
    return _SPARK_CHAR in (field.metadata or {})
