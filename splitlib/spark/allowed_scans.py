"""What Spark itself would read of a query, compared with ``allowed_locations``.

Scans that splitlib lists are checked as they are listed; all others here, before the query is given
back or run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from splitlib.config import ENV_PREFIX, SPARK_PREFIX, SplitConfig, option_name
from splitlib.errors import ConfigError, LocationNotAllowed
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.dataframes import analyzed_plan, ran_a_command
from splitlib.spark.jvm.parsed_commands import ParsedCommand
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.sql_parser import is_query_plan, only_reads_settings, parsed_statement
from splitlib.spark.keys.determinism import explained
from splitlib.spark.session import settings_of
from splitlib.spark.session_catalog.partitions_by_name import PartitionsByName
from splitlib.storage import only_within, refuse_files_outside, refuse_outside

_SETTING: Final = "allowed_locations"
_CACHED: Final = "InMemoryRelation"
_IN_SPARK: Final = "unset allowed_locations, or run it with Spark alone, where it is trusted."
# What the list of a query's files leaves out, as its plan spells it.
_OUT_OF_SIGHT: Final = re.compile(r"\bsubquery#\d+|\b(?:RelationV2|BatchScan)\b")
_AT_ONCE: Final = 1000
"""Partitions fetched by one call."""
# Behind white space, comments without others in them, which Spark nests, and parentheses.
_QUERY: Final = re.compile(
    r"(?:\s|\(|--[^\n]*\n|/\*(?:(?!/\*|\*/).)*\*/)*(?:SELECT|VALUES)\b", re.IGNORECASE | re.DOTALL
)


def allowed_by(spark: SparkSession) -> SplitConfig:
    """The setting that the session has for this; what else is set may be wrong and is left alone.

    Raises:
        ConfigError: if this setting is malformed.
    """
    key, variable = f"{SPARK_PREFIX}{option_name(_SETTING)}", f"{ENV_PREFIX}{_SETTING.upper()}"
    return SplitConfig.resolve(
        spark_conf={k: v for k, v in settings_of(spark).items() if k == key},
        environ={k: v for k, v in os.environ.items() if k == variable},
    )


def refuse_query(df: DataFrame, config: SplitConfig, *, partitions: bool) -> None:
    """:func:`refuse_scans` of a query, in whatever session.

    Where Spark's internals are out of reach Spark is asked for the files, which it lists for that.

    Raises:
        LocationNotAllowed: naming what the query must not read.
    """
    if config.allowed_locations is None:
        return
    if internals_unavailable(df.sparkSession) is not None:
        with only_within(config.allowed_locations):
            refuse_files_outside(unquote(uri) for uri in df.inputFiles())
        refused = _OUT_OF_SIGHT.search(explained(df))
        if refused:
            raise LocationNotAllowed(
                f"What the query reads cannot be compared with allowed_locations: {refused[0]}.",
                hint=_IN_SPARK,
            )
    elif not ran_a_command(df):  # what is made of its plan would run it again
        catalyst = Catalyst(df.sparkSession)
        plan = analyzed_plan(df)
        if partitions:  # without the relations that only stand beside a pruned scan
            plan = catalyst.optimized(catalyst.analyzed(df))
            if any(catalyst.kind(leaf) == _CACHED for leaf in catalyst.all_leaves(plan)):
                refuse_scans(catalyst, analyzed_plan(df), config)
        refuse_scans(catalyst, plan, config, partitions=partitions)


def refuse_dataframe(df: DataFrame, config: SplitConfig) -> None:
    """:func:`refuse_query`, with partitions, of a DataFrame that was not checked before.

    Raises:
        LocationNotAllowed: naming what it must not read.
    """
    refuse_query(df, config, partitions=False)
    refuse_query(df, config, partitions=True)


def refuse_condition(
    spark: SparkSession, condition: Column, schema: StructType, config: SplitConfig
) -> None:
    """Make sure that the subqueries of a condition may be read.

    Args:
        spark: The session.
        condition: On rows of ``schema``.
        schema: The table's, for Spark.
        config: Says what is allowed.

    Raises:
        LocationNotAllowed: naming what must not be read.
    """
    if config.allowed_locations is not None:
        rows = spark.createDataFrame([], schema).where(condition)
        if internals_unavailable(spark) is not None:
            refuse_query(rows, config, partitions=True)
        else:  # the optimizer would drop subqueries on no rows
            refuse_scans(Catalyst(spark), analyzed_plan(rows), config)


def refuse_scans(
    catalyst: Catalyst, plan: Any, config: SplitConfig, *, partitions: bool = True
) -> None:
    """Make sure that all that a plan reads may be read.

    Args:
        catalyst: Of the session.
        plan: Any resolved plan.
        config: Says what is allowed.
        partitions: Whether the catalog is asked where all partitions are of tables that it has;
            without it only the tables' own directories are compared.

    Raises:
        LocationNotAllowed: naming what must not be read.
    """
    if config.allowed_locations is None:
        return
    with only_within(config.allowed_locations):
        for leaf in catalyst.distinct(catalyst.all_leaves(plan)):
            source = catalyst.kind_of_source(leaf)
            if source == "unknown":
                raise LocationNotAllowed(
                    f"Where {catalyst.kind(leaf)} reads is not known, and so cannot be compared "
                    "with allowed_locations.",
                    hint=_IN_SPARK,
                )
            if source == "python":
                _refuse_python(catalyst, leaf, config.allowed_locations)
                continue
            refuse_outside(*catalyst.directories_of_leaf(leaf))
            if not catalyst.is_table(leaf):
                continue
            index = catalyst.listed_index_of(leaf)
            if index is not None:
                listing = catalyst.files_of(catalyst.directories_of(index))
                refuse_files_outside(listing.files["path"].to_pylist())
            elif partitions and (entry := catalyst.catalog_table_of(leaf)) is not None:
                _refuse_partitions(PartitionsByName.of(catalyst, entry, config.listing_threads))


def refuse_statement(
    spark: SparkSession, text: str, config: SplitConfig, *, has_parameters: bool
) -> None:
    """Refuse a statement unless it is understood, and what it changes may be read.

    Of queries, and of the query that INSERT or CREATE TABLE AS writes, that is compared when they
    are planned, or by :func:`refuse_written_query`.

    Args:
        spark: Where it is to run.
        text: A statement, with its parameters still in it.
        config: Says what is allowed.
        has_parameters: Whether there are values for parameters.

    Raises:
        LocationNotAllowed: naming what must not be read, or a statement that is not understood.
        ConfigError: if that cannot be found out before it runs, and it may not be a query.
    """
    if config.allowed_locations is None:
        return
    reason = internals_unavailable(spark)
    if reason is not None:
        if is_query(text):
            return
        raise ConfigError(
            f"What a command reads cannot be compared with allowed_locations: {reason}.",
            hint="a query begins with SELECT; run others with spark.sql, or in a classic session.",
        )
    parsed = parsed_statement(spark, text)
    if is_query_plan(spark, parsed) or only_reads_settings(parsed):
        return
    catalyst = Catalyst(spark)
    command = ParsedCommand.of(spark, catalyst, text)
    if command is None or has_parameters:
        what = "the parameters of a command" if command else f"a statement {catalyst.kind(parsed)}"
        raise LocationNotAllowed(
            f"What is read by {what} cannot be compared with allowed_locations.", hint=_IN_SPARK
        )
    if command.kind != "query":
        analyzed = catalyst.analyzed_statement(command.node)
        if analyzed.resolved():  # else Spark says what is wrong with it
            refuse_scans(catalyst, analyzed, config)


def refuse_written_query(spark: SparkSession, text: str, config: SplitConfig) -> None:
    """Make sure that what INSERT and CREATE TABLE AS write may be read.

    Raises:
        LocationNotAllowed: naming what must not be read.
    """
    if config.allowed_locations is None or internals_unavailable(spark) is not None:
        return
    catalyst = Catalyst(spark)
    command = ParsedCommand.of(spark, catalyst, text)
    if command is not None and command.kind == "query":
        refuse_scans(catalyst, analyzed_plan(catalyst.dataframe(command.query)), config)


def is_query(text: str) -> bool:
    """Whether the beginning of a statement says that it is a query, and so no command."""
    return _QUERY.match(text) is not None


def _refuse_partitions(partitions: PartitionsByName) -> None:
    names, _ = partitions.names()
    for start in range(0, len(names), _AT_ONCE):
        some = partitions.fetch(names.slice(start, _AT_ONCE).to_pylist())
        partitions.refuse_outside(some)


def _refuse_python(catalyst: Catalyst, leaf: Any, allowed: Sequence[str]) -> None:
    """Refuse a source in Python, unless it is splitlib's own and has the same setting.

    Spark does not tell such a source the settings of the session.
    """
    given = catalyst.option_of_source(leaf, option_name(_SETTING)) or ""
    if [place.strip() for place in given.split(",")] != list(allowed):
        places = ",".join(allowed)
        raise LocationNotAllowed(
            "A data source in Python does not know the session's allowed_locations.",
            hint=f'for format("splitlib"): .option("{option_name(_SETTING)}", {places!r}).',
        )
