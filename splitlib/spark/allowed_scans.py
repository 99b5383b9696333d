"""Check that Spark reads a query's files only from ``allowed_locations``.

When splitlib lists a table itself, it checks the table's locations. This module checks all other
scans of a query, before the query is returned or executed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from splitlib.config import ENV_PREFIX, SPARK_PREFIX, SplitConfig, option_name
from splitlib.errors import ConfigError, LocationNotAllowed
from splitlib.spark.determinism import explained, has_subquery
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.gateway import analyzed_plan, ran_a_command
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.spark_handles import LogicalPlan
from splitlib.spark.jvm.sql_parser import (
    ParsedCommand,
    is_query_plan,
    only_reads_settings,
    parsed_plan,
    parsed_statement,
)
from splitlib.spark.jvm.table_plans import leaves_that_read, named_files, runs_program
from splitlib.spark.session import settings_of
from splitlib.spark.session_catalog.partitions_by_name import PartitionsByName
from splitlib.storage import AllowedLocations

_SETTING: Final = "allowed_locations"
_CACHED: Final = "InMemoryRelation"
_IN_SPARK: Final = "unset allowed_locations; or, if you trust the query, run it without splitlib."
# Matches plan operators whose files ``DataFrame.inputFiles`` does not list. Also matches the mark
# of a list of columns that Spark has shortened, because the missing text may name such operators.
_OUT_OF_SIGHT: Final = re.compile(
    r"\bsubquery#\d+|\b(?:RelationV2|BatchScan|InMemoryRelation|InMemoryTableScan)\b"
    r"|\bScriptTransformation"
    r"|\bHiveTableRelation\b.*Partition Cols: \[[^\]]"
    r"|\.\.\. \d+ more fields"
)
_AT_ONCE: Final = 1000
"""Maximum number of partitions requested in one call."""
# Matches SELECT or VALUES after any white space, comments and opening parentheses. A query after a
# nested comment does not match, although Spark allows such comments. It then counts as a command.
_BEFORE: Final = r"(?is)(?:\s|\(|--[^\n]*\n|/\*(?:(?!/\*|\*/).)*\*/)*"
_QUERY: Final = re.compile(rf"{_BEFORE}(?:SELECT|VALUES)\b")
# Spark marks the results of commands that begin with WITH or FROM.
_QUERY_OR_COMMAND: Final = re.compile(rf"{_BEFORE}(?:SELECT|VALUES|WITH|FROM|TABLE)\b")


def allowed_by(spark: SparkSession) -> SplitConfig:
    """Return a configuration with only the session's ``allowed_locations``.

    Other settings are not read, so an invalid one raises no error here.

    Raises:
        ConfigError: if ``allowed_locations`` is malformed or misspelt.
    """
    key, variable = f"{SPARK_PREFIX}{option_name(_SETTING)}", f"{ENV_PREFIX}{_SETTING.upper()}"
    return SplitConfig.resolve(
        spark_conf={k: v for k, v in settings_of(spark).items() if _may_mean(k, key)},
        environ={k: v for k, v in os.environ.items() if _may_mean(k, variable)},
    )


def _may_mean(name: str, setting: str) -> bool:
    """Return whether a name is similar to a setting, so that a misspelt one is not ignored."""
    return bool(get_close_matches(name.lower(), [setting.lower()], cutoff=0.9))


def refuse_query(df: DataFrame, config: SplitConfig, *, partitions: bool = True) -> None:
    """Raise an error if a query reads a location outside of ``allowed_locations``.

    In a session without access to Spark's internals, such as Spark Connect, this check makes Spark
    list the query's files.

    Args:
        df: The query.
        config: The configuration with ``allowed_locations``.
        partitions: Whether to also check all partitions and files in the optimized plan. If false,
            only the directories of the tables that the query names are checked.

    Raises:
        LocationNotAllowed: if a location is not allowed or cannot be determined. The message
            names it.
    """
    if config.allowed_locations is None:
        return
    if internals_unavailable(df.sparkSession) is not None:
        allowed = AllowedLocations(config.allowed_locations)
        allowed.refuse_outside(unquote(uri) for uri in df.inputFiles())
        refused = _OUT_OF_SIGHT.search(explained(df))
        if refused:
            raise LocationNotAllowed(
                f"The query's plan contains {refused[0]}, which cannot be checked against "
                "allowed_locations.",
                hint=_IN_SPARK,
            )
    # Skip the result of a command, because planning this DataFrame would run the command again.
    elif not ran_a_command(df):
        catalyst = Catalyst(df.sparkSession)
        refuse_scans(catalyst, analyzed_plan(df), config, partitions=False)
        if partitions:
            # Check the optimized plan, from which Spark has removed relations that it never reads.
            plan = catalyst.execution.optimized(catalyst.execution.analyzed(df))
            plans = catalyst.plans
            if any(plans.kind(leaf) == _CACHED for leaf in plans.all_leaves(plan)):
                refuse_scans(catalyst, analyzed_plan(df), config)
            refuse_scans(catalyst, plan, config)


def refuse_condition(
    spark: SparkSession, condition: Column, schema: StructType, config: SplitConfig
) -> None:
    """Raise an error if a subquery in a condition reads outside of ``allowed_locations``.

    Args:
        spark: The session.
        condition: A condition on rows of ``schema``.
        schema: The schema of the table.
        config: The configuration with ``allowed_locations``.

    Raises:
        LocationNotAllowed: if a location is not allowed or cannot be determined. The message
            names it.
    """
    if config.allowed_locations is not None:
        rows = spark.createDataFrame([], schema).where(condition)
        if internals_unavailable(spark) is not None:
            # The optimizer removes the condition, because the DataFrame has no rows.
            if has_subquery(rows):
                raise LocationNotAllowed(
                    "The files that a condition's subquery reads cannot be checked against "
                    "allowed_locations in this session.",
                    hint=_IN_SPARK,
                )
            refuse_query(rows, config)
        else:
            # Check the analyzed plan. The DataFrame has no rows, so the optimizer would remove the
            # condition and its subqueries.
            refuse_scans(Catalyst(spark), analyzed_plan(rows), config)


def refuse_scans(
    catalyst: Catalyst, plan: LogicalPlan, config: SplitConfig, *, partitions: bool = True
) -> None:
    """Raise an error if a plan reads a location outside of ``allowed_locations``.

    Args:
        catalyst: Access to the plans of the session.
        plan: Any resolved plan.
        config: The configuration with ``allowed_locations``.
        partitions: Whether to also check all partitions of catalog tables, and all files that the
            plan lists. If false, only the table directories are checked.

    Raises:
        LocationNotAllowed: if a location is not allowed or cannot be determined. The message
            names it.
    """
    if config.allowed_locations is None:
        return
    if runs_program(catalyst, plan):
        raise LocationNotAllowed(
            "The files that the program of TRANSFORM reads cannot be checked against "
            "allowed_locations.",
            hint=_IN_SPARK,
        )
    allowed = AllowedLocations(config.allowed_locations)
    for leaf in catalyst.plans.distinct(list(leaves_that_read(catalyst, plan))):
        source = catalyst.relations.kind_of_source(leaf)
        if source == "unknown":
            raise LocationNotAllowed(
                f"The location that {catalyst.plans.kind(leaf)} reads is not known, so it cannot "
                "be checked against allowed_locations.",
                hint=_IN_SPARK,
            )
        if source == "python":
            _refuse_python(catalyst, leaf, config.allowed_locations)
            continue
        allowed.refuse_outside(catalyst.relations.directories_of_leaf(leaf))
        if source == "nowhere" or not partitions:
            continue
        files = _named_files(catalyst, leaf)
        if files is not None:
            allowed.refuse_outside(files)
        elif (entry := catalyst.relations.catalog_table_of(leaf)) is not None:
            found = PartitionsByName.of(catalyst, entry, config.listing_threads)
            names = found.names()[0].to_pylist()
            for start in range(0, len(names), _AT_ONCE):
                some = found.fetch(names[start : start + _AT_ONCE])
                allowed.refuse_outside(found.directories(some))


def allowed_part(catalyst: Catalyst, plan: LogicalPlan, config: SplitConfig) -> DataFrame:
    """Return a DataFrame for a part of a query, after checking the locations that it reads.

    The planner runs parts of a query during planning, for example to collect join keys.

    Raises:
        LocationNotAllowed: if a location is not allowed or cannot be determined.
    """
    refuse_scans(catalyst, plan, config)
    return catalyst.execution.dataframe_of_part(plan)


def refuse_statement(
    spark: SparkSession, text: str, config: SplitConfig, *, has_parameters: bool
) -> None:
    """Raise an error if a statement may read outside of ``allowed_locations``.

    Queries are not checked here, including those in INSERT and CREATE TABLE AS. They are checked
    when they are planned, or by :func:`refuse_written_query`.

    Args:
        spark: The session that will run the statement.
        text: SQL text of the statement, with its parameter markers.
        config: The configuration with ``allowed_locations``.
        has_parameters: Whether there are values for parameter markers.

    Raises:
        LocationNotAllowed: if a location is not allowed, or the kind of statement is not supported.
        ConfigError: if the statement may be a command, and this session cannot check commands.
    """
    if config.allowed_locations is None:
        return
    reason = internals_unavailable(spark)
    if reason is not None:
        if is_query(text):
            return
        raise ConfigError(
            f"Commands cannot be checked against allowed_locations in this session: {reason}.",
            hint="a query begins with SELECT; run other statements with spark.sql, or in a classic "
            "session.",
        )
    parsed = parsed_statement(spark, text)
    if is_query_plan(spark, parsed) or only_reads_settings(parsed):
        return
    catalyst = Catalyst(spark)
    command = ParsedCommand.of(catalyst, text)
    if command is None or has_parameters:
        kind = catalyst.plans.kind(parsed)
        what = "a command with parameters" if command else f"the statement {kind}"
        raise LocationNotAllowed(
            f"The locations that {what} reads cannot be checked against allowed_locations.",
            hint=_IN_SPARK,
        )
    # For INSERT … REPLACE WHERE, Delta may read the target's files, to keep the rows that do not
    # meet the condition.
    if command.replaces_by_condition:
        refuse_scans(catalyst, analyzed_plan(catalyst.execution.dataframe(command.target)), config)
    if command.kind != "query":
        analyzed = catalyst.execution.analyzed_statement(command.plan)
        # If names in the statement cannot be resolved, Spark raises an error and reads nothing. So
        # there is nothing to check.
        if analyzed.resolved():
            refuse_scans(catalyst, analyzed, config)


def refuse_written_query(spark: SparkSession, text: str, config: SplitConfig) -> None:
    """Raise an error if the query of an INSERT or CREATE TABLE AS reads disallowed locations.

    Raises:
        LocationNotAllowed: if a location is not allowed or cannot be determined. The message
            names it.
    """
    if config.allowed_locations is None or internals_unavailable(spark) is not None:
        return
    catalyst = Catalyst(spark)
    command = ParsedCommand.of(catalyst, text)
    if command is None or command.kind != "query":
        return
    try:
        query = analyzed_plan(catalyst.execution.dataframe(command.query))
    except AnalysisException:
        # For example, DEFAULT has a meaning only within INSERT. If the whole statement cannot be
        # resolved, Spark raises an error and reads nothing.
        query = catalyst.execution.analyzed_statement(command.plan)
        if not query.resolved():
            return
    refuse_scans(catalyst, query, config)


def is_query(text: str) -> bool:
    """Return whether a statement begins with SELECT or VALUES, and is therefore not a command."""
    return _QUERY.match(text) is not None


def is_certain_query(spark: SparkSession, text: str) -> bool:
    """Return whether an SQL text is certainly a query, so that it can be run several times.

    A text that Spark can parse only with the values of its parameters may be a command. This
    function needs Spark's internals.
    """
    return is_query(text) or is_query_plan(spark, parsed_plan(spark, text))


def may_be_script(spark: SparkSession, text: str) -> bool:
    """Return whether a text may be a script, EXECUTE IMMEDIATE or another unknown statement."""
    if _QUERY_OR_COMMAND.match(text):
        return False
    parsed = parsed_plan(spark, text)
    return parsed is None or not is_query_plan(spark, parsed)


def _named_files(catalyst: Catalyst, leaf: LogicalPlan) -> list[str] | None:
    """Call :func:`named_files`, and convert its RuntimeError to ``LocationNotAllowed``."""
    try:
        return named_files(catalyst, leaf)
    except RuntimeError as error:
        raise LocationNotAllowed(
            f"The files that {catalyst.plans.kind(leaf)} reads are not known, so they cannot be "
            "checked against allowed_locations.",
            hint=_IN_SPARK,
        ) from error


def _refuse_python(catalyst: Catalyst, leaf: LogicalPlan, allowed: Sequence[str]) -> None:
    """Reject a Python data source whose option ``allowedLocations`` does not match the setting.

    The data source needs the option, because Spark does not pass session settings to Python data
    sources. So it must have the same value as the setting ``allowed_locations``.
    """
    given = catalyst.relations.option_of_source(leaf, option_name(_SETTING)) or ""
    if [place.strip() for place in given.split(",")] != list(allowed):
        places = ",".join(allowed)
        raise LocationNotAllowed(
            "Spark does not pass the session's allowed_locations to a Python data source.",
            hint=f'for format("splitlib"), add .option("{option_name(_SETTING)}", {places!r}).',
        )
