"""Fixed files: what a query reads whole is read as it was when the query was planned.

Spark lists a table with partitions whenever a query of it runs, and a table without partitions
again after every INSERT of the session. Their files are fixed as those of a pruned scan are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

from splitlib.errors import LocationNotAllowed, MissingPartition, SplitlibError
from splitlib.redaction import get_logger
from splitlib.spark.file_scan import canonical_paths
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.pinned_relation import pinned_leaf
from splitlib.spark.logical_plan import Node, Path
from splitlib.spark.planner.lineage import leaf_ids
from splitlib.spark.planner.prune import PrunedSites, ScanOutcome, conditions_of
from splitlib.spark.planner.query import Query
from splitlib.spark.planner.scan_sites.prunable import PrunableScan, Scan
from splitlib.spark.planner.scan_sites.pruned_site import PrunedSite

_log = get_logger(__name__)


def fixed_leaves(catalyst: Catalyst, analyzed: Any, tree: Node) -> dict[Path, Any]:
    """Relations of given files for the tables without partitions, by path in the analyzed plan."""
    found: dict[Path, Any] = {}
    # a table that is read in several places may stand there under the same columns
    fixed: dict[frozenset[int], Any] = {}
    for node in tree.walk():
        if node.kind != "LogicalRelation":
            continue
        ids = leaf_ids(node)
        if ids not in fixed:
            fixed[ids] = _fixed_leaf(catalyst, catalyst.node(analyzed, node.path))
        if fixed[ids] is not None:
            found[node.path] = fixed[ids]
    return found


def _fixed_leaf(catalyst: Catalyst, leaf: Any) -> Any:
    """None for a leaf that is fixed already, has partitions or is not one of files."""
    index = catalyst.listed_index_of(leaf)
    if index is None or catalyst.is_pinned(leaf) or not catalyst.partition_schema(leaf).isEmpty():
        return None
    try:
        listing = catalyst.files_of(catalyst.directories_of(index))
        files = pa.Table.from_batches([listing.files])
        files = files.set_column(0, "path", canonical_paths(files["path"]))
        none, known = pa.table({}), listing.statuses if files.num_rows else None
        fixed = pinned_leaf(catalyst.spark, leaf, files, none, None, known)
        return catalyst.with_entry_of(fixed, leaf)
    except (RuntimeError, *JVM_ERRORS):  # Spark lists it as it always does
        _log.debug("The files of %s are not fixed.", catalyst.name_of(leaf), exc_info=True)
        return None


def fixed_scan(query: Query, scan: PrunableScan, sites: PrunedSites) -> Any:
    """The scan of a table with partitions that no keys prune; None if its files cannot be fixed.

    Raises:
        LocationNotAllowed: if it has files outside of ``allowed_locations``.
        MissingPartition: if a directory has gone and ``missing_partition`` is set to ``error``.
    """
    own = [s for s in sites.values() if isinstance(s, PrunedSite) and s.scan is scan]
    if not own:
        return None  # the optimizer has dropped it
    reads_all = any(one.site.reads_all for one in own)
    try:
        if reads_all:
            return scan.fixed((), reads_all=True)
        # where keys were collected the conditions are known
        known = [s if s.site.may_have_keys else s.with_conditions(query.optimized) for s in own]
        return scan.fixed(conditions_of(known), reads_all=False)
    except (LocationNotAllowed, MissingPartition):
        raise
    except (SplitlibError, RuntimeError, *JVM_ERRORS):  # Spark lists it as it always does
        _log.debug("The files of %s are not fixed.", scan.name, exc_info=True)
        return None


def listed_later(
    query: Query,
    outcomes: Collection[ScanOutcome],
    sites: PrunedSites,
    dead: Mapping[Path, Any],
    copied: Collection[Scan],
) -> tuple[str, ...]:
    """The tables of files that Spark lists when the query runs."""
    read = {one.scan for one in sites.values()}.union(copied)
    found = [
        outcome.scan.name
        for outcome in outcomes
        if isinstance(outcome.scan, PrunableScan)
        and outcome.instead is None
        and outcome.scan in read
    ]
    catalyst = query.catalyst
    for node in query.analyzed_tree.walk():
        if node.kind == "HiveTableRelation" and node.path not in dead:
            leaf = catalyst.node(query.analyzed, node.path)
            found.append(catalyst.name_of(leaf))
    return tuple(dict.fromkeys(found))
