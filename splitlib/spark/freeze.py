"""A DataFrame whose rows are computed once."""

from __future__ import annotations

from pyspark.sql import DataFrame

from splitlib.spark.arguments import given_dataframe
from splitlib.spark.jvm.active_session import in_its_session, interruptibly


@in_its_session
def freeze(df: DataFrame) -> DataFrame:
    """Compute ``df`` now and return a DataFrame of just these rows.

    Needed for a dimension that is not deterministic: its join keys are collected first and the
    join runs later, and both must see the same rows. They are kept on the executors; losing one is
    an error, never other rows.
    """
    df = given_dataframe(df)
    return interruptibly(df.sparkSession, lambda: df.localCheckpoint(eager=True))
