"""Iceberg tables that consist of metadata only. Planning opens no data file."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record
from pyiceberg.types import FixedType, PrimitiveType

import splitlib

EPOCH = dt.datetime(1970, 1, 1)
_numbers = itertools.count()


def internal(value: Any) -> Any:
    """Convert a value to Iceberg's internal form: dates to days, timestamps to microseconds."""
    if isinstance(value, dt.datetime):
        return (value.replace(tzinfo=None) - EPOCH) // dt.timedelta(microseconds=1)
    return (value - EPOCH.date()).days if isinstance(value, dt.date) else value


def make_catalog(directory: Path, name: str = "default") -> Catalog:
    """Create a catalog in a directory on the local disk."""
    directory.mkdir(parents=True, exist_ok=True)
    made = load_catalog(name, **catalog_options(directory))
    made.create_namespace_if_not_exists("ns")
    return made


def catalog_options(directory: Path) -> dict[str, Any]:
    """Return the PyIceberg options that open the catalog in ``directory``."""
    return {
        "type": "sql",
        "uri": f"sqlite:///{directory}/catalog.db",
        "warehouse": directory.as_uri(),
    }


def create(
    catalog: Catalog,
    schema: Schema,
    spec: PartitionSpec | None = None,
    properties: Mapping[str, str] | None = None,
) -> Table:
    """Create a table with a new name. Column ids must count from 1, or PyIceberg changes them."""
    name = f"ns.t{next(_numbers)}"
    return catalog.create_table(
        name, schema, partition_spec=spec or PartitionSpec(), properties=dict(properties or {})
    )


def partition_of(table: Table, row: Mapping[str, Any], spec: PartitionSpec | None = None) -> Record:
    """Return the partition of a row, computed with PyIceberg's transforms."""
    schema = table.schema()
    values = []
    for field in (spec or table.spec()).fields:
        column = schema.find_field(field.source_id)
        value = internal(row.get(str(schema.find_column_name(field.source_id))))
        values.append(field.transform.transform(column.field_type)(value))
    return Record(*values)


def data_file(
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    *,
    partition: Record | None = None,
    statistics: bool = True,
    **overrides: Any,
) -> DataFile:
    """Return a data file with correct statistics for ``rows``, all in one partition."""
    schema = table.schema()
    columns = {
        schema.find_field(name): [row.get(name) for row in rows]
        for name in schema.column_names
        if isinstance(schema.find_field(name).field_type, PrimitiveType)
    }
    if partition is None:
        partition = partition_of(table, rows[0] if rows else {})
    known: dict[str, dict[int, Any]] = {
        "value_counts": {},
        "null_value_counts": {},
        "nan_value_counts": {},
        "lower_bounds": {},
        "upper_bounds": {},
    }
    for field, values in columns.items() if statistics else ():
        nan = [v for v in values if isinstance(v, float) and math.isnan(v)]
        plain = [v for v in values if v is not None and v not in nan]
        known["value_counts"][field.field_id] = len(values)
        known["null_value_counts"][field.field_id] = values.count(None)
        known["nan_value_counts"][field.field_id] = len(nan)
        if plain:
            known["lower_bounds"][field.field_id] = _bytes(field.field_type, min(plain))
            known["upper_bounds"][field.field_id] = _bytes(field.field_type, max(plain))
    arguments = {
        "content": DataFileContent.DATA,
        "file_path": f"{table.location()}/data/{uuid.uuid4().hex}.parquet",
        "file_format": FileFormat.PARQUET,
        "partition": partition,
        "record_count": max(1, len(rows)),
        "file_size_in_bytes": 1000,
        "column_sizes": {},
        "key_metadata": None,
        "split_offsets": [4],
        "equality_ids": None,
        "sort_order_id": None,
        **known,
        **overrides,
    }
    made = DataFile.from_args(_table_format_version=2, **arguments)
    made.spec_id = table.spec().spec_id
    return made


def _bytes(kind: Any, value: Any) -> bytes:
    return bytes(value) if isinstance(kind, FixedType) else to_bytes(kind, internal(value))


def append(table: Table, files: Iterable[DataFile]) -> None:
    """Commit the files as one snapshot with a single new manifest."""
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as adding:
        for file in files:
            adding.append_data_file(file)


def open_table(catalog: Catalog, table: Table, **options: Any) -> splitlib.Table:
    """Open the table with splitlib."""
    name = ".".join(table.name())
    return splitlib.load_table(name, connector="iceberg", catalog=catalog, **options)


def select(
    table: splitlib.Table, *filters: splitlib.DynamicFilteringData
) -> tuple[list[str], splitlib.ScanMetrics]:
    """Return the paths of the selected files, and the metrics."""
    enumerator = splitlib.DynamicFileEnumerator(table)
    for data in filters:
        enumerator.set_dynamic_filtering_data(data)
    found = [s.files.files["path"].to_pylist() for s in enumerator.select_files()]
    return [path for paths in found for path in paths], enumerator.metrics


def paths_of(files: Iterable[DataFile]) -> list[str]:
    """Return the files' paths without ``file://``, as splitlib returns them."""
    return [file.file_path.removeprefix("file://") for file in files]


def delete_file(
    table: Table, partition: Record, content: DataFileContent, **overrides: Any
) -> DataFile:
    """Return a delete file for one partition, with the fields of format version 3."""
    arguments = {
        "content": content,
        "file_path": f"{table.location()}/data/{uuid.uuid4().hex}-deletes.parquet",
        "file_format": FileFormat.PARQUET,
        "partition": partition,
        "record_count": 1,
        "file_size_in_bytes": 100,
        **overrides,
    }
    made = DataFile.from_args(_table_format_version=3, **arguments)
    made.spec_id = table.spec().spec_id
    return made


def add_deletes(table: Table, *deletes: DataFile) -> None:
    """Commit delete files as one snapshot, with one manifest for each partition spec."""
    with table.transaction() as transaction:
        adding = _AddDeletes(Operation.OVERWRITE, transaction, table.io)
        adding.deletes = deletes
        adding.commit()


class _AddDeletes(_FastAppendFiles):
    """A snapshot producer that adds delete files. PyIceberg itself never writes them."""

    deletes: Sequence[DataFile]

    def _manifests(self) -> list[ManifestFile]:
        made = super()._manifests()
        for spec_id in sorted({delete.spec_id for delete in self.deletes}):
            writer = _DeletesWriter(
                self.spec(spec_id),
                self._transaction.table_metadata.schema(),
                self.new_manifest_output(),
                self.snapshot_id,
                self._compression,
            )
            with writer:
                for delete in self.deletes:
                    if delete.spec_id == spec_id:
                        entry = ManifestEntry.from_args(
                            status=ManifestEntryStatus.ADDED,
                            snapshot_id=self.snapshot_id,
                            data_file=delete,
                        )
                        writer.add(entry)
            made.append(writer.to_manifest_file())
        return made


class _DeletesWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        return AvroOutputFile[ManifestEntry](
            output_file=self._output_file,
            file_schema=self._with_partition(3),
            record_schema=self._with_partition(3),
            schema_name="manifest_entry",
            metadata={**self._meta, "content": "deletes"},
        )
