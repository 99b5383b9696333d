"""Hand join keys of data columns to scans of Parquet files, so that Spark skips row groups.

Partitions are pruned first. Then a few footers show whether the row groups of the remaining files
differ in the joined column. Only then the keys are collected, and become a condition on the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import RangeDomain, Ranges
from splitlib.redaction import get_logger
from splitlib.report import Count, FilterUse, Report
from splitlib.spark.conversion import session_time_zone
from splitlib.spark.jvm.gateway import JVM_ERRORS, analyzed_plan
from splitlib.spark.jvm.hadoop import read_footer
from splitlib.spark.jvm.spark_handles import LogicalPlan
from splitlib.spark.logical_plan import Path
from splitlib.spark.planner.clustering import (
    MOST_KEPT,
    SAMPLED_FILES,
    Clustering,
    GroupBounds,
)
from splitlib.spark.planner.decide import Costs, copied_leaves, worth_collecting
from splitlib.spark.planner.eligibility import eligible
from splitlib.spark.planner.join_graph import Comparison, JoinFilter, discover
from splitlib.spark.planner.keys import KeyQueries, Unusable
from splitlib.spark.planner.materialize import sampled_leaves, without_other_files
from splitlib.spark.planner.query import Query
from splitlib.spark.planner.scan_sites import prunable
from splitlib.spark.planner.scan_sites.planned_scan import Scan, ScanOutcome
from splitlib.spark.planner.scan_sites.prunable import NO_PARTITION_KEYS, SessionScan
from splitlib.spark.predicates.row_filters import MANY_RANGES, row_conditions
from splitlib.statistics.footers import Footer
from splitlib.storage import StoredFile

_log = get_logger(__name__)

# Maximal size of the dimensions, as a share of the scan.
_SMALLER: Final = 1 / 2
# For each end of a range, Parquet's filter by dictionaries decodes the dictionary of a row group
# again. Row groups are skipped by their statistics here.
_BY_DICTIONARY: Final = "parquet.filter.dictionary.enabled"


@dataclass(frozen=True, slots=True, eq=False)
class _Files:
    """A scan of Parquet files that a query reads once."""

    outcome: ScanOutcome
    scan: SessionScan
    node: LogicalPlan
    """Scan with a fixed list of files."""
    nbytes: int
    """Size of the files, in bytes."""

    @property
    def column_ids(self) -> Iterator[int]:
        """Ids of the data columns, without those whose names differ only in case.

        Filters ignore case, so they would mistake such columns for each other.
        """
        lower = Counter(name.lower() for name in self.scan.ids)
        names = self.scan.table.metadata.data_schema.names
        ids = (self.scan.ids.get(name) for name in names if lower[name.lower()] == 1)
        return (i for i in ids if i is not None)

    def column(self, comparison: Comparison) -> str:
        """Return the name of the column that a comparison tests."""
        return self.scan.names[comparison.lineage.column]

    def columns_of(self, data: DynamicFilteringData) -> pa.Schema:
        """Return the columns that some keys test, with the table's types."""
        columns = self.scan.table.metadata.data_schema
        return pa.schema([column for column in columns if column.name in data.fields])


