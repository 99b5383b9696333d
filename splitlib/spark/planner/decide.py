"""Decide how to prune a query, with the planner passes that do not need Spark.

:func:`decide` runs the passes in order. It finds the scans that the optimizer has copied, builds
the join graph, checks which filters may prune which scan, checks the costs, and chooses the
dimensions (small sides of joins) to run once. The passes are plain Python on the trees of
:mod:`splitlib.spark.logical_plan`. :class:`PlanFacts` provides the few facts that only Spark knows.

The module also finds dead scans, which the optimizer has dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Generic, Protocol, TypeVar

from splitlib.report import size_text
from splitlib.spark.logical_plan import Expression, Node, Path
from splitlib.spark.planner.eligibility import (
    COPIED,
    NOT_SELECTED,
    Reason,
    ScanSite,
    TypeNames,
    eligible,
    parts_of,
)
from splitlib.spark.planner.exposed import lost_scans, may_be_needed
from splitlib.spark.planner.join_graph import Dimension, JoinFilter, discover
from splitlib.spark.planner.lineage import RELATIONS, TABLES, leaf_ids
from splitlib.spark.planner.materializable import Leaves, Materializable, materializable

# Leaves whose rows are in memory already.
_IN_MEMORY = frozenset(
    {"LocalRelation", "OneRowRelation", "LogicalRDD", "InMemoryRelation", "CommandResult"}
)
# Nodes that return few rows: rows in memory, a LIMIT, or the rows that `range` generates.
_FEW_ROWS = _IN_MEMORY | {"GlobalLimit", "Range"}
_LOOP_REF = "UnionLoopRef"
"""Leaf of a recursive query that reads the rows of the previous step."""
# A table of at most this many rows and bytes is used as a dimension even if no condition drops
# rows, because its keys may occur in only a few partitions.
_FEW: Final = 1_000
_SMALL_FILES: Final = 1 << 20
# A data source estimates the size of only the columns that are read, but file sizes cover all
# columns. So a join side counts as larger than a scan only if it is this many times as large.
_MUCH_SMALLER = 10


class Costs:
    """Costs of running parts of one plan to collect keys. The cost of each part is computed once.

    Args:
        size_of: Function that returns the number of bytes that a leaf reads, or None if unknown.
        limit: Maximal number of bytes to read in order to collect keys.
        copied_rdds: Paths of the RDD leaves that the optimizer has copied under new column ids.
        rows_of: Function that returns the number of rows of a leaf, or None if unknown.
    """

    def __init__(
        self,
        size_of: Callable[[Node], int | None],
        limit: int,
        copied_rdds: Collection[Path] = (),
        rows_of: Callable[[Node], int | None] = lambda _: None,
    ) -> None:
        self._size_of = size_of
        self._limit = limit
        self._copied_rdds = copied_rdds
        self._rows_of = rows_of
        self._reasons: dict[Path, str | None] = {}

    def may_run(self, node: Node) -> bool:
        """Return whether a part of the plan may be run to collect its keys."""
        return self.why_not_run(node) is None

    def why_not_run(self, node: Node) -> str | None:
        """Return the reason not to run a part of the plan for its keys, or None if it may run."""
        if node.path not in self._reasons:
            self._reasons[node.path] = self.why_never_run(node) or self._why_too_large(node)
        return self._reasons[node.path]

    def _why_too_large(self, node: Node) -> str | None:
        total = self.bytes_read(node)
        if total is None:
            return "the dimension reads a table of unknown size"
        if total > self._limit:
            limit = f"planner_dimension_bytes ({size_text(self._limit)})"
            return f"the dimension reads {size_text(total)}, more than {limit}"
        return None

    def why_never_run(self, node: Node) -> str | None:
        """Return a reason other than size not to run a part of the plan for its keys, or None."""
        if any(part.path in self._copied_rdds for part in node.walk()):
            # Spark may compute the RDD again for the keys, and get different rows than the query.
            return "the dimension reads an RDD that is also read elsewhere"
        if any(part.kind == "CollectMetrics" for part in node.walk()):
            return "the dimension has observe(), and reading its keys would count its rows"
        if any(_is_step_of_loop(part, node) for part in node.walk()):
            return "the dimension is a step of a recursive query"
        return None

    def has_few_rows(self, node: Node) -> bool:
        """Return whether a part of the plan reads exactly one table, and it has few rows."""
        leaves = [part for part in node.walk() if part.is_leaf]
        if len(leaves) != 1 or leaves[0].kind not in RELATIONS | TABLES:
            return False
        size = self._size_of(leaves[0])
        if size is None or size > _SMALL_FILES:
            return False
        rows = self._rows_of(leaves[0])
        return rows is not None and rows <= _FEW

    def bytes_read(self, node: Node) -> int | None:
        """Return the number of bytes that a part of the plan reads, or None if unknown."""
        total = 0
        for leaf in node.walk():
            if leaf.is_leaf and leaf.kind not in _IN_MEMORY and leaf.kind != _LOOP_REF:
                size = self._size_of(leaf)
                if size is None:
                    return None
                total += size
        return total


def _is_step_of_loop(part: Node, top: Node) -> bool:
    """Return whether ``part`` reads a step of a recursive query that starts above ``top``."""
    if part.kind != _LOOP_REF:
        return False
    loops = (node for node in top.walk() if node.kind == "UnionLoop")
    return not any(loop.fields["id"] == part.fields["loopId"] for loop in loops)


def worth_collecting(
    sites: Mapping[Path, ScanSite],
    costs: Costs,
    listed: Collection[Path],
    *,
    wants_selective: bool = True,
) -> dict[Path, ScanSite]:
    """Return copies of the scan sites with only the join filters whose keys are worth collecting.

    A scan site is a position in the plan where a prunable scan is read. If a dimension is not run,
    but its keys are partition values of another site, the filter uses the values that remain after
    that site is pruned.

    Args:
        sites: Scan sites by path.
        costs: Costs of the plan that contains the sites.
        listed: Paths of the sites whose partitions splitlib lists. Other sites get a condition on
            any of their columns, so both sides of a join could prune each other. Keys from a join
            side that is much larger than such a site are not used.
        wants_selective: Whether to use only dimensions with a condition that drops rows. Listed
            sites then also use dimensions that read a single table with few rows.
    """

    def of_site(path: Path, site: ScanSite) -> ScanSite:
        is_listed = path in listed
        site = site if is_listed else _not_of_larger(site, costs)
        return _of_site(site, costs, wants_selective=wants_selective, few_suffice=is_listed)

    return {path: of_site(path, site) for path, site in sites.items()}


def _not_of_larger(site: ScanSite, costs: Costs) -> ScanSite:
    own = costs.bytes_read(site.leaf)

    def is_small(join_filter: JoinFilter) -> bool:
        other = costs.bytes_read(join_filter.dimension.node)
        return other is not None and (own is None or other < own * _MUCH_SMALLER)

    return replace(site, filters=tuple(f for f in site.filters if is_small(f)))


def _of_site(site: ScanSite, costs: Costs, *, wants_selective: bool, few_suffice: bool) -> ScanSite:
    filters: list[JoinFilter] = []
    from_sites: list[JoinFilter] = []
    reasons: list[Reason] = []
    too_much = False
    for join_filter in site.filters:
        never = join_filter.why_not_collected or costs.why_never_run(join_filter.dimension.node)
        reason = never or costs.why_not_run(join_filter.dimension.node)
        if reason and not never:
            too_much = True
        dimension = _selective_part(join_filter.dimension)
        if not reason and wants_selective and not is_selective(dimension):
            few = few_suffice and costs.has_few_rows(dimension.node)
            reason = None if few else "the dimension has no condition that drops rows"
        if not reason:
            filters.append(replace(join_filter, dimension=dimension))
        elif all(c.key_lineage is not None for c in join_filter.comparisons):
            from_sites.append(replace(join_filter, why_not_collected=reason))
        else:
            reasons.append(Reason(f"{reason}.", parts_of(join_filter.comparisons)))
    site = replace(
        site, filters=tuple(filters), from_sites=tuple(from_sites), reads_too_much=too_much
    )
    return site.because(*reasons)


def is_selective(dimension: Dimension) -> bool:
    """Return whether the dimension has a condition that drops rows.

    A condition on another dimension counts too, if a join with it filters this dimension.
    """
    if dimension.is_value or _drops_rows(dimension.node):
        return True
    return any(is_selective(other) for other, _ in dimension.narrowed_by)


def _selective_part(dimension: Dimension) -> Dimension:
    """Return a copy of the dimension, narrowed only by dimensions whose conditions drop rows."""
    kept = ((_selective_part(other), conditions) for other, conditions in dimension.narrowed_by)
    return replace(dimension, narrowed_by=tuple((d, c) for d, c in kept if is_selective(d)))


def _drops_rows(node: Node) -> bool:
    top = node.below("Project", "Filter")
    if top.kind == "Aggregate" and not top.expressions("groupingExpressions"):
        return True  # there is one row
    for part in node.walk():
        if part.kind in _FEW_ROWS:
            return True
        # The optimizer adds IS NOT NULL for every join key, so this condition does not count.
        if part.kind == "Filter" and any(c.kind != "IsNotNull" for c in part.conditions):
            return True
    return False


# Leaves that are checked for copies. RDDs are included, because an RDD may return different rows
# each time it is computed.
_READ_SOMETHING = RELATIONS | TABLES | {"LogicalRDD"}

Copied = TypeVar("Copied")
Scan = TypeVar("Scan", bound=Hashable)
E = TypeVar("E")
S = TypeVar("S", bound=Hashable)
"""Type of the scans that can be pruned."""


def copied_leaves(analyzed: Node, optimized: Node) -> dict[Path, Node]:
    """Return the leaves that the optimizer has copied under new column ids, by path.

    They are in the optimized plan, but not in the analyzed plan.
    """
    known = {i for node in analyzed.walk() if node.is_leaf for i in leaf_ids(node)}
    return {
        node.path: node
        for node in optimized.walk()
        if node.kind in _READ_SOMETHING and not _is_of(known, node)
    }


def _is_of(known: set[int], leaf: Node) -> bool:
    ids = leaf_ids(leaf)
    # A table scan without columns has no ids to identify it, so it may be a copy of any table.
    return ids <= known and (bool(ids) or leaf.kind not in TABLES)


def copied_scans(
    copies: Mapping[Path, Node],
    scans: Iterable[Copied],
    places_of: Callable[[Copied], frozenset[str]],
    places_read_by: Callable[[Node], frozenset[str]],
) -> dict[Path, tuple[Copied, ...]]:
    """Return the scans that each copied leaf may be a copy of, by the path of the leaf.

    Args:
        copies: Leaves from :func:`copied_leaves`.
        scans: Scans of the analyzed plan.
        places_of: Function that returns the tables and directories that such a scan reads.
        places_read_by: Function that returns the tables and directories that a leaf of the
            optimized plan reads.
    """
    of_tables = [leaf for leaf in copies.values() if leaf.kind in RELATIONS | TABLES]
    if not of_tables:
        return {}
    known = [(scan, places_of(scan)) for scan in scans]
    found = {}
    for leaf in of_tables:
        read = places_read_by(leaf)
        # An empty set means that the tables are unknown, so the leaf may be a copy of the scan.
        found[leaf.path] = tuple(
            scan for scan, places in known if not read or not places or places & read
        )
    return found


def dead_scans(
    analyzed: Node,
    unread: Mapping[Scan, Collection[Path]],
    empty: Callable[[Scan], E | None],
    optimized_with: Callable[[Mapping[Path, E], Path], Node],
) -> dict[Path, E]:
    """Return empty scans that replace dead scans, by path in the analyzed plan.

    A dead scan is a scan that the optimizer has dropped from the plan. Spark would still list its
    table. Return an empty dict if the optimizer does not drop the empty scans: then the query may
    need the rows of the scans, for example if Spark has merged a scan with another one.

    Args:
        analyzed: The analyzed plan.
        unread: Scans of the analyzed plan that the optimized plan does not read, with their paths.
        empty: Function that returns a scan's empty replacement, or None if replacing saves nothing.
        optimized_with: Function that replaces nodes of the analyzed plan by path, and optimizes
            the part of it at another path.
    """
    empty_scans = {scan: empty(scan) for scan in unread}
    new = {
        path: node
        for scan, node in empty_scans.items()
        if node is not None
        for path in unread[scan]
    }
    if not new:
        return {}
    leaves = (node for node in analyzed.walk() if node.path not in new)
    others = {leaf_ids(leaf) for leaf in leaves if leaf.kind in RELATIONS}
    part = may_be_needed(analyzed, new.keys())
    if part is None:
        return {}
    plans = [optimized_with(new, path) for path in dict.fromkeys([(), part])]
    still_read = {leaf_ids(n) for plan in plans for n in plan.walk() if n.kind in RELATIONS}
    return new if still_read <= others else {}


class PlanFacts(Protocol[S]):
    """The plans of a query, and facts about the query that only Spark knows."""

    @property
    def analyzed_tree(self) -> Node:
        """The analyzed plan, before Spark's optimizer changes it."""

    @property
    def optimized_tree(self) -> Node:
        """The plan after Spark's optimizer."""

    @property
    def scan_paths(self) -> Mapping[S, Collection[Path]]:
        """The scans that can be pruned, with their paths in the analyzed plan."""

    @property
    def partition_columns(self) -> frozenset[int]:
        """The ids of the columns by which scans can be pruned."""

    @property
    def deterministic(self) -> bool:
        """Whether the query returns the same rows each time it runs."""

    @property
    def is_command(self) -> bool:
        """Whether the query selects the rows that a command such as MERGE changes.

        Keys of such a query are collected even from dimensions without a selective condition.
        """

    @property
    def dimension_bytes(self) -> int:
        """Maximal number of bytes to read in order to collect the keys of a dimension."""

    @property
    def broadcast_threshold(self) -> int:
        """Maximal size in bytes of a join side that Spark broadcasts."""

    def scan_of(self, leaf: Node) -> S | None:
        """Return the prunable scan that a leaf of either plan reads, or None for any other node."""

    def is_listed(self, scan: S) -> bool:
        """Return whether splitlib lists a scan's partitions. Other scans get a condition."""

    def places_of(self, scan: S) -> frozenset[str]:
        """Return the tables and directories that a scan reads."""

    def places_read_by(self, leaf: Node) -> frozenset[str]:
        """Return the tables and directories that a leaf of the optimized plan reads."""

    def size_of(self, leaf: Node, copied: Collection[S]) -> int | None:
        """Return the bytes that a leaf of the optimized plan reads, or None if unknown."""

    def rows_of(self, leaf: Node) -> int | None:
        """Return the number of rows in the table that a leaf of the optimized plan reads.

        The number may be out of date. Return None if it is unknown.
        """

    def type_of(self, expression: Expression) -> TypeNames:
        """Return the type of an expression of the optimized plan."""


