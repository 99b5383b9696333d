"""Prune scan sites by the keys of dimensions, then by the partition values left at other sites.

A scan site is a place in the optimized plan where a prunable scan is read. A scan with several
sites is enumerated once, for all its sites together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import pyarrow as pa

from splitlib.enumeration.report import ScanReport
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.predicate import AnyOf, PartitionFilter
from splitlib.spark.join_condition import all_of, any_of
from splitlib.spark.logical_plan import Path
from splitlib.spark.plan_report import ScanPruning, strip
from splitlib.spark.planner.keys import Collected, KeyQueries, Unusable
from splitlib.spark.planner.query import Query
from splitlib.spark.planner.scan_sites.filtered import TOO_MANY_KEYS, FilteredScan, FilteredSite
from splitlib.spark.planner.scan_sites.prunable import PrunableScan, Scan
from splitlib.spark.planner.scan_sites.pruned_site import PrunedSite
from splitlib.spark.planner.scan_sites.scan_site import ScanSite

COPIED: Final = "the optimizer has copied the scan, and a copy may need every partition."
"""Reason why a scan with copies in the optimized plan is not pruned."""
_ALSO_WITHOUT_KEYS: Final = "the same scan also occurs in a place without join keys."

Site = PrunedSite | FilteredSite
"""A scan site with the keys that prune it."""
PrunedSites = Mapping[Path, Site]
"""Scan sites by their paths in the optimized plan."""


def unpruned(query: Query, sites: Mapping[Path, ScanSite]) -> dict[Path, Site]:
    """Return the scan sites before any keys are collected."""
    found: dict[Path, Site] = {}
    for path, site in sites.items():
        scan = query.scan_of(site.leaf)
        assert scan is not None
        if isinstance(scan, FilteredScan):
            found[path] = FilteredSite(scan=scan, site=site)
            continue
        pruned = PrunedSite(scan=scan, site=site)
        # Spark cannot read a table of a named catalog, so splitlib prunes it even without keys.
        found[path] = pruned.with_conditions(query.optimized) if scan.is_placeholder else pruned
    return found


def pruned_by_keys(
    query: Query, plan: Any, sites: PrunedSites, all_sites: PrunedSites, executor: Executor
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


@dataclass(frozen=True, slots=True, eq=False)
class ScanOutcome:
    """The result of planning one scan."""

    scan: Scan
    """The scan in the original query."""
    instead: Any
    """Plan node that replaces the scan; None if the scan stays, with or without a condition."""
    report: ScanPruning
    """Report on the scan."""
    rows: Any = None
    """Catalyst expression that filters the rows of the scan; None if all rows are read."""

    @property
    def is_other(self) -> bool:
        """Whether the scan is replaced, or gets a condition."""
        return self.instead is not None or self.rows is not None or self.report.is_pruned

    @classmethod
    def not_read(cls, scan: Scan) -> Self:
        """Return the outcome of a scan that the optimizer drops from the plan."""
        return cls(scan, None, ScanPruning(scan.name, partitions_kept=0))


def scan_of_sites(scan: Scan, sites: Sequence[Site], *, is_copied: bool) -> ScanOutcome:
    """Return the outcome of a scan, which keeps all partitions that any of its sites needs.

    Args:
        scan: The scan.
        sites: All sites of the scan in the optimized plan.
        is_copied: Whether the optimized plan may contain copies of the scan.
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
    """Add the condition for a scan, from the keys of its sites, to the report on the scan."""
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
    """Return the outcome of a scan of a session table. It stays unchanged if keys prune nothing."""
    keyed = [site for site in sites if site.has_keys]
    if not keyed:
        because = report.because("no join compares the table's partition columns.", if_first=True)
        return ScanOutcome(scan, None, because)
    if len(keyed) == len(sites) and _is_asked_by_name(scan, _needed(sites)):
        # The report has no total: counting all partitions would need a request for their names.
        node, found = scan.pruned(*_needed(sites))
        # If the set of keys is empty, nothing was requested, so ``asked_for`` is empty too.
        found = found if found.asked_for else replace(found, asked_for="by name")
        return ScanOutcome(scan, node, counted(report, scan, [found]))
    total = len(_mask(scan, _EVERYTHING))
    report = replace(report, partitions_total=total)
    if total <= scan.config.planner_small_fact_partitions:
        return ScanOutcome(scan, None, report.because(f"the table has only {total} partitions."))
    if len(keyed) < len(sites):
        return ScanOutcome(scan, None, report.because(_ALSO_WITHOUT_KEYS))
    kept = _mask(scan, _needed(sites))
    if kept.true_count == _mask(scan, _read(sites)).true_count:
        reason = "the keys match every partition that is read."
        return ScanOutcome(scan, None, report.because(reason))
    node, found = scan.pruned(*_needed(sites))
    report = counted(report, scan, [found])
    return ScanOutcome(scan, node, replace(report, strip=strip(kept.to_pylist())))


_Needed = tuple[Sequence[DynamicFilteringData], Sequence[PartitionFilter | DynamicFilteringData]]
"""Join keys, and other conditions, that select the needed partitions."""
_EVERYTHING: Final[_Needed] = ((), ())


def _needed(sites: Sequence[PrunedSite]) -> _Needed:
    """Return keys and conditions that select the partitions that at least one site needs."""
    if len(sites) == 1:
        return sites[0].needed
    return (), (AnyOf([site.predicate for site in sites]),)


def conditions_of(
    sites: Sequence[PrunedSite],
) -> Sequence[PartitionFilter | DynamicFilteringData]:
    """Return the query's own conditions on the partitions at some sites, without join keys."""
    _, conditions = _read(sites)
    return conditions


def _read(sites: Sequence[PrunedSite]) -> _Needed:
    """Return the same as :func:`_needed`, without join keys."""
    return _needed([replace(site, data=(), computed=()) for site in sites])


def _is_asked_by_name(scan: PrunableScan, needed: _Needed) -> bool:
    """Return whether the needed partitions can be requested by name."""
    if not scan.may_ask_by_name:
        return False
    return any(batch.has_gaps for batch, _ in scan.match(*needed))


def _mask(scan: PrunableScan, needed: _Needed) -> pa.BooleanArray:
    """Return, for each partition, whether it is needed."""
    masks = [mask for _, mask in scan.match(*needed)]
    return pa.concat_arrays(masks) if masks else pa.array([], pa.bool_())


def counted(report: ScanPruning, scan: PrunableScan, looks: Sequence[ScanReport]) -> ScanPruning:
    """Return the report on a scan with the summed counts of its enumerations."""
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
