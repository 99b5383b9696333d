"""Plan a query: find its joins, and prune its scans by the join keys.

:func:`splitlib.spark.planner.decide.decide` runs the first passes, which do not need Spark. Then
:func:`_pruned` executes the dimension side of the joins, collects the join keys, and prunes the
scans. For a command such as MERGE, :func:`target_condition` returns the condition that the keys
imply for the changed table.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor, wait
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from splitlib.errors import (
    ConfigError,
    LocationNotAllowed,
    MissingPartition,
    SplitlibError,
    TooManyPartitions,
)
from splitlib.redaction import get_logger
from splitlib.registry import SESSION
from splitlib.report import Count, Report
from splitlib.spark.allowed_scans import allowed_by, refuse_query
from splitlib.spark.jvm.active_session import SessionThreads, readable
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.spark_handles import LogicalPlan
from splitlib.spark.logical_plan import Node, Path, UnknownPlan
from splitlib.spark.named_tables import NamedTable
from splitlib.spark.planner.data_keys import with_data_keys
from splitlib.spark.planner.decide import Costs, dead_scans, decide
from splitlib.spark.planner.latest import needs_extremes, sealed, with_latest_rows
from splitlib.spark.planner.materialize import (
    Materialized,
    checkpointed_inputs,
    fixed_scan,
    listed_later,
    materialize,
    with_fixed_files,
)
from splitlib.spark.planner.prune import (
    PrunedSites,
    named_tables,
    pruned_in_waves,
    scan_of_sites,
    sharing_broadcasts,
    unpruned,
    with_other_columns,
)
from splitlib.spark.planner.query import Query, config_of, is_command, rewritten_query
from splitlib.spark.planner.remedies import advised, in_session
from splitlib.spark.planner.runtime_filters import with_runtime_filters
from splitlib.spark.planner.scan_sites.planned_scan import Scan, ScanOutcome
from splitlib.spark.planner.scan_sites.prunable import prunable_scans
from splitlib.spark.session import table_read_by
from splitlib.telemetry import traced

_log = get_logger(__name__)

# Advice to the user about an error that occurs while a query is planned.
_BUG: Final = "This is a bug of splitlib. Please report it with the traceback in the log."
_OF_SPARK: Final = (
    "Run the query without splitlib. If it raises the same error there, correct the query. "
    "Otherwise please report the error, with the log of splitlib at level DEBUG."
)
_CORRECT: Final = "Correct the cause, and plan the query again with splitlib.replan."
NO_JOIN: Final = "the query has no join."
"""Reason why Spark runs a query unchanged: without a join, there are no keys to prune by."""
NO_TABLE: Final = "the query reads no partitioned table and no table that accepts conditions."
"""Reason why Spark runs a query unchanged: the query has no scan to prune."""
COMMAND: Final = "the DataFrame is the result of a command."
"""Reason why Spark runs a query unchanged: a rewritten plan would execute the command again."""
# Join nodes of an analyzed plan. The optimizer turns AsOfJoin and NearestByJoin into Join.
_JOINS: Final = ("Join", "AsOfJoin", "NearestByJoin")
# Nodes that the optimizer may turn into Join. Only the optimized plan shows whether it did.
_SET_OPERATIONS: Final = ("Except", "Intersect")


def plan(
    df: DataFrame,
    named: Mapping[str, NamedTable] | None = None,
    planned: Collection[str] = (),
) -> tuple[DataFrame, Report]:
    """Return a DataFrame that reads the same rows from fewer partitions, and a report.

    If Spark, py4j or splitlib raises an error during planning, Spark runs the query unchanged,
    because Spark's own error message is usually better. Any other error is a bug in splitlib. For
    such an error, Spark also runs the query unchanged, and splitlib logs a warning. Only the errors
    below are raised.

    Args:
        df: Any query.
        named: Tables of named catalogs in the query, by the root directory of their placeholder
            scans.
        planned: Root directories of the pinned scans that stay unchanged. A pinned scan reads a
            fixed list of files.

    Raises:
        SplitlibError: if a table of a named catalog cannot be read.
        TooManyPartitions: if more than ``max_partitions`` partitions of a pruned table remain.
        MissingPartition: if a partition's directory does not exist and ``missing_partition`` is
            set to ``error``.
        LocationNotAllowed: if the query would read outside of ``allowed_locations``.
    """
    started = time.perf_counter()
    named = named or {}
    allowed = allowed_by(df.sparkSession)
    refuse_query(df, allowed, partitions=False)
    try:
        new, report = _planned(df, named, planned)
    except (LocationNotAllowed, TooManyPartitions, MissingPartition) as error:
        error.hint = error.hint and in_session(error.hint)
        raise
    except SplitlibError as error:
        if error.connector != SESSION and named:
            raise
        new, report = None, left_to_spark(error)
    except Exception as error:
        new, report = None, left_to_spark(error)
    new = new or _opened_up(df, named)
    refuse_query(new, allowed)
    return new, replace(advised(report), seconds=time.perf_counter() - started)


def left_to_spark(error: Exception) -> Report:
    """Log a planning error, and return the report on a query that Spark runs unchanged."""
    shown, advice = readable(error), _OF_SPARK
    if isinstance(error, ConfigError):  # for example, a misspelled setting of the session
        _log.warning("The query is left to Spark: %s", error)
    elif isinstance(error, (SplitlibError, *JVM_ERRORS, UnknownPlan)):
        _log.debug("Spark runs the query unchanged, because planning failed.", exc_info=error)
    else:  # a bug in splitlib must not make the query fail
        advice = _BUG
        _log.warning(
            "splitlib has a bug: a query could not be planned, and is left to Spark. "
            "Please report it with this traceback and, if you can, the query.",
            exc_info=error,
        )
    if isinstance(shown, SplitlibError):
        shown.hint = shown.hint and in_session(shown.hint)
        advice = "" if shown.hint else _CORRECT if shown is error else advice
    message = str(shown).partition("\n")[0].strip()
    message += "" if message.endswith((".", "!", "?")) else "."
    return Report(reasons=(f"{type(shown).__name__}: {message} {advice}".rstrip(),))


def _planned(
    df: DataFrame, named: Mapping[str, NamedTable], planned: Collection[str]
) -> tuple[DataFrame | None, Report]:
    """Return the planned query (None if Spark runs it unchanged) and the report."""
    with planner_threads(df.sparkSession) as executor:
        with traced("find_joins"):
            query = query_of(df, named, executor, planned=planned)
        if isinstance(query, str):
            return None, Report(reasons=(query,))
        query, latest, rows = with_latest_rows(query, executor)
        pruned = _pruned(query, executor)
    stable = _with_same_rows(query) if pruned.wants_same_rows else None
    if stable is None:
        with traced("rewrite"):
            new = _rewritten(pruned) if pruned.is_other else None
        if new is not None:
            new = sealed(new, query.analyzed_tree, rows)
        report = _report(pruned)
        return new, replace(report, scans=(*latest, *report.scans))
    again, report = _planned(stable, named, planned)
    report = replace(
        report,
        scans=(*latest, *report.scans),
        catalog_requests=report.catalog_requests + query.prunable.catalog_requests,
        storage_requests=report.storage_requests + query.prunable.storage_requests,
    )
    return again or _opened_up(stable, named), report


def target_condition(
    df: DataFrame, target: Path, qualifier: Sequence[str]
) -> tuple[str | None, Report]:
    """Return the condition that the joins of a query imply for one of its tables.

    If planning fails, the report has the reason. Only ``LocationNotAllowed`` is raised.

    Args:
        df: A query.
        target: Path of the table's leaf in the analyzed plan.
        qualifier: Qualifier of the table's columns in the condition.

    Returns:
        The condition as SQL text (None if there is none), and the report on this table.
    """
    started = time.perf_counter()
    condition = None
    try:
        with planner_threads(df.sparkSession) as executor:
            query = query_of(df, {}, executor, of_command=True)
            if isinstance(query, str):
                return None, Report(reasons=(query,))
            for scan in query.scans:
                scan.qualifier = tuple(qualifier)
            pruned = _pruned(query, executor)
        report = _report(pruned)
        of_target = [o.report for o in pruned.outcomes if target in o.scan.paths]
        report = replace(report, scans=tuple(of_target))
        condition = next((scan.condition for scan in of_target), None)
    except LocationNotAllowed:
        raise
    except Exception as error:
        report = left_to_spark(error)
    return condition, replace(advised(report), seconds=time.perf_counter() - started)


def planner_threads(spark: SparkSession) -> SessionThreads:
    """Return a new thread pool for planning one query."""
    return SessionThreads(spark, 4, "splitlib-planner")


def query_of(
    df: DataFrame,
    named: Mapping[str, NamedTable],
    executor: Executor,
    *,
    planned: Collection[str] = (),
    of_command: bool = False,
) -> Query | str:
    """Return the query with its plans and scans, or the reason why Spark runs it unchanged.

    Args:
        df: The query.
        named: Tables of named catalogs in the query.
        executor: Executor that optimizes the query.
        planned: Root directories of the pinned scans that stay unchanged.
        of_command: Whether the query selects the rows that a command changes.
    """
    reason = internals_unavailable(df.sparkSession)
    if reason is not None:
        return f"{reason}."
    config = config_of(df.sparkSession)
    if not config.dynamic_filtering_enabled:
        return "dynamic_filtering_enabled is off."
    if df.isStreaming:
        return "the query is a streaming query."
    if is_command(df):
        return COMMAND
    catalyst = Catalyst(df.sparkSession)
    analyzed = catalyst.execution.analyzed(df)
    tree = catalyst.plans.tree(analyzed)
    wanted = bool(named) or needs_extremes(tree) or _has_join(tree, _JOINS)
    if not wanted and not _has_join(tree, _SET_OPERATIONS):
        return NO_JOIN
    optimizing = executor.submit(catalyst.execution.optimized, analyzed)
    prunable = prunable_scans(catalyst, analyzed, tree, config, named, planned)
    if not prunable.by_columns:
        return NO_TABLE
    optimized = optimizing.result()
    optimized_tree = catalyst.plans.tree(optimized)
    if not wanted and not _has_join(optimized_tree, _JOINS):
        return NO_JOIN
    return Query(
        df=df,
        catalyst=catalyst,
        config=config,
        prunable=prunable,
        analyzed=analyzed,
        analyzed_tree=tree,
        optimized=optimized,
        optimized_tree=optimized_tree,
        broadcast_threshold=catalyst.execution.broadcast_threshold(),
        unknown_size=catalyst.execution.unknown_size(),
        is_command=of_command,
    )


def _has_join(tree: Node, kinds: Collection[str]) -> bool:
    return any(node.kind in kinds or node.subqueries for node in tree.walk())


@dataclass(frozen=True, slots=True, eq=False)
class _Pruned:
    """The results of pruning a query."""

    query: Query
    """The query. Unpartitioned tables have fixed lists of files, unless their rows are computed."""
    sites: PrunedSites
    """Scan sites with the join keys that prune them, by path."""
    outcomes: list[ScanOutcome]
    """Pruning outcome of each scan, in the order of the analyzed plan."""
    materialized: Materialized
    """Rows of the dimensions that ran during planning."""
    dead: Mapping[Path, LogicalPlan]
    """Empty scans in place of scans that the optimizer drops, by path in the analyzed plan."""
    listed_later: tuple[str, ...]
    """Names of the tables whose files Spark lists when the query runs."""

    @property
    def is_other(self) -> bool:
        """Whether at least one leaf of the query is replaced."""
        replaced = self.query.replaced_leaves or self.materialized.leaves
        return bool(replaced) or any(one.is_other for one in self.outcomes)

    @property
    def wants_same_rows(self) -> bool:
        """Whether more could be pruned if the query returned the same rows each time it runs."""
        return any(pruned.site.wants_same_rows for pruned in self.sites.values())


def _pruned(query: Query, executor: Executor) -> _Pruned:
    decisions = decide(query)
    finding_dead = executor.submit(
        dead_scans,
        query.analyzed_tree,
        decisions.unread,
        lambda scan: scan.empty_scan(),
        query.optimized_with,
    )
    sites: PrunedSites = unpruned(query, decisions.sites)
    materialized = Materialized(query.optimized, {})
    if decisions.dimensions:
        listed = [one for one in sites.values() if one.scan.is_listed]
        named = named_tables(listed)
        fetching = [
            executor.submit(one.scan.prepare, by_name=one.scan.name in named)
            for one in listed
            if one.site.filters
        ]
    if not query.is_command:  # A command runs right after planning, so its files need not be fixed.
        query = with_fixed_files(query, decisions.run_once, executor)
    if decisions.dimensions:
        with traced("run_dimensions"):
            targets = {path for path, one in sites.items() if one.site.may_have_keys}
            keyed, groups = decisions.dimensions, decisions.run_once
            materialized = materialize(query, keyed, groups, executor, targets)
        # Metadata that could not be fetched here is requested again later, with retries.
        wait(fetching)
    dead = finding_dead.result()

    def outcome(scan: Scan, sites: PrunedSites) -> ScanOutcome:
        if not dead.keys().isdisjoint(scan.paths):
            return ScanOutcome(scan, None, Report(scan.name, partitions=Count(0)))
        own = [site for site in sites.values() if site.scan is scan]
        why_unpruned = decisions.unpruned.get(scan)
        with traced("prune_table", table=scan.name):
            found = scan_of_sites(scan, own, query.optimized, why_unpruned)
        # A command runs right after planning, so it needs no fixed list of files.
        if found.instead is not None or why_unpruned or query.is_command:
            return found
        return replace(found, instead=fixed_scan(query, scan, own))

    plan = materialized.optimized
    sites, outcomes = pruned_in_waves(query, plan, sites, outcome, executor)
    dimensions = decisions.dimensions
    outcomes = with_data_keys(query, plan, outcomes, decisions.unpruned, executor, dimensions)
    outcomes = with_runtime_filters(query, plan, outcomes, decisions.unpruned, executor)
    outcomes = with_other_columns(query, outcomes)
    later = listed_later(query, outcomes, sites, dead, decisions.unpruned)
    return _Pruned(query, sites, outcomes, materialized, dead, later)


def _report(pruned: _Pruned) -> Report:
    later = ", ".join(pruned.listed_later)
    reports = (outcome.report for outcome in pruned.outcomes if _is_reported(outcome))
    return Report(
        scans=tuple(replace(one, table=table_read_by(one.table)) for one in reports),
        notes=(f"files listed at run time: {later}",) if later else (),
        catalog_requests=pruned.query.prunable.catalog_requests,
        storage_requests=pruned.query.prunable.storage_requests,
    )


def _is_reported(outcome: ScanOutcome) -> bool:
    """Return whether a scan is listed, or a join could provide a condition on it."""
    report = outcome.report
    return outcome.scan.is_listed or bool(report.filters or report.reasons or report.notes)


def _rewritten(pruned: _Pruned) -> DataFrame:
    """Return the query with pruned scans and materialized rows in place of its leaves."""
    query, sites, materialized = pruned.query, pruned.sites, pruned.materialized
    broadcast_of = partial(query.broadcast_of, materialized.optimized)
    sharing = sharing_broadcasts(query.optimized_tree, sites.keys(), broadcast_of)
    sharing_scans = {query.scan_of(sites[path].site.leaf) for path in sharing}
    new = {**materialized.leaves, **pruned.dead}
    narrowed: dict[Path, LogicalPlan] = {}
    for outcome in pruned.outcomes:
        scan, node, nodes = outcome.scan, outcome.instead, new
        if outcome.report.condition is not None:
            node, nodes = scan.where(outcome.report.condition), narrowed
        if outcome.rows is not None:
            if node is None:
                node, nodes = scan.leaf, narrowed
            node = query.catalyst.plans.filtered(node, outcome.rows)
        if node is not None:
            if scan in sharing_scans:
                node = query.catalyst.plans.not_broadcast(node)
            nodes |= dict.fromkeys(scan.paths, node)
    # Leaves that are replaced by their rows need no condition.
    narrowed = {p: node for p, node in narrowed.items() if p not in materialized.leaves}
    planned = rewritten_query(
        query.catalyst, query.df, query.analyzed, new, narrowed, query.replaced_leaves
    )
    # The placeholder for a named catalog's table has nullable columns, even if the table's columns
    # are NOT NULL. So the schemas of queries on such tables are compared without nullability.
    of_named = any(scan.is_placeholder for scan in query.scans)
    if not query.has_schema_of(planned, nullability=not of_named):
        raise RuntimeError("The schema of the rewritten plan differs from the schema of the query.")
    return planned


def _with_same_rows(query: Query) -> DataFrame | None:
    """Return the query with its non-deterministic join inputs computed once.

    Return None if there is no such input, or if none of them can be computed.
    """
    costs = Costs(query.size_in_analyzed, query.dimension_bytes)

    def usable(node: Node) -> bool:
        scans = (query.scan_of(part) for part in node.walk() if part.is_leaf)
        listed = any(scan is not None and scan.is_listed for scan in scans)
        cached = (part for part in node.walk() if part.kind == "InMemoryRelation")
        copied = sum(query.size_in_analyzed(part) or 0 for part in cached)
        return not listed and copied <= query.dimension_bytes and costs.may_run(node)

    inputs = checkpointed_inputs(query, usable)
    if not inputs:
        return None
    return rewritten_query(query.catalyst, query.df, query.analyzed, inputs)


def _opened_up(df: DataFrame, named: Mapping[str, NamedTable]) -> DataFrame:
    """Return the query with unpruned scans in place of placeholders for named-catalog tables."""
    if not named or is_command(df):  # The new DataFrame would execute the command again.
        return df
    catalyst = Catalyst(df.sparkSession)
    analyzed = catalyst.execution.analyzed(df)
    tree = catalyst.plans.tree(analyzed)
    new: dict[Path, LogicalPlan] = {}
    for scan in prunable_scans(catalyst, analyzed, tree, None, named).by_columns.values():
        whole = scan.left_alone(Report(scan.name)).instead
        if whole is not None:
            new |= dict.fromkeys(scan.paths, whole)
    return rewritten_query(catalyst, df, analyzed, new)
