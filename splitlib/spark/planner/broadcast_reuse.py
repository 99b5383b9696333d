"""Broadcast reuse: joins that share a broadcast dimension still share it after pruning.

Spark broadcasts the smaller side of a join. A pruned fact table may become smaller than the
dimension, so that Spark broadcasts the fact table instead. If several joins broadcast the same
dimension, Spark reads the dimension once for all of them. That reuse would be lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable

from splitlib.spark.logical_plan import Node, Path
from splitlib.spark.planner.lineage import join_type


def sharing_broadcasts(
    root: Node, sites: Collection[Path], broadcast_of: Callable[[Node], Hashable | None]
) -> set[Path]:
    """Return the scan sites whose join has the same build side as the join of another site.

    Args:
        root: The optimized plan.
        sites: Paths of the scan sites in the plan.
        broadcast_of: Return a value that is equal for equal build sides, or None if Spark does
            not broadcast this side.
    """
    sharing: dict[Hashable, set[Path]] = defaultdict(set)
    for node in root.walk():
        # In other join types Spark can broadcast only one of the two sides.
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
