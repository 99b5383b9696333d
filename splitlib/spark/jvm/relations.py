"""Inspect the plan leaves that read tables, and change the partitions that they read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from splitlib.remote.calls import cached_property
from splitlib.spark.jvm.file_index import PINNED_ROOT
from splitlib.spark.jvm.gateway import JVM_ERRORS, Jvm
from splitlib.spark.jvm.java_handles import ForeignObject, HadoopPath, JavaObject, Seq
from splitlib.spark.jvm.listing import hadoop_path
from splitlib.spark.jvm.plans import Plans
from splitlib.spark.jvm.scala import Scala, each
from splitlib.spark.jvm.spark_handles import (
    BaseRelation,
    CatalogEntry,
    CatalogPartition,
    CatalystStruct,
    FileIndex,
    LogicalPlan,
)

_RELATION: Final = "LogicalRelation"
_OF_HIVE: Final = "HiveTableRelation"
_DATASOURCES: Final = "org.apache.spark.sql.execution.datasources."
_FILTERED: Final = (
    "org.apache.spark.sql.sources.PrunedFilteredScan",
    "org.apache.spark.sql.sources.CatalystScan",
)
_BUILDS_FILTERED: Final = (
    "org.apache.spark.sql.connector.read.SupportsPushDownV2Filters",
    "org.apache.spark.sql.connector.read.SupportsPushDownFilters",
    "org.apache.spark.sql.internal.connector.SupportsPushDownCatalystFilters",
)
# Class name of leaves that read a DataSource V2 table in analyzed plans.
_TABLE: Final = "DataSourceV2Relation"
SCANNED_TABLE: Final = "DataSourceV2ScanRelation"
"""Class name of leaves that read a DataSource V2 table in optimized plans. Such a leaf holds the
data source's scan object, into which filters and columns have been pushed."""
# Package of data sources that are written in Python.
_IN_PYTHON: Final = "org.apache.spark.sql.execution.datasources.v2.python."
_OF_JDBC: Final = "org.apache.spark.sql.execution.datasources.jdbc."
_OF_JDBC_V2: Final = "org.apache.spark.sql.execution.datasources.v2.jdbc."
# Leaves whose rows are in memory or are generated. ``CTERelationRef`` is a reference to a common
# table expression, which is defined elsewhere in the plan.
_IN_MEMORY: Final = frozenset(
    {
        "LocalRelation",
        "EmptyRelation",
        "OneRowRelation",
        "Range",
        "LogicalRDD",
        "ExternalRDD",
        "InMemoryRelation",
        "CTERelationRef",
    }
)

_FILE_TABLE: Final = _DATASOURCES + "v2.FileTable"
_CHANGED_TABLE: Final = "org.apache.spark.sql.connector.write.RowLevelOperationTable"
_OF_DELTA: Final = "org.apache.spark.sql.delta."
_OF_ICEBERG: Final = "org.apache.iceberg."
_PLAIN_STRINGS: Final = (
    "io.delta.",
    _OF_ICEBERG,
    _OF_DELTA,
    _DATASOURCES + "v2.",
)

Source = Literal["files", "table", "database"]
"""Kind of a data source that accepts filters. ``files`` is a file relation whose file index is not
one of Spark's own. ``table`` is a DataSource V2 table. ``database`` is JDBC, or another DataSource
V1 that accepts filters."""


