"""``splitlib.sql`` and ``splitlib.optimize``: find the joins of a query and prune its scans."""

from __future__ import annotations

from contextlib import ExitStack
from copy import copy
from functools import partial
from typing import Any
from weakref import WeakSet

from pyspark.sql import DataFrame, SparkSession

from splitlib.redaction import get_logger
from splitlib.spark.allowed_scans import allowed_by, refuse_statement, refuse_written_query
from splitlib.spark.arguments import given_dataframe
from splitlib.spark.jvm.active_session import in_its_session, interruptibly
from splitlib.spark.jvm.dataframes import dataframe_of_plan
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.named_tables import named_tables
from splitlib.spark.planned import remember
from splitlib.spark.planner.commands import planned_command
from splitlib.spark.planner.optimize import plan
from splitlib.spark.planner.query import is_command, refresh
from splitlib.spark.session import SessionState

_log = get_logger(__name__)
_warned: WeakSet[SparkSession] = WeakSet()
"""Sessions for which it was logged that nothing is optimized in them."""


@in_its_session
def optimize(df: DataFrame) -> DataFrame:
    """Return a DataFrame with the same rows that reads only the partitions that joins need.

    This call collects the keys of the dimensions and lists the matching partitions. If nothing can
    be pruned, it returns ``df`` itself. :func:`splitlib.explain` reports the pruned scans, and why
    other scans were not pruned. Spark's own errors are raised unchanged. In tables of the session,
    partitions whose directory does not exist are skipped, as in Spark, unless ``missing_partition``
    is set.

    The query is planned once. Use :func:`splitlib.replan` to plan it again.

    Raises:
        TooManyPartitions: if more than ``max_partitions`` partitions of a pruned table remain.
        MissingPartition: if a partition's directory does not exist and ``missing_partition`` is
            set to ``error``.
        LocationNotAllowed: if the query would read outside of ``allowed_locations``.
    """
    df = given_dataframe(df)
    warn_without_effect(df.sparkSession, "optimize")
    planned, report = plan(df)
    remember(planned, report, _again if planned is df else lambda _: _again(df))
    return planned


@in_its_session
def sql(spark: SparkSession, query: str, *args: Any, **kwargs: Any) -> DataFrame:
    """Run ``spark.sql(query, …)`` with :func:`optimize` applied to the query.

    Commands run during this call. The queries in MERGE, UPDATE, DELETE, INSERT and CREATE TABLE AS
    are optimized before the command runs. The table to change is pruned to the matching partitions.

    The query can also use tables of named splitlib catalogs, such as ``lake.db.t``. For this,
    ``spark.splitlib.catalog.lake.*`` must define ``lake``, and Spark must not have a catalog of
    that name.

    Raises:
        SplitlibError: if a table of a named catalog cannot be read, and the errors of
            :func:`optimize`.
        ConfigError: if ``allowed_locations`` is set on Spark Connect and the text does not begin
            with SELECT or VALUES: the tables that a command reads cannot be determined there.
    """
    warn_without_effect(spark, "sql")
    args = tuple(map(_copied, args))
    kwargs = {name: _copied(value) for name, value in kwargs.items()}
    state = SessionState.of(spark, query)
    with ExitStack() as opened:
        with named_tables(spark, query, opened) as (text, tables):
            allowed, has_parameters = allowed_by(spark), bool(args or kwargs)
            refuse_statement(spark, text, allowed, has_parameters=has_parameters)
            # A command with parameters is not planned, since splitlib would have to bind the
            # parameters in each part of it.
            command = None if has_parameters else planned_command(spark, text, tables)
            if command is None or command.plan is None:
                refuse_written_query(spark, text, allowed)
            if command is not None and command.plan is not None:
                df = interruptibly(spark, partial(dataframe_of_plan, spark, command.plan))
            else:
                df = spark.sql(text, *args, **kwargs)
        if command is not None:
            remember(df, command.report)
            return df
        planned, report = plan(df, tables)

    def again(_: DataFrame) -> DataFrame:
        state.check(spark, query)
        return sql(spark, query, *args, **kwargs)

    remember(planned, report, None if is_command(df) else again)
    return planned


def warn_without_effect(spark: SparkSession, function: str) -> None:
    """Log once per session that a function changes nothing there, with what prunes instead."""
    reason = internals_unavailable(spark)
    if reason is not None and spark not in _warned:
        _warned.add(spark)
        _log.warning(
            "splitlib.%s runs queries unchanged in this session: %s. "
            "splitlib.read(spark).table(…).filtered_by(…) and splitlib.condition prune there.",
            function,
            reason,
        )


def _copied(value: Any) -> Any:
    """Copy a mutable parameter, so that changes by the caller do not affect ``replan``."""
    return copy(value) if isinstance(value, (dict, list)) else value


def _again(df: DataFrame) -> DataFrame:
    """Make Spark list the directories of ``df`` again, then optimize it again."""
    refresh(df)
    return optimize(df)
