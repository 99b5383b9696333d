"""``splitlib.sql`` and ``splitlib.optimize``: joins found and pruned, nothing wired by hand."""

from __future__ import annotations

from contextlib import ExitStack
from copy import copy
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from splitlib.spark.allowed_scans import allowed_by, refuse_statement, refuse_written_query
from splitlib.spark.arguments import given_dataframe
from splitlib.spark.jvm.active_session import in_its_session, interruptibly
from splitlib.spark.jvm.dataframes import dataframe_of_plan
from splitlib.spark.named_tables.placeholders import named_tables
from splitlib.spark.plan_records import remember
from splitlib.spark.planner.commands import planned_command
from splitlib.spark.planner.optimize import plan
from splitlib.spark.planner.rewrite import is_command, refresh
from splitlib.spark.session_state import SessionState


@in_its_session
def optimize(df: DataFrame) -> DataFrame:
    """The same rows, read from fewer partitions where joins of ``df`` allow it.

    The keys of the dimensions are collected now, and the partitions that they need are listed; see
    :func:`splitlib.explain` for what was pruned, and why something was not. Where nothing can be
    pruned ``df`` itself is returned. Nothing is raised that plain Spark would not raise, but for
    limits that were set.

    It is planned once: see :func:`splitlib.replan`.

    Raises:
        TooManyPartitions: if more than ``max_partitions`` are left of a table.
        MissingPartition: if a directory has gone and ``missing_partition`` is set to ``error``.
        LocationNotAllowed: if the query would read outside of ``allowed_locations``.
    """
    planned, report = plan(given_dataframe(df))
    remember(planned, report, _again if planned is df else lambda _: _again(df))
    return planned


@in_its_session
def sql(spark: SparkSession, query: str, *args: Any, **kwargs: Any) -> DataFrame:
    """``spark.sql(query, …)``, and :func:`optimize` on what it returns.

    A command runs once: of MERGE, UPDATE, DELETE, INSERT and CREATE TABLE AS the queries in it are
    optimized before, and the table that is changed is pruned by the rows that it is changed by.

    A table may also be one of a named splitlib catalog: ``lake.db.t`` where
    ``spark.splitlib.catalog.lake.*`` says what ``lake`` is, and Spark has no catalog of that name.

    Raises:
        SplitlibError: if such a table cannot be read; and as :func:`optimize`.
        ConfigError: for ``allowed_locations`` on Spark Connect, if the text does not begin with
            SELECT or VALUES: of a command it could not be told what it reads.
    """
    args = tuple(map(_copied, args))
    kwargs = {name: _copied(value) for name, value in kwargs.items()}
    state = SessionState.of(spark, query)
    with ExitStack() as opened:
        with named_tables(spark, query, opened) as (text, tables):
            allowed, has_parameters = allowed_by(spark), bool(args or kwargs)
            refuse_statement(spark, text, allowed, has_parameters=has_parameters)
            # parameters would have to be bound in each of its parts
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


def _copied(value: Any) -> Any:
    """A parameter that nobody changes before the query is planned again."""
    return copy(value) if isinstance(value, (dict, list)) else value


def _again(df: DataFrame) -> DataFrame:
    """``df`` optimized once more, with what there is now in the directories that it reads."""
    refresh(df)
    return optimize(df)
