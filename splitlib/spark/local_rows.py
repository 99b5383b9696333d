"""Arrow tables as DataFrames."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import NullType, StringType, StructField, StructType


def local_rows(spark: SparkSession, table: pa.Table) -> DataFrame:
    """The rows of ``table``, whose local times stay local times.

    By itself Spark would take those for instants of the session's time zone, and fail on times that
    its clocks skip.
    """
    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    # in one batch: of several, the server of Spark Connect 4.0 takes the first and drops the others
    return spark.createDataFrame(table.combine_chunks(), schema)


def typed_columns(
    spark: SparkSession, values: pa.Table, schema: StructType, **more: pa.ChunkedArray
) -> DataFrame:
    """The columns of ``values``, by position, with the names and types of ``schema``.

    Text becomes the type as Spark casts it in the session's time zone; what does not parse becomes
    null. The order of rows is kept.

    Args:
        spark: Session to make the rows in.
        values: One column a field of ``schema``: text, or of the field's type.
        schema: Names and types wanted.
        more: Further columns, which follow unchanged.

    Raises:
        ValueError: if a column is neither text nor of the field's type.
    """
    # Numbered names: keys may hold dots, or differ in case only.
    numbered = [f"c{i}" for i in range(len(schema))]
    arrow = pa.table([*values.columns, *more.values()], names=[*numbered, *more])
    frame = local_rows(spark, arrow)
    columns = [
        _typed(F.col(name), given.dataType, field)
        for name, given, field in zip(numbered, frame.schema, schema, strict=False)
    ]
    return frame.select(*columns, *more)


def _typed(column: Column, given: object, field: StructField) -> Column:
    if given == field.dataType:
        return column.alias(field.name)
    if isinstance(given, (StringType, NullType)):
        return column.try_cast(field.dataType).alias(field.name)
    msg = f"Partition values of {field.name!r} are {given}, neither text nor {field.dataType}"
    raise ValueError(msg)
