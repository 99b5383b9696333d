"""Prune scan sites by the keys of dimensions, and by the remaining partition values of other sites.

A scan site is a position in the optimized plan where a prunable scan is read. If a scan has several
sites, its partitions are selected once, for all of its sites together.

Scans are pruned in waves. A scan waits until all prunable scans in its dimensions are pruned. After
that, a dimension may be small enough to collect its keys, even if its whole table is too large.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Final

from splitlib.errors import UnsupportedTable
from splitlib.report import Report
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.spark_handles import LogicalPlan
from splitlib.spark.logical_plan import Expression, Node, Path
from splitlib.spark.planner.decide import Costs, decide
from splitlib.spark.planner.eligibility import Reason, ScanSite, parts_of
from splitlib.spark.planner.join_graph import JoinFilter
from splitlib.spark.planner.keys import Collected, KeyQueries, Unusable
from splitlib.spark.planner.lineage import join_type
from splitlib.spark.planner.materializable import rdds_of, with_narrowing
from splitlib.spark.planner.query import Query
from splitlib.spark.planner.remedies import column_names, filters_by_other_columns
from splitlib.spark.planner.scan_sites import prunable
from splitlib.spark.planner.scan_sites.planned_scan import Scan, ScanOutcome, Site
from splitlib.telemetry import traced

"""Reason why a scan with copies in the optimized plan is not pruned."""
# Qualifiers that Spark adds to column names. Users rarely write them.
_QUALIFIERS: Final = ("spark_catalog.", "__auto_generated_subquery_name.")
_QUOTED: Final = 120
"""Maximum length of a quoted join condition, in characters."""
PrunedSites = Mapping[Path, Site]
"""Scan sites by their paths in the optimized plan."""
OutcomeOf = Callable[[Scan, PrunedSites], ScanOutcome]
"""Function that prunes a scan, given all scan sites, and returns the outcome."""


def unpruned(query: Query, sites: Mapping[Path, ScanSite]) -> dict[Path, Site]:
    """Return a :class:`Site` without keys for each scan site, by path."""
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
    """Return a copy of a scan site, pruned by the partition values that remain at other sites."""
    for join_filter in pruned.site.from_sites:
        comparisons = join_filter.comparisons
        lineages = [c.key_lineage for c in comparisons]
        sources = {lineage.leaf.path for lineage in lineages if lineage is not None}
        keys = None
        if len(sources) == 1:
            (source,) = sources
            keys = sites[source].keys_of(plan, comparisons)
        if keys is not None:
            pruned = pruned.pruned_by(plan, [Collected(comparisons, keys)])
        elif not any(_is_pending(sites[path]) for path in sources):
            reason = Unusable(join_filter.why_not_collected)
            pruned = pruned.without_keys(reason, join_filter)
    return pruned


def _is_pending(site: Site) -> bool:
    """Return whether keys of the site's dimensions have not been collected yet."""
    pruning = pruning_filters(site)
    return any(one in pruning for one in site.site.filters) and not site.has_keys


def scans_read_once(
    query: Query, outcomes: Sequence[ScanOutcome], copied: Collection[Scan]
) -> Mapping[Path, ScanOutcome]:
    """Return the outcomes of the scans that the query reads once, by path in the optimized plan.

    A condition on a scan applies to all occurrences of the scan. If a scan occurred several times,
    the condition for one occurrence could drop rows that another occurrence needs.
    """
    places: dict[Scan, list[Path]] = {}
    for leaf in (node for node in query.optimized_tree.walk() if node.is_leaf):
        scan = query.scan_of(leaf)
        if scan is not None:
            places.setdefault(scan, []).append(leaf.path)
    return {
        places[o.scan][0]: o
        for o in outcomes
        if len(places.get(o.scan, ())) == len(o.scan.paths) == 1 and o.scan not in copied
    }


def reason_text(scan: Scan, plan: LogicalPlan, reason: Reason) -> str:
    """Return a reason as a sentence that quotes the join condition, if there is one."""
    condition = condition_text(scan, plan, reason.parts)
    return f"{condition}: {reason}" if condition else str(reason)


def condition_text(scan: Scan, plan: LogicalPlan, parts: Sequence[Expression | str]) -> str:
    """Return a join condition as SQL text.

    The text is shortened. It is empty if there is no condition, or if Spark has no text for it.
    ``parts`` is as in :attr:`Reason.parts`.
    """
    catalyst = scan.catalyst
    try:
        quoted = "".join(
            part
            if isinstance(part, str)
            else catalyst.expressions.sql(catalyst.plans.expression_at(plan, part.place))
            for part in parts
        )
    except JVM_ERRORS:  # some expressions have no SQL text
        return ""
    if len(parts) == 1 and quoted.startswith("(") and quoted.endswith(")"):
        quoted = quoted[1:-1]  # Spark writes every comparison in parentheses
    for qualifier in _QUALIFIERS:
        quoted = quoted.replace(qualifier, "")
    return quoted if len(quoted) <= _QUOTED else f"{quoted[:_QUOTED]}…"


