"""The scans of a plan that can be pruned: by their partitions, or by a condition."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from splitlib.config import SplitConfig
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.enumeration.report import ScanReport
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.predicate import PartitionFilter
from splitlib.model import PartitionBatch
from splitlib.registry import SESSION
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.dataframes import analyzed_plan
from splitlib.spark.logical_plan import Expression, Node, Path
from splitlib.spark.named_tables import NamedTable
from splitlib.spark.planner.lineage import RELATIONS, TABLES, Step, leaf_columns, leaf_ids
from splitlib.spark.planner.scan_sites.evaluated_filter import evaluate, partition_rows
from splitlib.spark.planner.scan_sites.filtered import FilteredScan
from splitlib.spark.planner.scan_sites.scan_site import Ids
from splitlib.spark.read.pruned_rows import pruned_rows, pruned_scan
from splitlib.spark.schema import spark_schema
from splitlib.spark.session_catalog.connector import relation_table
from splitlib.spark.session_catalog.partitions_by_name import PartitionsByName
from splitlib.spark.session_catalog.relation_table import RelationTable, relation_of
from splitlib.spark.time_zones import session_time_zone
from splitlib.table import Table


@dataclass(eq=False)
class PrunableScan:
    """A leaf whose partitions splitlib lists. It may occur several times in the analyzed plan."""

    catalyst: Catalyst
    leaf: Any
    """The leaf in the JVM."""
    ids: Ids
    table: Table
    config: SplitConfig
    is_placeholder: bool
    """Whether the leaf is a placeholder for a table of a named catalog, which Spark cannot read."""
    paths: list[Path] = field(default_factory=list)
    """Paths of the leaf in the analyzed plan."""

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.table.name

    @cached_property
    def schema(self) -> StructType:
        """Columns by which the scan can be pruned."""
        accepted = set(self.table.list_accepted_filter_fields())
        columns = spark_schema(self.table.metadata)
        return StructType([column for column in columns if column.name in accepted])

    @cached_property
    def names(self) -> Mapping[int | None, str]:
        """Names of the leaf's columns by id."""
        return {i: name for name, i in self.ids.items()}

    @property
    def relation(self) -> RelationTable | None:
        """The session table that the leaf reads; None for a placeholder."""
        return relation_of(self.table)

    @property
    def may_ask_by_name(self) -> bool:
        """Whether single partitions can be requested without listing all partitions."""
        return self.relation is not None and not self.relation.has_names

    @property
    def has_canonical_values(self) -> bool:
        """Whether the table declares one spelling per integer or date partition value."""
        return self.relation is not None and self.relation.has_canonical_values

    def prepare(self, *, by_name: bool) -> None:
        """Fetch the metadata of the table in advance, while join keys are collected.

        Args:
            by_name: Whether the needed partitions can be requested by name later.
        """
        if self.relation is not None:
            self.relation.prepare(by_name=by_name)

    def fixed(
        self, conditions: Sequence[PartitionFilter | DynamicFilteringData], *, reads_all: bool
    ) -> Any:
        """Return an unpruned scan with a fixed list of files: the files that exist now.

        Return None if Spark cannot read a fixed list of files of this table.

        Args:
            conditions: Conditions in the query on the partitions.
            reads_all: Whether there are no such conditions.
        """
        relation, table = self.relation, self.table
        if relation is None or not relation.names_files:
            return None
        if reads_all:
            table = Table(self.name, SESSION, relation.listed_by_spark(), self.config)
            table = table.in_time_zone(session_time_zone(self.catalyst.spark))
        # ``max_partitions`` applies only to scans that keys prune, and keys do not prune this scan.
        config = replace(self.config, max_partitions=sys.maxsize)
        rows, _ = pruned_scan(self.catalyst.spark, table, config, (), conditions)
        node = analyzed_plan(rows)
        if reads_all and self.catalyst.is_table(node):
            node = self.catalyst.with_entry_of(node, self.leaf)
        return node

    def evaluated(
        self,
        values: pa.RecordBatch,
        columns: Collection[str],
        plan: Any,
        steps: Sequence[Step],
        wanted: Mapping[str, Expression],
    ) -> pa.Table:
        """Compute expressions over partition values in Spark, with :func:`evaluate`.

        Args:
            values: Partition values, a row per partition.
            columns: Names of the columns that the expressions read.
            plan: The plan that contains the expressions.
            steps: Named expressions that the expressions read, in order.
            wanted: Expressions to compute, by the name of their result column.
        """
        schema = StructType([column for column in self.schema if column.name in columns])
        positions = list(self.ids)
        attributes = self.catalyst.attributes(
            self.leaf, [positions.index(name) for name in schema.names]
        )
        rows = partition_rows(self.catalyst, values, schema, attributes)
        return evaluate(self.catalyst, rows, plan, steps, wanted)

    def match(
        self,
        filters: Sequence[DynamicFilteringData],
        conditions: Sequence[PartitionFilter | DynamicFilteringData],
    ) -> list[tuple[PartitionBatch, pa.BooleanArray]]:
        """Return all partitions, with a mask that is true if join keys and conditions match."""
        enumerator = DynamicFileEnumerator(self.table, self.config, static=conditions)
        for data in filters:
            enumerator.set_dynamic_filtering_data(data)
        return list(enumerator.match_partitions())

    def kept_values(
        self,
        filters: Sequence[DynamicFilteringData],
        conditions: Sequence[PartitionFilter | DynamicFilteringData],
        columns: Sequence[str],
    ) -> pa.RecordBatch | None:
        """Return ``columns`` of the matching partitions; None if one is not a partition value."""
        found = []
        for batch, mask in self.match(filters, conditions):
            sources = {f.source: f.name for f in batch.fields if f.transform is None}
            if not set(columns) <= sources.keys():
                return None
            kept = batch.values.filter(mask)
            found.append(pa.table({name: kept[sources[name]] for name in columns}))
        if not found:
            return None
        together = pa.concat_tables(found)
        return pa.record_batch({name: together[name].combine_chunks() for name in columns})

    def pruned(
        self,
        filters: Sequence[DynamicFilteringData] = (),
        conditions: Sequence[PartitionFilter | DynamicFilteringData] = (),
    ) -> tuple[Any, ScanReport]:
        """Return a scan of the matching partitions to replace the leaf, and a report.

        Args:
            filters: Join keys.
            conditions: Other conditions on the partitions.
        """
        reading = pruned_rows if self.is_placeholder else pruned_scan
        rows, report = reading(self.catalyst.spark, self.table, self.config, filters, conditions)
        return self._under_own_columns(analyzed_plan(rows)), report

    def reading_nothing(self) -> Any:
        """Return a scan without files to replace the leaf.

        The optimizer cannot see that this scan is empty, and cannot merge it with other scans of
        the table. Return None if such a scan is not possible, or if it saves nothing.
        """
        if self.relation is None or not self.relation.can_read_nothing:
            return None
        return self._under_own_columns(analyzed_plan(self.relation.scan_of_files(())))

    def _under_own_columns(self, node: Any) -> Any:
        """Return ``node`` with the attributes of the leaf; unchanged for a session table."""
        if not self.is_placeholder:
            return node
        own = zip(*map(self.catalyst.output, (node, self.leaf)), strict=True)
        renamed = [self.catalyst.alias(new, old.name(), old) for new, old in own]
        return self.catalyst.projected(node, renamed)