@dataclass(frozen=True, slots=True, eq=False)
class Decisions(Generic[S]):
    """The scans of a query to prune, and the dimensions to run for their keys."""

    sites: Mapping[Path, ScanSite]
    """Prunable scans with their join filters, by path in the optimized plan."""
    dimensions: tuple[Dimension, ...]
    """Dimensions whose keys are to be collected."""
    run_once: tuple[tuple[Materializable, ...], ...]
    """Leaves to run once and to replace by their rows, in groups that run one after another."""
    unpruned: Mapping[S, str]
    """Reasons not to prune scans, for example because the optimizer has copied them."""
    unread: Mapping[S, Collection[Path]]
    """Scans that the optimized plan does not read, with their paths in the analyzed plan."""


def decide(facts: PlanFacts[S]) -> Decisions[S]:
    """Decide which of a query's scans to prune, and which dimensions to collect keys from."""
    root, columns = facts.optimized_tree, facts.partition_columns
    leaves = {node: scan for node in root.walk() if (scan := facts.scan_of(node)) is not None}
    copies = copied_leaves(facts.analyzed_tree, root)
    copied = copied_scans(copies, facts.scan_paths, facts.places_of, facts.places_read_by)

    def size_of(leaf: Node) -> int | None:
        return facts.size_of(leaf, copied.get(leaf.path, ()))

    def fits(leaf: Node) -> bool:
        size = size_of(leaf)
        return size is not None and size <= facts.broadcast_threshold

    copied_rdds = {path for path, leaf in copies.items() if leaf.kind == "LogicalRDD"}
    costs = Costs(size_of, facts.dimension_bytes, copied_rdds, facts.rows_of)
    filters = discover(root, columns, costs.may_run)
    sites = eligible(
        root, leaves, columns, filters, facts.type_of, deterministic=facts.deterministic
    )
    listed = {leaf.path for leaf, scan in leaves.items() if facts.is_listed(scan)}
    sites = worth_collecting(sites, costs, listed, wants_selective=not facts.is_command)
    dimensions = tuple(dimension for site in sites.values() for dimension in site.dimensions)
    run_once: list[tuple[Materializable, ...]] = []
    if dimensions and not copies:  # a copy may need rows that the filter of the original drops
        never_run = listed.union(path for path, site in sites.items() if site.may_have_keys)
        leaves_of_both = Leaves(root, facts.analyzed_tree)
        run_once = materializable(dimensions, leaves_of_both, never_run, fits)
    read = Counter(leaves.values())
    lost = lost_scans(facts.analyzed_tree, root, facts.scan_paths, read)
    unpruned = dict.fromkeys(lost, NOT_SELECTED)
    unpruned |= {scan: COPIED for scans in copied.values() for scan in scans}
    known = unpruned.keys() | read.keys()
    unread = {scan: paths for scan, paths in facts.scan_paths.items() if scan not in known}
    return Decisions(sites, dimensions, tuple(run_once), unpruned, unread)