@dataclass(eq=False)
class _Leaf:
    """Facts about a leaf. Leaves never change, so each fact costs JVM calls only once."""

    plans: Plans
    jvm: Jvm
    leaf: LogicalPlan
    """The leaf. It is kept so that Py4J does not reuse its id."""

    @cached_property
    def kind(self) -> str:
        return self.plans.kind(self.leaf)

    @cached_property
    def relation(self) -> BaseRelation:
        return self.leaf.relation()

    @cached_property
    def reads_files(self) -> bool:
        own = "HadoopFsRelation"
        return self.kind == _RELATION and self.jvm.is_a(self.relation, _DATASOURCES + own)

    @cached_property
    def index(self) -> FileIndex:
        return self.relation.location()

    @cached_property
    def index_lists_files(self) -> bool:
        return self.jvm.is_a(self.index, _DATASOURCES + "InMemoryFileIndex")

    @cached_property
    def first_root(self) -> str | None:
        root = self.index.rootPaths().headOption()
        return None if root.isEmpty() else root.get().toString()

    @cached_property
    def partition_schema(self) -> CatalystStruct:
        owner = self.leaf.tableMeta() if self.kind == _OF_HIVE else self.relation
        return owner.partitionSchema()

    @cached_property
    def is_partitioned(self) -> bool:
        return not self.partition_schema.isEmpty()


