"""Runtime filters: drop rows of a large scan that have no match in a shuffled join.

A Bloom filter of the keys of the smaller join side drops these rows when they are read, before
Spark shuffles and sorts them. Spark has a similar rule, ``InjectRuntimeFilter``. It applies to
tables of 10 GB and more if the other join side has a selective condition that is cheap to evaluate.
Spark's rule does not consider that splitlib has pruned a side.

The keys are read during planning. So the smaller side must not change until the query runs: it may
read only scans with a fixed list of files, and rows that are part of the plan.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Final

from splitlib.config import SplitConfig
from splitlib.redaction import get_logger
from splitlib.remote.calls import cached_property
from splitlib.report import Count, FilterUse
from splitlib.spark.allowed_scans import allowed_part
from splitlib.spark.determinism import why_not_deterministic
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.spark_handles import LogicalPlan
from splitlib.spark.logical_plan import Node, Path
from splitlib.spark.planner.join_graph import (
    Comparison,
    Dimension,
    JoinFilter,
    discover,
    partition_conditions,
)
from splitlib.spark.planner.keys import plan_of_dimension
from splitlib.spark.planner.lineage import leaf_ids
from splitlib.spark.planner.prune import scans_read_once
from splitlib.spark.planner.query import Query
from splitlib.spark.planner.remedies import with_remedy
from splitlib.spark.planner.scan_sites.planned_scan import Scan, ScanOutcome
from splitlib.spark.predicates.row_filters import MOST_KEYS, filter_of_hashes, share_of_bits

_log = get_logger(__name__)

# Maximum size of the smaller side, as a share of the larger side. Reading the keys of a larger side
# costs about as much as the filter saves.
_SMALLER: Final = 1 / 4
_SAMPLE: Final = 20_000
"""Number of rows of the larger side to test the filter on."""
_MOST_KEPT: Final = 0.7
"""Maximum share of the sample that a filter may keep. Above this share, hashing costs too much."""
_FULL: Final = 0.5
"""Maximum share of a Bloom filter's bits that are set. A fuller filter keeps too many rows."""
# Types for which two values are equal if and only if their hashed bytes are equal.
_HASHED: Final = frozenset(
    {"byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz", "binary"}
)


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """The smaller side of a join, and the larger scan that it may filter."""

    scan: Scan
    """The larger scan."""
    join_filter: JoinFilter
    """Comparisons of the scan with the smaller side."""
    nbytes: int
    """Bytes that the smaller side reads."""

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        return self.join_filter.comparisons

    @property
    def column_ids(self) -> tuple[int, ...]:
        """Ids of the larger scan's columns that the join compares."""
        found = (c.lineage.column for c in self.comparisons)
        return tuple(i for i in found if i is not None)


def with_runtime_filters(
    query: Query,
    plan: LogicalPlan,
    outcomes: Sequence[ScanOutcome],
    copied: Collection[Scan],
    executor: Executor,
) -> list[ScanOutcome]:
    """Add Bloom filters to scans where they drop enough rows, and return all scans' outcomes.

    Args:
        query: The query.
        plan: Optimized plan of the query, in which some dimensions are replaced by their rows.
        outcomes: Outcomes of the query's scans.
        copied: Scans that the optimizer may have copied. They get no filter.
        executor: Executor that reads keys and samples in parallel.
    """
    sides = _Sides(query, plan, outcomes, copied)
    chosen = sides.smallest()
    if not chosen:
        return list(outcomes)
    return list(executor.map(lambda o: sides.applied(o, chosen.get(o.scan)), outcomes))


