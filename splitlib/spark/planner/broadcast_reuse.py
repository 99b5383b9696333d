"""Broadcast reuse: what several joins share goes on being shared once their facts are pruned.

Spark broadcasts the smaller side of a join. What is left of a fact may be smaller than the
dimension, and then is broadcast in its place; but where other joins broadcast that dimension too,
it had been read once for all of them, and now would be read again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable

from splitlib.spark.logical_plan import Node, Path
from splitlib.spark.planner.lineage import join_type


def sharing_broadcasts(
    root: Node, sites: Collection[Path], broadcast_of: Callable[[Node], Hashable | None]
) -> set[Path]:
    """The scan sites that share the build side of their join with another of them.

    Args:
        root: The optimized plan.
        sites: The paths of the scan sites in it.
        broadcast_of: The same value for the same build side; None of one that Spark would not
            broadcast.
    """
    sharing: dict[Hashable, set[Path]] = defaultdict(set)
    for node in root.walk():
        # of other joins only one side can be broadcast
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
