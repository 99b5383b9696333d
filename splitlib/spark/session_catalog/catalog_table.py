"""A table whose partitions the session's catalog keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from splitlib.errors import MissingPartition
from splitlib.model import FILE_SCHEMA, FileBatch, PartitionBatch, Requests
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.errors import errors_of_the_jvm
from splitlib.spark.session_catalog.partitions_by_name import PartitionsByName
from splitlib.spark.session_catalog.relation_table import RelationTable
from splitlib.spi import Predicate

_PARTITION = FILE_SCHEMA.get_field_index("partition")


class CatalogTable(RelationTable):
    """All names in one request, those that match in another, their directories in one call.

    Args:
        catalyst: Of the session that reads.
        leaf: A ``LogicalRelation`` or a ``HiveTableRelation``.
        partitions: Of the table; several scans of it may share them.
    """

    partitions_per_details = 1000
    """See :class:`splitlib.spi.SupportsPartitionDetails`."""

    def __init__(self, catalyst: Catalyst, leaf: Any, partitions: PartitionsByName) -> None:
        super().__init__(catalyst, leaf)
        self._partitions = partitions
        # some rounds of all threads: enough to keep them busy, few enough to have the first soon
        self.partitions_per_listing = 4 * partitions.threads

    @property
    def name(self) -> str:
        """See :class:`RelationTable`."""
        return self._partitions.table

    @property
    def can_read_nothing(self) -> bool:
        """See :class:`RelationTable`; one of Hive's would still be known as the table it is."""
        return self.names_files

    def prepare(self) -> None:
        """See :class:`RelationTable`."""
        self._partitions.prepare()

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        """See :meth:`splitlib.spi.Connector.list_partitions`."""
        before = self._partitions.requests
        with errors_of_the_jvm():
            names, values = self._partitions.names()
        yield PartitionBatch(values, names, Requests(catalog=self._partitions.requests - before))

    @errors_of_the_jvm()
    def load_details(self, partitions: PartitionBatch) -> PartitionBatch:
        """See :class:`splitlib.spi.SupportsPartitionDetails`; they stay in the JVM."""
        before, names = self._partitions.requests, partitions.refs.to_pylist()
        found = set(self._partitions.fetch(names))
        self._partitions.refuse_outside(sorted(found))  # Hive's own reader lists them by itself
        rows = [i for i, name in enumerate(names) if name in found]
        kept = partitions.take(pa.array(rows, pa.int64()))
        requests = Requests(catalog=self._partitions.requests - before)
        return PartitionBatch(kept.values, kept.refs, requests)

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        """See :meth:`splitlib.spi.Connector.list_files`."""
        names = partitions.refs.to_pylist()
        batches = []
        with errors_of_the_jvm():
            listed, requests = self._partitions.files(names)
        for row, (name, files) in enumerate(zip(names, listed, strict=True)):
            if files is None:
                raise MissingPartition("Its directory does not exist.", partition=name)
            number = pa.repeat(pa.scalar(row, pa.int64()), len(files))
            batches.append(files.set_column(_PARTITION, FILE_SCHEMA.field(_PARTITION), number))
        # there may be no file at all, and so no batch to take
        columns = [c.combine_chunks() for c in pa.Table.from_batches(batches, FILE_SCHEMA).columns]
        together = pa.RecordBatch.from_arrays(columns, schema=FILE_SCHEMA)
        yield FileBatch(together, self._metadata.read_format, Requests(storage=requests))

    @errors_of_the_jvm()
    def check_identity(self) -> None:
        """See :class:`splitlib.spi.SupportsIdentityCheck`."""
        self._partitions.check_identity()

    def scan_of_partitions(self, selected: Iterable[PartitionBatch]) -> DataFrame:
        """See :class:`RelationTable`."""
        names = [name for batch in selected for name in batch.refs.to_pylist()]
        partitions = self._partitions.partitions(names)
        return self._rows_of(self._catalyst.reading_partitions(self._leaf, partitions))

    def _rows(self, refs: pa.Array) -> Any:
        return self._partitions.rows(refs.to_pylist())

    def _statuses(self, files: pa.Table) -> Any:
        return self._partitions.statuses(files["path"].to_pylist())
