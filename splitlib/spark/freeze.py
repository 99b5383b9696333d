"""``splitlib.freeze``: compute the rows of a DataFrame once."""

from __future__ import annotations

from pyspark.sql import DataFrame

from splitlib.spark.allowed_scans import allowed_by, refuse_query
from splitlib.spark.arguments import given_dataframe
from splitlib.spark.jvm.active_session import in_its_session
from splitlib.spark.kept_rows import kept_rows


@in_its_session
def freeze(df: DataFrame) -> DataFrame:
    """Compute ``df`` now and return a DataFrame of exactly these rows.

    Use this for a dimension that is not deterministic: its join keys are collected first and the
    join runs later, and both must see the same rows.

    Up to 8 MiB of rows are kept on the driver. More rows are written to the checkpoint directory,
    if ``spark.sparkContext.setCheckpointDir`` has set one. Otherwise, and always over Spark
    Connect, two executors keep a copy of each row. If both executors are lost, the query fails; it
    never returns different rows.

    Raises:
        LocationNotAllowed: if ``df`` reads outside of ``allowed_locations``.
    """
    df = given_dataframe(df)
    refuse_query(df, allowed_by(df.sparkSession))
    return kept_rows(df)