def scans_read_once(
    query: Query, outcomes: Sequence[ScanOutcome], copied: Collection[Scan]
) -> Mapping[Path, ScanOutcome]:
    """Return the outcomes of the scans that occur once, by path in the optimized plan.

    A condition on the rows of another scan could drop rows that the query needs at another place.
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


def with_data_keys(
    query: Query,
    plan: LogicalPlan,
    outcomes: Sequence[ScanOutcome],
    copied: Collection[Scan],
    executor: Executor,
) -> list[ScanOutcome]:
    """Return the outcomes of the scans, with conditions from keys of data columns.

    Args:
        query: The query.
        plan: Optimized plan of the query, in which some dimensions are replaced by their rows.
        outcomes: Outcomes of its scans.
        copied: Scans that the optimizer may have copied. They get no condition.
        executor: Executor that collects keys and reads footers in parallel.
    """
    if query.is_command or not query.deterministic:
        return list(outcomes)
    keys = _DataKeys(query, plan, scans_read_once(query, outcomes, copied), executor)
    found = keys.applied()
    return [found.get(outcome.scan, outcome) for outcome in outcomes]


class _DataKeys:
    """Find the joins of one query that compare data columns of large scans, and use their keys."""

    def __init__(
        self,
        query: Query,
        plan: LogicalPlan,
        read_once: Mapping[Path, ScanOutcome],
        executor: Executor,
    ) -> None:
        self._query = query
        self._tree = query.optimized_tree
        self._plan = plan
        self._read_once = read_once
        self._executor = executor

    @cached_property
    def _queries(self) -> KeyQueries:
        pinned = {p: o.instead for p, o in self._read_once.items() if o.instead is not None}
        catalyst = self._query.catalyst
        with_pinned = catalyst.plans.replaced(self._plan, pinned)
        return KeyQueries(catalyst, with_pinned, self._query.config, self._executor)

    @cached_property
    def _clustering(self) -> Clustering:
        return Clustering(self._footer, self._executor.map)

    def applied(self) -> Mapping[Scan, ScanOutcome]:
        """Return the new outcomes of the scans that the keys concern."""
        found: dict[Scan, ScanOutcome] = {}
        for path, filters in self._filters().items():
            outcome = self._files[path].outcome
            try:
                found[outcome.scan] = self._with_keys(self._files[path], filters)
            except JVM_ERRORS:
                # The key expression may fail for rows for which the query never evaluates it.
                _log.debug("Keys of data columns could not be used.", exc_info=True)
        return found

    @cached_property
    def _files(self) -> Mapping[Path, _Files]:
        """Large scans of Parquet files, by path in the optimized plan."""
        sampled = sampled_leaves(self._query.analyzed_tree)
        found = {}
        for path, outcome in self._read_once.items():
            scan = outcome.scan
            if not isinstance(scan, SessionScan) or not sampled.isdisjoint(scan.paths):
                continue
            node = outcome.instead or self._query.replaced_leaves.get(scan.paths[0])
            nbytes = outcome.report.nbytes.matched
            if node is None or scan.table.metadata.read_format.name != "parquet":
                continue
            if nbytes is None:
                nbytes = self._query.catalyst.plans.size_of(node)
            if nbytes >= prunable.LEAST_BYTES:
                found[path] = _Files(outcome, scan, node, nbytes)
        return found

    def _filters(self) -> Mapping[Path, Sequence[JoinFilter]]:
        """Return the join filters on data columns whose keys are worth collecting."""
        if not self._files:
            return {}
        query, tree = self._query, self._tree
        columns = frozenset(i for files in self._files.values() for i in files.column_ids)
        copies = copied_leaves(query.analyzed_tree, tree)
        rdds = {path for path, leaf in copies.items() if leaf.kind == "LogicalRDD"}
        read = {path: o.report.nbytes.matched for path, o in self._read_once.items()}
        sizes = {path: size for path, size in read.items() if size is not None}
        sized = replace(query, pruned_bytes=sizes)
        costs = Costs(lambda leaf: sized.size_of(leaf, ()), query.dimension_bytes, rdds)
        compared = map(_plain_columns, discover(tree, columns, costs.may_run))
        filters = [join_filter for join_filter in compared if join_filter.comparisons]
        leaves = [node for node in tree.walk() if node.path in self._files]
        sites = eligible(tree, leaves, columns, filters, query.type_of, deterministic=True)
        sites = worth_collecting(sites, costs, ())
        found: dict[Path, list[JoinFilter]] = {}
        for path, site in sites.items():
            for join_filter in site.filters:
                nbytes = costs.bytes_read(join_filter.dimension.node)
                if nbytes is not None and nbytes <= self._files[path].nbytes * _SMALLER:
                    found.setdefault(path, []).append(join_filter)
        return found

    def _with_keys(self, files: _Files, filters: Sequence[JoinFilter]) -> ScanOutcome:
        """Return the outcome of a scan with conditions from all filters that skip row groups."""
        report, catalyst = files.outcome.report, self._query.catalyst
        sample, columns = self._sample(files.node), files.scan.table.metadata.data_schema
        submitted = []
        for join_filter in filters:
            names = {f"k{i}": files.column(c) for i, c in enumerate(join_filter.comparisons)}
            tested = [columns.field(name) for name in names.values()]
            bounds = {f.name: self._clustering.bounds(sample, f) for f in tested}
            known = {name: found for name, found in bounds.items() if found is not None}
            if all(found.overlap > MOST_KEPT for found in known.values()):
                report = _with_note(report, names, _why_not_clustered(known, len(sample)))
            else:
                future = self._queries.submit(join_filter.dimension, join_filter.comparisons)
                submitted.append((names, known, future))
        uses, conditions, used = [], [], []
        for names, known, future in submitted:
            try:
                keys = future.result()
            except Unusable as reason:
                report = _with_note(report, names, str(reason))
                continue
            data = keys.data.renamed({name: names[name] for name in keys.data.fields})
            data = data.in_time_zone(session_time_zone(catalyst.spark))
            of_keys = files.columns_of(data)
            of_data = list(row_conditions(catalyst.spark, of_keys, [data], MANY_RANGES))
            groups = _groups_with(data, known)
            unused = None if of_data else "too many keys, or their type cannot be compared"
            if of_data and (groups.matched or 0) > MOST_KEPT * (groups.total or 0):
                unused = "most row groups have such values"
            fields = () if unused else data.fields
            about = data.describe(), data.nbytes, keys.seconds
            uses.append(FilterUse(data.fields, *about, fields, unused, row_groups=groups))
            conditions += [] if unused else of_data
            used += [] if unused else [data]
        report = replace(report, filters=(*report.filters, *uses))
        if not conditions:
            return replace(files.outcome, report=report)
        config = self._query.config
        location = files.scan.table.metadata.location
        kept, report = without_other_files(catalyst, files.node, location, config, used, report)
        leaf = next(iter(catalyst.plans.leaves(kept)))
        bounded = catalyst.relations.with_option(leaf, _BY_DICTIONARY, "false")
        rows = catalyst.execution.dataframe(catalyst.plans.with_leaves(kept, [(leaf, bounded)]))
        node = analyzed_plan(reduce(DataFrame.where, conditions, rows))
        reasons = tuple(reason for reason in report.reasons if reason != NO_PARTITION_KEYS)
        return replace(files.outcome, instead=node, report=replace(report, reasons=reasons))

    def _sample(self, node: LogicalPlan) -> Sequence[StoredFile]:
        """Return some of the files that a scan reads, spread over all of them."""
        catalyst = self._query.catalyst
        leaf = next(iter(catalyst.plans.leaves(node)))
        index = catalyst.relations.listed_index_of(leaf)
        if index is None:
            return ()
        files = catalyst.relations.some_files_of(index, SAMPLED_FILES)
        columns = (files[name].to_pylist() for name in ("path", "size", "modified"))
        return [StoredFile(*row) for row in zip(*columns, strict=True)]

    def _footer(self, file: StoredFile) -> Footer | None:
        """Return the footer of a file; None if it cannot be read, such as an encrypted one."""
        catalyst = self._query.catalyst
        conf = catalyst.execution.hadoop_conf
        try:
            return read_footer(catalyst.scala.jvm, conf, file.path, file.size)
        except (OSError, pa.ArrowException, *JVM_ERRORS):
            _log.debug("The footer of %s could not be read.", file.path, exc_info=True)
            return None


def _plain_columns(join_filter: JoinFilter) -> JoinFilter:
    """Return the filter with the comparisons of columns, without those of computed values.

    If several keys are compared for equality with one column, only the first of them is used.
    """
    kept: dict[object, Comparison] = {}
    for number, comparison in enumerate(join_filter.comparisons):
        column = comparison.lineage.column
        if column is not None:
            is_equality = comparison.operator in ("=", "<=>")
            kept.setdefault(column if is_equality else (column, number), comparison)
    return replace(join_filter, comparisons=tuple(kept.values()))


def _with_note(report: Report, names: Mapping[str, str], reason: str) -> Report:
    """Return the report with the reason why keys of some columns are not used."""
    columns = ", ".join(dict.fromkeys(names.values()))
    note = f"join keys of {columns} are not used: {reason}"
    return replace(report, notes=(*report.notes, note))


def _why_not_clustered(known: Mapping[str, GroupBounds], files: int) -> str:
    if not known:
        return f"the files have no statistics of it ({files} files were sampled)"
    return f"most row groups have nearly all of its values ({files} files were sampled)"


def _groups_with(data: DynamicFilteringData, known: Mapping[str, GroupBounds]) -> Count:
    """Return how many row groups of the sample may have keys, by the most selective column."""
    counts = []
    for domain in data.domains:
        for name, bounds in known.items():
            if name not in domain.fields:
                continue
            if isinstance(domain, RangeDomain):
                ranges: Ranges | None = domain.ranges
            else:
                values = pc.unique(domain.rows[name]).drop_null()
                ordered = values.take(pc.sort_indices(values))
                ranges = Ranges.covering(ordered, MANY_RANGES) if len(ordered) else None
            try:
                share = 0.0 if ranges is None else bounds.share_in(ranges.cast(bounds.lower.type))
            except pa.ArrowException:  # the files have another type than the keys
                share = 1.0
            counts.append(Count(round(share * len(bounds.lower)), len(bounds.lower)))
    return min(counts, key=lambda count: (count.matched or 0) / (count.total or 1), default=Count())
