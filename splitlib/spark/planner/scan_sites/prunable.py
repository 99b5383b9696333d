"""The scans of a plan that can be pruned."""

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
from splitlib.spark.named_tables.placeholders import NamedTable
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
    """One leaf of the analyzed plan, which may stand there several times."""

    catalyst: Catalyst
    leaf: Any
    ids: Ids
    table: Table
    config: SplitConfig
    is_placeholder: bool
    """Whether the leaf stands for a table of a named catalog, so that Spark cannot read it."""
    paths: list[Path] = field(default_factory=list)
    """Where it stands in the plan."""

    @property
    def name(self) -> str:
        """Of the table."""
        return self.table.name

    @cached_property
    def schema(self) -> StructType:
        """The columns by which it can be pruned."""
        accepted = set(self.table.list_accepted_filter_fields())
        columns = spark_schema(self.table.metadata)
        return StructType([column for column in columns if column.name in accepted])

    @cached_property
    def names(self) -> Mapping[int | None, str]:
        """The names of the leaf's columns by their ids."""
        return {i: name for name, i in self.ids.items()}

    @property
    def relation(self) -> RelationTable | None:
        """The table as Spark knows it; None of a placeholder."""
        return relation_of(self.table)

    @property
    def may_ask_by_name(self) -> bool:
        """Whether a few of its partitions can be asked for without a list of all."""
        return self.relation is not None and not self.relation.has_names

    @property
    def has_canonical_values(self) -> bool:
        """Whether integers and dates in partition values are said to have one spelling each."""
        return self.relation is not None and self.relation.has_canonical_values

    def prepare(self, *, by_name: bool) -> None:
        """Ask for what will be needed, while something else is being waited for.

        Args:
            by_name: Whether it will be known what the partitions are called that are needed.
        """
        if self.relation is not None:
            self.relation.prepare(by_name=by_name)

    def fixed(
        self, conditions: Sequence[PartitionFilter | DynamicFilteringData], *, reads_all: bool
    ) -> Any:
        """The scan of what no keys prune, with the files that there are now.

        None if Spark cannot be told the files.

        Args:
            conditions: What the query itself says of its partitions.
            reads_all: Whether it says nothing of them.
        """
        relation, table = self.relation, self.table
        if relation is None or not relation.names_files:
            return None
        if reads_all:
            table = Table(self.name, SESSION, relation.listed_by_spark(), self.config)
            table = table.in_time_zone(session_time_zone(self.catalyst.spark))
        config = replace(self.config, max_partitions=sys.maxsize)  # a limit of what is pruned
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
        """Expressions over some of its columns, a row per partition; see :func:`evaluate`.

        Args:
            values: Of the partitions.
            columns: What the expressions read.
            plan: Where they stand.
            steps: What they build upon, in order.
            wanted: By the name of the column.
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
        """All partitions, and which of them are kept: by join keys, and by what else holds."""
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
        """Columns of the partitions that are kept; None if partition values do not give them."""
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
        """The scan of what matters, to be put in the place of the leaf; and how it was selected.

        Args:
            filters: Join keys.
            conditions: What else holds of its partitions.
        """
        reading = pruned_rows if self.is_placeholder else pruned_scan
        rows, report = reading(self.catalyst.spark, self.table, self.config, filters, conditions)
        return self._under_own_columns(analyzed_plan(rows)), report

    def reading_nothing(self) -> Any:
        """A scan of nothing, which the optimizer can take neither for empty nor for this table.

        None if there is none, or if it would save nothing.
        """
        if self.relation is None or not self.relation.can_read_nothing:
            return None
        return self._under_own_columns(analyzed_plan(self.relation.scan_of_files(())))

    def _under_own_columns(self, node: Any) -> Any:
        """``node`` with the attributes of the leaf; a table of the session is read by them."""
        if not self.is_placeholder:
            return node
        own = zip(*map(self.catalyst.output, (node, self.leaf)), strict=True)
        renamed = [self.catalyst.alias(new, old.name(), old) for new, old in own]
        return self.catalyst.projected(node, renamed)


Scan = PrunableScan | FilteredScan
"""A scan that splitlib lists, or one that gets a condition."""


@dataclass(slots=True)
class PrunableScans:
    """Those of one plan."""

    by_columns: dict[frozenset[int | None], Scan] = field(default_factory=dict)
    """By the ids of the attributes of the columns that prune."""
    partitions: dict[str, PartitionsByName] = field(default_factory=dict)
    """By table, what the session's catalog has been asked; once for all scans of the table."""

    @property
    def columns(self) -> frozenset[int]:
        """The ids of all these columns."""
        return frozenset(i for ids in self.by_columns for i in ids if i is not None)

    @property
    def catalog_requests(self) -> int:
        """To the session's catalog."""
        return sum(partitions.requests for partitions in self.partitions.values())

    @property
    def storage_requests(self) -> int:
        """Directories of the session's tables that were listed."""
        return sum(partitions.listings for partitions in self.partitions.values())

    def without(self, places: Collection[Path]) -> PrunableScans:
        """The same without scans that stand at some places."""
        left = {key: s for key, s in self.by_columns.items() if not set(places) & set(s.paths)}
        return PrunableScans(left, self.partitions)

    def of_leaf(self, leaf: Node) -> Scan | None:
        """The scan that a leaf is, in whatever plan it stands; None if it is another node."""
        ids = leaf_ids(leaf)
        if leaf.kind in RELATIONS:
            return next((s for columns, s in self.by_columns.items() if columns <= ids), None)
        if leaf.kind in TABLES and ids:  # of which only the columns that are read are left
            return next((s for columns, s in self.by_columns.items() if ids <= columns), None)
        return None


def prunable_scans(
    catalyst: Catalyst,
    plan: Any,
    tree: Node,
    config: SplitConfig | None,
    named: Mapping[str, NamedTable],
) -> PrunableScans:
    """The scans of an analyzed plan that have partitions, or take conditions.

    Args:
        catalyst: Of the session.
        plan: The plan.
        tree: The same plan as :func:`splitlib.spark.logical_plan.parse_plan` shows it.
        config: How tables of the session are enumerated; None = they are left as they are.
        named: Tables of named catalogs by the root of their placeholders.
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
    """The scan of the placeholder of a table of a named catalog; None if a leaf is none."""
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
    """The scan of a leaf; None if it has no partitions, or none that can be told apart."""
    if catalyst.partition_schema(leaf).isEmpty():
        return None
    connector = relation_table(catalyst, leaf, config.listing_threads, partitions)
    if connector is None:
        return None
    table = Table(connector.name, SESSION, connector, config)
    table = table.in_time_zone(session_time_zone(catalyst.spark))
    return PrunableScan(catalyst, leaf, ids, table, config, is_placeholder=False)
