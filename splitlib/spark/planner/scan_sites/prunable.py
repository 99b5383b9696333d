"""Find the scans of a plan that can be pruned, by their partitions or by a condition."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

import pyarrow as pa

from splitlib.config import SplitConfig
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.enumeration.tally import PartitionRanges
from splitlib.errors import UnsupportedTable
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.predicate import AnyOf, Predicate
from splitlib.redaction import get_logger
from splitlib.report import Count, Report
from splitlib.spark.conversion import session_time_zone
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.gateway import analyzed_plan
from splitlib.spark.jvm.spark_handles import FileIndex, LogicalPlan
from splitlib.spark.logical_plan import Node, Path
from splitlib.spark.named_tables import NamedTable
from splitlib.spark.planner.eligibility import Ids, ScanSite
from splitlib.spark.planner.join_graph import Comparison
from splitlib.spark.planner.lineage import RELATIONS, TABLES, leaf_ids
from splitlib.spark.planner.scan_sites.planned_scan import (
    ALSO_WITHOUT_KEYS,
    FilteredScan,
    Scan,
    ScanOutcome,
)
from splitlib.spark.planner.scan_sites.pruned_site import Listed, ListedScan, Needed, PrunedSite
from splitlib.spark.read.pruned_rows import pruned_scan
from splitlib.spark.session_catalog.connector import relation_of, relation_of_leaf, table_of
from splitlib.spark.session_catalog.partitions_by_name import PartitionsByName

_log = get_logger(__name__)

NO_PARTITION_KEYS: Final = "no join compares the table's partition columns."
"""Reason why a scan is not pruned if no join could prune its partitions."""
MATCH_ALL: Final = "the keys match every partition that is read."
"""Reason why a scan is not pruned if keys drop none of the partitions that Spark would read."""
LEAST_BYTES: Final = 64 << 20
"""Minimal size in bytes of an unpartitioned table that join keys may filter. Reading a smaller
table takes little longer than planning its scan."""
_EVERYTHING: Final[Needed] = ((), ())


@dataclass(eq=False, kw_only=True)
class SessionScan(ListedScan):
    """A scan of one of the session's tables. The scan stays unchanged if keys prune nothing."""

    def at(self, site: ScanSite, plan: LogicalPlan) -> PrunedSite:
        """Return the scan's site at a position in ``plan``, before any keys are collected."""
        return PrunedSite(scan=self, site=site)

    def pruned_for(self, sites: Sequence[PrunedSite], report: Report) -> ScanOutcome:
        """Prune the scan to the rows that its sites need, and return the planning outcome."""
        keyed = [site for site in sites if site.has_keys]
        if not keyed:
            return self.left_alone(report.because(NO_PARTITION_KEYS, if_first=True))
        is_keyed_everywhere = len(keyed) == len(sites)
        listed = self.match(_needed(sites) if is_keyed_everywhere else _EVERYTHING)
        if any(batch.has_gaps for batch, _ in listed):
            # The report has no total, because counting all partitions would need their names.
            node, found = self.pruned(_needed(sites))
            # Without keys, nothing was requested and ``asked_for`` is empty, so fill it in.
            if not found.asked_for:
                found = replace(found, asked_for="by name", partitions=Count(0))
            return ScanOutcome(self, node, self.counted(report, [found]))
        if not listed:  # for an empty set of keys, no partitions were listed
            batches = [batch for batch, _ in self.match(_EVERYTHING)]
            listed = [(batch, pa.repeat(False, len(batch))) for batch in batches]
        total = sum(len(batch) for batch, _ in listed)
        reads_all = total if any(one.site.reads_all for one in sites) else None
        report = replace(report, partitions=Count(None, total), without_joins=reads_all)
        if why := few_partitions(total, self.config):
            return self.left_alone(report.because(why))
        if not is_keyed_everywhere:
            return self.left_alone(report.because(ALSO_WITHOUT_KEYS))
        read = _count(_without_keys(sites), listed)
        if sum(mask.true_count for _, mask in listed) == read:
            return self.left_alone(replace(report, without_joins=read).because(MATCH_ALL))
        node, found = self.pruned(_needed(sites))
        ranges = PartitionRanges()
        for batch, mask in listed:
            ranges.add(batch, mask)
        report = replace(self.counted(report, [found]), ranges=ranges.found(), without_joins=None)
        if len(sites) == 1:
            report = replace(report, filters=sites[0].used_with_counts(listed))
        return ScanOutcome(self, node, report)

    def fixed(self, sites: Sequence[PrunedSite], plan: LogicalPlan) -> Any:
        """Return a plan that reads the current files, as :meth:`PlannedScan.fixed` describes."""
        relation, table, spark = self.relation, self.table, self.catalyst.spark
        if relation is None or not relation.names_files:
            return None
        needed = _EVERYTHING
        reads_all = any(one.site.reads_all for one in sites)
        if reads_all:
            table = table_of(spark, self.name, relation.listed_by_spark(), self.config)
        else:
            # Add the query's conditions to sites without keys. Other sites already have them.
            known = [s if s.site.may_have_keys else s.with_conditions(plan) for s in sites]
            needed = _needed(_without_keys(known))
        # ``max_partitions`` applies only to scans that keys prune, and keys do not prune this scan.
        config = replace(self.config, max_partitions=sys.maxsize)
        rows, _ = pruned_scan(spark, table, config, *needed)
        node = analyzed_plan(rows)
        if reads_all and self.catalyst.relations.is_table(node):
            node = self.catalyst.relations.with_entry_of(node, self.leaf)
        return node


