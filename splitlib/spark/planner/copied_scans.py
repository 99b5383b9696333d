"""Find scans that the optimizer has copied under new column ids.

Spark copies a scan, for example, when it pushes a join into each input of a union. The new column
ids do not show which partitions a copy needs, so a copied scan is not pruned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from splitlib.spark.logical_plan import Node, Path
from splitlib.spark.planner.lineage import RELATIONS, TABLES, leaf_ids

# An RDD may return different rows each time it is computed, so its copies matter too.
_READ_SOMETHING = RELATIONS | TABLES | {"LogicalRDD"}

S = TypeVar("S")


def copied_leaves(analyzed: Node, optimized: Node) -> dict[Path, Node]:
    """Return the leaves of the optimized plan without a counterpart in the analyzed plan."""
    known = {i for node in analyzed.walk() if node.is_leaf for i in leaf_ids(node)}
    return {
        node.path: node
        for node in optimized.walk()
        if node.kind in _READ_SOMETHING and not _is_of(known, node)
    }


def _is_of(known: set[int], leaf: Node) -> bool:
    ids = leaf_ids(leaf)
    # A table scan without columns has no ids to identify it: it may be a copy of any table.
    return ids <= known and (bool(ids) or leaf.kind not in TABLES)


def copied_scans(
    copies: Mapping[Path, Node],
    scans: Iterable[S],
    places_of: Callable[[S], frozenset[str]],
    places_read_by: Callable[[Node], frozenset[str]],
) -> dict[Path, tuple[S, ...]]:
    """Return, by the path of each copy, the scans that it may be a copy of.

    Args:
        copies: Result of :func:`copied_leaves`.
        scans: Scans of the analyzed plan.
        places_of: Return the tables and directories that such a scan reads.
        places_read_by: Return the tables and directories that a leaf of the optimized plan reads.
    """
    of_tables = [leaf for leaf in copies.values() if leaf.kind in RELATIONS | TABLES]
    if not of_tables:
        return {}
    known = [(scan, places_of(scan)) for scan in scans]
    found = {}
    for leaf in of_tables:
        read = places_read_by(leaf)
        # A leaf without a table name or directory may be a copy of any scan.
        found[leaf.path] = tuple(
            scan for scan, places in known if not read or not places or places & read
        )
    return found
