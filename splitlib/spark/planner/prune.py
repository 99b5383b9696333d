"""Prune: scan sites by the keys of dimensions, and then by what other sites have left.

Each scan is then enumerated once, for all its sites together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import pyarrow as pa

from splitlib.enumeration.report import ScanReport
from splitlib.filtering.any_of import AnyOf
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.predicate import PartitionFilter
from splitlib.spark.join_condition import all_of, any_of
from splitlib.spark.logical_plan import Path
from splitlib.spark.plan_report import ScanPruning, strip
from splitlib.spark.planner.keys import Collected, KeyQueries, Unusable
from splitlib.spark.planner.query import Query
from splitlib.spark.planner.scan_sites.filtered import TOO_MANY_KEYS, FilteredScan, FilteredSite
from splitlib.spark.planner.scan_sites.prunable import PrunableScan, Scan
from splitlib.spark.planner.scan_sites.pruned_site import PrunedSite
from splitlib.spark.planner.scan_sites.scan_site import ScanSite

COPIED: Final = "the optimizer has put a copy of it into the plan, which may need every partition."
"""Why a scan is read whole of whose copies the keys are not known."""
_ALSO_WITHOUT_KEYS: Final = "the same scan is also read where no keys reach it."

Site = PrunedSite | FilteredSite
"""A scan site with what the keys say of it."""
PrunedSites = Mapping[Path, Site]
"""By their paths in the optimized plan."""


def unpruned(query: Query, sites: Mapping[Path, ScanSite]) -> dict[Path, Site]:
    """Scan sites before any keys are known."""
    found: dict[Path, Site] = {}
    for path, site in sites.items():
        scan = query.scan_of(site.leaf)
        assert scan is not None
        if isinstance(scan, FilteredScan):
            found[path] = FilteredSite(scan=scan, site=site)
            continue
        pruned = PrunedSite(scan=scan, site=site)
        # what Spark cannot read is pruned without any keys, too
        found[path] = pruned.with_conditions(query.optimized) if scan.is_placeholder else pruned
    return found


def pruned_by_keys(
    query: Query, plan: Any, sites: PrunedSites, all_sites: PrunedSites, executor: Executor
) -> dict[Path, Site]:
    """Scan sites of which only what meets the keys is left.

    Args:
        query: The query.
        plan: Its optimized plan, with the rows of dimensions in it.
        sites: What the keys are for.
        all_sites: These and others, whose partition values may be keys, too.
        executor: Where they are collected, several at a time.
    """
    queries = KeyQueries(query.catalyst, plan, query.config, executor)
    asked = {
        path: [queries.submit(f.dimension, f.comparisons) for f in pruned.site.filters]
        for path, pruned in sites.items()
    }
    found: dict[Path, Site] = {
        path: pruned.with_conditions(plan) if pruned.site.may_have_keys else pruned
        for path, pruned in sites.items()
    }
    for path, futures in asked.items():
        collected = []
        for join_filter, keys in zip(sites[path].site.filters, futures, strict=True):
            try:
                collected.append(Collected(join_filter.comparisons, keys.result()))
            except Unusable as reason:
                found[path] = found[path].without_keys(reason)
        found[path] = found[path].pruned_by(plan, collected)
    for path in sites:
        found[path] = _pruned_by_sites(plan, found[path], {**all_sites, **found})
    return found


def _pruned_by_sites(plan: Any, pruned: Site, sites: PrunedSites) -> Site:
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

    scan: Scan
    instead: Any
    """The node that takes its place; None if it stays, with or without a condition."""
    report: ScanPruning
    rows: Any = None
    """Catalyst's condition on its rows; None = all are read."""

    @property
    def is_other(self) -> bool:
        """Whether something takes the place of the scan, or is added to it."""
        return self.instead is not None or self.rows is not None or self.report.is_pruned

    @classmethod
    def not_read(cls, scan: Scan) -> Self:
        """The outcome of a dead scan."""
        return cls(scan, None, ScanPruning(scan.name, partitions_kept=0))


def scan_of_sites(scan: Scan, sites: Sequence[Site], *, is_copied: bool) -> ScanOutcome:
    """The scan of all that any of its sites needs.

    Args:
        scan: What stands at the sites.
        sites: Where it stands in the optimized plan.
        is_copied: Whether it may also stand where nothing is known of it.
    """
    reasons = tuple(dict.fromkeys(reason for s in sites for reason in s.site.reasons))
    used = tuple(dict.fromkeys(use for s in sites for use in s.used))
    report = ScanPruning(scan.name, used, reasons=reasons)
    if is_copied:
        report = report.because(COPIED)
    listed = [site for site in sites if isinstance(site, PrunedSite)]
    if isinstance(scan, PrunableScan) and scan.is_placeholder:
        needed = _needed(listed) if listed and not is_copied else _EVERYTHING
        node, found = scan.pruned(*needed)
        report = replace(report, filters=() if is_copied else used)
        return ScanOutcome(scan, node, counted(report, scan, [found]))
    if is_copied:
        return ScanOutcome(scan, None, report)
    if isinstance(scan, FilteredScan):
        of_source = [site for site in sites if isinstance(site, FilteredSite)]
        return ScanOutcome(scan, None, _of_source(of_source, report))
    return _of_session(scan, listed, report)