class WholeScan(SessionScan):
    """A scan of a large table without partitions. Keys for data columns may skip row groups."""

    is_listed: ClassVar[bool] = False

    def pruned_for(self, sites: Sequence[PrunedSite], report: Report) -> ScanOutcome:
        """Return the planning outcome of an unpruned scan, which reads all files."""
        return self.left_alone(report)

    def fixed(self, sites: Sequence[PrunedSite], plan: LogicalPlan) -> None:
        """Return None: the query already has a fixed list of the table's files."""


@dataclass(frozen=True, slots=True, eq=False)
class ScanFiles:
    """A scan of Parquet or ORC files that occurs once in the query."""

    outcome: ScanOutcome
    scan: SessionScan
    node: LogicalPlan
    """Plan of the scan, with a fixed list of files."""
    leaf: LogicalPlan
    """Relation that reads the files, the only leaf of the scan."""
    place: Path
    """Path from ``node`` to the leaf."""
    index: FileIndex
    """Spark's file index, with the list of files."""
    nbytes: int
    """Size of the files, in bytes."""
    other_types: frozenset[str] = frozenset()
    """Names of columns that may have a different type in some ORC files than in the table."""
    other_types_because: str | None = None
    """Why these columns may have a different type, as a clause for reports."""
    is_tested: bool = False
    """Whether the query itself has a condition, such as ``=``, so that Parquet's reader can skip
    row groups by their dictionaries."""

    @property
    def form(self) -> str:
        """Name of the file format, such as ``parquet``."""
        return self.scan.table.metadata.read_format.name

    @property
    def has_footers(self) -> bool:
        """Whether splitlib reads statistics from the footers of this format (Parquet, not ORC)."""
        return self.form == "parquet"

    @property
    def column_ids(self) -> Iterator[int]:
        """Ids of the data columns with names that are unique, ignoring case.

        Filters ignore case, so they could not distinguish columns such as ``a`` and ``A``.
        """
        lower = Counter(name.lower() for name in self.scan.ids)
        names = self.scan.table.metadata.data_schema.names
        ids = (self.scan.ids.get(name) for name in names if lower[name.lower()] == 1)
        return (i for i in ids if i is not None)

    def column(self, comparison: Comparison) -> str:
        """Return the name of the column that a comparison tests."""
        return self.scan.names[comparison.column]

    def columns_of(self, data: DynamicFilteringData) -> pa.Schema:
        """Return the schema of the columns to which ``data`` applies, with the table's types."""
        names = frozenset(data.fields) - self.other_types
        return pa.schema([c for c in self.scan.table.metadata.data_schema if c.name in names])


