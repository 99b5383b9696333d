"""Convert Arrow tables to DataFrames."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import NullType, StringType, StructField, StructType

from splitlib.spark.compat import dataframe_of_arrow, try_cast


def local_rows(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return a DataFrame with the rows of an Arrow table.

    Timestamps without time zone keep their type. By default Spark would interpret them in the
    session's time zone, and fail on times that daylight saving skips.
    """
    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    # One batch, since the server of Spark Connect 4.0 ignores all batches after the first.
    return dataframe_of_arrow(spark, table.combine_chunks(), schema)


def typed_columns(
    spark: SparkSession, values: pa.Table, schema: StructType, **more: pa.ChunkedArray
) -> DataFrame:
    """Return ``values`` as a DataFrame with the names and types of ``schema``, by position.

    Spark casts text to the type of the field, in the session's time zone. Text that does not parse
    becomes null. The rows stay in the same order.

    Args:
        spark: The session of the DataFrame.
        values: A column for each field of ``schema``, as text or of the field's type.
        schema: Names and types of the result.
        more: Further columns, appended unchanged.

    Raises:
        ValueError: if a column is neither text nor of the field's type.
    """
    # Columns get numbered names, since keys may contain dots or differ only in case.
    numbered = [f"c{i}" for i in range(len(schema))]
    arrow = pa.table([*values.columns, *more.values()], names=[*numbered, *more])
    frame = local_rows(spark, arrow)
    columns = [
        _typed(F.col(name), given.dataType, field)
        for name, given, field in zip(numbered, frame.schema, schema, strict=False)
    ]
    return frame.select(*columns, *more)


def _typed(column: Column, given: object, field: StructField) -> Column:
    if isinstance(field.dataType, NullType):  # Spark has no cast to void
        return F.lit(None).alias(field.name)
    if given == field.dataType:
        return column.alias(field.name)
    if isinstance(given, (StringType, NullType)):
        return try_cast(column, field.dataType).alias(field.name)
    msg = f"Partition values of {field.name!r} are {given}, not text or {field.dataType}"
    raise ValueError(msg)