class _Sides:
    """The joins of one query for which a runtime filter is worth its cost."""

    def __init__(
        self,
        query: Query,
        plan: LogicalPlan,
        outcomes: Sequence[ScanOutcome],
        copied: Collection[Scan],
    ) -> None:
        self._query = query
        self._tree = query.optimized_tree
        self._outcomes = scans_read_once(query, outcomes, copied)
        self._pinned = {p: o.instead for p, o in self._outcomes.items() if o.instead is not None}
        self._dimensions_in_place = plan

    @cached_property
    def _plan(self) -> LogicalPlan:
        """The optimized plan with pruned scans, in which some dimensions are replaced by rows."""
        return self._query.catalyst.plans.replaced(self._dimensions_in_place, self._pinned)

    def smallest(self) -> Mapping[Scan, _Side]:
        """For each large scan in shuffle joins, return the smallest of the other join sides."""
        if not self._pinned or self._query.is_command:  # a command gets conditions, but no filters
            return {}
        larger = {
            path: o.scan
            for path, o in self._outcomes.items()
            if o.scan.is_listed and self._is_larger(path, o.scan.config)
        }
        if not (larger and self._query.deterministic):
            return {}
        leaves = {node.path: node for node in self._tree.walk() if node.path in larger}
        columns = frozenset(i for leaf in leaves.values() for i in leaf_ids(leaf))
        found: dict[Scan, _Side] = {}
        for join_filter in discover(self._tree, columns, self._is_fixed):
            leaf = join_filter.leaf
            # The leaf may also be a dimension that is replaced by its rows, because these rows have
            # the column ids of the table. Only large scans get a filter.
            if leaf.path not in larger:
                continue
            kept = tuple(c for c in join_filter.comparisons if self._has_hashes(leaf, c))
            nbytes = self._bytes_of(join_filter.dimension)
            limit = _SMALLER * (self._bytes_at(leaf.path) or 0)
            if not kept or nbytes is None or nbytes > limit:
                continue
            if self._query.broadcast_of(self._plan, join_filter.dimension.node) is not None:
                continue  # a broadcast join drops the same rows without a shuffle
            scan = larger[leaf.path]
            if scan not in found or nbytes < found[scan].nbytes:
                found[scan] = _Side(scan, replace(join_filter, comparisons=kept), nbytes)
        return found

    def applied(self, outcome: ScanOutcome, side: _Side | None) -> ScanOutcome:
        """Return the outcome of a scan, with a Bloom filter if the filter drops enough rows."""
        if side is None:
            return outcome
        try:
            return self._with_filter(outcome, side)
        except JVM_ERRORS:
            # Leave the scan unchanged. A key expression may raise an error here for a row on which
            # the query itself never evaluates it.
            _log.debug("A runtime filter could not be built.", exc_info=True)
            return outcome

    def _with_filter(self, outcome: ScanOutcome, side: _Side) -> ScanOutcome:
        catalyst, started = self._query.catalyst, time.perf_counter()
        keys = [catalyst.plans.expression_at(self._plan, c.key.place) for c in side.comparisons]
        rows = plan_of_dimension(catalyst, self._plan, side.join_filter.dimension)
        hashes = catalyst.plans.projected(
            rows, [catalyst.expressions.alias(catalyst.expressions.hashed(keys), "hash")]
        )
        of_keys = allowed_part(catalyst, hashes, self._query.config)
        if why_not_deterministic(of_keys, trusts_foreign=False) is not None:
            return outcome  # when the query runs, the smaller side may have different rows
        found = filter_of_hashes(of_keys, MOST_KEYS)
        kept: list[bool] = []
        condition = None
        if share_of_bits(found) <= _FULL:
            scan = outcome.scan.leaf if outcome.instead is None else outcome.instead
            own = {a.exprId().id(): a for a in catalyst.plans.output(scan)}
            condition = catalyst.expressions.might_contain(found, [own[i] for i in side.column_ids])
            sample = catalyst.plans.projected(scan, [catalyst.expressions.alias(condition, "kept")])
            tested = allowed_part(catalyst, sample, self._query.config)
            kept = [row[0] for row in tested.take(_SAMPLE)]
        is_used = bool(kept) and sum(kept) <= _MOST_KEPT * len(kept)
        columns = tuple(side.scan.names[i] for i in side.column_ids)
        unused = f"more than about {MOST_KEYS:,} keys are too many keys for a Bloom filter."
        if kept:
            unused = "the filter keeps too many rows of the sample."
        use = FilterUse(
            columns,
            "Bloom filter",
            len(found),
            time.perf_counter() - started,
            used_fields=columns if is_used else (),
            unused_because=None if is_used else with_remedy(unused),
            rows=Count(sum(kept), len(kept)),
        )
        report = replace(outcome.report, filters=(*outcome.report.filters, use))
        return replace(outcome, report=report, rows=condition if is_used else None)

    def _is_larger(self, path: Path, config: SplitConfig) -> bool:
        """Return whether a scan is large, and a sample of it reads only partitions of the query.

        If splitlib has not pruned the scan, Spark applies conditions on partition columns only at
        run time. A sample of such a scan would also read partitions that the query does not need.
        """
        if (self._bytes_at(path) or 0) < config.runtime_filter_bytes:
            return False
        return self._outcomes[path].report.is_pruned or path not in self._with_conditions

    @cached_property
    def _with_conditions(self) -> frozenset[Path]:
        """Paths of scans with conditions on partition columns. Spark prunes these at run time."""
        found = partition_conditions(self._tree, self._query.partition_columns)
        return frozenset(condition.lineage.leaf.path for condition in found)

    def _has_hashes(self, leaf: Node, comparison: Comparison) -> bool:
        """Return whether a comparison is an equality, and equal values have equal hashes."""
        column = comparison.lineage.column
        if column is None or comparison.operator not in ("=", "<=>"):
            return False
        (attribute,) = (e for e in leaf.columns if e.attribute_id == column)
        kinds = {self._query.type_of(e) for e in (attribute, comparison.target, comparison.key)}
        if len(kinds) != 1:
            return False
        kind = kinds.pop()
        # With a collation, different strings can be equal. The catalog's name of such a type is
        # longer than "string", because it includes the collation.
        is_plain_text = kind.in_catalog == "string"
        return is_plain_text or kind.name in _HASHED or kind.name.startswith("decimal")

    def _is_fixed(self, node: Node) -> bool:
        """Return whether a part of the plan returns the same rows each time it runs."""
        if any(part.kind == "CollectMetrics" for part in node.walk()):
            return False  # Reading the rows twice would change the result of observe().
        return all(self._is_fixed_leaf(leaf) for leaf in node.walk() if leaf.is_leaf)

    def _is_fixed_leaf(self, leaf: Node) -> bool:
        node = self._query.catalyst.plans.node(self._plan, leaf.path)
        kinds = ("LocalRelation", "OneRowRelation")
        return leaf.path in self._pinned or self._query.catalyst.plans.kind(node) in kinds

    def _bytes_of(self, dimension: Dimension) -> int | None:
        """Return the bytes that a dimension reads, or None if unknown or if its rows may change."""
        if dimension.is_value or not self._is_fixed(dimension.node):
            return None
        paths = [leaf.path for leaf in dimension.leaves if leaf.path in self._pinned]
        sizes = [self._bytes_at(path) for path in paths]
        return None if not paths or None in sizes else sum(size or 0 for size in sizes)

    def _bytes_at(self, path: Path) -> int | None:
        """Return the number of bytes that a scan reads, or None if unknown."""
        outcome = self._outcomes[path]
        nbytes = outcome.report.nbytes.matched
        if outcome.instead is not None and nbytes is not None:
            return nbytes
        return self._query.size_of(_at(self._tree, path), ())


def _at(root: Node, path: Path) -> Node:
    return next(node for node in root.walk() if node.path == path)
