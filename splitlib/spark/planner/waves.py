"""Waves: keys that come from a table which is pruned itself are read from what is left of it.

A scan whose dimension contains another scan that keys may prune waits for that one. What is left of
it may also be little enough to be read for keys where the whole table is not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

from splitlib.spark.logical_plan import Path
from splitlib.spark.planner.decide import decide
from splitlib.spark.planner.materializable import rdds_of, with_narrowing
from splitlib.spark.planner.prune import (
    PrunedSites,
    ScanOutcome,
    Site,
    pruned_by_keys,
    unpruned,
)
from splitlib.spark.planner.query import Query
from splitlib.spark.planner.scan_sites.prunable import Scan
from splitlib.spark.planner.scan_sites.scan_site import ScanSite

OutcomeOf = Callable[[Scan, PrunedSites], ScanOutcome]


def pruned_in_waves(
    query: Query, plan: Any, sites: PrunedSites, outcome_of: OutcomeOf, executor: Executor
) -> tuple[PrunedSites, list[ScanOutcome]]:
    """The scan sites with their keys, and what becomes of each scan of the query.

    Args:
        query: The query.
        plan: Its optimized plan, with the rows of dimensions in it.
        sites: What the keys are for.
        outcome_of: What becomes of a scan, once all is known of its sites.
        executor: Where keys are collected and scans listed, several at a time.
    """
    outcomes: dict[Scan, ScanOutcome] = {}
    open_ = {path: one for path, one in sites.items() if one.site.may_have_keys}
    while open_:
        ready = _ready(open_)
        with_pruned = query.catalyst.replaced(plan, _pinned(sites, outcomes))
        sites = {**sites, **pruned_by_keys(query, with_pruned, ready, sites, executor)}
        done = {one.scan: None for one in ready.values()}
        known = done.keys() | outcomes.keys()
        later = {path: one for path, one in sites.items() if one.scan not in known}
        if not any(one.site.may_have_keys or one.site.reads_too_much for one in later.values()):
            break
        found = executor.map(lambda scan, so_far=sites: outcome_of(scan, so_far), done)
        outcomes |= dict(zip(done, found, strict=True))
        sites = {**sites, **_anew(query, sites, outcomes, later)}
        open_ = {path: sites[path] for path in later if sites[path].site.may_have_keys}
    rest = [scan for scan in query.scans if scan not in outcomes]
    outcomes |= dict(zip(rest, executor.map(lambda s: outcome_of(s, sites), rest), strict=True))
    return sites, [outcomes[scan] for scan in query.scans]


def _ready(sites: PrunedSites) -> PrunedSites:
    """Those that wait for none of the others; all of them if they wait for each other."""
    waiting = {path for path, one in sites.items() if _waits_for(one, sites)}
    while True:
        scans = {sites[path].scan for path in waiting}
        more = {
            path
            for path, one in sites.items()
            # partition values of a scan are known with its own keys
            if one.scan in scans or not waiting.isdisjoint(_sources(one.site))
        }
        if more <= waiting:
            break
        waiting |= more
    return {path: one for path, one in sites.items() if path not in waiting} or sites


def _waits_for(site: Site, others: PrunedSites) -> bool:
    """Whether another scan that keys may prune is read for the keys of this one."""
    read = {
        part.path
        for dimension in site.site.dimensions
        for node in with_narrowing(dimension)
        for part in node.node.walk()
    }
    return any(path in read and other.scan is not site.scan for path, other in others.items())


def _sources(site: ScanSite) -> set[Path]:
    """The sites whose partition values are keys for a site."""
    lineages = (c.key_lineage for f in site.from_sites for c in f.comparisons)
    return {lineage.leaf.path for lineage in lineages if lineage is not None}


def _pinned(sites: PrunedSites, outcomes: Mapping[Scan, ScanOutcome]) -> dict[Path, Any]:
    """What stands in the optimized plan for scans that have been pruned."""
    found = ((path, outcomes.get(one.scan)) for path, one in sites.items())
    return {path: o.instead for path, o in found if o is not None and o.instead is not None}


def _anew(
    query: Query,
    sites: PrunedSites,
    outcomes: Mapping[Scan, ScanOutcome],
    paths: Collection[Path],
) -> Mapping[Path, Site]:
    """Some sites as they are decided about when it is known how much is left of others."""
    nbytes = {path: outcomes[sites[path].scan].report.nbytes for path in _pinned(sites, outcomes)}
    known = {path: size for path, size in nbytes.items() if size is not None}
    if not known:
        return {}
    decided = decide(replace(query, pruned_bytes=known)).sites
    # what RDDs give has to have been computed by now, once for all that read it
    return unpruned(query, {p: decided[p] for p in paths if not rdds_of(decided[p].dimensions)})
