"""Filter scans of Parquet and ORC files by the join keys of data columns, to skip row groups.

Partitions are pruned first. Then, for Parquet, the footers of a few remaining files show whether
the row groups differ in their values of the join column. If they do, the keys are collected and
become a condition on the rows of the scan.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame

from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.enumeration.footer_reads import MOST_KEPT, SAMPLED_FILES, Sample, sample
from splitlib.enumeration.learning import learnable_columns
from splitlib.errors import SplitlibError
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.predicate import Predicate
from splitlib.redaction import get_logger
from splitlib.remote.calls import cached_property
from splitlib.report import Count, FilterUse, Report
from splitlib.spark.conversion import session_time_zone
from splitlib.spark.jvm.file_index import some_files_of
from splitlib.spark.jvm.gateway import JVM_ERRORS, analyzed_plan
from splitlib.spark.jvm.spark_handles import LogicalPlan
from splitlib.spark.logical_plan import Path
from splitlib.spark.planner.decide import Costs, copied_leaves, worth_collecting
from splitlib.spark.planner.eligibility import Reason, ScanSite, eligible, parts_of
from splitlib.spark.planner.join_graph import Comparison, Dimension, JoinFilter, discover
from splitlib.spark.planner.keys import Collected, KeyQueries, Unusable
from splitlib.spark.planner.materializable import sampled_leaves
from splitlib.spark.planner.prune import reason_text, scans_read_once
from splitlib.spark.planner.query import Query
from splitlib.spark.planner.remedies import with_remedy
from splitlib.spark.planner.scan_sites import prunable
from splitlib.spark.planner.scan_sites.planned_scan import COMPUTED, Scan, ScanOutcome
from splitlib.spark.planner.scan_sites.prunable import NO_PARTITION_KEYS, ScanFiles, SessionScan
from splitlib.spark.planner.scan_sites.pruned_site import ListedScan
from splitlib.spark.predicates.row_filters import (
    FEW_RANGES,
    MANY_RANGES,
    PUSHED_VALUES,
    row_conditions,
    settings_in_the_way,
)
from splitlib.spark.session import is_by_position
from splitlib.spark.session_catalog.connector import table_of
from splitlib.spark.session_catalog.relation import ListedTable
from splitlib.statistics.known import KnownStatistics
from splitlib.statistics.orc_types import MOST_FILES, of_same_type
from splitlib.statistics.row_groups import FileGroups, has_bloom_filters, has_bounds, overlap

_log = get_logger(__name__)
# Maximum size of a dimension, as a share of the size of the scan that its keys filter.
_SMALLER: Final = 1 / 2
# A dimension may have few keys if it reads at most this many bytes of a partitioned table.
FEW_BYTES: Final = 1 << 20
# Parquet's dictionary filter is turned off, because it decodes a row group's dictionary again for
# each bound of a range. Spark still skips row groups by their statistics. If the query itself has a
# condition that dictionaries decide, the filter stays on, and fewer ranges are used.
_BY_DICTIONARY: Final = "parquet.filter.dictionary.enabled"
_DECIDED_BY_DICTIONARIES: Final = frozenset(
    {"Contains", "EndsWith", "EqualNullSafe", "EqualTo", "In", "InSet", "StartsWith"}
)
_OF_STRUCT: Final = "keys of a field of a struct skip nothing."
_MANY_KEYS: Final = "a partitioned table usually has more than 10 keys to look up in Bloom filters"
_TOO_LARGE: Final = "the dimension is larger than half of this table."


def with_data_keys(
    query: Query,
    plan: LogicalPlan,
    outcomes: Sequence[ScanOutcome],
    copied: Collection[Scan],
    executor: Executor,
    dimensions: Sequence[Dimension],
) -> list[ScanOutcome]:
    """Filter scans by the join keys of data columns, and return the new outcomes of all scans.

    Args:
        query: The query.
        plan: Optimized plan of the query, in which some dimensions are replaced by their rows.
        outcomes: Outcomes of the query's scans after partition pruning.
        copied: Scans that the optimizer may have copied. They get no condition.
        executor: Executor that collects keys and reads footers in parallel.
        dimensions: Dimensions whose keys prune partitions.
    """
    if query.is_command or not query.deterministic:
        return list(outcomes)
    read_once = scans_read_once(query, outcomes, copied)
    found = _DataKeys(query, plan, read_once, executor, dimensions).applied()
    return [found.get(outcome.scan, outcome) for outcome in outcomes]


@dataclass(eq=False)
class _DataKeys:
    """Filters the large scans of one query by the join keys of data columns."""

    _query: Query
    _plan: LogicalPlan
    _read_once: Mapping[Path, ScanOutcome]
    _executor: Executor
    _dimensions: Sequence[Dimension]

    @cached_property
    def _queries(self) -> KeyQueries:
        pinned = {p: o.instead for p, o in self._read_once.items() if o.instead is not None}
        catalyst = self._query.catalyst
        with_pinned = catalyst.plans.replaced(self._plan, pinned)
        return KeyQueries(catalyst, with_pinned, self._query.config, self._executor)

    def applied(self) -> Mapping[Scan, ScanOutcome]:
        """Apply join filters on data columns, and return the new outcomes of the filtered scans."""
        found: dict[Scan, ScanOutcome] = {}
        sites = self._sites()
        own = (one.dimension for site in sites.values() for one in site.filters)
        read_for_keys = {leaf.path for one in (*own, *self._dimensions) for leaf in one.leaves}
        for path, site in sites.items():
            if not site.filters:
                if path not in read_for_keys:
                    found |= self._with_reasons(self._files[path].outcome, site)
                continue
            kinds = {part.kind for one in site.conditions for part in one.condition.walk()}
            files = replace(self._files[path], is_tested=bool(kinds & _DECIDED_BY_DICTIONARIES))
            try:
                found[files.outcome.scan] = self._with_keys(files, site.filters)
            except JVM_ERRORS:
                # Leave the scan unchanged. A key expression may raise an error here for a row on
                # which the query itself never evaluates it.
                _log.debug("Join keys of data columns could not be used.", exc_info=True)
        return found

    def _with_reasons(self, outcome: ScanOutcome, site: ScanSite) -> Mapping[Scan, ScanOutcome]:
        """Return the new outcome of a scan without partitions that no join filters."""
        scan, plan = outcome.scan, self._query.optimized
        if scan.is_listed or not site.reasons:
            return {}
        columns = ("the partition columns", "columns of this table")
        texts = (reason_text(scan, plan, one).replace(*columns) for one in site.reasons)
        report = replace(outcome.report, reasons=tuple(dict.fromkeys(texts)))
        return {scan: replace(outcome, report=report)}

    @cached_property
    def _files(self) -> Mapping[Path, ScanFiles]:
        """Large scans of Parquet and ORC files, by path in the optimized plan."""
        sampled = sampled_leaves(self._query.analyzed_tree)
        found = {}
        for path, outcome in self._read_once.items():
            scan = outcome.scan
            if not isinstance(scan, SessionScan) or not sampled.isdisjoint(scan.paths):
                continue
            node = outcome.instead or self._query.replaced_leaves.get(scan.paths[0])
            nbytes = outcome.report.nbytes.matched
            form = scan.table.metadata.read_format
            is_known = form.name in ("parquet", "orc")
            if node is None or not is_known or is_by_position(self._query.catalyst.spark, form):
                continue
            if nbytes is None:
                nbytes = self._query.catalyst.plans.size_of(node)
            leaf, place = node, Path()
            while not leaf.children().isEmpty():
                leaf, place = leaf.children().head(), (*place, 0)
            index = self._query.catalyst.relations.listed_index_of(leaf)
            if index is not None and nbytes >= prunable.LEAST_BYTES:
                found[path] = ScanFiles(outcome, scan, node, leaf, place, index, nbytes)
        return found

    @cached_property
    def _costs(self) -> Costs:
        query = self._query
        copies = copied_leaves(query.analyzed_tree, self._query.optimized_tree)
        rdds = {path for path, leaf in copies.items() if leaf.kind == "LogicalRDD"}
        read = ((path, o.report.nbytes.matched) for path, o in self._read_once.items())
        sized = replace(query, pruned_bytes={p: size for p, size in read if size is not None})
        return Costs(lambda leaf: sized.size_of(leaf, ()), query.dimension_bytes, rdds)

    def _sites(self) -> Mapping[Path, ScanSite]:
        """Return the scans with the join filters to collect keys for, by path."""
        if not self._files:
            return {}
        query, tree = self._query, self._query.optimized_tree
        columns = frozenset(i for files in self._files.values() for i in files.column_ids)
        costs = self._costs
        filters = discover(tree, columns, costs.may_run)
        leaves = [node for node in tree.walk() if node.path in self._files]
        sites = eligible(tree, leaves, columns, filters, query.type_of, deterministic=True)
        sites = {path: _of_plain_columns(site) for path, site in sites.items()}
        sites = worth_collecting(sites, costs, ())
        found: dict[Path, ScanSite] = {}
        for path, site in sites.items():
            most = self._files[path].nbytes * _SMALLER
            costed = ((one, costs.bytes_read(one.dimension.node)) for one in site.filters)
            small = tuple(one for one, size in costed if size is not None and size <= most)
            why = {one: f"{one.why_not_collected}." for one in site.from_sites}
            why |= {one: _TOO_LARGE for one in site.filters if one not in small}
            reasons = (Reason(text, parts_of(one.comparisons)) for one, text in why.items())
            found[path] = replace(site, filters=small).because(*reasons)
        return found

    def _with_keys(self, files: ScanFiles, filters: Sequence[JoinFilter]) -> ScanOutcome:
        """Filter a scan by the join keys that let Spark skip row groups. Return its outcome."""
        catalyst = self._query.catalyst
        tested = [
            {f"k{i}": files.column(c) for i, c in enumerate(join_filter.comparisons)}
            for join_filter in filters
        ]
        files, found = self._sample(files, {name for names in tested for name in names.values()})
        requests = files.outcome.report.storage_requests + found.footers_read
        report = replace(files.outcome.report, storage_requests=requests)
        submitted = []
        for join_filter, names in zip(filters, tested, strict=True):
            groups = found.groups.only(names.values())
            is_clustered = groups.columns and overlap(groups) <= MOST_KEPT
            why = "" if is_clustered else self._why_not_clustered(groups)
            if why and has_bloom_filters(groups):
                why = _MANY_KEYS if self._has_many_keys(join_filter.dimension) else ""
            if files.has_footers and why:
                report = _with_note(report, names, why)
            else:
                future = self._queries.submit(join_filter.dimension, join_filter.comparisons)
                submitted.append((join_filter, names, groups, future))
        uses, conditions, of_footers = [], [], []
        for join_filter, names, groups, future in submitted:
            try:
                keys = future.result()
            except Unusable as reason:
                report = _with_note(report, names, str(reason))
                continue
            keys = Collected(join_filter.comparisons, keys).on_columns(catalyst).keys
            if not keys.data.fields:
                report = _with_note(report, names, "they are compared with a computed value")
                continue
            in_zone = keys.data.in_time_zone(session_time_zone(catalyst.spark))
            for data in _of_columns(in_zone, names):
                use, of_data = self._use_of(files, groups, data, keys.seconds)
                uses.append(use)
                if use.is_used:
                    of_footers += [data] if use.row_groups.total else []
                    conditions += of_data
                    notes = self._notes(files, use, data, of_data)
                    report = replace(report, notes=(*report.notes, *notes))
        report = replace(report, filters=(*report.filters, *uses))
        if not of_footers:
            found.statistics.save()
        if not any(use.is_used for use in uses):
            return replace(files.outcome, report=report)
        node = files.node
        if files.has_footers:
            if of_footers:
                node, report = self._without_other_files(files, of_footers, found, report)
            if not files.is_tested:
                node = catalyst.relations.with_option(node, _BY_DICTIONARY, "false")
        if conditions:
            rows = catalyst.execution.dataframe(node)
            node = analyzed_plan(reduce(DataFrame.where, conditions, rows))
        reasons = tuple(reason for reason in report.reasons if reason != NO_PARTITION_KEYS)
        return replace(files.outcome, instead=node, report=replace(report, reasons=reasons))

    def _has_many_keys(self, dimension: Dimension) -> bool:
        """Return whether a dimension reads more than FEW_BYTES of a partitioned table.

        Spark looks up at most PUSHED_VALUES keys in Bloom filters. A fact table rarely has fewer,
        and collecting its keys to find this out takes as long as a part of the query.
        """
        for leaf in dimension.leaves:
            scan = self._query.scan_of(leaf)
            if isinstance(scan, ListedScan) and scan.table.partition_keys:
                size = self._costs.bytes_read(leaf)
                if size is None or size > FEW_BYTES:
                    return True
        return False

    def _use_of(
        self, files: ScanFiles, groups: FileGroups, data: DynamicFilteringData, seconds: float
    ) -> tuple[FilterUse, list[Column]]:
        """Return the report entry for collected keys, and their conditions for the file reader."""
        columns, spark = files.columns_of(data), self._query.catalyst.spark
        most = MANY_RANGES if files.has_footers and not files.is_tested else FEW_RANGES
        conditions = list(row_conditions(spark, columns, [data], most, floats=files.has_footers))
        predicate, count = Predicate(columns, [data]), Count()
        is_used = bool(predicate.keys if files.has_footers else conditions)
        unused = None if is_used else predicate.filters[0].unused_because
        if not columns:
            unused = f"its columns {files.other_types_because}."
        elif not (is_used or unused):
            kinds = ", ".join(str(column.type) for column in columns)
            unused = f"the {files.form.upper()} reader skips nothing by keys of type {kinds}."
        if files.has_footers:
            matched = groups.match(predicate)
            count = Count(int(matched.matched.sum()), int(matched.total.sum()))
            if is_used and (count.matched or 0) > MOST_KEPT * (count.total or 0):
                # Spark's Parquet reader looks up only short lists of values in Bloom filters.
                is_short = data.is_exact and data.num_values <= PUSHED_VALUES
                if conditions and is_short and has_bloom_filters(groups):
                    count = Count()
                elif _has_nan(data):
                    unused = "NaN is among the keys, and statistics do not show where it occurs."
                else:
                    unused = "most row groups have such values."
        fields, about = () if unused else data.fields, (data.describe(), data.nbytes, seconds)
        why = with_remedy(unused) if unused else None
        return FilterUse(data.fields, *about, fields, why, row_groups=count), conditions

    def _notes(
        self,
        files: ScanFiles,
        use: FilterUse,
        data: DynamicFilteringData,
        conditions: Sequence[Column],
    ) -> tuple[str, ...]:
        """Return report notes on how the file reader uses the keys."""
        fields, columns = ", ".join(data.fields), files.columns_of(data)
        if not conditions:
            return (f"only whole files are dropped by {fields}",)
        notes = settings_in_the_way(self._query.catalyst.spark, files.form, columns)
        if files.has_footers and not use.row_groups.total:
            notes = (*notes, f"the Parquet reader looks up keys of {fields} in Bloom filters")
        given = (f"the {files.form.upper()} reader gets the keys of {fields}",)
        return notes if notes or files.has_footers else given

    def _sample(self, files: ScanFiles, names: Collection[str]) -> tuple[ScanFiles, Sample]:
        """Read statistics from some Parquet footers, or types of columns from ORC footers."""
        config, table = self._query.config, files.scan.table
        possible, most = learnable_columns(table.metadata, config), SAMPLED_FILES
        if not files.has_footers:
            possible, most = table.metadata.data_schema, MOST_FILES + 1
        columns = pa.schema([column for column in possible if column.name in names])
        if not columns.names:
            return files, Sample(KnownStatistics(table, config), FileGroups({}), 0)
        some = some_files_of(self._query.catalyst.scala, files.index, most)
        if files.has_footers:
            return files, sample(table, columns, some, config)
        same = of_same_type(table, some, columns, config)
        others = frozenset(names).difference(same.columns.names)
        files = replace(files, other_types=others, other_types_because=same.reason)
        return files, Sample(KnownStatistics(table, config), FileGroups({}), same.files_read)

    def _without_other_files(
        self,
        files: ScanFiles,
        keys: Sequence[DynamicFilteringData],
        found: Sample,
        report: Report,
    ) -> tuple[LogicalPlan, Report]:
        """Return the scan's plan without the files whose footers exclude all keys, and the report.

        The plan is unchanged if no file can be dropped, or if the list of files cannot be replaced.
        """
        catalyst, config, node = self._query.catalyst, self._query.config, files.node
        try:
            location = files.scan.table.metadata.location
            is_new = not files.scan.table.may_be_old
            relation = ListedTable(catalyst, files.leaf, files.index, location, is_new=is_new)
            table = table_of(catalyst.spark, report.table, relation, config)
            enumerator = DynamicFileEnumerator(table, config, filters=keys)
            with enumerator.progress():
                selected = list(enumerator.select_files(sample=found))
            of_files = enumerator.explain()
            counts = enumerator.metrics
            requests = report.storage_requests + counts.storage_requests
            metrics = replace(report.metrics, files_not_compared=counts.files_not_compared)
            report = replace(report, storage_requests=requests, metrics=metrics)
            if not counts.files_dropped.get("footers"):
                return node, report
            pinned = analyzed_plan(relation.scan_of_files(selected))
            node = catalyst.plans.replaced(node, {files.place: pinned})
        except (SplitlibError, RuntimeError, pa.ArrowException, *JVM_ERRORS):
            _log.debug("Footers could not prune the files of %s.", report.table, exc_info=True)
            return node, report
        size, groups = Count(of_files.nbytes.matched, report.nbytes.total), of_files.row_groups
        return node, replace(report, files=of_files.files, row_groups=groups, nbytes=size)

    def _why_not_clustered(self, groups: FileGroups) -> str:
        if not self._query.config.learn_statistics:
            return "learn_statistics is off"
        if not groups.columns:
            return "statistics of columns of its type are not trusted"
        files = max(map(len, groups.columns.values()))
        sampled = f"({files} files were sampled)" if files > 1 else "(1 file was sampled)"
        if not has_bounds(groups):
            return f"the files have no statistics of it {sampled}"
        return f"most row groups have nearly all of its values {sampled}"


def _of_plain_columns(site: ScanSite) -> ScanSite:
    """Return a copy of the site with only the comparisons of columns, not of computed values.

    Equalities with truncated columns, such as ``date(ts)``, are kept.

    If several keys are compared for equality with one column, only the first comparison is kept.
    """
    filters: list[JoinFilter] = []
    for join_filter in site.filters:
        kept: dict[object, Comparison] = {}
        for number, one in enumerate(join_filter.comparisons):
            column, is_equality = one.column, one.operator in ("=", "<=>")
            if column is not None and (is_equality or one.lineage.truncation is None):
                kept.setdefault(column if is_equality else (column, number), one)
        if kept:
            filters.append(replace(join_filter, comparisons=tuple(kept.values())))
            continue
        sides = (part for one in join_filter.comparisons for part in one.target.walk())
        is_field = any(part.kind == "GetStructField" for part in sides)
        reason = Reason(_OF_STRUCT if is_field else COMPUTED, parts_of(join_filter.comparisons))
        site = site.because(reason)
    return replace(site, filters=tuple(filters))


def _has_nan(data: DynamicFilteringData) -> bool:
    """Return whether keys of a single float column contain NaN."""
    is_float = [pa.types.is_floating(kind) for kind in data.schema.types]
    return is_float == [True] and data.is_exact and data.contains({data.fields[0]: math.nan})


def _of_columns(
    data: DynamicFilteringData, names: Mapping[str, str]
) -> Iterator[DynamicFilteringData]:
    """Yield the keys under the names of their columns, as filters that have each column once.

    Args:
        data: Keys. Several fields may be compared with one column.
        names: Name of the column of each field.
    """
    left = list(data.fields)
    while left:
        fields = {names[field]: field for field in reversed(left)}.values()
        yield data.only(fields).renamed({field: names[field] for field in fields})
        left = [field for field in left if field not in fields]


def _with_note(report: Report, names: Mapping[str, str], reason: str) -> Report:
    """Return a copy of the report with a note on why the keys of some columns are not used."""
    columns = ", ".join(dict.fromkeys(names.values()))
    note = f"join keys of {columns} are not used: {with_remedy(f'{reason}.')}"
    return replace(report, notes=tuple(dict.fromkeys((*report.notes, note))))
