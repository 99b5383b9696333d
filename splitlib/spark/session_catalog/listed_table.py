"""Tables whose files Spark has listed already. Pruning only reduces the files to read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from splitlib.model import FILE_SCHEMA, FileBatch, PartitionBatch
from splitlib.spark.jvm.active_session import active
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.listing import Listing
from splitlib.spark.session_catalog.relation_table import RelationTable
from splitlib.spark.sql_text import quoted
from splitlib.spi import Predicate

_PARTITION = FILE_SCHEMA.get_field_index("partition")


class ListedTable(RelationTable):
    """A table with the partitions and files of Spark's file index. Makes no further requests.

    Args:
        catalyst: The plans of the session that reads.
        leaf: A ``LogicalRelation``.
        index: The ``InMemoryFileIndex`` of the leaf.
    """

    partitions_per_listing = 10_000
    """Number of partitions in one batch. Large, since the files are listed already."""

    def __init__(self, catalyst: Catalyst, leaf: Any, index: Any) -> None:
        super().__init__(catalyst, leaf)
        self._index = index

    @property
    def name(self) -> str:
        """See :class:`RelationTable`."""
        return ", ".join(self._catalyst.roots_of(self._leaf))

    @property
    def listed_before(self) -> tuple[int | None, int | None]:
        """See :class:`RelationTable`."""
        files = self._listing.files
        return len(files), pc.sum(files["size"], min_count=0).as_py()

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        """See :meth:`splitlib.spi.Connector.list_partitions`."""
        with active(self._catalyst.spark):
            number = pa.array(range(self._directories.size()), pa.int64())
            values = self._values
        yield PartitionBatch(values, number)

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        """See :meth:`splitlib.spi.Connector.list_files`."""
        with active(self._catalyst.spark):
            listed = self._listing.files
        row = pc.index_in(listed["partition"], value_set=partitions.refs)
        row = row.cast(pa.int64())
        files = listed.set_column(_PARTITION, FILE_SCHEMA.field(_PARTITION), row)
        yield FileBatch(files.filter(pc.is_valid(row)), self._metadata.read_format)

    def _rows(self, refs: pa.Array) -> Any:
        return self._catalyst.rows_of(self._directories, refs)

    def _statuses(self, files: pa.Table) -> Any:
        row = pc.index_in(files["path"], value_set=self._listing.files["path"])
        return self._catalyst.scala.positions(row.combine_chunks()).map(self._listing.statuses)

    @cached_property
    def _directories(self) -> Any:
        return self._catalyst.directories_of(self._index)

    @cached_property
    def _listing(self) -> Listing:
        """Files of all partitions. Fetched from the JVM only if some may be pruned."""
        return self._catalyst.files_of(self._directories)

    @cached_property
    def _values(self) -> pa.RecordBatch:
        """Typed partition values. Types without an Arrow counterpart become strings."""
        keys, catalyst = self._metadata.partition_schema, self._catalyst
        if not keys.names:
            return pa.RecordBatch.from_arrays([], names=[])
        rows = catalyst.rows_of(self._directories)
        names = [str(a.name()) for a in catalyst.output(self._leaf)]
        attributes = catalyst.attributes(self._leaf, [names.index(key) for key in keys.names])
        frame = catalyst.dataframe(catalyst.local_relation(attributes, rows))
        columns = [
            F.col(quoted(k.name)).cast("string") if pa.types.is_string(k.type) else quoted(k.name)
            for k in keys
        ]
        found = frame.select(*columns).toArrow().combine_chunks()
        arrays = [c.combine_chunks().cast(k.type) for c, k in zip(found.columns, keys, strict=True)]
        return pa.record_batch(arrays, names=keys.names)