Scan = PrunableScan | FilteredScan
"""A scan whose partitions splitlib lists, or one that gets a condition."""


@dataclass(slots=True)
class PrunableScans:
    """The scans of one plan that can be pruned."""

    by_columns: dict[frozenset[int | None], Scan] = field(default_factory=dict)
    """Scans, by the ids of the columns that can prune them."""
    partitions: dict[str, PartitionsByName] = field(default_factory=dict)
    """Partitions fetched from the session's catalog, by table. All scans of a table share them."""

    @property
    def columns(self) -> frozenset[int]:
        """Ids of the columns by which the scans can be pruned."""
        return frozenset(i for ids in self.by_columns for i in ids if i is not None)

    @property
    def catalog_requests(self) -> int:
        """Number of requests to the session's catalog."""
        return sum(partitions.requests for partitions in self.partitions.values())

    @property
    def storage_requests(self) -> int:
        """Number of storage requests to list directories of the session's tables."""
        return sum(partitions.listings for partitions in self.partitions.values())

    def without(self, places: Collection[Path]) -> PrunableScans:
        """Return all scans that do not occur at any of the given paths."""
        left = {key: s for key, s in self.by_columns.items() if not set(places) & set(s.paths)}
        return PrunableScans(left, self.partitions)

    def of_leaf(self, leaf: Node) -> Scan | None:
        """Return the prunable scan of a leaf of any plan; None for any other node."""
        ids = leaf_ids(leaf)
        if leaf.kind in RELATIONS:
            return next((s for columns, s in self.by_columns.items() if columns <= ids), None)
        if leaf.kind in TABLES and ids:  # the optimizer has removed the columns that are not read
            return next((s for columns, s in self.by_columns.items() if ids <= columns), None)
        return None


