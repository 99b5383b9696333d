"""Scans that the optimizer has copied, under ids that no scan of the query itself has.

Joins are pushed below a union that way, once into each of its inputs. What a copy needs is not
known by the ids of columns; so all that it reads is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.logical_plan import Node, Path
from splitlib.spark.planner.lineage import RELATIONS, leaf_ids
from splitlib.spark.planner.scan_sites.prunable import PrunableScan, PrunableScans

# An RDD may give other rows each time, a file does not.
_READ_SOMETHING = RELATIONS | {"LogicalRDD"}


def copied_leaves(analyzed: Node, optimized: Node) -> dict[Path, Node]:
    """The leaves of an optimized plan that read what no leaf of the analyzed one shows."""
    known = {i for node in analyzed.walk() if node.is_leaf for i in leaf_ids(node)}
    return {
        node.path: node
        for node in optimized.walk()
        if node.kind in _READ_SOMETHING and not leaf_ids(node) <= known
    }


def copied_scans(
    catalyst: Catalyst, optimized: Any, copies: Mapping[Path, Node], scans: PrunableScans
) -> dict[Path, tuple[PrunableScan, ...]]:
    """By the path of each copy, the scans that it may be a copy of.

    Args:
        catalyst: Of the session.
        optimized: The optimized plan.
        copies: What :func:`copied_leaves` has found in it.
        scans: Those of the analyzed plan.
    """
    of_files = {path: leaf for path, leaf in copies.items() if leaf.kind in RELATIONS}
    if not of_files:
        return {}
    known = [(scan, catalyst.places_read_by(scan.leaf)) for scan in scans.by_columns.values()]
    found = {}
    for path in of_files:
        read = catalyst.places_read_by(catalyst.node(optimized, path))
        # of what is not known by name or directory it may be any
        found[path] = tuple(scan for scan, names in known if not read or names & read)
    return found
