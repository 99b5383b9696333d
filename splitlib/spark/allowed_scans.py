"""What Spark itself would read of a query, compared with ``allowed_locations``.

Scans that splitlib lists are checked as they are listed; all others here, before the query is given
back or run.
"""

from __future__ import annotations

import os
import re
from typing import Any, Final
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from splitlib.config import ENV_PREFIX, SPARK_PREFIX, SplitConfig, option_name
from splitlib.errors import ConfigError
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.dataframes import analyzed_plan, ran_a_command
from splitlib.spark.jvm.parsed_commands import ParsedCommand
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.session import settings_of
from splitlib.spark.session_catalog.partitions_by_name import PartitionsByName
from splitlib.storage import only_within, refuse_files_outside, refuse_outside

_SETTING: Final = "allowed_locations"
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
    elif not ran_a_command(df):  # what is made of its plan would run it again
        catalyst = Catalyst(df.sparkSession)
        plan = analyzed_plan(df)
        if partitions:  # without the relations that only stand beside a pruned scan
            plan = catalyst.optimized(catalyst.analyzed(df))
        refuse_scans(catalyst, plan, config, partitions=partitions)


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
            refuse_outside(*catalyst.directories_of_leaf(leaf))
            if not catalyst.is_table(leaf):
                continue
            index = catalyst.listed_index_of(leaf)
            if index is not None:
                listing = catalyst.files_of(catalyst.directories_of(index))
                refuse_files_outside(listing.files["path"].to_pylist())
            elif partitions and (entry := catalyst.catalog_table_of(leaf)) is not None:
                _refuse_partitions(PartitionsByName.of(catalyst, entry, config.listing_threads))


def refuse_command(spark: SparkSession, text: str, config: SplitConfig) -> None:
    """Make sure that what a command reads may be read; nothing else is a reason to raise.

    Args:
        spark: Where it is to run.
        text: A statement, with its parameters still in it.
        config: Says what is allowed.

    Raises:
        LocationNotAllowed: naming what must not be read.
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
    catalyst = Catalyst(spark)
    command = ParsedCommand.of(spark, catalyst, text)
    if command is None:
        return
    match command.kind:
        case "query":
            read = command.query
        case "merge":
            read = command.source
        case "change":
            read = catalyst.filtered(command.target, command.condition)
    refuse_scans(catalyst, analyzed_plan(catalyst.dataframe(read)), config)


def is_query(text: str) -> bool:
    """Whether the beginning of a statement says that it is a query, and so no command."""
    return _QUERY.match(text) is not None


def _refuse_partitions(partitions: PartitionsByName) -> None:
    names, _ = partitions.names()
    for start in range(0, len(names), _AT_ONCE):
        some = partitions.fetch(names.slice(start, _AT_ONCE).to_pylist())
        partitions.refuse_outside(some)
