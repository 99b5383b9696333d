"""One query on its way through the passes: as Spark has it, and as plain values."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from pyspark.sql import DataFrame

from splitlib.config import SplitConfig
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.logical_plan import Expression, Node, Path
from splitlib.spark.planner.comparable import TypeNames
from splitlib.spark.planner.scan_sites.prunable import PrunableScan, PrunableScans, Scan


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Query:
    """A query, and what the passes ask Spark about it.

    It is the :class:`splitlib.spark.planner.decide.PlanFacts` of what Spark runs.
    """

    df: DataFrame
    catalyst: Catalyst
    config: SplitConfig
    prunable: PrunableScans
    """The scans of the analyzed plan that can be pruned."""
    analyzed: Any
    analyzed_tree: Node
    optimized: Any
    optimized_tree: Node
    broadcast_threshold: int
    unknown_size: int
    """Bytes that Spark takes a size to be that it does not know."""
    is_command: bool
    """Whether it is of the rows that a command changes."""
    replaced_leaves: Mapping[Path, Any] = field(default_factory=dict)
    """What has taken the place of leaves of the analyzed plan, by path."""
    pruned_bytes: Mapping[Path, int] = field(default_factory=dict)
    """What scans read that have been pruned, by path in the optimized plan."""

    @property
    def scans(self) -> Sequence[Scan]:
        """The scans that can be pruned, in the order of the analyzed plan."""
        return tuple(self.prunable.by_columns.values())

    @property
    def scan_paths(self) -> Mapping[Scan, Collection[Path]]:
        """Where these stand in the analyzed plan."""
        return {scan: scan.paths for scan in self.scans}

    @property
    def partition_columns(self) -> frozenset[int]:
        """The ids of the columns by which they can be pruned."""
        return self.prunable.columns

    @property
    def deterministic(self) -> bool:
        """Whether the query gives the same rows each time it is run."""
        return self.catalyst.is_deterministic(self.optimized)

    @property
    def dimension_bytes(self) -> int:
        """Reading more than so much to learn the keys does not pay."""
        return self.config.planner_dimension_bytes

    def scan_of(self, leaf: Node) -> Scan | None:
        """The scan that a leaf of either plan is; None if it is another node."""
        return self.prunable.of_leaf(leaf)

    def is_listed(self, scan: Scan) -> bool:
        """Whether splitlib lists what a scan reads; else it gets the keys as a condition."""
        return isinstance(scan, PrunableScan)

    def places_of(self, scan: Scan) -> frozenset[str]:
        """The tables and directories that a scan reads."""
        return self.catalyst.places_read_by(scan.leaf)

    def places_read_by(self, leaf: Node) -> frozenset[str]:
        """The tables and directories that a leaf of the optimized plan reads."""
        return self.catalyst.places_read_by(self.catalyst.node(self.optimized, leaf.path))

    def size_of(self, leaf: Node, copied: Collection[Scan]) -> int | None:
        """Bytes that a leaf of the optimized plan reads; None if that is not known.

        Args:
            leaf: The leaf.
            copied: What it may be a copy of.
        """
        if leaf.path in self.pruned_bytes:
            return self.pruned_bytes[leaf.path]
        scans = (self.scan_of(leaf), *copied)
        if any(isinstance(scan, PrunableScan) and scan.is_placeholder for scan in scans):
            return None  # it is never run
        return self._size(self.catalyst.node(self.optimized, leaf.path))

    def size_in_analyzed(self, leaf: Node) -> int | None:
        """Bytes that a leaf of the analyzed plan reads; None if that is not known."""
        return self._size(self.catalyst.node(self.analyzed, leaf.path))

    def type_of(self, expression: Expression) -> TypeNames:
        """The type of an expression of the optimized plan."""
        kind = self.catalyst.expression_at(self.optimized, expression.place).dataType()
        return TypeNames(str(kind.typeName()), str(kind.catalogString()))

    def broadcast_of(self, plan: Any, node: Node) -> Hashable | None:
        """What is the same for build sides that Spark broadcasts once; None if it would not.

        Args:
            plan: The optimized plan, or the same with the rows of dimensions in it.
            node: A side of a join in it.
        """
        build_side = self.catalyst.node(plan, node.path)
        if self.catalyst.size_of(build_side) > self.broadcast_threshold:
            return None
        return self.catalyst.semantic_hash(build_side)

    def optimized_with(self, new: Mapping[Path, Any]) -> Node:
        """What Spark makes of the query with other nodes at some paths of the analyzed plan."""
        plan = self.catalyst.optimized(self.catalyst.replaced(self.analyzed, new))
        return self.catalyst.tree(plan)

    def with_leaves(
        self, optimized_leaves: Mapping[Path, Any], analyzed_leaves: Mapping[Path, Any]
    ) -> Self:
        """The query with other leaves in the places of scans, which are pruned no further.

        Args:
            optimized_leaves: By path in the optimized plan.
            analyzed_leaves: By path in the analyzed one.
        """
        catalyst = self.catalyst
        analyzed = catalyst.replaced(self.analyzed, analyzed_leaves)
        optimized = catalyst.replaced(self.optimized, optimized_leaves)
        return replace(
            self,
            prunable=self.prunable.without(analyzed_leaves.keys()),
            analyzed=analyzed,
            analyzed_tree=catalyst.tree(analyzed),
            optimized=optimized,
            optimized_tree=catalyst.tree(optimized),
            replaced_leaves={**self.replaced_leaves, **analyzed_leaves},
        )

    def _size(self, node: Any) -> int | None:
        size = self.catalyst.size_of(node)
        return size if size < self.unknown_size else self.catalyst.size_on_disk(node)