class NamedScan(ListedScan):
    """A scan of a named catalog's table, which Spark cannot read. It is always replaced."""

    is_placeholder: ClassVar[bool] = True

    def at(self, site: ScanSite, plan: LogicalPlan) -> PrunedSite:
        """Return the scan's site at a position in ``plan``, with the query's own conditions."""
        return PrunedSite(scan=self, site=site).with_conditions(plan)

    def pruned_for(self, sites: Sequence[PrunedSite], report: Report) -> ScanOutcome:
        """Prune the scan to the rows that its sites need, and return the planning outcome."""
        node, found = self.pruned(_needed(sites) if sites else _EVERYTHING)
        counted = replace(self.counted(report, [found]), ranges=found.ranges)
        return ScanOutcome(self, node, counted)

    def left_alone(self, report: Report) -> ScanOutcome:
        """Return the planning outcome of an unpruned scan, which reads all partitions."""
        return self.pruned_for((), replace(report, filters=()))


def _needed(sites: Sequence[PrunedSite]) -> Needed:
    """Return the keys and conditions that select the partitions needed by at least one site."""
    if len(sites) == 1:
        return sites[0].needed
    return (), (AnyOf([site.predicate for site in sites]),)


def _without_keys(sites: Sequence[PrunedSite]) -> list[PrunedSite]:
    """Return copies of the sites without join keys, with the query's own conditions only."""
    return [replace(site, data=(), computed=()) for site in sites]


def _count(sites: Sequence[PrunedSite], listed: Listed) -> int:
    """Return the number of listed partitions that at least one site needs."""
    if not sites:
        return 0
    predicate = sites[0].predicate
    if len(sites) > 1:
        each = AnyOf([site.predicate for site in sites])
        predicate = Predicate(sites[0].scan.table.metadata.filter_schema, (), [each])
    masks = (predicate.match_each(batch).together for batch, _ in listed)
    return sum(mask.true_count for mask in masks)


def few_partitions(total: int, config: SplitConfig) -> str | None:
    """Return the reason not to prune a table with so few partitions, or None if it has more."""
    limit = config.planner_small_fact_partitions
    if total > limit:
        return None
    return f"the table has only {total} partitions (planner_small_fact_partitions is {limit})."


def matched(scan: ListedScan, sites: Sequence[PrunedSite]) -> tuple[int, int, int]:
    """Count the partitions of a scan by their names in the catalog, without listing files.

    Returns:
        The number of partitions that the sites need, the number that the query's own conditions
        keep, and the number of all partitions.
    """
    listed = scan.match(_EVERYTHING)
    read = _count(_without_keys(sites), listed)
    kept = _count(sites, listed) if all(site.has_keys for site in sites) else read
    return kept, read, sum(len(batch) for batch, _ in listed)


def files_of(scan: ListedScan, sites: Sequence[PrunedSite]) -> tuple[int, int]:
    """List the files that a scan's sites need, and return their number and total bytes."""
    filters, conditions = _needed(sites)
    enumerator = DynamicFileEnumerator(scan.table, scan.config, static=conditions, filters=filters)
    for _ in enumerator.select_files():
        pass
    return enumerator.metrics.files_selected, enumerator.metrics.bytes_selected


@dataclass(slots=True)
class PrunableScans:
    """The scans of one plan that can be pruned."""

    by_columns: dict[frozenset[int | None], Scan] = field(default_factory=dict)
    """Scans, by the ids of the columns that can prune them, or of all columns if none can."""
    partitions: dict[str, PartitionsByName] = field(default_factory=dict)
    """Partitions of the session's catalog, by table name. All scans of a table share them."""

    @property
    def columns(self) -> frozenset[int]:
        """Ids of the columns by which the scans can be pruned."""
        found = (s.ids[name] for s in self.by_columns.values() for name in s.schema.names)
        return frozenset(i for i in found if i is not None)

    @property
    def catalog_requests(self) -> int:
        """Number of requests to the session's catalog."""
        return sum(partitions.requests for partitions in self.partitions.values())

    @property
    def storage_requests(self) -> int:
        """Number of storage requests to list directories of the session's tables."""
        return sum(partitions.listings for partitions in self.partitions.values())

    def without(self, places: Collection[Path]) -> PrunableScans:
        """Return a copy without the scans of the leaves at the paths ``places``."""
        left = {key: s for key, s in self.by_columns.items() if not set(places) & set(s.paths)}
        return PrunableScans(left, self.partitions)

    def of_leaf(self, leaf: Node) -> Scan | None:
        """Return the scan that a leaf of any plan reads, or None if it is not a prunable scan."""
        ids = leaf_ids(leaf)
        if leaf.kind in RELATIONS:
            return next((s for columns, s in self.by_columns.items() if columns <= ids), None)
        if leaf.kind in TABLES and ids:  # the optimizer has removed the columns that are not read
            return next((s for columns, s in self.by_columns.items() if ids <= columns), None)
        return None


