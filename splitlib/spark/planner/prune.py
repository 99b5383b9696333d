"""Prune: scan sites by the keys of dimensions, and then by what other sites have left."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Self

from splitlib.spark.logical_plan import Path
from splitlib.spark.plan_report import ScanPruning
from splitlib.spark.planner.keys import KeyQueries, Unusable
from splitlib.spark.planner.query import Query
from splitlib.spark.planner.scan_sites.masks import MaskedSite, pruned_scan
from splitlib.spark.planner.scan_sites.named_table_scan import NamedSite, TableScan, opened_table
from splitlib.spark.planner.scan_sites.partitioned import Pruned
from splitlib.spark.planner.scan_sites.prunable import PrunableScan
from splitlib.spark.planner.scan_sites.pruned_site import Collected, PrunedSite
from splitlib.spark.planner.scan_sites.scan_site import ScanSite

PrunedSites = Mapping[Path, PrunedSite]
"""By their paths in the optimized plan."""


def unpruned(query: Query, sites: Mapping[Path, ScanSite]) -> dict[Path, PrunedSite]:
    """Scan sites before any keys are known."""
    few = query.config.planner_small_fact_partitions
    found: dict[Path, PrunedSite] = {}
    for path, site in sites.items():
        scan = query.scan_of(site.leaf)
        assert scan is not None
        if isinstance(scan, TableScan):
            found[path] = NamedSite(catalyst=query.catalyst, site=site, scan=scan)
        else:
            found[path] = MaskedSite(catalyst=query.catalyst, site=site, scan=scan, few=few)
    return found


def pruned_by_keys(
    query: Query, plan: Any, sites: PrunedSites, executor: Executor
) -> dict[Path, PrunedSite]:
    """Scan sites of which only what meets the keys is left.

    Args:
        query: The query.
        plan: Its optimized plan, with the rows of dimensions in it.
        sites: What the keys are for.
        executor: Where they are collected, several at a time.
    """
    queries = KeyQueries(query.catalyst, plan, query.config, executor)
    asked = {
        path: [queries.submit(f.dimension, f.comparisons) for f in pruned.site.filters]
        for path, pruned in sites.items()
    }
    found = dict(sites)
    for path, futures in asked.items():
        collected = []
        for join_filter, keys in zip(sites[path].site.filters, futures, strict=True):
            try:
                collected.append(Collected(join_filter.comparisons, keys.result()))
            except Unusable as reason:
                found[path] = found[path].without_keys(reason)
        if collected:
            found[path] = found[path].pruned_by(plan, collected)
    for path in sites:
        found[path] = _pruned_by_sites(plan, found[path], found)
    return found


def _pruned_by_sites(plan: Any, pruned: PrunedSite, sites: PrunedSites) -> PrunedSite:
    """A scan site of which only what meets the partition values of other sites is left."""
    for join_filter in pruned.site.from_sites:
        comparisons = join_filter.comparisons
        lineages = [c.key_lineage for c in comparisons]
        sources = {lineage.leaf.path for lineage in lineages if lineage is not None}
        if len(sources) == 1:
            keys = sites[sources.pop()].keys_of(plan, comparisons)
            if keys is not None:
                pruned = pruned.pruned_by(plan, [Collected(comparisons, keys)])
    return pruned


@dataclass(frozen=True, slots=True, eq=False)
class ScanOutcome:
    """What became of one scan."""

    scan: PrunableScan
    instead: Pruned | None
    """What takes its place; None if it stays as it is."""
    report: ScanPruning

    @classmethod
    def not_read(cls, scan: PrunableScan) -> Self:
        """The outcome of a dead scan."""
        return cls(scan, None, ScanPruning(scan.name, partitions_kept=0))


def scan_of_sites(
    scan: PrunableScan, plan: Any, sites: PrunedSites, *, is_copied: bool
) -> ScanOutcome:
    """The scan of all that any of its sites needs.

    Args:
        scan: What stands at some of the sites.
        plan: The optimized plan.
        sites: Those of all scans.
        is_copied: Whether it may also stand where nothing is known of it.
    """
    if isinstance(scan, TableScan):
        named = [s for s in sites.values() if isinstance(s, NamedSite) and s.scan is scan]
        return ScanOutcome(scan, *opened_table(scan, plan, named, is_copied=is_copied))
    masked = [s for s in sites.values() if isinstance(s, MaskedSite) and s.scan is scan]
    return ScanOutcome(scan, *pruned_scan(scan, masked, is_copied=is_copied))
