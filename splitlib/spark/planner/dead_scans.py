"""Dead-scan elimination: do not read scans that cannot change the result.

A scan can be missing from the optimized plan for two reasons: its rows do not matter (as in a
branch of a union that a condition rules out), or another scan replaces it. A second optimization
tells the two apart. In it, the missing scans are replaced by empty scans. The optimizer cannot see
that these are empty, and cannot merge them with other scans. So it drops them only if they are
dead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import TypeVar

from splitlib.spark.logical_plan import Node, Path
from splitlib.spark.planner.lineage import RELATIONS, leaf_ids

S = TypeVar("S", bound=Hashable)
E = TypeVar("E")


def dead_scans(
    analyzed: Node,
    unread: Mapping[S, Collection[Path]],
    empty: Callable[[S], E | None],
    optimized_with: Callable[[Mapping[Path, E]], Node],
) -> dict[Path, E]:
    """Return empty scans to replace the dead scans, by path in the analyzed plan.

    Args:
        analyzed: The analyzed plan.
        unread: Scans of the analyzed plan that the optimized plan does not read, with their paths.
        empty: Return an empty replacement for a scan; None if that saves nothing.
        optimized_with: Optimize the analyzed plan with other nodes at some paths.
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
