"""The connector class: selects manifests of one snapshot, then partitions, then data files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from splitlib.model import (
    DeleteFile,
    FileBatch,
    Manifests,
    PartitionBatch,
    ReadFormat,
    Requests,
    TableMetadata,
)
from splitlib.remote.calls import in_parallel
from splitlib.spi import Connector, Predicate
from splitlib.storage import AzureSettings, S3Settings
from splitlib_iceberg.batches import (
    apply_deletes,
    choose,
    file_batch,
    files_of,
    needs_statistics,
    no_partitions,
    partition_batch,
    resolve,
    statistics_of,
)
from splitlib_iceberg.partition_specs import Spec
from splitlib_iceberg.physical_names import PhysicalNames
from splitlib_iceberg.pinning import Pinned, open_table, table_names
from splitlib_iceberg.schema import (
    arrow_schema,
    dropped_schema,
    filter_columns,
    refuse_reinterpreted,
    renamed,
)
from splitlib_iceberg.snapshot import SnapshotFiles
from splitlib_iceberg.unpacking import read_vector

# Iceberg's dates and timestamps use the Gregorian calendar. Without these options, the session's
# settings apply. Spark then converts early values from the Julian calendar, or raises an error (the
# default of Spark 3.5).
_CALENDAR = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}
_BY_ID = ReadFormat.of("parquet", _CALENDAR, "id")


class IcebergConnector(Connector):
    """One snapshot of an Iceberg table in any PyIceberg catalog.

    Options that are not listed below are passed to PyIceberg's catalog unchanged. At most one of
    ``snapshot_id``, ``ref`` and ``as_of`` may be given. Without them, the current version is read.

    Options:
        catalog (str | pyiceberg.catalog.Catalog): Name of a configured catalog, or a PyIceberg
            ``Catalog``.
        snapshot_id (int): Id of the snapshot to read.
        ref (str): Name of the branch or tag to read.
        as_of (str | int | datetime): Time of the version to read: ISO 8601 text with a time zone,
            milliseconds since the epoch, or a datetime.
    """

    partitions_per_listing = 10_000

    def __init__(self, pinned: Pinned) -> None:
        self._catalog = pinned.catalog
        schema = arrow_schema(pinned.schema)
        history = pinned.table.schemas()
        refuse_reinterpreted(pinned.schema, history.values())
        self._columns = {column.name.lower(): column for column in filter_columns(pinned.schema)}
        by_id = {column.id: column for column in self._columns.values()}
        self._specs = {
            identifier: Spec(spec, by_id) for identifier, spec in pinned.table.specs().items()
        }
        current = self._specs[pinned.table.metadata.default_spec_id]
        self._io = pinned.table.io
        self._mapping = pinned.table.name_mapping()
        # In a file without field ids, columns are matched by their current names. But the file's
        # statistics belong to the columns that had these names when the file was written. So the
        # statistics of renamed columns cannot be used.
        self._ambiguous = (
            frozenset()
            if self._mapping is None
            else renamed(self._columns.values(), list(history.values()))
        )
        self._names = PhysicalNames(self._io, self._mapping)
        if self._mapping is not None:
            self.partitions_per_listing = 16
        snapshot = pinned.snapshot
        self._files = SnapshotFiles(
            self._io, snapshot, _parent(pinned.table, snapshot), self._specs
        )
        self._metadata = TableMetadata(
            schema,
            tuple(dict.fromkeys(field.source for field in current.fields)),
            _BY_ID,
            pinned.table.location(),
            None if snapshot is None else str(snapshot.snapshot_id),
            filter_schema=pa.schema([column.field for column in self._columns.values()]),
            dropped_schema=dropped_schema(
                pinned.schema, [history[identifier] for identifier in sorted(history)]
            ),
        )

    @classmethod
    def open(cls, name: str, options: Mapping[str, Any]) -> Self:
        """Open the table ``name``, in the form ``namespace.table``."""
        pinned = open_table(name, options)
        try:
            return cls(pinned)
        except BaseException:
            if pinned.catalog is not None:
                pinned.catalog.close()
            raise

    @classmethod
    def table_names(
        cls, database: str | None, options: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """Yield the namespace and name of every table in one namespace or in all namespaces."""
        return table_names(database, options)

    def describe(self) -> TableMetadata:
        """Return the schema, partition columns and snapshot of the table."""
        return self._metadata

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        """Yield the partitions, in one batch per partition specification."""
        plan = self._files.plan(predicate)
        manifests, reads = plan.counts, plan.reads
        if manifests.total and not plan.by_spec:
            yield no_partitions(Requests(storage=reads), manifests)
        # Failed reads are retried only before the first batch, so read all manifests before it.
        found = [
            (spec, *self._files.read(numbers, statistics=needs_statistics(predicate, spec)))
            for spec, numbers in plan.by_spec.items()
        ]
        for spec, contents, more in found:
            yield partition_batch(spec, contents, Requests(storage=reads + more), manifests)
            manifests, reads = Manifests(), 0

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        """Yield the data files of ``partitions``, with the delete files that apply to them.

        Raises:
            UnsupportedTable: for a data file that is encrypted or not Parquet, or a delete file
                that cannot be applied.
        """
        refs = resolve(partitions)
        if not len(refs.row):
            return
        numbers = np.unique(refs.manifest).tolist()
        spec = self._files.spec_of(numbers[0])
        wanted = needs_statistics(predicate, spec)
        contents, reads = self._files.read(numbers, statistics=wanted)
        chosen = choose(contents, refs)
        found = files_of(chosen)
        columns = [
            column
            for key, column in self._columns.items()
            if key in predicate.keys and key not in self._ambiguous
        ]
        deletes, more = self._files.deletes(predicate)
        applied, sets = apply_deletes(deletes, spec, chosen, found)
        batch = FileBatch(
            file_batch(found, chosen),
            _BY_ID,
            Requests(storage=reads + more),
            statistics_of(columns, spec, partitions, chosen) if wanted else {},
            applied,
            sets,
        )
        if self._mapping is None:
            yield batch
        else:
            yield from self._with_mapped_names(batch, predicate)

    def with_physical_names(self, files: FileBatch) -> Iterator[FileBatch]:
        """Open every file to read its column names, and yield a batch per distinct set of names."""
        found = in_parallel(self._names.of, files.files["path"].to_pylist())
        return _by_format(files, [ReadFormat.of("parquet", columns=names) for _, names in found])

    def _with_mapped_names(self, files: FileBatch, predicate: Predicate) -> Iterator[FileBatch]:
        """Open each file that may match to find its column names. Yield a batch per read format.

        A file whose columns have field ids is read by field id. In other files, columns are found
        by the table's name mapping.
        """
        requests = files.requests
        if files.statistics:  # open only files that may match
            files = files.filter(predicate.match_bounds(files.statistics))
        # Open the files without threads, because the engine already calls list_files in parallel.
        found = [self._names.of(path) for path in files.files["path"].to_pylist()]
        formats = [
            _BY_ID if own else ReadFormat.of("parquet", columns=names) for own, names in found
        ]
        for batch in _by_format(files, formats):
            yield replace(batch, requests=requests)
            requests = Requests()

    def read_vector(self, delete: DeleteFile) -> pa.Int64Array:
        """Return the positions of the rows that a deletion vector deletes, in ascending order."""
        return read_vector(self._io, delete)

    def storage_options(self, protocol: str) -> Mapping[str, Any]:
        """Return fsspec options for S3 or Azure, or an empty mapping for other protocols."""
        match protocol:
            case "s3":
                return S3Settings.from_pyiceberg(self._io.properties).to_fsspec()
            case "abfss":
                return AzureSettings.from_pyiceberg(self._io.properties).to_fsspec()
        return {}

    def close(self) -> None:
        """Close the catalog, and release the manifest contents in memory."""
        self._files.close()
        if self._catalog is not None:
            self._catalog.close()


def _parent(table: Table, snapshot: Snapshot | None) -> Snapshot | None:
    if snapshot is None or snapshot.parent_snapshot_id is None:
        return None
    return table.snapshot_by_id(snapshot.parent_snapshot_id)


def _by_format(files: FileBatch, formats: Sequence[ReadFormat]) -> Iterator[FileBatch]:
    """Split the files into one batch per read format."""
    rows: dict[ReadFormat, list[int]] = {}
    for row, form in enumerate(formats):
        rows.setdefault(form, []).append(row)
    for form, of_form in rows.items():
        yield replace(files.take(pa.array(of_form)), read_format=form)
