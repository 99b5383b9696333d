"""The query with its small dimensions run, in both forms in which the planner works on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any

from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.logical_plan import Node, Path
from splitlib.spark.planner.join_graph import Dimension
from splitlib.spark.planner.lineage import RELATIONS, leaf_columns, leaf_ids
from splitlib.spark.planner.materialize import checkpoint_rdds, freezable, freeze


class Frozen:
    """Replaces dimensions by their rows.

    Args:
        catalyst: Of the session.
        analyzed: The analyzed plan's tree.
        optimized: The optimized plan, in which dimensions are found.
        tree: The same plan.
    """

    def __init__(self, catalyst: Catalyst, analyzed: Node, optimized: Any, tree: Node) -> None:
        self._catalyst = catalyst
        self._analyzed = analyzed
        self.optimized = optimized
        """With the rows of what has been run in its place."""
        self.tree = tree
        """Of the optimized plan as it was at first."""
        self.new: dict[Path, Any] = {}
        """What takes the place of leaves of the analyzed plan."""

    def checkpoint(self, dimensions: Sequence[Dimension]) -> None:
        """Compute RDDs among them: who knows what they would give another time."""
        computed = checkpoint_rdds(self._catalyst, self.optimized, dimensions)
        for path, leaf in _leaves(self._analyzed):
            if leaf in computed:
                self.new[path] = computed[leaf]
        there = {path: computed[leaf] for path, leaf in _leaves(self.tree) if leaf in computed}
        self.optimized = self._catalyst.replaced(self.optimized, there)

    def run(
        self,
        dimensions: Sequence[Dimension],
        scans: Collection[Path],
        size_of: Callable[[Node], int | None],
        executor: Executor,
    ) -> None:
        """Run those that are a filter on one table of the size of a broadcast.

        Args:
            dimensions: Whose keys are wanted.
            scans: Leaves that keys may prune; they are never run.
            size_of: Bytes that a leaf reads; None if that is not known.
            executor: Where they run, several at a time.
        """
        limit = self._catalyst.broadcast_threshold()
        places = defaultdict(list)
        for node in self._analyzed.walk():
            if node.is_leaf:
                places[_columns(node)].append(node.path)

        def small(leaf: Node) -> bool:
            # the optimizer may have left out fields of its structs: then it is not the same leaf
            if leaf.path in scans or len(places.get(_columns(leaf), ())) != 1:
                return False
            if leaf.kind not in RELATIONS:
                return False
            size = size_of(leaf)
            return size is not None and size <= limit

        wanted = freezable(dimensions, self.tree, small)
        run: set[Path] = set()
        while wanted:
            # subqueries run again in the query, and must not see other rows there
            ready = {path: d for path, d in wanted.items() if d.read_by_subqueries <= run}
            if not ready:
                break
            rows = freeze(self._catalyst, self.optimized, self.tree, ready, executor)
            for path, node in rows.items():
                (there,) = places[_columns(wanted.pop(path).leaf)]
                self.new[there] = node
            self.optimized = self._catalyst.replaced(self.optimized, rows)
            run |= rows.keys()


def _leaves(root: Node) -> Iterator[tuple[Path, frozenset[int]]]:
    for node in root.walk():
        if node.is_leaf:
            yield node.path, leaf_ids(node)


def _columns(leaf: Node) -> frozenset[tuple[int | None, str]]:
    """The ids and types of what a leaf shows."""
    return frozenset((e.attribute_id, str(e.fields["dataType"])) for e in leaf_columns(leaf))
