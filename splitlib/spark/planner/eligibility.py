"""Joins along which no keys may flow, and why. For people; nothing depends on it."""

from __future__ import annotations

from collections.abc import Iterator

from splitlib.spark.logical_plan import Node, Path, conjuncts
from splitlib.spark.planner.join_graph import OPERATORS
from splitlib.spark.planner.lineage import join_type, lineages_of

_LEFT, _RIGHT = 0, 1
# By join type and the side on which the table stands.
_REASONS = {
    ("FullOuter", _LEFT): "FULL OUTER JOIN keeps every row of both its sides",
    ("FullOuter", _RIGHT): "FULL OUTER JOIN keeps every row of both its sides",
    ("LeftOuter", _LEFT): "LEFT OUTER JOIN keeps every row of its left side, which this table is",
    ("RightOuter", _RIGHT): "RIGHT OUTER JOIN keeps every row of its right side, which this is",
    ("LeftAnti", _LEFT): "NOT IN and NOT EXISTS look for the rows that have no match",
    ("ExistenceJoin", _LEFT): "IN or EXISTS is only one part of an OR",
    ("LeftSingle", _LEFT): "a scalar subquery in its place drops no rows",
}


def blocked_joins(root: Node, partition_columns: frozenset[int]) -> Iterator[tuple[Path, str]]:
    """The leaf and a sentence for each join on partition columns that cannot prune.

    Args:
        root: An optimized plan.
        partition_columns: The attributes of scans that could be pruned.
    """
    for node in root.walk():
        if node.kind != "Join":
            continue
        below = [lineages_of(child, partition_columns) for child in node.children]
        for part in (c for whole in node.expressions("condition") for c in conjuncts(whole)):
            columns = [e for e in part.walk() if e.kind == "AttributeReference"]
            for number, lineages in enumerate(below):
                for leaf in {x.leaf.path for column in columns for x in lineages.of(column)}:
                    reason = _REASONS.get((join_type(node), number))
                    if reason is not None:
                        yield leaf, f"{reason}."
                    elif part.kind not in OPERATORS:
                        yield leaf, f"{part.kind} is not a comparison of two sides."
