"""Whether the keys of a dimension are worth being fetched before the query runs."""

from __future__ import annotations

from collections.abc import Callable

from splitlib.spark.logical_plan import Node, conjuncts
from splitlib.spark.planner.join_graph import Dimension

# Rows that are in memory already, or whose number the plan itself bounds.
_IN_MEMORY = frozenset(
    {"LocalRelation", "OneRowRelation", "LogicalRDD", "InMemoryRelation", "CommandResult"}
)
_FEW_ROWS = _IN_MEMORY | {"GlobalLimit"}


def is_selective(dimension: Dimension) -> bool:
    """Whether the plan shows that some rows are left out, here or where it is narrowed."""
    return _drops_rows(dimension.node) or any(is_selective(d) for d, _ in dimension.narrowed_by)


def worthwhile(dimension: Dimension) -> Dimension:
    """The dimension without what narrows it but drops no rows."""
    kept = ((worthwhile(other), conditions) for other, conditions in dimension.narrowed_by)
    return Dimension(dimension.node, tuple((d, c) for d, c in kept if is_selective(d)))


def _drops_rows(node: Node) -> bool:
    for part in node.walk():
        if part.kind in _FEW_ROWS:
            return True
        if part.kind == "Filter":
            conditions = [c for whole in part.expressions("condition") for c in conjuncts(whole)]
            # IS NOT NULL is what the optimizer adds to every join
            if any(c.kind != "IsNotNull" for c in conditions):
                return True
    return False


class Costs:
    """Sizes of what a plan reads.

    Args:
        size_of: Bytes that a leaf reads; None if that is not known.
        limit: Reading more than so many bytes to learn the keys does not pay.
    """

    def __init__(self, size_of: Callable[[Node], int | None], limit: int) -> None:
        self._size_of = size_of
        self._limit = limit

    def too_large(self, node: Node) -> str | None:
        """Why a part of the plan is too large to be run for its keys; None if it is not."""
        total = 0
        for leaf in node.walk():
            if not leaf.is_leaf or leaf.kind in _IN_MEMORY:
                continue
            size = self._size_of(leaf)
            if size is None:
                return "its dimension reads a table of unknown size"
            total += size
        if total > self._limit:
            return f"its dimension reads {total:,} bytes, more than {self._limit:,}"
        return None
