"""Prune scans in waves: first the tables whose remaining rows are keys for other tables.

A scan waits until all prunable scans in its dimensions are pruned. After that, a dimension may be
small enough to collect its keys, even if its whole table is too large.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor
from dataclasses import replace

from splitlib.spark.jvm.spark_handles import LogicalPlan
from splitlib.spark.logical_plan import Path
from splitlib.spark.planner.decide import decide
from splitlib.spark.planner.materializable import rdds_of, with_narrowing
from splitlib.spark.planner.prune import (
    PrunedSites,
    pruned_by_keys,
    unpruned,
)
from splitlib.spark.planner.query import Query
from splitlib.spark.planner.scan_sites.planned_scan import Scan, ScanOutcome, Site
from splitlib.spark.planner.scan_sites.scan_site import ScanSite

OutcomeOf = Callable[[Scan, PrunedSites], ScanOutcome]
"""Function that returns the outcome of a scan, given all scan sites."""


def pruned_in_waves(
    query: Query, plan: LogicalPlan, sites: PrunedSites, outcome_of: OutcomeOf, executor: Executor
) -> tuple[PrunedSites, list[ScanOutcome]]:
    """Return the scan sites with their keys, and the outcome of each scan of the query.

    Args:
        query: The query.
        plan: Optimized plan of the query, in which some dimensions are replaced by their rows.
        sites: Scan sites to prune, by path. A scan site is a place where a prunable scan is read.
        outcome_of: Function that returns the outcome of a scan when all its sites have their keys.
        executor: Executor that collects keys and lists scans in parallel.
    """
    outcomes: dict[Scan, ScanOutcome] = {}
    open_ = {path: one for path, one in sites.items() if one.site.may_have_keys}
    while open_:
        ready = _ready(open_)
        with_pruned = query.catalyst.plans.replaced(plan, _pinned(sites, outcomes))
        sites = {**sites, **pruned_by_keys(query, with_pruned, ready, sites, executor)}
        done = {one.scan: None for one in ready.values()}
        known = done.keys() | outcomes.keys()
        later = {path: one for path, one in sites.items() if one.scan not in known}
        if not any(one.site.may_have_keys or one.site.reads_too_much for one in later.values()):
            break
        found = executor.map(lambda scan, so_far=sites: outcome_of(scan, so_far), done)
        outcomes |= dict(zip(done, found, strict=True))
        sites = {**sites, **_decided_again(query, sites, outcomes, later)}
        open_ = {path: sites[path] for path in later if sites[path].site.may_have_keys}
    rest = [scan for scan in query.scans if scan not in outcomes]
    outcomes |= dict(zip(rest, executor.map(lambda s: outcome_of(s, sites), rest), strict=True))
    return sites, [outcomes[scan] for scan in query.scans]


def _ready(sites: PrunedSites) -> PrunedSites:
    """Return the sites that do not wait for another site; all sites if all of them wait."""
    waiting = {path for path, one in sites.items() if _waits_for(one, sites)}
    while True:
        scans = {sites[path].scan for path in waiting}
        more = {
            path
            for path, one in sites.items()
            # The partition values of a scan can be keys only after the scan itself is pruned.
            if one.scan in scans or not waiting.isdisjoint(_sources(one.site))
        }
        if more <= waiting:
            break
        waiting |= more
    return {path: one for path, one in sites.items() if path not in waiting} or sites


def _waits_for(site: Site, others: PrunedSites) -> bool:
    """Return whether a dimension of this site reads another scan that may be pruned."""
    read = {
        part.path
        for dimension in site.site.dimensions
        for node in with_narrowing(dimension)
        for part in node.node.walk()
    }
    return any(path in read and other.scan is not site.scan for path, other in others.items())


def _sources(site: ScanSite) -> set[Path]:
    """Return the paths of the sites whose partition values are used as keys at ``site``."""
    lineages = (c.key_lineage for f in site.from_sites for c in f.comparisons)
    return {lineage.leaf.path for lineage in lineages if lineage is not None}


def _pinned(sites: PrunedSites, outcomes: Mapping[Scan, ScanOutcome]) -> dict[Path, LogicalPlan]:
    """Return the plan nodes that replace pruned scans, by path in the optimized plan."""
    found = ((path, outcomes.get(one.scan)) for path, one in sites.items())
    return {path: o.instead for path, o in found if o is not None and o.instead is not None}


def _decided_again(
    query: Query,
    sites: PrunedSites,
    outcomes: Mapping[Scan, ScanOutcome],
    paths: Collection[Path],
) -> Mapping[Path, Site]:
    """Decide again how to prune some sites, with the smaller sizes of the pruned scans."""
    nbytes = {path: outcomes[sites[path].scan].report.nbytes for path in _pinned(sites, outcomes)}
    known = {path: n.matched for path, n in nbytes.items() if n.matched is not None}
    if not known:
        return {}
    decided = decide(replace(query, pruned_bytes=known)).sites
    # RDDs are computed before the first wave, once for all sites. So skip sites that need an RDD.
    return unpruned(query, {p: decided[p] for p in paths if not rdds_of(decided[p].dimensions)})