def _of_source(sites: Sequence[FilteredSite], report: ScanPruning) -> ScanPruning:
    """What becomes of a scan of a table that somebody else reads."""
    keyed = [site for site in sites if site.has_keys]
    if not keyed:
        return report
    if len(keyed) < len(sites):
        return report.because(_ALSO_WITHOUT_KEYS)
    scan = keyed[0].scan
    if scan.is_database and sum(site.literals for site in keyed) > scan.most_literals:
        return report.because(TOO_MANY_KEYS)
    return replace(report, condition=any_of(all_of(site.conditions) for site in keyed))


def _of_session(
    scan: PrunableScan, sites: Sequence[PrunedSite], report: ScanPruning
) -> ScanOutcome:
    """The scan of a table that Spark can read as well: left to it if keys leave nothing out."""
    keyed = [site for site in sites if site.has_keys]
    if not keyed:
        because = report.because("no join compares its partition columns.", if_first=True)
        return ScanOutcome(scan, None, because)
    if len(keyed) == len(sites) and _is_asked_by_name(scan, _needed(sites)):
        # how many others there are is not known, and all names would have to be listed to know it
        node, found = scan.pruned(*_needed(sites))
        # of no keys at all it asks for nothing
        found = found if found.asked_for else replace(found, asked_for="by name")
        return ScanOutcome(scan, node, counted(report, scan, [found]))
    total = len(_mask(scan, _EVERYTHING))
    report = replace(report, partitions_total=total)
    if total <= scan.config.planner_small_fact_partitions:
        return ScanOutcome(scan, None, report.because(f"it has only {total} partitions."))
    if len(keyed) < len(sites):
        return ScanOutcome(scan, None, report.because(_ALSO_WITHOUT_KEYS))
    kept = _mask(scan, _needed(sites))
    if kept.true_count == _mask(scan, _read(sites)).true_count:
        reason = "its keys are in every partition that is read."
        return ScanOutcome(scan, None, report.because(reason))
    node, found = scan.pruned(*_needed(sites))
    report = counted(report, scan, [found])
    return ScanOutcome(scan, node, replace(report, strip=strip(kept.to_pylist())))


_Needed = tuple[Sequence[DynamicFilteringData], Sequence[PartitionFilter | DynamicFilteringData]]
"""Join keys, and other conditions, that hold of all that is needed."""
_EVERYTHING: Final[_Needed] = ((), ())


def _needed(sites: Sequence[PrunedSite]) -> _Needed:
    """What holds of all that some of the sites needs."""
    if len(sites) == 1:
        return sites[0].needed
    return (), (AnyOf([site.predicate for site in sites]),)


def conditions_of(
    sites: Sequence[PrunedSite],
) -> Sequence[PartitionFilter | DynamicFilteringData]:
    """What the query itself says of the partitions at some sites."""
    _, conditions = _read(sites)
    return conditions


def _read(sites: Sequence[PrunedSite]) -> _Needed:
    """The same without any keys: what the query itself leaves."""
    return _needed([replace(site, data=(), computed=()) for site in sites])


def _is_asked_by_name(scan: PrunableScan, needed: _Needed) -> bool:
    """Whether what is needed can be told from partitions that were asked for by name."""
    if not scan.may_ask_by_name:
        return False
    return any(batch.has_gaps for batch, _ in scan.match(*needed))


def _mask(scan: PrunableScan, needed: _Needed) -> pa.BooleanArray:
    """A flag per partition: whether it is needed."""
    masks = [mask for _, mask in scan.match(*needed)]
    return pa.concat_arrays(masks) if masks else pa.array([], pa.bool_())


def counted(report: ScanPruning, scan: PrunableScan, looks: Sequence[ScanReport]) -> ScanPruning:
    """A report with the counts of one look at a scan's partitions, or of several different ones."""
    metrics, relation = [look.metrics for look in looks], scan.relation
    counts_files = relation is None or relation.names_files
    files_total, nbytes_total = (None, None) if relation is None else relation.listed_before
    totals = [look.metrics.partitions_total for look in looks if not look.asked_for]
    totals += [] if report.partitions_total is None else [report.partitions_total]
    return replace(
        report,
        partitions_total=max(totals, default=None),
        asked_for="" if totals else looks[0].asked_for,
        partitions_kept=sum(m.partitions_matched for m in metrics),
        files=sum(m.files_selected for m in metrics) if counts_files else None,
        nbytes=sum(m.bytes_selected for m in metrics) if counts_files else None,
        files_total=files_total,
        nbytes_total=nbytes_total,
    )
