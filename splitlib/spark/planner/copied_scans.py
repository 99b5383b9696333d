"""Scans that the optimizer has copied, under ids that no scan of the query itself has.

Joins are pushed below a union that way, once into each of its inputs. What a copy needs is not
known by the ids of columns; so all that it reads is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from splitlib.spark.logical_plan import Node, Path
from splitlib.spark.planner.lineage import RELATIONS, TABLES, leaf_ids

# An RDD may give other rows each time, a file does not.
_READ_SOMETHING = RELATIONS | TABLES | {"LogicalRDD"}

S = TypeVar("S")


def copied_leaves(analyzed: Node, optimized: Node) -> dict[Path, Node]:
    """The leaves of an optimized plan that read what no leaf of the analyzed one shows."""
    known = {i for node in analyzed.walk() if node.is_leaf for i in leaf_ids(node)}
    return {
        node.path: node
        for node in optimized.walk()
        if node.kind in _READ_SOMETHING and not _is_of(known, node)
    }


def _is_of(known: set[int], leaf: Node) -> bool:
    ids = leaf_ids(leaf)
    # one of whose columns none is left may be any of its kind
    return ids <= known and (bool(ids) or leaf.kind not in TABLES)


def copied_scans(
    copies: Mapping[Path, Node],
    scans: Iterable[S],
    places_of: Callable[[S], frozenset[str]],
    places_read_by: Callable[[Node], frozenset[str]],
) -> dict[Path, tuple[S, ...]]:
    """By the path of each copy, the scans that it may be a copy of.

    Args:
        copies: What :func:`copied_leaves` has found.
        scans: Those of the analyzed plan.
        places_of: The tables and directories that one of these reads.
        places_read_by: Those that a leaf of the optimized plan reads.
    """
    of_tables = [leaf for leaf in copies.values() if leaf.kind in RELATIONS | TABLES]
    if not of_tables:
        return {}
    known = [(scan, places_of(scan)) for scan in scans]
    found = {}
    for leaf in of_tables:
        read = places_read_by(leaf)
        # of what is not known by name or directory it may be any
        found[leaf.path] = tuple(
            scan for scan, places in known if not read or not places or places & read
        )
    return found