def scan_of_sites(
    scan: Scan, sites: Sequence[Site], plan: LogicalPlan, why_unpruned: str | None
) -> ScanOutcome:
    """Return the planning outcome of a scan, which keeps the partitions that its sites need.

    Args:
        scan: The scan.
        sites: All sites of the scan in the optimized plan.
        plan: The optimized plan.
        why_unpruned: The reason not to prune the scan, or None.
    """
    found = (reason_text(scan, plan, reason) for s in sites for reason in s.site.reasons)
    reasons = tuple(dict.fromkeys(found))
    used = tuple(dict.fromkeys(use for s in sites for use in s.used))
    report = Report(scan.name, used, reasons=reasons)
    try:
        outcome = (
            scan.pruned_for(sites, report)
            if why_unpruned is None
            else scan.left_alone(report.because(why_unpruned))
        )
    except UnsupportedTable as error:
        if scan.is_placeholder:  # Spark cannot read the table.
            raise
        outcome = scan.left_alone(report.because(str(error)))
    filters = [found for one in sites for found in pruning_filters(one)]
    of_scan = outcome.report.reasons[len(reasons) :]
    if not (filters and of_scan):
        return outcome
    joins = (condition_text(scan, plan, parts_of(one.comparisons)) for one in filters)
    quoted = ", ".join(dict.fromkeys(filter(None, joins)))
    prefix = f"{quoted}: " if quoted else ""
    with_joins = (*reasons, *(f"{prefix}{reason}" for reason in of_scan))
    return replace(outcome, report=replace(outcome.report, reasons=with_joins))


def pruning_filters(site: Site) -> list[JoinFilter]:
    """Return the join filters of a site whose keys have been collected and prune the site."""
    failed = {reason.parts for reason in site.site.reasons}
    found = (*site.site.filters, *site.site.from_sites)
    return [one for one in found if parts_of(one.comparisons) not in failed]


def sharing_broadcasts(
    root: Node, sites: Collection[Path], broadcast_of: Callable[[Node], Hashable | None]
) -> set[Path]:
    """Return the paths of the scan sites that share a broadcast join side with another site.

    Such a site must not be broadcast itself, even if it is small after pruning. Otherwise, Spark
    would read the shared side once more for this join.

    Args:
        root: The optimized plan.
        sites: Paths of the scan sites, where the plan reads prunable scans.
        broadcast_of: Function that returns a key for a join side, the same key for equal sides, or
            None if Spark does not broadcast the side.
    """
    sharing: dict[Hashable, set[Path]] = defaultdict(set)
    for node in root.walk():
        # Spark can broadcast either side only in an inner join.
        if node.kind == "Join" and join_type(node) == "Inner":
            for child, other in zip(node.children, reversed(node.children), strict=True):
                leaf = child.below("Project", "Filter")
                build_side = broadcast_of(other) if leaf.path in sites else None
                if build_side is not None:
                    sharing[build_side].add(leaf.path)
    return {path for paths in sharing.values() if len(paths) > 1 for path in paths}


def with_other_columns(query: Query, outcomes: Sequence[ScanOutcome]) -> list[ScanOutcome]:
    """Add the joins that compare no partition column to the reports of scans.

    In the report of a scan that no join prunes, each of these joins is a reason. In other reports,
    it is a short note.
    """
    root = query.optimized_tree
    joins = sum(node.kind == "Join" for node in root.walk())
    scans = {
        o.scan
        for o in outcomes
        if o.report.reasons == (prunable.NO_PARTITION_KEYS,)
        or (o.scan.is_listed and o.report.is_pruned and joins > len(o.report.filters))
    }
    if not scans:
        return list(outcomes)
    leaves = [n for n in root.walk() if n.is_leaf and query.scan_of(n) in scans]
    costs = Costs(lambda leaf: query.size_of(leaf, ()), query.dimension_bytes)
    found = filters_by_other_columns(root, leaves, query.partition_columns, costs)
    return [
        replace(o, report=_with_others(query, o, leaves, found)) if o.scan in scans else o
        for o in outcomes
    ]


def _with_others(
    query: Query,
    outcome: ScanOutcome,
    leaves: Sequence[Node],
    found: Mapping[Path, Sequence[JoinFilter]],
) -> Report:
    """Return the report of a scan, with the joins that compare no partition column added.

    ``leaves`` are the leaves of all scans, and ``found`` has their join filters by path.
    """
    scan, report = outcome.scan, outcome.report
    keys = ", ".join(scan.schema.names)
    own = [leaf for leaf in leaves if query.scan_of(leaf) is scan]
    filters = [(leaf, one) for leaf in own for one in found.get(leaf.path, ())]
    used = {name for use in report.filters for name in use.fields}
    reasons, notes = [], []
    for leaf, one in filters:
        columns = column_names(leaf, one)
        named = ", ".join(columns)
        condition = condition_text(scan, query.optimized, parts_of(one.comparisons)) or "a join"
        reasons.append(
            f"{condition}: the join compares {named}, and not the partition columns ({keys}). "
            f"Partition or cluster the table by {named}, or join it by the partition columns too."
        )
        if used.isdisjoint(columns) and not any(f"keys of {named} " in n for n in report.notes):
            notes.append(f"{condition} prunes no partition: the table is partitioned by {keys}")
    if report.is_pruned:
        return replace(report, notes=(*report.notes, *dict.fromkeys(notes)))
    if not reasons:
        reason = prunable.NO_PARTITION_KEYS.removesuffix(".")
        remedy = f"Join the table by {keys}, or add a condition on {keys}."
        reasons.append(f"{reason} ({keys}). {remedy}")
    return replace(report, reasons=tuple(dict.fromkeys(reasons)))