def prunable_scans(
    catalyst: Catalyst,
    plan: LogicalPlan,
    tree: Node,
    config: SplitConfig | None,
    named: Mapping[str, NamedTable],
    planned: Collection[str] = (),
) -> PrunableScans:
    """Return the scans of an analyzed plan that can be pruned.

    These are scans of partitioned tables, of large unpartitioned tables, of placeholders, and of
    other sources that can filter by an added condition.

    Args:
        catalyst: Catalyst of the session.
        plan: The plan in the JVM.
        tree: The same plan as parsed by :func:`splitlib.spark.logical_plan.parse_plan`.
        config: Settings for tables of the session. If None, only scans of placeholders
            are returned.
        named: Tables of named catalogs, by the root directory of their placeholder scans.
        planned: Root directories of the pinned scans to leave out. A pinned scan reads a fixed list
            of files.
    """
    scans = PrunableScans()
    seen: dict[frozenset[int | None], Scan | None] = {}
    for leaf in tree.walk():
        if leaf.kind not in RELATIONS | TABLES:
            continue
        ids = {str(e.fields["name"]): e.attribute_id for e in leaf.columns}
        key = frozenset(ids.values())
        if key not in seen:
            node = catalyst.plans.node(plan, leaf.path)
            scan = None
            if not planned or catalyst.relations.pinned_root_of(node) not in planned:
                scan = _scan(catalyst, node, ids, config, named, scans.partitions)
            seen[key] = scan
            if scan is not None:
                names = scan.schema.names or ids
                scans.by_columns[frozenset(ids[name] for name in names)] = scan
        scan = seen[key]
        if scan is not None:
            scan.paths.append(leaf.path)
    return scans


def _scan(
    catalyst: Catalyst,
    leaf: LogicalPlan,
    ids: Ids,
    config: SplitConfig | None,
    named: Mapping[str, NamedTable],
    partitions: dict[str, PartitionsByName],
) -> Scan | None:
    """Return the scan of a leaf, or None if the leaf cannot be pruned."""
    own: dict[str, Any] = {"catalyst": catalyst, "leaf": leaf, "ids": ids}
    is_table = catalyst.relations.is_table(leaf)
    if is_table and named and not catalyst.relations.is_of_hive(leaf):
        known = named.get(catalyst.relations.root_of(leaf) or "")
        if known is not None:
            table = known.table.in_time_zone(session_time_zone(catalyst.spark))
            return NamedScan(**own, config=known.config, table=table, relation=relation_of(table))
    if config is None or not ids:  # a scan is found by the ids of its columns
        return None
    has_keys = is_table and catalyst.relations.is_partitioned(leaf)
    if has_keys or (is_table and _is_large(catalyst, leaf)):
        relation = relation_of_leaf(catalyst, leaf, config.listing_threads, partitions)
        if relation is not None:
            try:
                table = table_of(catalyst.spark, relation.name, relation, config)
            except UnsupportedTable:  # Spark reads the table, and other scans can be pruned.
                _log.debug("%s cannot be pruned.", relation.name, exc_info=True)
                return None
            kind = SessionScan if has_keys else WholeScan
            return kind(**own, config=config, table=table, relation=relation)
    source = catalyst.relations.source_of(leaf)
    return None if source is None else FilteredScan(**own, config=config, source=source)


def _is_large(catalyst: Catalyst, leaf: LogicalPlan) -> bool:
    """Return whether Spark has listed the leaf's files, and they have at least ``LEAST_BYTES``."""
    if catalyst.relations.listed_index_of(leaf) is None:
        return False
    return catalyst.plans.size_of(leaf) >= LEAST_BYTES
