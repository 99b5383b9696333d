"""Compute rows once, and keep them even if the executors that computed them are lost.

Small results go to the driver and become part of the plan. Larger results go to the checkpoint
directory if the session has one, and otherwise to blocks on two executors.
"""

from __future__ import annotations

from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from splitlib.redaction import get_logger
from splitlib.spark.allowed_scans import allowed_by, refuse_query
from splitlib.spark.arguments import given_dataframe
from splitlib.spark.compat import local_checkpoint
from splitlib.spark.jvm.active_session import in_its_session, interruptibly
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.gateway import JVM_ERRORS, analyzed_plan, internal_rows
from splitlib.spark.jvm.probe import internals_unavailable

_log = get_logger(__name__)

DRIVER_BYTES: Final = 8 << 20
"""Maximum size of rows that go to the driver, in bytes of executor storage."""
_ATTEMPTS: Final = 3
# Texts in Spark's error if the executor that computed some rows is lost.
_LOST: Final = ("CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND", "Checkpoint block")


def kept_rows(df: DataFrame, *, is_opaque: bool = False) -> DataFrame:
    """Compute the rows of ``df`` now, and return a DataFrame of these rows.

    Args:
        df: Any query.
        is_opaque: Whether to hide the rows from the optimizer, so that it cannot simplify the plan
            even if there are no rows.
    """
    return interruptibly(df.sparkSession, lambda: _kept(df, is_opaque=is_opaque))


def _kept(df: DataFrame, *, is_opaque: bool) -> DataFrame:
    spark = df.sparkSession
    # In local mode there are no other executors: none can be lost, and none can hold a copy.
    is_local = (spark.conf.get("spark.master", "") or "").startswith("local")
    level = StorageLevel.MEMORY_AND_DISK if is_local else StorageLevel.MEMORY_AND_DISK_2
    if internals_unavailable(spark) is not None:
        return local_checkpoint(df, level)
    for attempt in range(1, _ATTEMPTS + 1):
        stored = local_checkpoint(df, level)
        try:
            return _safe(spark, stored, is_opaque=is_opaque)
        except JVM_ERRORS as error:
            # The rows have not been used yet, so they may be computed again with another result.
            if attempt == _ATTEMPTS or not any(text in str(error) for text in _LOST):
                raise
            _log.debug("Rows were lost with an executor, and are computed again.", exc_info=True)
    raise AssertionError


def _safe(spark: SparkSession, stored: DataFrame, *, is_opaque: bool) -> DataFrame:
    """Move the rows of a local checkpoint to the driver or to the checkpoint directory.

    If the rows are too large for the driver and no directory is set, they stay on the executors.
    """
    catalyst = Catalyst(spark)
    leaf = analyzed_plan(stored)
    if catalyst.execution.stored_bytes(leaf) <= DRIVER_BYTES:
        rows = catalyst.plans.local_relation(leaf.output(), internal_rows(stored))
        kept = catalyst.execution.dataframe(
            catalyst.execution.with_rows_of(leaf, rows) if is_opaque else rows
        )
    elif spark.sparkContext.getCheckpointDir() is not None:
        kept = stored.checkpoint(eager=True)
    else:
        return stored
    catalyst.execution.forget(leaf)
    return kept


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