def named_tables(sites: Collection[Site]) -> frozenset[str]:
    """Return the names of the tables for which every site can request partitions by name."""
    times = Counter(one.scan for one in sites)
    others = {
        one.scan.name
        for one in sites
        if (not one.is_named if one.site.may_have_keys else times[one.scan] > 1)
    }
    return frozenset(one.scan.name for one in sites) - others


def pruned_in_waves(
    query: Query, plan: LogicalPlan, sites: PrunedSites, outcome_of: OutcomeOf, executor: Executor
) -> tuple[PrunedSites, list[ScanOutcome]]:
    """Prune all scans, and return the scan sites with their keys and the outcome of each scan.

    Args:
        query: The query.
        plan: Optimized plan of the query, in which some dimensions are replaced by their rows.
        sites: Scan sites to prune, by path in the optimized plan.
        outcome_of: Function that prunes a scan by the keys of its sites, and returns the outcome.
        executor: Executor that collects keys and lists scans in parallel.
    """
    unsized = _unsized(query, sites)
    found = executor.map(lambda scan, so_far=sites: outcome_of(scan, so_far), unsized)
    small = dict(zip(unsized, found, strict=True))
    sites = {**sites, **_decided_again(query, sites, small, sites)}
    outcomes: dict[Scan, ScanOutcome] = {}
    open_ = {path: one for path, one in sites.items() if one.site.may_have_keys}
    while open_:
        ready = _ready(open_)
        with_pruned = query.catalyst.plans.replaced(plan, _pinned(sites, {**small, **outcomes}))
        with traced("collect_keys"):
            sites = {**sites, **pruned_by_keys(query, with_pruned, ready, sites, executor)}
        done = {one.scan: None for one in ready.values()}
        known = done.keys() | outcomes.keys()
        later = {path: one for path, one in sites.items() if one.scan not in known}
        if not any(one.site.may_have_keys or one.site.reads_too_much for one in later.values()):
            break
        found = executor.map(lambda scan, so_far=sites: outcome_of(scan, so_far), done)
        outcomes |= dict(zip(done, found, strict=True))
        sites = {**sites, **_decided_again(query, sites, {**small, **outcomes}, later)}
        open_ = {path: sites[path] for path in later if sites[path].site.may_have_keys}
    rest = [scan for scan in query.scans if scan not in outcomes]
    outcomes |= dict(zip(rest, executor.map(lambda s: outcome_of(s, sites), rest), strict=True))
    return sites, [outcomes[scan] for scan in query.scans]


def _unsized(query: Query, sites: PrunedSites) -> list[Scan]:
    """Return the scans of named catalogs' tables to prune first, by the query's own conditions.

    The size of such a table is unknown until it is pruned, and no keys are collected from a table
    of unknown size. Keys of other tables may prune it again later. So only tables whose catalog has
    the sizes of files are included, because pruning them lists no storage. A partitioned table
    without a condition is left out, because it is most likely a fact table.
    """
    without_keys = {one.scan for one in sites.values() if one.site.reads_too_much}
    read_all = {one.scan for one in sites.values() if one.site.reads_all}
    named = [scan for scan in query.scans if isinstance(scan, prunable.NamedScan)]
    return [
        scan
        for scan in named
        if scan.table.metadata.has_statistics and without_keys - {scan}
        if scan not in read_all or not scan.table.partition_keys
    ]


def _ready(sites: PrunedSites) -> PrunedSites:
    """Return the sites that do not wait for another site, or all sites if all of them wait."""
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
    """Return the paths of the other sites whose partition values are keys for ``site``."""
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
    """Decide again how to prune the sites at ``paths``, now that pruned scans are smaller."""
    nbytes = {path: outcomes[sites[path].scan].report.nbytes for path in _pinned(sites, outcomes)}
    known = {path: n.matched for path, n in nbytes.items() if n.matched is not None}
    if not known:
        return {}
    decided = decide(replace(query, pruned_bytes=known)).sites
    # An RDD may return different rows each time, so its rows are computed once, before the first
    # wave. A new dimension with an RDD comes too late for this, so skip its sites.
    return unpruned(query, {p: decided[p] for p in paths if not rdds_of(decided[p].dimensions)})
