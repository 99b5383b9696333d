"""The decisions about a query: the passes that need no Spark, one after the other.

Scan sites, join graph, eligibility, cost, and what is run once. All of it is plain Python on the
trees of :mod:`splitlib.spark.logical_plan`; the few facts that only Spark knows are asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from splitlib.spark.logical_plan import Expression, Node, Path
from splitlib.spark.planner.comparable import TypeNames
from splitlib.spark.planner.copied_scans import copied_leaves, copied_scans
from splitlib.spark.planner.cost import Costs, worth_collecting
from splitlib.spark.planner.eligibility import eligible
from splitlib.spark.planner.join_graph import Dimension, discover
from splitlib.spark.planner.materializable import Leaves, Materializable, materializable
from splitlib.spark.planner.scan_sites.scan_site import ScanSite

S = TypeVar("S", bound=Hashable)
"""A scan that can be pruned, whatever it is."""


class PlanFacts(Protocol[S]):
    """A query, and what Spark knows of it."""

    @property
    def analyzed_tree(self) -> Node:
        """The plan as the query was written."""

    @property
    def optimized_tree(self) -> Node:
        """The plan as Spark's optimizer leaves it."""

    @property
    def scan_paths(self) -> Mapping[S, Collection[Path]]:
        """The scans of the analyzed plan that can be pruned, and where they stand in it."""

    @property
    def partition_columns(self) -> frozenset[int]:
        """The ids of the columns by which they can be pruned."""

    @property
    def deterministic(self) -> bool:
        """Whether the query gives the same rows each time it is run."""

    @property
    def is_command(self) -> bool:
        """Whether the query is of the rows that a command changes by those of other tables.

        What those are is then the point of it, and no condition needs to leave out any.
        """

    @property
    def dimension_bytes(self) -> int:
        """Reading more than so much to learn the keys does not pay."""

    @property
    def broadcast_threshold(self) -> int:
        """Bytes up to which Spark broadcasts a side of a join."""

    def scan_of(self, leaf: Node) -> S | None:
        """The scan that a leaf of either plan is; None if it is another node."""

    def is_listed(self, scan: S) -> bool:
        """Whether splitlib lists what a scan reads; else it gets the keys as a condition."""

    def places_of(self, scan: S) -> frozenset[str]:
        """The tables and directories that a scan reads."""

    def places_read_by(self, leaf: Node) -> frozenset[str]:
        """The tables and directories that a leaf of the optimized plan reads."""

    def size_of(self, leaf: Node, copied: Collection[S]) -> int | None:
        """Bytes that a leaf of the optimized plan reads, which may be a copy of some scans.

        None if that is not known.
        """

    def type_of(self, expression: Expression) -> TypeNames:
        """The type of an expression of the optimized plan."""


@dataclass(frozen=True, slots=True, eq=False)
class Decisions(Generic[S]):
    """What is to be done with a query."""

    sites: Mapping[Path, ScanSite]
    """The scan sites of the optimized plan, and what prunes them."""
    dimensions: tuple[Dimension, ...]
    """Those whose keys are to be collected."""
    run_once: tuple[tuple[Materializable, ...], ...]
    """What takes the place of dimensions, in groups that run one after another."""
    copied: frozenset[S]
    """Scans that may stand in the optimized plan where nothing is known of them."""
    unread: Mapping[S, Collection[Path]]
    """Scans that the optimized plan does not read, and where they stand in the analyzed one."""


def decide(facts: PlanFacts[S]) -> Decisions[S]:
    """What is to be done with a query."""
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
    if dimensions and not copies:  # a copy may need rows that the filter of the other one drops
        never_run = listed.union(path for path, site in sites.items() if site.may_have_keys)
        leaves_of_both = Leaves(root, facts.analyzed_tree)
        run_once = materializable(dimensions, leaves_of_both, never_run, fits)
    of_copies = frozenset(scan for scans in copied.values() for scan in scans)
    known = of_copies.union(leaves.values())
    unread = {scan: paths for scan, paths in facts.scan_paths.items() if scan not in known}
    return Decisions(sites, dimensions, tuple(run_once), of_copies, unread)
