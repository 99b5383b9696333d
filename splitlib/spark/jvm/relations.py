"""Leaves of plans that read tables: what they read, and the same over other files."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from splitlib.spark.jvm.expressions import CATALYST
from splitlib.spark.jvm.file_index import PATH, PINNED_ROOT
from splitlib.spark.jvm.pinned_relation import PINNED_OPTIONS, case_insensitive
from splitlib.spark.jvm.plans import Plans
from splitlib.spark.jvm.scala import each

_DATASOURCES: Final = "org.apache.spark.sql.execution.datasources."


class IndexFacts(NamedTuple):
    """What an index has listed."""

    roots: tuple[str, ...]
    partitions: int
    files: int
    nbytes: int


class Relations(Plans):
    """Of two kinds: ``HiveTableRelation`` and ``LogicalRelation``.

    Args:
        scala: Of the session's JVM.
    """

    def is_of_hive(self, leaf: Any) -> bool:
        """Whether a leaf is read by Hive's SerDes."""
        return bool(leaf.nodeName() == "HiveTableRelation")

    def reads_files(self, leaf: Any) -> bool:
        """Whether a leaf is a ``LogicalRelation`` that reads a ``HadoopFsRelation``."""
        return not self.is_of_hive(leaf) and self._jvm.is_a(
            leaf.relation(), _DATASOURCES + "HadoopFsRelation"
        )

    def root_of(self, leaf: Any) -> str | None:
        """The first root directory of a leaf that reads files, None if it has none."""
        root = leaf.relation().location().rootPaths().headOption()
        return None if root.isEmpty() else str(root.get().toString())

    def is_pinned(self, leaf: Any) -> bool:
        """Whether a leaf reads given files, whatever becomes of the table."""
        return self.reads_files(leaf) and (self.root_of(leaf) or "").startswith(PINNED_ROOT)

    def refresh(self, leaf: Any) -> None:
        """Let Spark list again what it has listed for a ``LogicalRelation``."""
        leaf.refresh()

    def partition_schema(self, leaf: Any) -> Any:
        """The ``StructType`` of the partition columns of a leaf that reads files."""
        return leaf.relation().partitionSchema()

    def listed_index_of(self, leaf: Any) -> Any:
        """The index of a leaf whose partitioned files Spark has listed itself; None if it has none.

        An index of someone else's knows best what is to be read.
        """
        if not self.reads_files(leaf) or leaf.relation().partitionSchema().isEmpty():
            return None
        index = leaf.relation().location()
        return index if self._jvm.is_a(index, _DATASOURCES + "InMemoryFileIndex") else None

    def catalog_table_of(self, leaf: Any) -> Any:
        """The ``CatalogTable`` of a leaf that is to fetch its partitions from the catalog, or None.

        One that has been told its partitions is none.
        """
        if self.is_of_hive(leaf):
            whole = leaf.isPartitioned() and leaf.prunedPartitions().isEmpty()
            return leaf.tableMeta() if whole else None
        if not self.reads_files(leaf) or leaf.relation().partitionSchema().isEmpty():
            return None
        index = leaf.relation().location()
        return index.table() if self._jvm.is_a(index, _DATASOURCES + "CatalogFileIndex") else None

    def places_read_by(self, leaf: Any) -> frozenset[str]:
        """The name of the table that a leaf reads, and the directories that it is told to read."""
        is_hive = self.is_of_hive(leaf)
        table = self.scala.some(leaf.tableMeta()) if is_hive else leaf.catalogTable()
        found = set()
        if table.isDefined():
            found.add(str(table.get().identifier().unquotedString()))
            uri = table.get().storage().locationUri()
            if uri.isDefined():
                found.add(str(self._jvm.class_(PATH)(uri.get()).toString()))
        if self.reads_files(leaf):
            roots = each(leaf.relation().location().rootPaths())
            found |= {str(path.toString()) for path in roots}
        return frozenset(found)

    def index_facts(self, index: Any) -> IndexFacts:
        """What an ``InMemoryFileIndex`` has listed."""
        return IndexFacts(
            tuple(str(path.toString()) for path in each(index.rootPaths())),
            int(index.partitionSpec().partitions().size()),
            len(index.inputFiles()),
            int(index.sizeInBytes()),
        )

    def partition_values(self, index: Any) -> Any:
        """The values of the partitions that an index has listed, an ``Array[InternalRow]``."""
        values = self.scala.functions.calling(_DATASOURCES + "PartitionPath", "values")
        rows = index.partitionSpec().partitions().map(values)
        return self.scala.array(f"{CATALYST}.InternalRow", rows)

    def reading_partitions(self, leaf: Any, partitions: Any) -> Any:
        """A ``HiveTableRelation`` that is told its partitions, a ``Seq[CatalogTablePartition]``."""
        return self.with_arguments(leaf, {4: self.scala.some(partitions)})

    def reading_index(self, leaf: Any, index: Any) -> Any:
        """A ``LogicalRelation`` over the files of another index, pinned."""
        relation = leaf.relation()
        options = case_insensitive(self.scala, relation.options())
        for name, value in PINNED_OPTIONS.items():
            options = options.updated(name, value)
        relation = relation.copy(
            index,
            relation.partitionSchema(),
            relation.dataSchema(),
            relation.bucketSpec(),
            relation.fileFormat(),
            options,
            relation.sparkSession(),
        )
        # without the table's entry its size is that of the files that are left
        return self.with_arguments(leaf, {0: relation, 2: self.scala.none})
