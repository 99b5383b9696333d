"""``splitlib.freeze``, ``condition`` and ``merge_condition``: functions on a join's dimension.

A dimension is the small side of a join, whose keys prune the fact table. This module also validates
and converts the dimensions and keys that users pass to splitlib.

``freeze`` computes rows once, and keeps them even if an executor is lost. Small results are
collected to the driver and become part of the plan. Larger results are written to the checkpoint
directory. If there is no checkpoint directory, two executors keep a copy of each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StringType

from splitlib.arrow.tables import table_of
from splitlib.arrow.values import shown, try_cast
from splitlib.checks import given_pairs, name_parts
from splitlib.config import SplitConfig
from splitlib.errors import InvalidFilter
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import ValueDomain, plain_rows
from splitlib.redaction import get_logger
from splitlib.spark.allowed_scans import allowed_by, refuse_query
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

_KEYS = (
    "a Spark DataFrame, an Arrow table, anything else with __arrow_c_stream__ (pandas, Polars), "
    "a dict of lists such as {'day': [date(2024, 1, 5)]}, or DynamicFilteringData."
)
_log = get_logger(__name__)
_ATTEMPTS: Final = 3
# Spark's error message contains one of these texts if an executor that stored rows was lost.
_LOST: Final = ("CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND", "Checkpoint block")


def given_dataframe(value: Any) -> DataFrame:
    """Return ``value`` if it is a Spark DataFrame.

    Raises:
        InvalidFilter: if ``value`` is not a Spark DataFrame.
    """
    if isinstance(value, DataFrame):
        return value
    if hasattr(type(value), "filtered_by"):  # the type, because a Column has attributes of any name
        hint = "call .load() on the reader first."
    elif hasattr(type(value), "__arrow_c_stream__"):
        hint = "convert it with spark.createDataFrame(…)."
    else:
        hint = "pass a DataFrame, such as spark.table('db.t')."
    raise InvalidFilter(f"Expected a Spark DataFrame, not a {type(value).__name__}.", hint=hint)


def given_keys(value: Any) -> DataFrame | DynamicFilteringData | pa.Table:
    """Convert join keys to an Arrow table.

    Spark DataFrames and ``DynamicFilteringData`` are returned unchanged.

    Raises:
        InvalidFilter: if ``value`` has no named columns.
    """
    if isinstance(value, DataFrame | DynamicFilteringData | pa.Table):
        return value
    if isinstance(value, Mapping):
        return pa.table(dict(_columns_of(DynamicFilteringData.from_values(value))))
    if isinstance(value, Column):
        hint = "pass a condition to .where(…); filtered_by takes "
    elif hasattr(value, "filtered_by"):
        hint = "call .load() on the reader first, or pass "
    else:
        table = table_of(value)
        if table is not None:
            return table
        hint = "name the column, as in {'day': […]}; keys are "
    raise InvalidFilter(f"A {type(value).__name__} has no key columns.", hint=hint + _KEYS)


def _columns_of(data: DynamicFilteringData) -> Iterable[tuple[str, pa.ChunkedArray]]:
    (domain,) = data.domains
    assert isinstance(domain, ValueDomain)
    return zip(domain.rows.column_names, domain.rows.columns, strict=True)


def keys_of_table(table: pa.Table, on: Mapping[str, str], columns: pa.Schema) -> pa.Table:
    """Return a table's key columns, renamed to the names of the fact columns.

    Text keys such as ``"2024-01-05"`` are converted if the fact column is an integer or a date.

    Args:
        table: The table with the keys.
        on: Mapping from fact columns to key columns.
        columns: Schema of the fact table.

    Raises:
        InvalidFilter: if a column is missing, or a text key cannot be converted.
    """
    if missing := [column for column in on.values() if column not in table.column_names]:
        raise InvalidFilter(
            f"The keys have no column {', '.join(missing)}.",
            hint=f"the columns of the keys are {', '.join(table.column_names)}.",
        )
    kinds = {field.name: field.type for field in columns}
    plain = plain_rows(table.select(list(dict.fromkeys(on.values()))))
    found = {name: _as_type(plain[column], name, kinds.get(name)) for name, column in on.items()}
    return pa.table(found)


def _as_type(keys: pa.ChunkedArray, name: str, kind: pa.DataType | None) -> pa.ChunkedArray:
    if not pa.types.is_string(keys.type):
        return keys
    if kind is None or not (pa.types.is_date(kind) or pa.types.is_integer(kind)):
        return keys
    texts = keys.combine_chunks()
    typed = try_cast(texts, kind)
    same = pc.fill_null(pc.equal(typed.cast(pa.string()), texts), False)
    other = texts.filter(pc.and_(pc.is_valid(texts), pc.invert(same)))
    if len(other):
        raise InvalidFilter(
            f"Key {shown(other[0])!r} for column {name!r} cannot be converted to {kind}.",
            hint="pass keys of the column's type, such as datetime.date(2024, 1, 5), or text in "
            "Spark's format, such as '2024-01-05'.",
        )
    return pa.chunked_array([typed])


DRIVER_BYTES: Final = 8 << 20
"""Maximum size of rows that go to the driver, in bytes of executor storage."""


def kept_rows(df: DataFrame, *, is_opaque: bool = False) -> DataFrame:
    """Compute the rows of ``df`` now, and return a DataFrame of these rows.

    Args:
        df: Any query.
        is_opaque: Whether to hide the rows from the optimizer, so that it does not simplify the
            plan when there are no rows.
    """
    return interruptibly(df.sparkSession, lambda: _kept(df, is_opaque=is_opaque))


def _kept(df: DataFrame, *, is_opaque: bool) -> DataFrame:
    spark = df.sparkSession
    # In local mode, there is no other executor that could be lost or hold a second copy.
    is_local = (spark.conf.get("spark.master", "") or "").startswith("local")
    level = StorageLevel.MEMORY_AND_DISK if is_local else StorageLevel.MEMORY_AND_DISK_2
    if internals_unavailable(spark) is not None:
        return local_checkpoint(df, level)
    for attempt in range(1, _ATTEMPTS + 1):
        stored = local_checkpoint(df, level)
        try:
            return _safe(spark, stored, is_opaque=is_opaque)
        except JVM_ERRORS as error:
            # No query has used the rows yet, so the second run may return other rows.
            if attempt == _ATTEMPTS or not any(text in str(error) for text in _LOST):
                raise
            _log.debug("The rows of a lost executor are computed again.", exc_info=True)
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
        rows = catalyst.execution.rdd_leaf(rows) if is_opaque else rows
        kept = catalyst.execution.dataframe(rows)
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
        InvalidFilter: if ``df`` is a stream.
        LocationNotAllowed: if ``df`` reads outside of ``allowed_locations``.
    """
    df = given_dataframe(df)
    if df.isStreaming:
        raise InvalidFilter(
            "A stream cannot be computed once.",
            hint="freeze the rows of one micro-batch, in the function of foreachBatch.",
        )
    refuse_query(df, allowed_by(df.sparkSession))
    return kept_rows(df)


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

    Keys are listed one by one, up to ``condition_literals`` literals (keys times columns). More
    keys become several ranges, which omit the largest gaps between keys. If there are too many keys
    to collect, the filter is a single range. Strings never become ranges here, because a metastore
    or a database may sort them differently. A string column with more than ``condition_literals``
    keys is omitted from the filter. :func:`splitlib.sql` can determine the source of each scan, so
    it uses ranges of strings for Delta and Iceberg.

    The filter compares the fact column with literals of the dimension column's type. Spark
    therefore applies the same type conversions as in the join.

    Args:
        dimension: DataFrame with the keys. Its rows must be the same when it is joined.
        on: Mapping or pairs from fact columns to dimension columns, or one name if both columns
            have the same name. A fact column may be qualified by an alias (``t.dt``). A name that
            contains a dot or a backtick must be in backticks.
        null_safe: Whether the join compares with ``<=>``, so that null keys match nulls.

    Raises:
        NonDeterministicDimension: if the dimension may return different rows when it is joined.
            Pass it to :func:`splitlib.freeze` first.
        InvalidFilter: if a column does not exist, or if the name of a fact column contains
            ``${…}``, which Spark replaces in SQL text.
        LocationNotAllowed: if the dimension reads outside of ``allowed_locations``.
        ConfigError: if the session is stopped, or a setting is unknown or malformed.
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

    :func:`splitlib.merge_condition` describes the arguments and the result.

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
    fields = {name: columns[pairs[name]].field for name in usable}
    padded = [
        name
        for name, key in fields.items()
        if isinstance(key.dataType, StringType) and char_length(key) is None
    ]
    if padded and found.is_exact and not data.is_empty:
        # If the fact column is CHAR, Spark pads the filter's literals, but not the join keys.
        return found.inexact(f"{', '.join(padded)}: Spark pads literals if the column is CHAR")
    return found


def _column(spark: SparkSession, name: str) -> str:
    """Return a fact column's name as quoted SQL text, since the name may be an SQL keyword."""
    if has_variable(name) and spark.conf.get("spark.sql.variable.substitute", "true") == "true":
        raise InvalidFilter(
            f"Column {name!r} cannot be used in SQL text: Spark replaces `${{…}}` there.",
            hint="rename the column in a view, or set spark.sql.variable.substitute to false.",
        )
    return column_text(spark, *name_parts(name))
