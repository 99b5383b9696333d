"""Dead-scan elimination: scans whose rows the result cannot depend on are not read.

A scan may be gone from the optimized plan because its rows do not matter (in a branch of a union
that a condition rules out), or because another scan serves for both. They are told apart by a
second optimization with empty scans, which the optimizer can neither know to be empty nor take for
another scan: it drops these only if they are dead.
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
    """What takes the place of dead scans, by their paths in the analyzed plan.

    Args:
        analyzed: The analyzed plan.
        unread: The scans of it that the optimized plan does not read, and where they stand.
        empty: A scan that reads nothing, instead of one of these; None if that would save nothing.
        optimized_with: What the optimizer makes of the analyzed plan with other leaves.
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
