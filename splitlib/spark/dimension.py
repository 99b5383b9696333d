"""``splitlib.freeze``, ``condition`` and ``merge_condition``: functions on a join's dimension.

A dimension is the small side of a join, whose keys prune the fact table. Frozen rows are computed
once, and kept even if the executor that computed them is lost. Small results go to the driver and
become part of the plan. Larger results go to the checkpoint directory if the session has one,
otherwise to blocks on two executors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType

from splitlib.config import SplitConfig
from splitlib.errors import InvalidFilter
from splitlib.redaction import get_logger
from splitlib.spark.allowed_scans import allowed_by, refuse_query
from splitlib.spark.arguments import given_dataframe, given_pairs
from splitlib.spark.compat import local_checkpoint
from splitlib.spark.conversion import char_length, column_text, has_variable
from splitlib.spark.join_condition import (
    ConditionWriter,
    JoinCondition,
    Operand,
    has_literals,
    without_condition,
)
from splitlib.spark.jvm.active_session import in_its_session, interruptibly
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.gateway import JVM_ERRORS, analyzed_plan, internal_rows
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.keys import collect_keys, key_columns
from splitlib.spark.session import settings_of

_log = get_logger(__name__)

DRIVER_BYTES: Final = 8 << 20
"""Maximum size of rows that go to the driver, in bytes of executor storage."""
_ATTEMPTS: Final = 3
# Spark's error contains one of these texts if the executor that stored some rows is lost.
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

    If the rows are too large for the driver and no checkpoint directory is set, they stay on the
    executors.
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

    Use this for a dimension that is not deterministic. Its join keys are collected before the join
    runs, and both steps must see the same rows.

    Up to 8 MiB of rows are kept on the driver. Larger results are written to the checkpoint
    directory, if ``spark.sparkContext.setCheckpointDir`` has set one. Otherwise, and always over
    Spark Connect, two executors keep a copy of each row. If both executors are lost, the query
    fails; it never returns different rows.

    Raises:
        LocationNotAllowed: if ``df`` reads outside of ``allowed_locations``.
    """
    df = given_dataframe(df)
    refuse_query(df, allowed_by(df.sparkSession))
    return kept_rows(df)


# Matches one part of a name: either text in backticks, or text up to the next dot.
_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


@in_its_session
def condition(
    dimension: DataFrame,
    on: Mapping[str, str] | Iterable[str | tuple[str, str]] | str,
    *,
    null_safe: bool = False,
) -> JoinCondition:
    """Return a filter for the fact table that follows from an inner or semi join.

    Data sources that cannot see the join can prune by this filter: Delta and Iceberg tables skip
    partitions and files, and a database receives the filter as a ``WHERE`` clause. This call
    executes the dimension to collect its distinct keys.

    Up to ``condition_literals`` keys are listed one by one. More keys become ranges that skip the
    gaps between keys. Far more keys become one range. Strings never become ranges here, because a
    metastore or a database may sort them differently. A string column with more than
    ``condition_literals`` keys is omitted from the filter. :func:`splitlib.sql` can determine the
    source of each scan, so it uses ranges of strings for Delta and Iceberg.

    The filter compares the fact column with literals of the dimension column's type. Spark
    therefore applies the same type conversions as in the join.

    Args:
        dimension: DataFrame with the keys. Its rows must be the same when it is joined.
        on: Mapping or pairs from fact columns to dimension columns, or one name if both columns
            have the same name. A fact column may be qualified by an alias (``t.dt``). A name that
            contains a dot or a backtick must be in backticks.
        null_safe: Whether the join compares with ``<=>``, so that null keys match nulls.

    Raises:
        NonDeterministicDimension: if the dimension may return other rows when it is joined. Pass
            it to :func:`splitlib.freeze` first.
        InvalidFilter: if a column does not exist, or if the name of a fact column contains
            ``${…}``, which Spark replaces in SQL text.
        LocationNotAllowed: if the dimension reads outside of ``allowed_locations``.
    """
    return _condition(dimension, on, null_safe=null_safe, for_command=False)


@in_its_session
def merge_condition(
    source: DataFrame,
    on: Mapping[str, str] | Iterable[str | tuple[str, str]] | str,
    *,
    null_safe: bool = False,
) -> str:
    """Return an SQL condition that prunes the target of a MERGE. Add it to ``ON`` with ``AND``.

    The condition is true for every pair of rows whose columns in ``on`` are equal. So it does not
    change which rows match. With WHEN NOT MATCHED BY SOURCE, Spark still reads the whole target.

    Args:
        source: Source of the MERGE. Its rows must be the same when the MERGE runs.
        on: Mapping from target columns, qualified by the target's alias, to source columns, such as
            ``{"t.dt": "dt"}``.
        null_safe: As for :func:`condition`.

    Raises:
        NonDeterministicDimension: in the same cases as :func:`condition`.
        InvalidFilter: in the same cases as :func:`condition`.
    """
    return _condition(source, on, null_safe=null_safe, for_command=True).sql


def _condition(
    dimension: DataFrame,
    on: Mapping[str, str] | Iterable[str | tuple[str, str]] | str,
    *,
    null_safe: bool,
    for_command: bool,
) -> JoinCondition:
    pairs = given_pairs(on)
    dimension = given_dataframe(dimension)
    config = SplitConfig.resolve(spark_conf=settings_of(dimension.sparkSession))
    refuse_query(dimension, config)
    columns = key_columns(dimension, pairs.values())
    operands = {
        name: Operand(_column(dimension.sparkSession, name), columns[of_dimension].field.dataType)
        for name, of_dimension in pairs.items()
    }
    usable = {name: c for name, c in pairs.items() if has_literals(operands[name].kind)}
    if not usable:
        return JoinCondition("true", False, tuple(map(without_condition, pairs)))
    data = collect_keys(dimension, usable, None, config, null_safe=null_safe)
    writer = ConditionWriter(operands, config.condition_literals, for_command=for_command)
    found = writer.of(data)
    # These keys are strings without a fixed length. Spark may pad their literals to match CHAR(n).
    fields = {name: columns[pairs[name]].field for name in usable}
    padded = [
        name
        for name, key in fields.items()
        if isinstance(key.dataType, StringType) and char_length(key) is None
    ]
    if padded and found.is_exact and not data.is_empty:
        # In a join with a CHAR column, Spark does not pad such a key, but it pads a literal.
        return found.inexact(f"{', '.join(padded)}: Spark pads literals if the column is CHAR")
    return found


def _column(spark: SparkSession, name: str) -> str:
    """Return a fact column's name as SQL text, quoted because it may be an SQL keyword."""
    if has_variable(name) and spark.conf.get("spark.sql.variable.substitute", "true") == "true":
        raise InvalidFilter(
            f"Column {name!r} cannot be used in SQL text: Spark replaces `${{…}}` there.",
            hint="rename the column in a view, or set spark.sql.variable.substitute to false.",
        )
    parts, end = [], -1
    while end < len(name):
        found = _PART.match(name, end + 1)
        if found is None or name[found.end() : found.end() + 1] not in ("", "."):
            raise InvalidFilter(
                f"{name!r} is not a column name.",
                hint="put a part that contains a dot or a backtick in backticks: `a.b`.",
            )
        parts.append(found[2] or found[1].replace("``", "`"))
        end = found.end()
    return column_text(spark, *parts)
