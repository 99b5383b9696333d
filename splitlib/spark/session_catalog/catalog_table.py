"""Tables whose partitions are stored in the session's catalog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from splitlib.errors import MissingPartition
from splitlib.filtering.partition_names import CANONICAL_VALUES, wanted
from splitlib.hive.partition_values import split_names
from splitlib.model import FILE_SCHEMA, FileBatch, PartitionBatch, Requests
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.errors import errors_of_the_jvm
from splitlib.spark.jvm.java_handles import FileStatus, JavaArray, Seq
from splitlib.spark.jvm.spark_handles import InternalRow, LogicalPlan
from splitlib.spark.session_catalog.partitions_by_name import PartitionsByName
from splitlib.spark.session_catalog.relation import ListedTable, Relation
from splitlib.spi import Predicate, flag
from splitlib.storage import refuse_outside

# Maximum number of prefixes to request. Each takes several metastore calls, since Spark looks up
# the database and the table first.
_MOST_PREFIXES: Final = 4

_PARTITION = FILE_SCHEMA.get_field_index("partition")


class CatalogTable(Relation):
    """A partitioned table of the session's catalog.

    One request lists all partition names, a second one loads the matching partitions, and one JVM
    call lists their directories. If the predicate implies the names or prefixes of them, only these
    partitions are requested.

    Args:
        catalyst: Access to the plans of the session.
        leaf: A ``LogicalRelation`` or a ``HiveTableRelation``.
        partitions: The partitions of the table. Several scans of the table may share them.
        canonical: Whether integers and dates in partition values have only one spelling; None to
            read it from the table's properties.
    """

    partitions_per_details = 1000
    """Maximum number of partitions in one call of :meth:`load_details`."""

    def __init__(
        self,
        catalyst: Catalyst,
        leaf: LogicalPlan,
        partitions: PartitionsByName,
        *,
        canonical: bool | None = None,
    ) -> None:
        super().__init__(catalyst, leaf)
        self._canonical = canonical
        self._partitions = partitions
        # A few directories for each thread: enough to keep all threads busy, and few enough to
        # return the first files soon.
        self.partitions_per_listing = 4 * partitions.threads

    @property
    def name(self) -> str:
        """Name of the table, with its database."""
        return self._partitions.table

    @property
    def can_be_empty(self) -> bool:
        """Whether an empty scan saves work; false if Spark reads the table with Hive's SerDes."""
        return self.names_files

    @cached_property
    def has_canonical_values(self) -> bool:
        """Whether integers and dates in partition values are declared to have one spelling."""
        if self._canonical is not None:
            return self._canonical
        with errors_of_the_jvm(self._catalyst.spark):
            value = self._partitions.property_of_table(CANONICAL_VALUES)
        return flag({} if value is None else {CANONICAL_VALUES: value}, CANONICAL_VALUES)

    def prepare(self, *, by_name: bool) -> None:
        """Make catalog requests ahead of time, as described in :class:`Relation`."""
        self._partitions.prepare(by_name=by_name)

    def listed_by_spark(self) -> Relation:
        """Return the same table, with the files of all partitions listed and cached by Spark."""
        with errors_of_the_jvm(self._catalyst.spark):
            index = self._partitions.listed_by_spark(self._leaf)
            return ListedTable(self._catalyst, self._leaf, index).read_by(self._plan)

    @property
    def has_names(self) -> bool:
        """Whether all partition names have been listed."""
        return self._partitions.has_names

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        """Yield the partitions that may match the predicate.

        If all names were listed before, all partitions are returned without a request.
        """
        if not self.has_names:
            keys = self._metadata.partition_schema
            for values in wanted(predicate, keys, canonical=self.has_canonical_values):
                with errors_of_the_jvm(self._catalyst.spark):
                    found = self._with(values)
                if found is not None:
                    yield from found
                    return
        before = self._partitions.requests
        with errors_of_the_jvm(self._catalyst.spark):
            names, columns = self._partitions.names()
        yield PartitionBatch(columns, names, Requests(catalog=self._partitions.requests - before))

    def _with(self, values: pa.Table) -> list[PartitionBatch] | None:
        """Request the partitions with these values of the first keys.

        The result is None if there are too many values, or if the catalog does not support the
        request.
        """
        partitions, before = self._partitions, self._partitions.requests
        rows = list(zip(*values.to_pydict().values(), strict=True))
        keys = partitions.schema.names
        if values.num_columns == len(keys):
            if len(rows) > self.partitions_per_details:
                return None
            existing = partitions.existing(rows)
            if existing is None:
                return None
            names = pa.array(existing, pa.string())
            requests = Requests(catalog=partitions.requests - before)
            batch = PartitionBatch(split_names(names, keys), names, requests, asked_for="names")
            return [batch]
        if len(rows) > _MOST_PREFIXES:
            return None
        batches = []
        for leading in rows:
            before = partitions.requests
            named = partitions.names_with(leading)
            if named is None:
                return None
            names, columns = named
            requests = Requests(catalog=partitions.requests - before)
            batches.append(PartitionBatch(columns, names, requests, asked_for="prefix"))
        return batches

    def load_details(self, partitions: PartitionBatch) -> PartitionBatch:
        """Load partitions from the catalog, and return the ones that still exist.

        The details of the partitions stay in the JVM.
        """
        before, names = self._partitions.requests, partitions.refs.to_pylist()
        with errors_of_the_jvm(self._catalyst.spark):
            found = set(self._partitions.fetch(names))
            # Check the locations here, since Hive's reader lists the directories without splitlib.
            refuse_outside(self._partitions.directories(sorted(found)))
        rows = [i for i, name in enumerate(names) if name in found]
        kept = partitions.take(pa.array(rows, pa.int64()))
        requests = Requests(catalog=self._partitions.requests - before)
        return PartitionBatch(kept.values, kept.refs, requests)

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        """Yield the files of partitions, listed with the session's filesystems."""
        names = partitions.refs.to_pylist()
        batches = []
        with errors_of_the_jvm(self._catalyst.spark):
            listed, requests = self._partitions.files(names)
        for row, (name, files) in enumerate(zip(names, listed, strict=True)):
            if files is None:
                raise MissingPartition("The partition's directory does not exist.", partition=name)
            number = pa.repeat(pa.scalar(row, pa.int64()), len(files))
            batches.append(files.set_column(_PARTITION, FILE_SCHEMA.field(_PARTITION), number))
        # Without files, the combined table has no batch, so build one from its columns.
        columns = [c.combine_chunks() for c in pa.Table.from_batches(batches, FILE_SCHEMA).columns]
        together = pa.RecordBatch.from_arrays(columns, schema=FILE_SCHEMA)
        yield FileBatch(together, self._metadata.read_format, Requests(storage=requests))

    def check_identity(self) -> None:
        """Check that the table was not dropped or recreated since it was opened."""
        with errors_of_the_jvm(self._catalyst.spark):
            self._partitions.check_identity()

    def scan_of_partitions(self, selected: Iterable[PartitionBatch]) -> DataFrame | None:
        """Return the rows of the selected partitions; None if scans can be limited to files."""
        if self.names_files:
            return None
        names = [name for batch in selected for name in batch.refs.to_pylist()]
        partitions = self._partitions.partitions(names)
        rows = self._rows_of(self._catalyst.relations.reading_partitions(self._leaf, partitions))
        # If a relation has a list of partitions, Spark assumes that filters on partition columns
        # were already applied to it, and drops such filters. It does not push filters below a
        # sample, so a sample of all rows makes Spark keep them.
        return rows.sample(withReplacement=False, fraction=1.0, seed=0)

    def _rows(self, refs: pa.Array) -> JavaArray[InternalRow]:
        return self._partitions.rows(refs.to_pylist())

    def _statuses(self, files: pa.Table) -> Seq[FileStatus]:
        return self._partitions.statuses(files["path"].to_pylist())
