"""The scans of a plan that can be pruned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.session_catalog import CatalogPartitions
from splitlib.spark.logical_plan import Node
from splitlib.spark.planner.lineage import RELATIONS, leaf_columns, leaf_ids
from splitlib.spark.planner.scan_sites.named_table_scan import TableScan
from splitlib.spark.planner.scan_sites.named_tables import NamedTable
from splitlib.spark.planner.scan_sites.partitioned import (
    CatalogScan,
    Ids,
    IndexedScan,
    PartitionedScan,
)
from splitlib.spark.planner.scan_sites.session_table import SessionTable

PrunableScan = PartitionedScan | TableScan


@dataclass(slots=True)
class PrunableScans:
    """Those of one plan."""

    by_columns: dict[frozenset[int | None], PrunableScan] = field(default_factory=dict)
    """By the ids of the attributes of the columns that prune."""
    tables: dict[str, SessionTable] = field(default_factory=dict)
    """By name, those that the session's catalog keeps; each is asked once."""

    @property
    def columns(self) -> frozenset[int]:
        """The ids of all these columns."""
        return frozenset(i for ids in self.by_columns for i in ids if i is not None)

    def of_leaf(self, leaf: Node) -> PrunableScan | None:
        """The scan that a leaf is, in whatever plan it stands; None if it is another node."""
        if leaf.kind not in RELATIONS:
            return None
        ids = leaf_ids(leaf)
        return next((scan for columns, scan in self.by_columns.items() if columns <= ids), None)


def prunable_scans(
    catalyst: Catalyst, plan: Any, tree: Node, threads: int, named: Mapping[str, NamedTable]
) -> PrunableScans:
    """The scans of an analyzed plan that have partitions.

    Args:
        catalyst: Of the session.
        plan: The plan.
        tree: The same plan as :func:`splitlib.spark.logical_plan.parse_plan` shows it.
        threads: How many listings at a time.
        named: Tables of named catalogs by the root of their placeholders.
    """
    scans = PrunableScans()
    seen: dict[frozenset[int | None], PrunableScan | None] = {}
    for leaf in tree.walk():
        if leaf.kind not in RELATIONS:
            continue
        ids = {str(e.fields["name"]): e.attribute_id for e in leaf_columns(leaf)}
        key = frozenset(ids.values())
        if key not in seen:
            node = catalyst.node(plan, leaf.path)
            seen[key] = scan = _scan(catalyst, node, ids, scans.tables, threads, named)
            if scan is not None:
                scans.by_columns[frozenset(ids[name] for name in scan.schema.names)] = scan
        scan = seen[key]
        if scan is not None:
            scan.paths.append(leaf.path)
    return scans


def _scan(
    catalyst: Catalyst,
    leaf: Any,
    ids: Ids,
    tables: dict[str, SessionTable],
    threads: int,
    named: Mapping[str, NamedTable],
) -> PrunableScan | None:
    """The scan of a leaf, None if it has no partitions or none that can be told apart."""
    table = named.get(catalyst.root_of(leaf) or "") if catalyst.reads_files(leaf) else None
    if table is not None:
        return TableScan(catalyst, leaf, ids, table)
    index = catalyst.listed_index_of(leaf)
    if index is not None:
        return IndexedScan(catalyst, leaf, ids, index)
    metadata = catalyst.catalog_table_of(leaf)
    if metadata is None:
        return None
    partitions = CatalogPartitions(catalyst.scala, catalyst.session, metadata)
    known = tables.setdefault(partitions.name, SessionTable(partitions))
    return CatalogScan(catalyst, leaf, ids, known, metadata, threads)
