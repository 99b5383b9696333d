"""Hive tables without partitions. There is nothing to prune, and Spark lists the files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from splitlib.errors import MissingPartition
from splitlib.model import FileBatch, PartitionBatch, Requests
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.errors import errors_of_the_jvm
from splitlib.spark.jvm.listing import list_directories
from splitlib.spark.session_catalog.relation_table import RelationTable
from splitlib.spi import Predicate


class WholeTable(RelationTable):
    """A Hive table without partitions, treated as one partition without values.

    Args:
        catalyst: The plans of the session that reads.
        leaf: A ``HiveTableRelation`` without partitions.
        threads: Number of directories listed concurrently.
    """

    def __init__(self, catalyst: Catalyst, leaf: Any, threads: int) -> None:
        super().__init__(catalyst, leaf)
        self._threads = threads

    @property
    def name(self) -> str:
        """See :class:`RelationTable`."""
        return self._metadata.location or ""

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        """See :meth:`splitlib.spi.Connector.list_partitions`."""
        nothing = pa.RecordBatch.from_arrays([], names=[])
        yield PartitionBatch(nothing, pa.array([self._metadata.location]))

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        """See :meth:`splitlib.spi.Connector.list_files`."""
        catalyst = self._catalyst
        directories = catalyst.directories_at([self._metadata.location or ""])
        with errors_of_the_jvm(catalyst.spark):
            found = list_directories(
                catalyst.scala, catalyst.session, catalyst.hadoop_conf, directories, self._threads
            )
        if found.missing:
            raise MissingPartition("The table's directory does not exist.")
        yield FileBatch(found.files, self._metadata.read_format, Requests(storage=1))

    def scan_of_partitions(self, selected: Iterable[PartitionBatch]) -> DataFrame:
        """See :class:`RelationTable`. Returns all rows, or none without a selected partition."""
        rows = self._rows_of(self._leaf)
        return rows if any(map(len, selected)) else rows.limit(0)

    def _rows(self, refs: pa.Array) -> Any:
        return None

    def _statuses(self, files: pa.Table) -> Any:
        return None
