"""Star joins found in any query and pruned: discover, decide, collect, prune, rewrite."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from splitlib.config import SplitConfig
from splitlib.errors import SplitlibError
from splitlib.redaction import get_logger
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.dataframes import have_same_schema
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.logical_plan import Node, Path
from splitlib.spark.plan_report import PlanReport, ScanPruning
from splitlib.spark.planner.broadcast_reuse import sharing_broadcasts
from splitlib.spark.planner.comparable import comparable
from splitlib.spark.planner.copied_scans import copied_leaves, copied_scans
from splitlib.spark.planner.cost import Costs, is_selective, worthwhile
from splitlib.spark.planner.eligibility import blocked_joins
from splitlib.spark.planner.join_graph import JoinFilter, discover, static_conditions
from splitlib.spark.planner.keys import KeyQueries, Unusable
from splitlib.spark.planner.lineage import RELATIONS, leaf_ids
from splitlib.spark.planner.materialize import compute_once
from splitlib.spark.planner.materialized import Frozen
from splitlib.spark.planner.rewrite import is_command, rewritten_query
from splitlib.spark.planner.scan_sites.masks import MaskedScan, rewritten
from splitlib.spark.planner.scan_sites.named_table_scan import NamedScan, TableScan, opened_up
from splitlib.spark.planner.scan_sites.named_tables import NamedTable
from splitlib.spark.planner.scan_sites.occurrence import Collected, Occurrence
from splitlib.spark.planner.scan_sites.partitioned import Pruned
from splitlib.spark.planner.scan_sites.prunable import PrunableScan, PrunableScans, prunable_scans
from splitlib.spark.session import settings_of

_log = get_logger(__name__)


def plan(
    df: DataFrame, named: Mapping[str, NamedTable] | None = None
) -> tuple[DataFrame, PlanReport]:
    """The same rows from fewer partitions, and what was done for that.

    What goes wrong here is a reason to leave the query to Spark, which will say best what is wrong
    with it. Only a table of a named catalog is splitlib's own to read.

    Args:
        df: Any query.
        named: Tables in it that are still to be opened up, by the root of their placeholders.

    Raises:
        SplitlibError: if a table of a named catalog cannot be read.
    """
    started = time.perf_counter()
    named = named or {}
    try:
        planned, report = _plan(df, named)
    except Exception as error:
        if named and isinstance(error, SplitlibError):
            raise
        _log.debug("The query is left to Spark.", exc_info=True)
        message = str(error).partition("\n")[0]
        planned, report = None, PlanReport(reasons=(f"{type(error).__name__}: {message}",))
    planned = planned or _opened_up(df, named)
    return planned, replace(report, seconds=time.perf_counter() - started)


def _plan(df: DataFrame, named: Mapping[str, NamedTable]) -> tuple[DataFrame | None, PlanReport]:
    """None in the place of a query that is left to Spark."""
    reason = internals_unavailable(df.sparkSession)
    if reason is not None:
        return None, PlanReport(reasons=(f"{reason}.",))
    config = SplitConfig.resolve(spark_conf=settings_of(df.sparkSession))
    if not config.dynamic_filtering_enabled:
        return None, PlanReport(reasons=("dynamic_filtering_enabled is off.",))
    if df.isStreaming:
        return None, PlanReport(reasons=("it is a streaming query.",))
    if is_command(df):
        # what is made of its plan would run it again
        return None, PlanReport(reasons=("it is a command, which has run.",))
    catalyst = Catalyst(df.sparkSession)
    analyzed = catalyst.analyzed(df)
    tree = catalyst.tree(analyzed)
    has_join = any(node.kind == "Join" or node.subqueries for node in tree.walk())
    if not has_join and not named:
        return None, PlanReport(reasons=("it has no join.",))
    with ThreadPoolExecutor(4, thread_name_prefix="splitlib-planner") as executor:
        optimized = executor.submit(_optimized, catalyst, analyzed)
        scans = prunable_scans(catalyst, analyzed, tree, config.listing_threads, named)
        if not scans.by_columns:
            return None, PlanReport(reasons=("it reads no partitioned table.",))
        planner = _Planner(df, catalyst, analyzed, tree, scans, config, *optimized.result())
        planned, report = planner.run(executor)
    once = planner.computed_once() if planner.wants_same_rows else None
    if once is None:
        return planned, report
    again, report = _plan(once, named)
    return again or _opened_up(once, named), report


def _optimized(catalyst: Catalyst, analyzed: Any) -> tuple[Any, Node]:
    optimized = catalyst.optimized(analyzed)
    return optimized, catalyst.tree(optimized)


def _opened_up(df: DataFrame, named: Mapping[str, NamedTable]) -> DataFrame:
    """The query with all of its tables, and nothing pruned."""
    if not named:
        return df
    catalyst = Catalyst(df.sparkSession)
    analyzed = catalyst.analyzed(df)
    scans = prunable_scans(catalyst, analyzed, catalyst.tree(analyzed), 1, named)
    new: dict[Path, Any] = {}
    for scan in scans.by_columns.values():
        if isinstance(scan, TableScan):
            new |= dict.fromkeys(scan.paths, scan.pruned(analyzed).node)
    return rewritten_query(catalyst, df, analyzed, new)


class _Planner:
    """One query."""

    def __init__(
        self,
        df: DataFrame,
        catalyst: Catalyst,
        analyzed: Any,
        tree: Node,
        scans: PrunableScans,
        config: SplitConfig,
        optimized: Any,
        optimized_tree: Node,
    ) -> None:
        self._df = df
        self._catalyst = catalyst
        self._analyzed = analyzed
        self._tree = tree
        self._scans = scans
        self._config = config
        self._optimized = optimized
        self._costs = Costs(self._size_of, config.planner_dimension_bytes)
        self._not_run: dict[Path, str | None] = {}
        """What :meth:`_why_not_run` has said so far, by the path of the part."""
        self._frozen = Frozen(catalyst, tree, optimized, optimized_tree)
        self._copies = copied_leaves(tree, optimized_tree)
        self._copied = copied_scans(catalyst, optimized, self._copies, scans)
        # what Spark takes a size to be that it does not know
        self._unknown_size = catalyst.unknown_size()
        self.wants_same_rows = False
        """Whether keys were not used because their dimension may give other ones."""

    def run(self, executor: Executor) -> tuple[DataFrame | None, PlanReport]:
        """The query with other scans, None if it stays as it is; and the report."""
        occurrences = self._occurrences()
        self._decide(occurrences)
        left_out = executor.submit(self._left_out)
        dimensions = [f.dimension for o in occurrences.values() for f in o.filters]
        if dimensions:
            fetched = [executor.submit(o.prefetch) for o in occurrences.values() if o.filters]
            self._frozen.checkpoint(dimensions)
            if not self._copies:  # which may need rows that the filter of the other one drops
                self._frozen.run(dimensions, occurrences, self._size_of, executor)
            for future in fetched:
                future.result()
            self._prune(occurrences, executor)
        plan = self._frozen.optimized
        nothing = left_out.result()

        def rewritten(scan: PrunableScan) -> tuple[Pruned | None, ScanPruning]:
            if nothing.keys().isdisjoint(scan.paths):
                return _rewritten(scan, plan, occurrences, is_copied=self._is_copied(scan))
            return None, ScanPruning(scan.name, partitions_kept=0)

        scans = list(self._scans.by_columns.values())
        pruned, reports = zip(*executor.map(rewritten, scans), strict=True)
        planned = None
        if any(report.is_pruned for report in reports):
            sharing = sharing_broadcasts(self._catalyst, plan, self._frozen.tree, occurrences)
            sharing_scans = {id(self._scans.of_leaf(occurrences[path].leaf)) for path in sharing}
            new = self._frozen.new | nothing
            for scan, instead in zip(scans, pruned, strict=True):
                if instead is not None:
                    node = instead.node
                    if id(scan) in sharing_scans:
                        node = self._catalyst.not_broadcast(node)
                    new |= dict.fromkeys(scan.paths, node)
            planned = rewritten_query(self._catalyst, self._df, self._analyzed, new)
            if not have_same_schema(planned, self._df):
                raise RuntimeError("The rewritten plan has another schema.")
        requests = sum(table.requests for table in self._scans.tables.values())
        return planned, PlanReport(reports, catalog_requests=requests)

    def _left_out(self) -> dict[Path, Any]:
        """In the place of scans that do not matter at all, scans of nothing.

        A scan may be gone from the optimized plan because its rows do not matter (in a branch of a
        union that a condition rules out), or because another one serves for both. In the place of
        the first kind alone the optimizer drops a scan, too, that it can neither know to be empty
        nor take for another; then the result cannot depend on the rows that would be there.
        """
        read = {id(self._scans.of_leaf(node)) for node in self._frozen.tree.walk()}
        unread = [
            scan
            for scan in self._scans.by_columns.values()
            if id(scan) not in read and not self._is_copied(scan)
        ]
        nodes = [(scan, scan.reading_nothing()) for scan in unread]
        new = {path: node for scan, node in nodes if node is not None for path in scan.paths}
        if not new:
            return {}
        _, optimized = _optimized(self._catalyst, self._catalyst.replaced(self._analyzed, new))
        leaves = (node for node in self._tree.walk() if node.path not in new)
        others = {leaf_ids(leaf) for leaf in leaves if leaf.kind in RELATIONS}
        still_read = {leaf_ids(leaf) for leaf in optimized.walk() if leaf.kind in RELATIONS}
        return new if still_read <= others else {}

    def _is_copied(self, scan: PrunableScan) -> bool:
        return any(scan in scans for scans in self._copied.values())

    def computed_once(self) -> DataFrame | None:
        """The query with other rows each time made the same ones; None if there are none."""

        def usable(node: Node) -> bool:
            leaves = [part for part in node.walk() if part.is_leaf]
            return all(self._scans.of_leaf(leaf) is None for leaf in leaves) and (
                Costs(self._size_in_analyzed, self._config.planner_dimension_bytes).too_large(node)
                is None
            )

        once = compute_once(self._catalyst, self._analyzed, self._tree, usable)
        if not once:
            return None
        return rewritten_query(self._catalyst, self._df, self._analyzed, once)

    def _occurrences(self) -> dict[Path, Occurrence]:
        tree, columns = self._frozen.tree, self._scans.columns
        found: dict[Path, Occurrence] = {}
        for node in tree.walk():
            scan = self._scans.of_leaf(node)
            if isinstance(scan, TableScan):
                found[node.path] = NamedScan(self._catalyst, node, scan)
            elif scan is not None:
                few = self._config.planner_small_fact_partitions
                found[node.path] = MaskedScan(self._catalyst, node, scan, few)
        for join_filter in discover(tree, columns, lambda x: self._why_not_run(x) is None):
            occurrence = found[join_filter.leaf.path]
            kept, reasons = comparable(self._catalyst, self._optimized, join_filter)
            occurrence.reasons += [f"{reason}." for reason in reasons]
            if kept is not None:
                occurrence.filters.append(kept)
        for condition in static_conditions(tree, columns):
            found[condition.lineage.leaf.path].conditions.append(condition)
        for path, reason in blocked_joins(tree, columns):
            found[path].reasons.append(reason)
        return found

    def _decide(self, occurrences: Mapping[Path, Occurrence]) -> None:
        """Keep of each scan's filters those that are worth being collected."""
        deterministic = self._catalyst.is_deterministic(self._optimized)
        for occurrence in occurrences.values():
            filters, occurrence.filters = occurrence.filters, []
            if not deterministic:
                occurrence.reasons.append("the query calls functions that are not deterministic.")
                self.wants_same_rows = self.wants_same_rows or bool(filters)
                continue
            for join_filter in filters:
                reason, worthwhile = self._worthwhile(join_filter)
                if reason is None:
                    occurrence.filters.append(worthwhile)
                elif all(c.key_lineage is not None for c in join_filter.comparisons):
                    occurrence.from_scans.append(join_filter)
                else:
                    occurrence.reasons.append(f"{reason}.")

    def _worthwhile(self, join_filter: JoinFilter) -> tuple[str | None, JoinFilter]:
        """Why it is not, or the filter with only those dimensions that are."""
        reason = self._why_not_run(join_filter.dimension.node)
        if reason is not None:
            return reason, join_filter
        dimension = worthwhile(join_filter.dimension)
        if not is_selective(dimension):
            return "no condition leaves out rows of its dimension", join_filter
        return None, replace(join_filter, dimension=dimension)

    def _why_not_run(self, node: Node) -> str | None:
        """Why a part of the plan cannot be run for its keys; None if it can."""
        if node.path not in self._not_run:
            copies = (self._copies.get(part.path) for part in node.walk())
            if any(leaf is not None and leaf.kind == "LogicalRDD" for leaf in copies):
                # its rows here need not be those that the query itself reads
                self._not_run[node.path] = "its dimension reads an RDD that is also read elsewhere"
            else:
                self._not_run[node.path] = self._costs.too_large(node)
        return self._not_run[node.path]

    def _size_of(self, leaf: Node) -> int | None:
        scans = (self._scans.of_leaf(leaf), *self._copied.get(leaf.path, ()))
        if any(isinstance(scan, TableScan) for scan in scans):
            return None  # a placeholder is never run
        return self._size(self._catalyst.node(self._optimized, leaf.path))

    def _size_in_analyzed(self, leaf: Node) -> int | None:
        return self._size(self._catalyst.node(self._analyzed, leaf.path))

    def _size(self, node: Any) -> int | None:
        size = self._catalyst.size_of(node)
        return size if size < self._unknown_size else self._catalyst.size_on_disk(node)

    def _prune(self, occurrences: Mapping[Path, Occurrence], executor: Executor) -> None:
        """By the keys of dimensions, then by what other scans have left."""
        plan = self._frozen.optimized
        queries = KeyQueries(self._catalyst, plan, self._config, executor)
        asked = {
            path: [queries.submit(f.dimension, f.comparisons) for f in occurrence.filters]
            for path, occurrence in occurrences.items()
        }
        for path, occurrence in occurrences.items():
            collected = []
            for join_filter, keys in zip(occurrence.filters, asked[path], strict=True):
                try:
                    collected.append(Collected(join_filter.comparisons, keys.result()))
                except Unusable as reason:
                    occurrence.reasons.append(f"{reason}.")
                    self.wants_same_rows = self.wants_same_rows or reason.not_deterministic
            if collected:
                occurrence.apply(plan, collected)
        for occurrence in occurrences.values():
            for join_filter in occurrence.from_scans:
                comparisons = join_filter.comparisons
                lineages = [c.key_lineage for c in comparisons]
                sources = {x.leaf.path for x in lineages if x is not None}
                if len(sources) == 1:
                    left = occurrences[sources.pop()].keys_of(plan, comparisons)
                    if left is not None:
                        occurrence.apply(plan, [Collected(comparisons, left)])


def _rewritten(
    scan: PrunableScan, plan: Any, occurrences: Mapping[Path, Occurrence], *, is_copied: bool
) -> tuple[Pruned | None, ScanPruning]:
    """What takes the place of a scan, None if it stays; and why."""
    if isinstance(scan, TableScan):
        named = [o for o in occurrences.values() if isinstance(o, NamedScan) and o.scan is scan]
        return opened_up(scan, plan, named, is_copied=is_copied)
    masked = [o for o in occurrences.values() if isinstance(o, MaskedScan) and o.scan is scan]
    return rewritten(scan, masked, is_copied=is_copied)