def prunable_scans(
    catalyst: Catalyst,
    plan: Any,
    tree: Node,
    config: SplitConfig | None,
    named: Mapping[str, NamedTable],
) -> PrunableScans:
    """Return the scans of an analyzed plan that have partitions or accept conditions.

    Args:
        catalyst: Catalyst of the session.
        plan: The plan in the JVM.
        tree: The same plan as parsed by :func:`splitlib.spark.logical_plan.parse_plan`.
        config: Settings for tables of the session. If None, only placeholders are returned.
        named: Tables of named catalogs, by the root directory of their placeholder scans.
    """
    scans = PrunableScans()
    seen: dict[frozenset[int | None], Scan | None] = {}
    for leaf in tree.walk():
        if leaf.kind not in RELATIONS | TABLES:
            continue
        ids = {str(e.fields["name"]): e.attribute_id for e in leaf_columns(leaf)}
        key = frozenset(ids.values())
        if key not in seen:
            node = catalyst.node(plan, leaf.path)
            scan = _scan(catalyst, node, ids, config, named, scans.partitions)
            seen[key] = scan
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
    config: SplitConfig | None,
    named: Mapping[str, NamedTable],
    partitions: dict[str, PartitionsByName],
) -> Scan | None:
    scan: Scan | None = None
    if catalyst.is_table(leaf):
        scan = _named_scan(catalyst, leaf, ids, named)
        if scan is None and config is not None:
            scan = _session_scan(catalyst, leaf, ids, config, partitions)
    if scan is None and config is not None:
        source = catalyst.source_of(leaf)
        if source is not None:
            scan = FilteredScan(catalyst, leaf, ids, source, config)
    return scan


def _named_scan(
    catalyst: Catalyst, leaf: Any, ids: Ids, named: Mapping[str, NamedTable]
) -> PrunableScan | None:
    """Return the scan of a placeholder; None if the leaf is not a placeholder."""
    if not named or catalyst.is_of_hive(leaf):
        return None
    known = named.get(catalyst.root_of(leaf) or "")
    if known is None:
        return None
    table = known.table.in_time_zone(session_time_zone(catalyst.spark))
    return PrunableScan(catalyst, leaf, ids, table, known.config, is_placeholder=True)


def _session_scan(
    catalyst: Catalyst,
    leaf: Any,
    ids: Ids,
    config: SplitConfig,
    partitions: dict[str, PartitionsByName],
) -> PrunableScan | None:
    """Return the scan of a session table; None if it has no partitions that splitlib can list."""
    if catalyst.partition_schema(leaf).isEmpty():
        return None
    connector = relation_table(catalyst, leaf, config.listing_threads, partitions)
    if connector is None:
        return None
    table = Table(connector.name, SESSION, connector, config)
    table = table.in_time_zone(session_time_zone(catalyst.spark))
    return PrunableScan(catalyst, leaf, ids, table, config, is_placeholder=False)
