"""List the partitions and files of Spark's own relations, and scan the selected files."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from splitlib.enumeration.splitting import SelectedFiles
from splitlib.errors import MissingPartition
from splitlib.hive.partition_values import SPARK_CHAR_VARCHAR, from_spark_json
from splitlib.model import (
    FILE_SCHEMA,
    FileBatch,
    PartitionBatch,
    ReadFormat,
    Requests,
    TableMetadata,
)
from splitlib.remote.calls import cached_property
from splitlib.spark.compat import to_arrow
from splitlib.spark.conversion import quoted
from splitlib.spark.file_scan import canonical_paths
from splitlib.spark.jvm.active_session import active, errors_of_the_jvm
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.file_index import directories_of, files_in, rows_of
from splitlib.spark.jvm.gateway import analyzed_plan
from splitlib.spark.jvm.hadoop import read_end
from splitlib.spark.jvm.java_handles import FileStatus, JavaArray, Seq
from splitlib.spark.jvm.listing import Listing, list_directories
from splitlib.spark.jvm.pinned_relation import pinned_leaf
from splitlib.spark.jvm.spark_handles import FileIndex, InternalRow, LogicalPlan, PartitionDirectory
from splitlib.spark.scan import FileGroup
from splitlib.spi import Predicate

_REF = "ref"
_LOADED = "a table loaded by splitlib.read"
_PARTITION = FILE_SCHEMA.get_field_index("partition")


class Relation(ABC):
    """A Spark relation that reads the files of a table.

    One class does both listings and scans, because a scan uses JVM objects from the listing. The
    listing methods are those of :class:`splitlib.spi.Connector`. The connector ``session`` calls
    them.

    Args:
        catalyst: Access to the plans of the session.
        leaf: The relation, a leaf of a plan. Scans of the table output this leaf's attributes.
    """

    partitions_per_listing = 1
    partitions_per_details = 10_000

    def __init__(self, catalyst: Catalyst, leaf: LogicalPlan) -> None:
        self._catalyst = catalyst
        self.leaf = self._plan = leaf
        """Relation with which Spark reads the table, a leaf of a plan."""
        self._alias: LogicalPlan | None = None
        self._metadata = _metadata(catalyst, leaf)

    def read_by(self, plan: LogicalPlan, alias: LogicalPlan | None = None) -> Self:
        """Set the plan through which rows of the relation are read, and return ``self``.

        For example, Spark adds a projection above the relation to pad CHAR columns.

        Args:
            plan: A plan over the relation, in which each node has one child.
            alias: ``SubqueryAlias`` with which :meth:`named` qualifies columns; None to leave them
                unqualified.
        """
        self._plan, self._alias = plan, alias
        return self

    def named(self, rows: DataFrame) -> DataFrame:
        """Return ``rows`` with columns qualified by the table's name, as in ``spark.table``."""
        if self._alias is None:
            return rows
        plan = self._catalyst.scala.seq([analyzed_plan(rows)])
        return self._catalyst.execution.dataframe(self._alias.withNewChildren(plan))

    def describe(self) -> TableMetadata:
        """Return the metadata of the table."""
        return self._metadata

    @abstractmethod
    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        """Yield the partitions that may match the predicate."""

    def load_details(self, partitions: PartitionBatch) -> PartitionBatch:
        """Return the partitions that still exist, with the details for :meth:`list_files`."""
        return partitions

    @abstractmethod
    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        """Yield the files of the given partitions."""

    def read_end(self, path: str, size: int, length: int) -> bytes:
        """Return the last ``length`` bytes of a file that has ``size`` bytes."""
        with active(self._catalyst.spark):
            conf = self._catalyst.execution.hadoop_conf
            return read_end(self._catalyst.scala.jvm, conf, path, size, length)

    may_be_old = False
    """Whether Spark has listed the files before this plan. They may have changed since then."""

    def unchanged(self, files: pa.RecordBatch, threads: int) -> pa.BooleanArray:
        """List the directories of ``files`` again, and return a mask of the unchanged files.

        Args:
            files: Files with the size and modification time of an earlier listing.
            threads: Maximum number of concurrent listings.
        """
        paths, catalyst = files["path"], self._catalyst
        above = pc.unique(pc.replace_substring_regex(canonical_paths(paths), "/[^/]*$", ""))
        with errors_of_the_jvm(catalyst.spark):
            directories = catalyst.relations.directories_at(above.to_pylist())
            conf = catalyst.execution.hadoop_conf
            listing = list_directories(catalyst.scala, catalyst.session, conf, directories, threads)
        now = listing.files.take(pc.index_in(paths, value_set=listing.files["path"]))
        equal = (pc.equal(files[name], now[name]) for name in ("size", "modified"))
        return pc.fill_null(pc.and_(*equal), False)

    def check_identity(self) -> None:  # noqa: B027 - files have no identity
        """Check that the table was not dropped or recreated. This default checks nothing."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the table, or its root directories."""

    @property
    def listed_before(self) -> tuple[int | None, int | None]:
        """Number and total size in bytes of the files that Spark has already listed.

        Both are None if Spark has not listed files of the table.
        """
        return None, None

    @property
    def can_be_empty(self) -> bool:
        """Whether replacing the table's scan by a scan without files saves work in a query."""
        return False

    def prepare(self, *, by_name: bool) -> None:  # noqa: B027 - most make no catalog requests
        """Make catalog requests ahead of time. May be called in any thread.

        This default makes no requests.

        Args:
            by_name: Whether the filters will imply the names of the partitions.
        """

    def listed_by_spark(self) -> Relation:
        """Make Spark list and cache all partitions' files, and return a relation of these files.

        This default returns the relation itself.
        """
        return self

    @property
    def has_names(self) -> bool:
        """Whether all partition names are already listed, so requests by name are unnecessary."""
        return True

    @property
    def has_canonical_values(self) -> bool:
        """Whether the table declares integers and dates in partition values as canonical.

        They are then written as ``5`` and never as ``05``.
        """
        return False

    @property
    def names_files(self) -> bool:
        """Whether a scan can read selected files, and not only selected partitions."""
        return not self._catalyst.relations.is_of_hive(self.leaf)

    def scan_of_files(self, selected: Iterable[SelectedFiles]) -> DataFrame:
        """Return a DataFrame of the selected files' rows, with the relation's attributes.

        Raises:
            RuntimeError: if Spark would not read exactly these files.
        """
        group = FileGroup()
        for one in selected:
            columns = one.partitions.values.columns
            names = [f"c{i}" for i in range(len(columns))]
            refs = [*columns, one.partitions.refs]
            group.add(one.files.files, pa.record_batch(refs, names=[*names, _REF]))
        none = pa.table({_REF: pa.array([], pa.string())})
        files, partitions = group.files(), group.values(none=none)
        known = self._statuses(files) if files.num_rows else None
        files = files.set_column(0, "path", canonical_paths(files["path"]))
        keys = self._metadata.partition_keys
        # `_rows` raises an error if Spark cannot parse a partition value.
        with errors_of_the_jvm(self._catalyst.spark):
            rows = self._rows(partitions[_REF].combine_chunks()) if keys else None
        return self._rows_of(pinned_leaf(self._catalyst, self.leaf, files, partitions, rows, known))

    def scan_of_partitions(self, selected: Iterable[PartitionBatch]) -> DataFrame | None:
        """Return a DataFrame of the selected partitions' rows, with the relation's attributes.

        Return None, without iterating over ``selected``, if scans can read selected files.
        """
        return None

    def _rows_of(self, relation: LogicalPlan) -> DataFrame:
        """Return a DataFrame that runs the table's plan with ``relation`` in place of the leaf."""
        depth, node = 0, self._plan
        while not node.children().isEmpty():
            depth, node = depth + 1, node.children().head()
        return self._catalyst.execution.dataframe(
            self._catalyst.plans.replaced(self._plan, {(0,) * depth: relation})
        )

    def _rows(self, refs: pa.Array) -> Any:
        """Return partition values as an ``Array[InternalRow]``, or None if there are no keys."""
        return None

    def _statuses(self, files: pa.Table) -> Any:
        """Return the ``FileStatus`` objects of the files as a ``Seq``, or None if not available."""
        return None


