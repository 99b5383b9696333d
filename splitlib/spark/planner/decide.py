"""Decide how to prune a query, with the planner passes that do not need Spark.

:func:`decide` runs the passes in order. It finds the scans that the optimizer has copied, builds
the join graph, checks which filters may prune which scan, checks the costs, and chooses the
dimensions to run once. The passes are plain Python on the trees of
:mod:`splitlib.spark.logical_plan`. :class:`PlanFacts` provides the few facts that only Spark has.

The module also finds dead scans, which the optimizer has dropped, and joins that broadcast the
same side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from splitlib.spark.logical_plan import Expression, Node, Path
from splitlib.spark.planner.cost import Costs, worth_collecting
from splitlib.spark.planner.eligibility import TypeNames, eligible
from splitlib.spark.planner.join_graph import Dimension, discover
from splitlib.spark.planner.lineage import RELATIONS, TABLES, join_type, leaf_ids
from splitlib.spark.planner.materializable import Leaves, Materializable, materializable
from splitlib.spark.planner.scan_sites.scan_site import ScanSite

# Leaves that are checked for copies. RDDs are included, because an RDD may return different rows
# each time it is computed.
_READ_SOMETHING = RELATIONS | TABLES | {"LogicalRDD"}

Copied = TypeVar("Copied")
Scan = TypeVar("Scan", bound=Hashable)
E = TypeVar("E")
S = TypeVar("S", bound=Hashable)
"""Type of the scans that can be pruned."""


def copied_leaves(analyzed: Node, optimized: Node) -> dict[Path, Node]:
    """Return the leaves of the optimized plan that do not occur in the analyzed plan, by path."""
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
        # If the tables and directories of one of the two are unknown, assume a copy.
        found[leaf.path] = tuple(
            scan for scan, places in known if not read or not places or places & read
        )
    return found


def dead_scans(
    analyzed: Node,
    unread: Mapping[Scan, Collection[Path]],
    empty: Callable[[Scan], E | None],
    optimized_with: Callable[[Mapping[Path, E]], Node],
) -> dict[Path, E]:
    """Return empty scans that replace dead scans, by path in the analyzed plan.

    A dead scan is a scan that the optimizer has dropped from the plan. If the optimizer does not
    drop the empty scans as well, nothing is replaced.

    Args:
        analyzed: The analyzed plan.
        unread: Scans of the analyzed plan that the optimized plan does not read, with their paths.
        empty: Function that returns an empty replacement for a scan; None if that saves nothing.
        optimized_with: Function that optimizes the analyzed plan with other nodes at some paths.
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
    optimized = optimized_with(new)
    still_read = {leaf_ids(leaf) for leaf in optimized.walk() if leaf.kind in RELATIONS}
    return new if still_read <= others else {}


def sharing_broadcasts(
    root: Node, sites: Collection[Path], broadcast_of: Callable[[Node], Hashable | None]
) -> set[Path]:
    """Return the paths of the scan sites that are joined with the same broadcast side as another.

    Args:
        root: The optimized plan.
        sites: Paths of the scan sites, that is of the prunable scans, in the plan.
        broadcast_of: Function that returns equal values for equal join sides; None if Spark does
            not broadcast the side.
    """
    sharing: dict[Hashable, set[Path]] = defaultdict(set)
    for node in root.walk():
        # Only in an inner join can Spark broadcast either side.
        if node.kind == "Join" and join_type(node) == "Inner":
            for child, other in zip(node.children, reversed(node.children), strict=True):
                leaf = _leaf_of(child)
                build_side = broadcast_of(other) if leaf.path in sites else None
                if build_side is not None:
                    sharing[build_side].add(leaf.path)
    return {path for paths in sharing.values() if len(paths) > 1 for path in paths}


def _leaf_of(node: Node) -> Node:
    while node.kind in ("Project", "Filter"):
        (node,) = node.children
    return node


class PlanFacts(Protocol[S]):
    """A query, with the facts about it that only Spark has."""

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
        """Whether the query selects the rows that a command changes.

        If so, keys are also collected from dimensions without a condition that drops rows.
        """

    @property
    def dimension_bytes(self) -> int:
        """Maximal number of bytes to read in order to collect the keys of a dimension."""

    @property
    def broadcast_threshold(self) -> int:
        """Maximal size in bytes of a join side that Spark broadcasts."""

    def scan_of(self, leaf: Node) -> S | None:
        """Return the prunable scan of a leaf of either plan; None for any other node."""

    def is_listed(self, scan: S) -> bool:
        """Return whether splitlib lists the partitions of a scan. Other scans get a condition."""

    def places_of(self, scan: S) -> frozenset[str]:
        """Return the tables and directories that a scan reads."""

    def places_read_by(self, leaf: Node) -> frozenset[str]:
        """Return the tables and directories that a leaf of the optimized plan reads."""

    def size_of(self, leaf: Node, copied: Collection[S]) -> int | None:
        """Return the bytes that a leaf of the optimized plan reads; None if unknown.

        Args:
            leaf: The leaf.
            copied: Scans that the leaf may be a copy of.
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
    copied: frozenset[S]
    """Scans that the optimizer may have copied. They are not pruned."""
    unread: Mapping[S, Collection[Path]]
    """Scans that the optimized plan does not read, with their paths in the analyzed plan."""


def decide(facts: PlanFacts[S]) -> Decisions[S]:
    """Decide which scans of a query to prune, and which dimensions provide the keys."""
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
    costs = Costs(size_of, facts.dimension_bytes, copied_rdds)
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
    of_copies = frozenset(scan for scans in copied.values() for scan in scans)
    known = of_copies.union(leaves.values())
    unread = {scan: paths for scan, paths in facts.scan_paths.items() if scan not in known}
    return Decisions(sites, dimensions, tuple(run_once), of_copies, unread)
