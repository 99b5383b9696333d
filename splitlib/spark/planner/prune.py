"""Prune scan sites by the keys of dimensions, then by the partition values left at other sites.

A scan site is a place in the optimized plan where a prunable scan is read. A scan with several
sites is enumerated once, for all its sites together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Final

from splitlib.report import Report
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.spark_handles import LogicalPlan
from splitlib.spark.logical_plan import Path
from splitlib.spark.planner.cost import Costs
from splitlib.spark.planner.keys import Collected, KeyQueries, Unusable
from splitlib.spark.planner.other_columns import filters_by_other_columns, named_columns
from splitlib.spark.planner.query import Query
from splitlib.spark.planner.scan_sites import prunable
from splitlib.spark.planner.scan_sites.planned_scan import Scan, ScanOutcome, Site
from splitlib.spark.planner.scan_sites.scan_site import Reason, ScanSite

COPIED: Final = "the optimizer has copied the scan, and a copy may need every partition."
"""Reason why a scan with copies in the optimized plan is not pruned."""
_QUOTED: Final = 120
"""Maximal number of characters of a quoted condition."""
PrunedSites = Mapping[Path, Site]
"""Scan sites by their paths in the optimized plan."""


def unpruned(query: Query, sites: Mapping[Path, ScanSite]) -> dict[Path, Site]:
    """Return the scan sites before any keys are collected."""
    scans = {path: query.scan_of(site.leaf) for path, site in sites.items()}
    return {p: scan.at(sites[p], query.optimized) for p, scan in scans.items() if scan is not None}


def pruned_by_keys(
    query: Query, plan: LogicalPlan, sites: PrunedSites, all_sites: PrunedSites, executor: Executor
) -> dict[Path, Site]:
    """Collect keys, and return the scan sites pruned by these keys.

    Args:
        query: The query.
        plan: Optimized plan of the query, in which some dimensions are replaced by their rows.
        sites: Scan sites to prune.
        all_sites: All scan sites of the query. Their partition values may be keys for ``sites``.
        executor: Executor that collects keys in parallel.
    """
    queries = KeyQueries(query.catalyst, plan, query.config, executor)
    submitted = {
        path: [queries.submit(f.dimension, f.comparisons) for f in pruned.site.filters]
        for path, pruned in sites.items()
    }
    found: dict[Path, Site] = {
        path: pruned.with_conditions(plan) if pruned.site.may_have_keys else pruned
        for path, pruned in sites.items()
    }
    for path, futures in submitted.items():
        collected = []
        for join_filter, keys in zip(sites[path].site.filters, futures, strict=True):
            try:
                collected.append(Collected(join_filter.comparisons, keys.result()))
            except Unusable as reason:
                found[path] = found[path].without_keys(reason, join_filter)
        found[path] = found[path].pruned_by(plan, collected)
    for path in sites:
        found[path] = _pruned_by_sites(plan, found[path], {**all_sites, **found})
    return found


def _pruned_by_sites(plan: LogicalPlan, pruned: Site, sites: PrunedSites) -> Site:
    """Prune a scan site by the partition values that are left at other sites."""
    for join_filter in pruned.site.from_sites:
        comparisons = join_filter.comparisons
        lineages = [c.key_lineage for c in comparisons]
        sources = {lineage.leaf.path for lineage in lineages if lineage is not None}
        if len(sources) == 1:
            keys = sites[sources.pop()].keys_of(plan, comparisons)
            if keys is not None:
                pruned = pruned.pruned_by(plan, [Collected(comparisons, keys)])
    return pruned


def reason_text(scan: Scan, plan: LogicalPlan, reason: Reason) -> str:
    """Return a reason as a sentence that quotes the condition of the join, if there is one."""
    catalyst = scan.catalyst
    try:
        quoted = "".join(
            part
            if isinstance(part, str)
            else catalyst.expressions.sql(catalyst.plans.expression_at(plan, part.place))
            for part in reason.parts
        )
    except JVM_ERRORS:  # some expressions have no SQL text
        return str(reason)
    if len(reason.parts) == 1 and quoted.startswith("(") and quoted.endswith(")"):
        quoted = quoted[1:-1]  # Spark writes every comparison in parentheses
    short = quoted if len(quoted) <= _QUOTED else f"{quoted[:_QUOTED]}…"
    return f"{short}: {reason}" if short else str(reason)


def scan_of_sites(
    scan: Scan, sites: Sequence[Site], plan: LogicalPlan, *, is_copied: bool
) -> ScanOutcome:
    """Return the outcome of a scan, which keeps all partitions that any of its sites needs.

    Args:
        scan: The scan.
        sites: All sites of the scan in the optimized plan.
        plan: The optimized plan.
        is_copied: Whether the optimized plan may contain copies of the scan.
    """
    found = (reason_text(scan, plan, reason) for s in sites for reason in s.site.reasons)
    reasons = tuple(dict.fromkeys(found))
    used = tuple(dict.fromkeys(use for s in sites for use in s.used))
    report = Report(scan.name, used, reasons=reasons)
    return scan.left_alone(report.because(COPIED)) if is_copied else scan.pruned_for(sites, report)


def with_other_columns(query: Query, outcomes: Sequence[ScanOutcome]) -> list[ScanOutcome]:
    """Name the columns that joins compare, in the reports on scans without joins by partitions."""
    paths = {
        o.scan: o.scan.paths for o in outcomes if o.report.reasons == (prunable.NO_PARTITION_KEYS,)
    }
    if not paths:
        return list(outcomes)
    leaves = [n for n in query.optimized_tree.walk() if n.is_leaf and query.scan_of(n) in paths]
    costs = Costs(lambda leaf: query.size_of(leaf, ()), query.dimension_bytes)
    found = filters_by_other_columns(query.optimized_tree, leaves, query.partition_columns, costs)
    named = {query.scan_of(n): named_columns(n, found.get(n.path, ())) for n in leaves}
    return [
        replace(o, report=replace(o.report, reasons=(_by_others(o.scan, named[o.scan]),)))
        if named.get(o.scan)
        else o
        for o in outcomes
    ]


def _by_others(scan: Scan, columns: str) -> str:
    keys = ", ".join(scan.schema.names)
    return (
        f"joins compare {columns}, and not the partition columns ({keys}). Partition or cluster "
        f"the table by {columns}, or join it by the partition columns too."
    )


def named_tables(sites: Collection[Site]) -> frozenset[str]:
    """Return the names of the tables whose partitions can be requested by name at all their sites.

    Args:
        sites: Sites of a query whose partitions splitlib lists.
    """
    times = Counter(one.scan for one in sites)
    others = {
        one.scan.name
        for one in sites
        if (not one.is_named if one.site.may_have_keys else times[one.scan] > 1)
    }
    return frozenset(one.scan.name for one in sites) - others