def _metadata(catalyst: Catalyst, leaf: LogicalPlan) -> TableMetadata:
    schema = json.loads(leaf.schema().json())
    schema["fields"] = [
        field for field in schema["fields"] if "__metadata_col" not in str(field["metadata"])
    ]
    # If Spark pads CHAR columns, only the declared schema of the relation has the metadata with
    # their type. So copy this metadata.
    declared = {
        f["name"]: f["metadata"] for f in catalyst.relations.declared_schema(leaf)["fields"]
    }
    for field in schema["fields"]:
        if SPARK_CHAR_VARCHAR in declared.get(field["name"], {}):
            field["metadata"] = declared[field["name"]]
    name, options = catalyst.relations.format_of(leaf)
    return TableMetadata(
        from_spark_json(schema),
        tuple(catalyst.relations.partition_schema(leaf).names()),
        ReadFormat.of(name, options),
        catalyst.relations.location_of(leaf),
        spark_schema=json.dumps(schema),
    )


class ListedTable(Relation):
    """A table whose partitions and files Spark has already listed. Listing them sends no requests.

    Args:
        catalyst: Access to the plans of the session.
        leaf: A ``LogicalRelation``.
        index: The ``InMemoryFileIndex`` of the leaf.
        location: The table's directory; None to read it from the leaf. It must be given for a
            pinned scan, which reads a fixed list of files and may have an artificial location.
        is_new: Whether the files were listed for this plan. Other files may have changed since.
    """

    partitions_per_listing = 10_000
    """Maximum number of partitions in one call of :meth:`list_files`. It is large, since the files
    are already listed."""

    def __init__(
        self,
        catalyst: Catalyst,
        leaf: LogicalPlan,
        index: FileIndex,
        location: str | None = None,
        *,
        is_new: bool = False,
    ) -> None:
        super().__init__(catalyst, leaf)
        self._index = index
        self.may_be_old = not is_new
        if location is not None:
            self._metadata = replace(self._metadata, location=location)

    @property
    def name(self) -> str:
        """Root directories of the table, separated by commas, or a fixed text for a pinned scan."""
        if self._catalyst.relations.is_pinned(self.leaf):
            return _LOADED
        return ", ".join(self._catalyst.relations.roots_of(self.leaf))

    @property
    def listed_before(self) -> tuple[int | None, int | None]:
        """Number and total size in bytes of the files in Spark's index."""
        files = self._listing.files
        return len(files), pc.sum(files["size"], min_count=0).as_py()

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        """Yield one batch with all partitions in Spark's index."""
        with active(self._catalyst.spark):
            number = pa.array(range(self._directories.size()), pa.int64())
            values = self._values
        yield PartitionBatch(values, number)

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        """Yield the files of the given partitions from Spark's index, in one batch."""
        with active(self._catalyst.spark):
            listed = self._listing.files
        row = pc.index_in(listed["partition"], value_set=partitions.refs)
        row = row.cast(pa.int64())
        files = listed.set_column(_PARTITION, FILE_SCHEMA.field(_PARTITION), row)
        yield FileBatch(files.filter(pc.is_valid(row)), self._metadata.read_format)

    def _rows(self, refs: pa.Array) -> JavaArray[InternalRow]:
        return rows_of(self._catalyst.scala, self._directories, refs)

    def _statuses(self, files: pa.Table) -> Seq[FileStatus]:
        row = pc.index_in(files["path"], value_set=self._listing.files["path"])
        return self._catalyst.scala.mapped(
            self._catalyst.scala.positions(row.combine_chunks()), self._listing.statuses
        )

    @cached_property
    def _directories(self) -> Seq[PartitionDirectory]:
        return directories_of(self._catalyst.scala, self._index)

    @cached_property
    def _listing(self) -> Listing:
        """Files of all partitions, fetched from the JVM at first use."""
        return files_in(self._catalyst.scala, self._directories)

    @cached_property
    def _values(self) -> pa.RecordBatch:
        """Typed partition values. Types without an Arrow counterpart become strings."""
        keys, catalyst = self._metadata.partition_schema, self._catalyst
        if not keys.names:
            return pa.RecordBatch.from_arrays([], names=[])
        rows = rows_of(catalyst.scala, self._directories)
        names = [a.name() for a in catalyst.plans.output(self.leaf)]
        attributes = catalyst.plans.attributes(self.leaf, [names.index(key) for key in keys.names])
        frame = catalyst.execution.dataframe(catalyst.plans.local_relation(attributes, rows))
        columns = [
            F.col(quoted(k.name)).cast("string") if pa.types.is_string(k.type) else quoted(k.name)
            for k in keys
        ]
        found = to_arrow(frame.select(*columns)).combine_chunks()
        arrays = [c.combine_chunks().cast(k.type) for c, k in zip(found.columns, keys, strict=True)]
        return pa.record_batch(arrays, names=keys.names)