class Relations:
    """Inspects leaves that read tables: Hive tables, file relations and DataSource V2 tables."""

    def __init__(self, scala: Scala, plans: Plans) -> None:
        self._scala = scala
        self._jvm = scala.jvm
        self._plans = plans
        self._leaves: dict[str, _Leaf] = {}

    def _leaf(self, leaf: LogicalPlan) -> _Leaf:
        return self._leaves.setdefault(leaf._target_id, _Leaf(self._plans, self._jvm, leaf))

    def is_of_hive(self, leaf: LogicalPlan) -> bool:
        """Return whether Spark reads a leaf with Hive's SerDes."""
        return self._leaf(leaf).kind == _OF_HIVE

    def reads_files(self, leaf: LogicalPlan) -> bool:
        """Return whether a leaf is a ``LogicalRelation`` over a ``HadoopFsRelation``."""
        return self._leaf(leaf).reads_files

    def source_of(self, leaf: LogicalPlan) -> Source | None:
        """Return the kind of a leaf's data source.

        The result is None if the source does not accept filters, or if Spark lists its files.
        """
        kind = self._leaf(leaf).kind
        if kind == _TABLE:
            return self._source_of_table(leaf)
        if kind != _RELATION:
            return None
        known = self._leaf(leaf)
        if known.reads_files:
            own = ("PartitioningAwareFileIndex", "CatalogFileIndex")
            is_own = known.index_lists_files or any(
                self._jvm.is_a(known.index, _DATASOURCES + name) for name in own
            )
            return None if is_own else "files"
        filtered = any(self._jvm.is_a(known.relation, class_) for class_ in _FILTERED)
        return "database" if filtered else None

    def _source_of_table(self, leaf: LogicalPlan) -> Source | None:
        table = leaf.table()
        name = table.getClass().getName()
        readable = self._jvm.is_a(table, "org.apache.spark.sql.connector.catalog.SupportsRead")
        if not readable or name.startswith(_IN_PYTHON):
            return None
        try:
            builder = table.newScanBuilder(leaf.options())
        except JVM_ERRORS:
            return None  # the query will raise the same error when it reads the table
        if not any(self._jvm.is_a(builder, class_) for class_ in _BUILDS_FILTERED):
            return None
        return "database" if ".jdbc." in name else "table"

    def has_plain_strings(self, leaf: LogicalPlan) -> bool:
        """Return whether a DataSource V2 table is known to compare strings by their bytes.

        Other sources may push filters to a metastore or database with its own collation.

        Args:
            leaf: A leaf whose source is ``"table"``.
        """
        return leaf.table().getClass().getName().startswith(_PLAIN_STRINGS)

    def name_of(self, leaf: LogicalPlan) -> str:
        """Return a leaf's name for messages: the name of its table, directory or relation."""
        if self._leaf(leaf).kind == _TABLE:
            return leaf.name()
        if self.is_of_hive(leaf):
            return leaf.tableMeta().identifier().unquotedString()
        table = leaf.catalogTable()
        if table.isDefined():
            return table.get().identifier().unquotedString()
        return (self.root_of(leaf) if self.reads_files(leaf) else None) or str(
            leaf.relation().toString()
        )

    def roots_of(self, leaf: LogicalPlan) -> list[str]:
        """Return the root directories of a leaf that reads files."""
        return [path.toString() for path in each(leaf.relation().location().rootPaths())]

    def root_of(self, leaf: LogicalPlan) -> str | None:
        """Return the first root directory of a leaf that reads files, or None if it has none."""
        return self._leaf(leaf).first_root

    def is_pinned(self, leaf: LogicalPlan) -> bool:
        """Return whether a leaf is a pinned scan, which reads a fixed list of files."""
        return self.pinned_root_of(leaf) is not None

    def pinned_root_of(self, leaf: LogicalPlan) -> str | None:
        """Return the artificial root directory of a pinned scan, or None for any other leaf."""
        root = self._leaf(leaf).first_root if self.reads_files(leaf) else None
        return root if root is not None and root.startswith(PINNED_ROOT) else None

    def refresh(self, leaf: LogicalPlan) -> None:
        """Make Spark list the files of a ``LogicalRelation`` again."""
        leaf.refresh()

    def is_table(self, plan: LogicalPlan) -> bool:
        """Return whether a plan is a leaf that reads a Hive table or files."""
        return self.is_of_hive(plan) or self.reads_files(plan)

    def partition_schema(self, leaf: LogicalPlan) -> CatalystStruct:
        """Return the ``StructType`` of the partition columns of a Hive table or file relation."""
        return self._leaf(leaf).partition_schema

    def is_partitioned(self, leaf: LogicalPlan) -> bool:
        """Return whether a Hive table or file relation has partition columns."""
        return self._leaf(leaf).is_partitioned

    def declared_schema(self, leaf: LogicalPlan) -> dict[str, Any]:
        """Return the declared schema of a Hive table or file relation, parsed from JSON."""
        owner = leaf.tableMeta() if self.is_of_hive(leaf) else leaf.relation()
        found: dict[str, Any] = json.loads(owner.schema().json())
        return found

    def format_of(self, leaf: LogicalPlan) -> tuple[str, dict[str, str]]:
        """Return the short name of a leaf's file format, and its read options.

        The name is ``hive`` for all tables that are read with Hive's SerDes.
        """
        if self.is_of_hive(leaf):
            return "hive", {}
        relation = leaf.relation()
        form = relation.fileFormat()
        named = self._jvm.is_a(form, "org.apache.spark.sql.sources.DataSourceRegister")
        name = form.shortName() if named else form.toString()
        options = each(relation.options().toSeq())
        return str(name).lower(), {str(pair._1()): str(pair._2()) for pair in options}

    def location_of(self, leaf: LogicalPlan) -> str | None:
        """Return the directory of a leaf's table as a Hadoop path, or None if it has no directory.

        For a leaf without a catalog table, this is the first root directory.
        """
        if not self.is_of_hive(leaf) and leaf.catalogTable().isEmpty():
            return self.root_of(leaf)
        entry = leaf.tableMeta() if self.is_of_hive(leaf) else leaf.catalogTable().get()
        uri = entry.storage().locationUri()
        return None if uri.isEmpty() else hadoop_path(self._jvm, uri.get()).toString()

    def listed_index_of(self, leaf: LogicalPlan) -> FileIndex | None:
        """Return the ``InMemoryFileIndex`` of a leaf, or None if the leaf has another index.

        Other indexes, such as Delta's, select the files to read themselves.
        """
        known = self._leaf(leaf)
        return known.index if known.reads_files and known.index_lists_files else None

    def index_to_fix(self, leaf: LogicalPlan) -> FileIndex | None:
        """Return the file index of an unpartitioned ``LogicalRelation`` that Spark may list again.

        Return None if the leaf is partitioned or pinned, or has no ``InMemoryFileIndex``.
        """
        index = self.listed_index_of(leaf)
        if index is None or self.is_partitioned(leaf) or self.is_pinned(leaf):
            return None
        return index

    def listed_by_spark(self, leaf: LogicalPlan) -> FileIndex:
        """Make Spark list all partitions of a ``CatalogFileIndex``, and return the new index."""
        return leaf.relation().location().filterPartitions(self._scala.nil)

    def with_entry_of(self, leaf: LogicalPlan, other: LogicalPlan) -> LogicalPlan:
        """Return a copy of ``leaf`` with the catalog entry and statistics of ``other``."""
        return self._plans.with_arguments(leaf, {2: other.catalogTable()})

    def with_option(self, plan: LogicalPlan, name: str, value: str) -> LogicalPlan:
        """Return a copy of a plan with one changed option. Its only leaf must read files."""
        leaf = next(iter(self._plans.leaves(plan)))
        relation = leaf.relation()
        other = relation.copy(
            relation.location(),
            relation.partitionSchema(),
            relation.dataSchema(),
            relation.bucketSpec(),
            relation.fileFormat(),
            relation.options().updated(name, value),
            relation.sparkSession(),
        )
        return self._plans.with_leaves(plan, [(leaf, self._plans.with_arguments(leaf, {0: other}))])

    def catalog_table_of(self, leaf: LogicalPlan) -> CatalogEntry | None:
        """Return the ``CatalogTable`` of a leaf whose partitions are not yet in the plan.

        The result is None for unpartitioned tables, and for leaves that already have a list of
        partitions.
        """
        if self.is_of_hive(leaf):
            whole = leaf.isPartitioned() and leaf.prunedPartitions().isEmpty()
            return leaf.tableMeta() if whole else None
        if not self.reads_files(leaf) or not self.is_partitioned(leaf):
            return None
        index = self._leaf(leaf).index
        return index.table() if self._jvm.is_a(index, _DATASOURCES + "CatalogFileIndex") else None

    def places_read_by(self, leaf: LogicalPlan) -> frozenset[str]:
        """Return the name and the directories of the table that a leaf reads."""
        kind = self._leaf(leaf).kind
        if kind in (_TABLE, SCANNED_TABLE):
            owner = leaf if kind == _TABLE else leaf.relation()
            return frozenset({str(owner.table().name())})
        is_hive = self.is_of_hive(leaf)
        table = self._scala.some(leaf.tableMeta()) if is_hive else leaf.catalogTable()
        found = set()
        if table.isDefined():
            found.add(table.get().identifier().unquotedString())
            uri = table.get().storage().locationUri()
            if uri.isDefined():
                found.add(hadoop_path(self._jvm, uri.get()).toString())
        if self.reads_files(leaf):
            found.update(self.roots_of(leaf))
        return frozenset(found)

    def directories_of_leaf(self, leaf: LogicalPlan) -> list[str]:
        """Return the directories that a leaf reads.

        For a catalog table, this is the table's directory. Directories of partitions are included
        only if the plan contains the partitions. The list is empty for pinned scans and for sources
        without a known location.
        """
        if self._leaf(leaf).kind in (_TABLE, SCANNED_TABLE):
            table = self.table_of(leaf)
            if self._jvm.is_a(table, _FILE_TABLE):
                return [path.toString() for path in each(table.fileIndex().rootPaths())]
            location = table.properties().get("location")
            return [] if location is None else [str(location)]
        if not self.is_of_hive(leaf):
            is_listed = self.reads_files(leaf) and not self.is_pinned(leaf)
            return self.roots_of(leaf) if is_listed else []
        pruned = leaf.prunedPartitions()
        partitions = [] if pruned.isEmpty() else each(pruned.get())
        found = [hadoop_path(self._jvm, p.location()).toString() for p in partitions]
        location = self.location_of(leaf)
        return found if location is None else [location, *found]

    def kind_of_source(
        self, leaf: LogicalPlan
    ) -> Literal["located", "nowhere", "python", "unknown"]:
        """Return the kind of source that a leaf reads its rows from.

        ``located``: files, whose directories :meth:`directories_of_leaf` returns. ``nowhere``: no
        files, since the rows are in memory or in a database. ``python``: a data source written in
        Python, which may open any files. ``unknown``: any other source.
        """
        kind = self._leaf(leaf).kind
        if kind in (_TABLE, SCANNED_TABLE):
            table = self.table_of(leaf)
            name = table.getClass().getName()
            if name.startswith(_IN_PYTHON):
                return "python"
            if name.startswith(_OF_JDBC_V2):
                return "nowhere"
            if self.metadata_source(leaf) is None and not self._jvm.is_a(table, _FILE_TABLE):
                return "unknown"
            return "located" if self.directories_of_leaf(leaf) else "unknown"
        if self.is_table(leaf):
            is_foreign = self.source_of(leaf) is not None and self.metadata_source(leaf) is None
            return "unknown" if is_foreign else "located"
        if kind == _RELATION:
            name = leaf.relation().getClass().getName()
            return "nowhere" if name.startswith(_OF_JDBC) else "unknown"
        return "nowhere" if kind in _IN_MEMORY else "unknown"

    def metadata_source(self, leaf: LogicalPlan) -> Literal["delta", "iceberg"] | None:
        """Return the table format of a Delta or Iceberg leaf, or None for other leaves."""
        if self._leaf(leaf).kind in (_TABLE, SCANNED_TABLE):
            owner: JavaObject = self.table_of(leaf)
        elif self.is_table(leaf) and not self.is_of_hive(leaf):
            owner = leaf.relation().location()
        else:
            return None
        name = owner.getClass().getName()
        if name.startswith(_OF_DELTA):
            return "delta"
        return "iceberg" if name.startswith(_OF_ICEBERG) else None

    def leaves_conditions_to_spark(self, leaf: LogicalPlan) -> bool:
        """Return whether Spark evaluates every condition on a DataSource V2 table itself."""
        # Sources of files and Iceberg apply conditions on partition columns themselves, and do not
        # return them to Spark. Databases do this with most conditions.
        table = self.table_of(leaf)
        is_of_files = self.metadata_source(leaf) == "iceberg" or self._jvm.is_a(table, _FILE_TABLE)
        return is_of_files and len(table.partitioning()) == 0

    def table_of(self, leaf: LogicalPlan) -> ForeignObject:
        """Return the table of a DataSource V2 leaf.

        Spark wraps a table that UPDATE, DELETE or MERGE changes in a ``RowLevelOperationTable``.
        This method returns the wrapped table.
        """
        table = (leaf if self._leaf(leaf).kind == _TABLE else leaf.relation()).table()
        inside: ForeignObject = table.table() if self._jvm.is_a(table, _CHANGED_TABLE) else table
        return inside

    def index_of(self, leaf: LogicalPlan) -> FileIndex | None:
        """Return the file index of a leaf that reads files; None for Hive and Iceberg tables."""
        if self._leaf(leaf).kind in (_TABLE, SCANNED_TABLE):
            table, index = self.table_of(leaf), None
            if self._jvm.is_a(table, _FILE_TABLE):
                index = table.fileIndex()
            elif self.metadata_source(leaf) == "delta":
                index = table.toBaseRelation().location()
            return index
        return None if self.is_of_hive(leaf) else leaf.relation().location()

    def option_of_source(self, leaf: LogicalPlan, name: str) -> str | None:
        """Return an option of a Python data source, ignoring case, or None if it is not set."""
        relation = leaf if self._leaf(leaf).kind == _TABLE else leaf.relation()
        value = relation.options().get(name)
        return None if value is None else str(value)

    def directories_at(self, locations: Sequence[str]) -> Seq[HadoopPath]:
        """Convert locations to a ``Seq[Path]``."""
        return self._scala.seq([hadoop_path(self._jvm, location) for location in locations])

    def reading_partitions(
        self, leaf: LogicalPlan, partitions: Seq[CatalogPartition]
    ) -> LogicalPlan:
        """Return a copy of a ``HiveTableRelation`` that reads only the given partitions.

        Args:
            leaf: The ``HiveTableRelation``.
            partitions: The partitions, a ``Seq[CatalogTablePartition]``.
        """
        return self._plans.with_arguments(leaf, {4: self._scala.some(partitions)})
