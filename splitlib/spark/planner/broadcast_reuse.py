"""Broadcasts that several joins share, and go on sharing once their other sides are pruned.

Spark broadcasts the smaller side of a join. What is left of a fact may be smaller than the
dimension, and then is broadcast in its place; but where other joins broadcast that dimension too,
it had been read once for all of them, and now would be read again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any

from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.logical_plan import Node, Path
from splitlib.spark.planner.lineage import join_type


def sharing_broadcasts(
    catalyst: Catalyst, optimized: Any, root: Node, scans: Collection[Path]
) -> set[Path]:
    """Those scans that are joined with what another of them is joined with, and can be broadcast.

    Args:
        catalyst: Of the session.
        optimized: The optimized plan.
        root: The same plan.
        scans: Where they stand in it.
    """
    limit = catalyst.broadcast_threshold()
    sharing = defaultdict(set)
    for node in root.walk():
        # of other joins only one side can be broadcast
        if node.kind == "Join" and join_type(node) == "Inner":
            for child, other in zip(node.children, reversed(node.children), strict=True):
                leaf = _leaf_of(child)
                if leaf.path in scans:
                    build_side = catalyst.node(optimized, other.path)
                    if catalyst.size_of(build_side) <= limit:
                        sharing[catalyst.semantic_hash(build_side)].add(leaf.path)
    return {path for paths in sharing.values() if len(paths) > 1 for path in paths}


def _leaf_of(node: Node) -> Node:
    while node.kind in ("Project", "Filter"):
        (node,) = node.children
    return node