class WholeTable(Relation):
    """A Hive table without partitions, treated as one partition without values.

    Args:
        catalyst: Access to the plans of the session.
        leaf: A ``HiveTableRelation`` without partitions.
        threads: Number of directories listed concurrently.
    """

    def __init__(self, catalyst: Catalyst, leaf: LogicalPlan, threads: int) -> None:
        super().__init__(catalyst, leaf)
        self._threads = threads

    @property
    def name(self) -> str:
        """Directory of the table."""
        return self._metadata.location or ""

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        """Yield the whole table as one partition without values."""
        yield PartitionBatch.whole(pa.array([self._metadata.location]))

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        """Yield the files in the table's directory, in one batch."""
        catalyst = self._catalyst
        directories = catalyst.relations.directories_at([self._metadata.location or ""])
        with errors_of_the_jvm(catalyst.spark):
            found = list_directories(
                catalyst.scala,
                catalyst.session,
                catalyst.execution.hadoop_conf,
                directories,
                self._threads,
            )
        if found.missing:
            raise MissingPartition("The table's directory does not exist.")
        yield FileBatch(found.files, self._metadata.read_format, Requests(storage=1))

    def scan_of_partitions(self, selected: Iterable[PartitionBatch]) -> DataFrame:
        """Return a DataFrame of all rows, or of no rows if the only partition is not selected."""
        rows = self._rows_of(self.leaf)
        return rows if any(map(len, selected)) else rows.limit(0)
