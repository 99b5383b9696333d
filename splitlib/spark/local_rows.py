"""Arrow tables as DataFrames."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema


def local_rows(spark: SparkSession, table: pa.Table) -> DataFrame:
    """The rows of ``table``, whose local times stay local times.

    By itself Spark would take those for instants of the session's time zone, and fail on times that
    its clocks skip.
    """
    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    # in one batch: of several, the server of Spark Connect 4.0 takes the first and drops the others
    return spark.createDataFrame(table.combine_chunks(), schema)
