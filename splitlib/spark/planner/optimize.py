"""Star joins found in any query and pruned: discover, decide, collect, prune, rewrite."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from splitlib.config import SplitConfig
from splitlib.errors import SplitlibError
from splitlib.filtering import DynamicFilteringData
from splitlib.predicate import Predicate
from splitlib.spark.pinned_scan import why_not_pinned
from splitlib.spark.planner.blocked import blocked_joins
from splitlib.spark.planner.catalyst import Catalyst
from splitlib.spark.planner.decide import Costs, is_selective
from splitlib.spark.planner.dimensions import checkpoint_rdds, compute_once, freezable, freeze
from splitlib.spark.planner.discover import (
    Comparison,
    JoinFilter,
    StaticCondition,
    discover,
    static_conditions,
)
from splitlib.spark.planner.keys import KeyQueries, Keys, Unusable
from splitlib.spark.planner.lineage import output_ids
from splitlib.spark.planner.named_tables import NamedTable
from splitlib.spark.planner.plan import Expression, Node, Path, parse_plan
from splitlib.spark.planner.prunable import PrunableScans, prunable_scans
from splitlib.spark.planner.report import FilterUse, PlanReport, ScanPruning, strip
from splitlib.spark.planner.scans import UNDECIDED, PartitionedScan, Scan
from splitlib.spark.planner.table_scan import TableScan

_log = logging.getLogger(__name__)


def plan(
    df: DataFrame, named: Mapping[str, NamedTable] | None = None
) -> tuple[DataFrame, PlanReport]:
    """The same rows from fewer partitions, and what was done for that.

    What goes wrong here is a reason to leave the query to Spark, which will say best what is wrong
    with it. Only a table of a named catalog is splitlib's own to read.

    Args:
        df: Any query.
        named: Tables in it that are still to be opened up, by the root of their placeholders.

    Raises:
        SplitlibError: if a table of a named catalog cannot be read.
    """
    started = time.perf_counter()
    named = named or {}
    try:
        planned, report = _plan(df, named)
    except Exception as error:
        if named and isinstance(error, SplitlibError):
            raise
        _log.debug("The query is left to Spark.", exc_info=True)
        message = str(error).partition("\n")[0]
        planned, report = None, PlanReport(reasons=(f"{type(error).__name__}: {message}",))
    if planned is None:
        planned = _opened_up(df, named) if named else df
    return planned, replace(report, seconds=time.perf_counter() - started)


def _plan(df: DataFrame, named: Mapping[str, NamedTable]) -> tuple[DataFrame | None, PlanReport]:
    """None in the place of a query that is left to Spark."""
    reason = why_not_pinned(df.sparkSession)
    if reason is not None:
        return None, PlanReport(reasons=(f"{reason}.",))
    config = SplitConfig.resolve(spark_conf=df.sparkSession.conf.getAll)
    if not config.dynamic_filtering_enabled:
        return None, PlanReport(reasons=("dynamic_filtering_enabled is off.",))
    if df.isStreaming:
        return None, PlanReport(reasons=("it is a streaming query.",))
    catalyst = Catalyst(df.sparkSession)
    analyzed = catalyst.analyzed(df)
    tree = parse_plan(analyzed.toJSON())
    if tree.kind == "CommandResult":
        return None, PlanReport(reasons=("it is a command, which has run.",))
    has_join = any(node.kind == "Join" or node.subqueries for node in tree.walk())
    if not has_join and not named:
        return None, PlanReport(reasons=("it has no join.",))
    scans = prunable_scans(catalyst, analyzed, tree, config.listing_threads, named)
    if not scans.by_columns:
        return None, PlanReport(reasons=("it reads no partitioned table.",))
    planner = _Planner(df, catalyst, analyzed, tree, scans, config)
    planned, report = planner.run()
    once = planner.computed_once() if planner.wants_same_rows else None
    if once is None:
        return planned, report
    again, report = _plan(once, named)
    return again or once, report


def _opened_up(df: DataFrame, named: Mapping[str, NamedTable]) -> DataFrame:
    """The query with all of its tables, and nothing pruned."""
    catalyst = Catalyst(df.sparkSession)
    analyzed = catalyst.analyzed(df)
    scans = prunable_scans(catalyst, analyzed, parse_plan(analyzed.toJSON()), 1, named)
    new: dict[Path, Any] = {}
    for scan in scans.by_columns.values():
        if isinstance(scan, TableScan):
            node = scan.pruned(analyzed, (), ()).node
            new |= dict.fromkeys(scan.paths, node)
    return catalyst.dataframe(catalyst.replaced(analyzed, new))


@dataclass(slots=True)
class _Occurrence:
    """A scan where it stands in the optimized plan."""

    scan: Scan
    leaf: Node
    filters: list[JoinFilter] = field(default_factory=list)
    from_scans: list[JoinFilter] = field(default_factory=list)
    """Whose keys are partition values of another scan."""
    conditions: list[StaticCondition] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    used: list[FilterUse] = field(default_factory=list)
    data: list[DynamicFilteringData] = field(default_factory=list)
    """What a table that splitlib enumerates itself is pruned by."""
    before: pa.BooleanArray | None = None
    """What static conditions leave; None = it is not pruned."""
    mask: pa.BooleanArray | None = None


class _Planner:
    """One query."""

    def __init__(
        self,
        df: DataFrame,
        catalyst: Catalyst,
        analyzed: Any,
        tree: Node,
        scans: PrunableScans,
        config: SplitConfig,
    ) -> None:
        self._df = df
        self._catalyst = catalyst
        self._analyzed = analyzed
        self._analyzed_tree = tree
        self._scans = scans
        self._config = config
        self._optimized = catalyst.optimized(analyzed)
        self._tree = parse_plan(self._optimized.toJSON())
        self._costs = Costs(self._size_of, config.planner_dimension_bytes)
        self._new: dict[Path, Any] = {}
        """What takes the place of nodes of the analyzed plan."""
        self.wants_same_rows = False
        """Whether keys were not used because their dimension may give other ones."""

    def run(self) -> tuple[DataFrame | None, PlanReport]:
        """The query with other scans, None if it stays as it is; and the report."""
        occurrences = self._occurrences()
        self._decide(occurrences)
        if any(o.filters for o in occurrences.values()):
            with ThreadPoolExecutor(4, thread_name_prefix="splitlib-keys") as executor:
                self._checkpoint(occurrences)
                self._freeze(occurrences, executor)
                self._prune(occurrences, executor)
        reports = [self._rewrite(scan, occurrences) for scan in self._scans.by_columns.values()]
        planned = None
        if any(report.is_pruned for report in reports):
            rewritten = self._catalyst.replaced(self._analyzed, self._new)
            planned = self._catalyst.dataframe(rewritten)
            if planned.schema != self._df.schema:
                raise RuntimeError("The rewritten plan has another schema.")
        requests = sum(table.requests for table in self._scans.tables.values())
        return planned, PlanReport(tuple(reports), catalog_requests=requests)

    def computed_once(self) -> DataFrame | None:
        """The query with other rows each time made the same ones; None if there are none."""

        def usable(node: Node) -> bool:
            leaves = [part for part in node.walk() if part.is_leaf]
            return all(self._scans.of_leaf(leaf) is None for leaf in leaves) and (
                Costs(self._size_in_analyzed, self._config.planner_dimension_bytes).too_large(node)
                is None
            )

        once = compute_once(self._catalyst, self._analyzed, self._analyzed_tree, usable)
        if not once:
            return None
        return self._catalyst.dataframe(self._catalyst.replaced(self._analyzed, once))

    def _occurrences(self) -> dict[Path, _Occurrence]:
        columns = self._scans.columns
        found = {}
        for node in self._tree.walk():
            scan = self._scans.of_leaf(node)
            if scan is not None:
                found[node.path] = _Occurrence(scan, node)
        for join_filter in discover(self._tree, columns):
            found[join_filter.leaf.path].filters.append(join_filter)
        for condition in static_conditions(self._tree, columns):
            found[condition.lineage.leaf.path].conditions.append(condition)
        for path, reason in blocked_joins(self._tree, columns):
            found[path].reasons.append(reason)
        return found

    def _decide(self, occurrences: dict[Path, _Occurrence]) -> None:
        deterministic = self._optimized.deterministic()
        for occurrence in occurrences.values():
            filters, occurrence.filters = occurrence.filters, []
            if not deterministic:
                occurrence.reasons.append("the query calls functions that are not deterministic.")
                self.wants_same_rows = self.wants_same_rows or bool(filters)
                continue
            for join_filter in filters:
                reason, worthwhile = self._worthwhile(join_filter)
                if reason is None:
                    occurrence.filters.append(worthwhile)
                elif all(c.key_lineage is not None for c in join_filter.comparisons):
                    occurrence.from_scans.append(join_filter)
                else:
                    occurrence.reasons.append(f"{reason}.")

    def _worthwhile(self, join_filter: JoinFilter) -> tuple[str | None, JoinFilter]:
        """Why it is not, or the filter with only those dimensions that are."""
        reason = self._costs.too_large(join_filter.dimension.node)
        if reason is not None:
            return reason, join_filter
        dimension = self._costs.worthwhile(join_filter.dimension)
        if not is_selective(dimension):
            return "no condition leaves out rows of its dimension", join_filter
        return None, replace(join_filter, dimension=dimension)

    def _size_of(self, leaf: Node) -> int | None:
        if isinstance(self._scans.of_leaf(leaf), TableScan):
            return None  # a placeholder is never run
        return self._size(self._catalyst.node(self._optimized, leaf.path))

    def _size_in_analyzed(self, leaf: Node) -> int | None:
        return self._size(self._catalyst.node(self._analyzed, leaf.path))

    def _size(self, node: Any) -> int | None:
        size = int(str(node.stats().sizeInBytes()))
        unknown = int(self._catalyst.session.sessionState().conf().defaultSizeInBytes())
        return size if size < unknown else self._catalyst.size_on_disk(node)

    def _checkpoint(self, occurrences: dict[Path, _Occurrence]) -> None:
        """Compute dimensions that are RDDs once: who knows what they would give another time."""
        dimensions = [f.dimension for o in occurrences.values() for f in o.filters]
        computed = checkpoint_rdds(self._catalyst, self._optimized, dimensions)
        for path, leaf in self._leaves(self._analyzed_tree):
            if leaf in computed:
                self._new[path] = computed[leaf]
        frozen = {p: computed[leaf] for p, leaf in self._leaves(self._tree) if leaf in computed}
        self._optimized = self._catalyst.replaced(self._optimized, frozen)

    def _freeze(self, occurrences: dict[Path, _Occurrence], executor: ThreadPoolExecutor) -> None:
        limit = self._catalyst.session.sessionState().conf().autoBroadcastJoinThreshold()
        places = defaultdict(list)
        for node in self._analyzed_tree.walk():
            if node.is_leaf:
                places[_columns(node)].append(node.path)

        def small(leaf: Node) -> bool:
            # the optimizer may have left out fields of its structs: then it is not the same leaf
            if leaf.path in occurrences or len(places.get(_columns(leaf), ())) != 1:
                return False
            if leaf.kind not in ("LogicalRelation", "HiveTableRelation"):
                return False
            size = self._size_of(leaf)
            return size is not None and size <= limit

        dimensions = [f.dimension for o in occurrences.values() for f in o.filters]
        wanted = freezable(dimensions, self._tree, small)
        frozen = freeze(self._catalyst, self._optimized, self._tree, wanted, executor)
        for path, node in frozen.items():
            (there,) = places[_columns(wanted[path].leaf)]
            self._new[there] = node
        self._optimized = self._catalyst.replaced(self._optimized, frozen)

    def _leaves(self, root: Node) -> Iterator[tuple[Path, frozenset[int]]]:
        for node in root.walk():
            if node.is_leaf:
                yield node.path, _ids(node)

    def _prune(self, occurrences: dict[Path, _Occurrence], executor: ThreadPoolExecutor) -> None:
        """Fill in the masks: by the keys of dimensions, then by what other scans have left."""
        queries = KeyQueries(self._catalyst, self._optimized, self._config, executor)
        asked = {
            (path, i): queries.submit(join_filter.dimension, join_filter.comparisons)
            for path, occurrence in occurrences.items()
            for i, join_filter in enumerate(occurrence.filters)
        }
        for path, occurrence in occurrences.items():
            collected = []
            for i, join_filter in enumerate(occurrence.filters):
                try:
                    collected.append((join_filter.comparisons, asked[path, i].result()))
                except Unusable as reason:
                    occurrence.reasons.append(f"{reason}.")
                    self.wants_same_rows = self.wants_same_rows or reason.not_deterministic
            if collected:
                self._apply(occurrence, collected)
        for occurrence in occurrences.values():
            for join_filter in occurrence.from_scans:
                self._apply_partitions_of(occurrence, join_filter, occurrences)

    def _apply_partitions_of(
        self,
        occurrence: _Occurrence,
        join_filter: JoinFilter,
        occurrences: dict[Path, _Occurrence],
    ) -> None:
        """The partition values that another scan has left are keys as well."""
        comparisons = join_filter.comparisons
        lineages = [c.key_lineage for c in comparisons if c.key_lineage is not None]
        source = occurrences[lineages[0].leaf.path]
        if not isinstance(source.scan, PartitionedScan) or source.mask is None:
            return
        if any(x.leaf.path != source.leaf.path for x in lineages):
            return
        if any(c.operator != "=" for c in comparisons):
            return
        started = time.perf_counter()
        steps = dict.fromkeys(step for lineage in lineages for step in lineage.steps)
        wanted = {f"k{i}": c.key for i, c in enumerate(comparisons)}
        values = source.scan.evaluate(self._optimized, tuple(steps), wanted).filter(source.mask)
        if pc.any(values[UNDECIDED]).as_py():
            return
        values = values.select(list(wanted))
        data = DynamicFilteringData.from_arrow(values).without_nulls()
        self._apply(occurrence, [(comparisons, Keys(data, time.perf_counter() - started))])

    def _apply(
        self, occurrence: _Occurrence, collected: list[tuple[tuple[Comparison, ...], Keys]]
    ) -> None:
        scan = occurrence.scan
        if isinstance(scan, TableScan):
            for comparisons, keys in collected:
                data = scan.filter_of(comparisons, keys)
                if data is None:
                    occurrence.reasons.append("keys are compared with a computed value.")
                else:
                    occurrence.data.append(data)
                    occurrence.used.append(self._use(comparisons, keys))
            return
        assert isinstance(scan, PartitionedScan)
        if scan.partitions_total <= self._config.planner_small_fact_partitions:
            occurrence.reasons.append(f"it has only {scan.partitions_total} partitions.")
            return
        wanted: dict[str, Expression] = {}
        filters = []
        excluded: dict[str, pa.Scalar] = {}
        steps: dict[Any, None] = {}
        for number, (comparisons, keys) in enumerate(collected):
            names = {}
            for i, comparison in enumerate(comparisons):
                names[f"k{i}"] = f"f{number}_{i}"
                wanted[f"f{number}_{i}"] = comparison.target
                steps |= dict.fromkeys(comparison.lineage.steps)
            filters.append(keys.data.renamed(names))
            excluded |= {names[name]: end for name, end in keys.excluded.items()}
        for i, condition in enumerate(occurrence.conditions):
            wanted[f"s{i}"] = condition.condition
            steps |= dict.fromkeys(condition.lineage.steps)
        values = scan.evaluate(self._optimized, tuple(steps), wanted)
        if occurrence.mask is None:
            occurrence.before = pa.repeat(True, values.num_rows)
            for i in range(len(occurrence.conditions)):
                met = pc.fill_null(_one(values[f"s{i}"]), False)
                occurrence.before = pc.and_(occurrence.before, met)
            occurrence.mask = occurrence.before
        batch = pa.record_batch({name: _one(values[name]) for name in wanted if name[0] == "f"})
        predicate = Predicate(batch.schema, filters)
        mask = pc.and_(occurrence.mask, predicate.match(batch))
        for name, end in excluded.items():
            mask = pc.and_(mask, pc.fill_null(pc.not_equal(batch[name], end), False))
        occurrence.mask = pc.or_(mask, _one(values[UNDECIDED]))
        for (comparisons, keys), applied in zip(collected, predicate.filters, strict=True):
            if applied.unused_because is not None:
                occurrence.reasons.append(applied.unused_because)
            else:
                occurrence.used.append(self._use(comparisons, keys))

    def _use(self, comparisons: tuple[Comparison, ...], keys: Keys) -> FilterUse:
        fields = {
            f"k{i}": self._catalyst.expression_at(self._optimized, c.target.place).sql()
            for i, c in enumerate(comparisons)
        }
        description = keys.data.renamed(fields).describe()
        return FilterUse(tuple(fields.values()), description, keys.data.nbytes, keys.seconds)

    def _rewrite(self, scan: Scan, occurrences: dict[Path, _Occurrence]) -> ScanPruning:
        """Put the pruned scan in its place, if each of its occurrences is pruned."""
        mine = [o for o in occurrences.values() if o.scan is scan]
        reasons = dict.fromkeys(reason for o in mine for reason in o.reasons)
        used = tuple(dict.fromkeys(u for o in mine for u in o.used))
        report = ScanPruning(scan.name, used, reasons=tuple(reasons))
        if isinstance(scan, TableScan):
            return self._open_up(scan, mine, report)
        assert isinstance(scan, PartitionedScan)
        if not any(o.mask is not None for o in mine):
            if not reasons:
                report = replace(report, reasons=("no join compares its partition columns.",))
            return report
        total = scan.partitions_total
        report = replace(report, partitions_total=total)
        if any(o.mask is None for o in mine):
            why = "the same scan is also read where no keys reach it."
            return replace(report, reasons=(*reasons, why))
        mask = before = pa.repeat(False, total)
        for o in mine:
            mask = pc.or_(mask, o.mask)
            before = pc.or_(before, o.before)
        if mask.true_count == before.true_count:
            why = "its keys are in every partition that is read."
            return replace(report, reasons=(*reasons, why))
        pruned = scan.pruned(mask)
        for path in scan.paths:
            self._new[path] = pruned.node
        return replace(
            report,
            partitions_kept=mask.true_count,
            files=pruned.files,
            nbytes=pruned.nbytes,
            files_total=scan.files_total,
            nbytes_total=scan.nbytes_total,
            strip=strip(mask.to_pylist()),
        )

    def _open_up(
        self, scan: TableScan, occurrences: list[_Occurrence], report: ScanPruning
    ) -> ScanPruning:
        """Put the files that matter in the place of a named table."""
        # of several places each needs other files, and one list of files serves them all
        alone = occurrences[0] if len(occurrences) == 1 else None
        pruned = scan.pruned(
            self._optimized,
            alone.data if alone else (),
            alone.conditions if alone else (),
        )
        for path in scan.paths:
            self._new[path] = pruned.node
        return replace(
            report,
            partitions_total=pruned.partitions_total,
            partitions_kept=pruned.partitions_kept,
            files=pruned.files,
            nbytes=pruned.nbytes,
        )


def _ids(leaf: Node) -> frozenset[int]:
    return frozenset(output_ids(leaf) or ())


def _columns(leaf: Node) -> frozenset[tuple[int | None, str]]:
    """The ids and types of what a leaf shows."""
    names = ("output", "dataCols", "partitionCols")
    columns = (e for name in names for e in leaf.expressions(name))
    return frozenset((e.attribute_id, str(e.fields["dataType"])) for e in columns)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()
