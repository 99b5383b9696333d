"""Helpers that create Iceberg tables, also with delete files.

PyIceberg cannot write delete files, so this module writes them itself.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog, load_catalog
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
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record
from pyroaring import BitMap64
from pyspark.sql import DataFrame

from splitlib.spark.compat import to_arrow
from tests.support.iceberg_tables import add_deletes, delete_file, partition_of
from tests.support.iceberg_tables import data_file as described_file

_FILE_PATH, _POS = 2147483546, 2147483545


class Lake:
    """An Iceberg catalog in a SQLite database, with its tables below the same directory."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.options = {
            "type": "sql",
            "uri": f"sqlite:///{root}/catalog.db",
            "warehouse": f"file://{root}/warehouse",
        }
        self.catalog: Catalog = load_catalog("default", **self.options)
        self.catalog.create_namespace("db")
        self._serial = count()

    def create(
        self,
        schema: Schema,
        spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        properties: Mapping[str, str] | None = None,
        location: str | None = None,
    ) -> Table:
        """Create a table. Its format version is 2 unless ``properties`` sets another."""
        settings = {"format-version": "2", **(properties or {})}
        name = f"db.t{next(self._serial)}"
        return self.catalog.create_table(name, schema, location, spec, properties=settings)

    def close(self) -> None:
        """Close the catalog's database."""
        self.catalog.close()


def full_name(table: Table) -> str:
    """Return the table's name with its namespace."""
    return ".".join(table.name())


def data_files(table: Table) -> list[DataFile]:
    """Return the data files of the current snapshot, in any order."""
    return [task.file for task in table.scan().plan_files()]


def with_id(name: str, kind: pa.DataType, identifier: int) -> pa.Field:
    """Return a Parquet column definition with a field id."""
    return pa.field(name, kind, metadata={b"PARQUET:field_id": str(identifier).encode()})


def ints(name: str, identifier: int, values: Sequence[int | None]) -> tuple[pa.Field, pa.Array]:
    """Return field and values of an integer column, for :func:`table_of`."""
    return with_id(name, pa.int32(), identifier), pa.array(values, pa.int32())


def table_of(*columns: tuple[pa.Field, pa.Array]) -> pa.Table:
    """Return an Arrow table of columns that have field ids."""
    fields, values = zip(*columns, strict=True)
    return pa.Table.from_arrays(list(values), schema=pa.schema(fields))


def write_parquet(
    table: Table, rows: pa.Table, directory: str = ".", **options: Any
) -> tuple[str, int]:
    """Write a Parquet file to a subdirectory of the table's data. Return its path and size."""
    path = f"{table.location()}/data/{directory}/{count_of_files()}.parquet"
    path = path.replace("/./", "/")
    content = io.BytesIO()
    pq.write_table(rows, content, **options)
    return path, _write(table, path, content.getvalue())


def _write(table: Table, path: str, content: bytes) -> int:
    with table.io.new_output(path).create() as file:
        return file.write(content)


_files = count()


def count_of_files() -> str:
    """Return a unique file name."""
    return f"by-hand-{next(_files):05}"


def data_file(
    table: Table,
    rows: pa.Table,
    partition: Sequence[Any] = (),
    spec_id: int | None = None,
    **options: Any,
) -> DataFile:
    """Write a data file with the columns of ``rows``. Return its manifest entry."""
    path, size = write_parquet(table, rows, **options)
    return _entry(table, DataFileContent.DATA, path, size, rows.num_rows, partition, spec_id)


def append_rows(table: Table, rows: Sequence[Mapping[str, Any]], **options: Any) -> list[DataFile]:
    """Commit rows in one data file per partition. The manifest has column statistics.

    PyIceberg's own writer needs an extra package for most partition transforms.
    """
    groups: dict[Record, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(partition_of(table, row), []).append(row)
    files = []
    for partition, of_one in groups.items():
        content = pa.Table.from_pylist(list(of_one), table.schema().as_arrow())
        path, size = write_parquet(table, content, **options)
        flat = [{**row, **dict(_inside(row))} for row in of_one]
        about: dict[str, Any] = {"file_path": path, "file_size_in_bytes": size}
        files.append(described_file(table, flat, partition=partition, **about))
    append_files(table, *files)
    return files


def _inside(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{inner}", found) for inner, found in value.items())


def append_files(table: Table, *files: DataFile) -> None:
    """Commit data files that are already written."""
    _commit(table, files, ())


def delete_positions(
    table: Table,
    positions: Mapping[str, Sequence[int]],
    partition: Sequence[Any] = (),
    spec_id: int | None = None,
    names: tuple[str, str] = ("file_path", "pos"),
) -> None:
    """Commit one position delete file.

    ``positions`` maps the path of each data file to the positions of its deleted rows.
    """
    rows = sorted((path, position) for path, all_ in positions.items() for position in all_)
    schema = pa.schema(
        [with_id(names[0], pa.string(), _FILE_PATH), with_id(names[1], pa.int64(), _POS)]
    )
    columns = [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), schema, strict=True)]
    path, size = write_parquet(table, pa.Table.from_arrays(columns, schema=schema))
    kind = DataFileContent.POSITION_DELETES
    _commit(table, (), [_entry(table, kind, path, size, len(rows), partition, spec_id)])


def delete_equal(
    table: Table,
    rows: pa.Table,
    field_ids: Sequence[int],
    partition: Sequence[Any] = (),
    spec_id: int | None = None,
    append: Sequence[DataFile] = (),
) -> None:
    """Commit one equality delete file. It does not apply to the files in ``append``."""
    path, size = write_parquet(table, rows)
    kind = DataFileContent.EQUALITY_DELETES
    entry = _entry(table, kind, path, size, rows.num_rows, partition, spec_id, list(field_ids))
    _commit(table, append, [entry])


def delete_vector(
    table: Table,
    path: str,
    positions: Sequence[int],
    partition: Sequence[Any] = (),
) -> None:
    """Commit a deletion vector for one data file. The vector has its own Puffin file."""
    body = b"\xd1\xd3\x39\x64" + BitMap64(positions).serialize()
    vector = len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    puffin = f"{table.location()}/data/{count_of_files()}.puffin"
    size = _write(table, puffin, b"PFA1" + vector)
    made = delete_file(
        table,
        Record(*partition),
        DataFileContent.POSITION_DELETES,
        file_path=puffin,
        file_format=FileFormat.PUFFIN,
        file_size_in_bytes=size,
        referenced_data_file=path,
        content_offset=4,
        content_size_in_bytes=len(vector),
        record_count=len(set(positions)),
    )
    add_deletes(table, made)
    table.refresh()


def _entry(
    table: Table,
    content: DataFileContent,
    path: str,
    size: int,
    records: int,
    partition: Sequence[Any],
    spec_id: int | None,
    equality_ids: list[int] | None = None,
) -> DataFile:
    entry = DataFile.from_args(
        _table_format_version=2,
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=records,
        file_size_in_bytes=size,
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={},
        upper_bounds={},
        key_metadata=None,
        split_offsets=None,
        equality_ids=equality_ids,
        sort_order_id=None,
    )
    entry.spec_id = table.spec().spec_id if spec_id is None else spec_id
    return entry


def _commit(table: Table, files: Sequence[DataFile], deletes: Sequence[DataFile]) -> None:
    with table.transaction() as transaction:
        delta = _RowDelta(Operation.OVERWRITE, transaction, table.io)
        delta.deletes = deletes
        delta.files = files
        delta.commit()
    table.refresh()


class _RowDelta(_FastAppendFiles):
    """Commits a snapshot with new data files and delete files, of any partition spec."""

    files: Sequence[DataFile]
    deletes: Sequence[DataFile]

    def _manifests(self) -> list[ManifestFile]:
        made = super()._manifests()
        for content, entries in (
            (ManifestContent.DATA, self.files),
            (ManifestContent.DELETES, self.deletes),
        ):
            for spec_id in sorted({entry.spec_id for entry in entries}):
                of_spec = [entry for entry in entries if entry.spec_id == spec_id]
                made.append(self._manifest(content, spec_id, of_spec))
        return made

    def _manifest(
        self, content: ManifestContent, spec_id: int, entries: Sequence[DataFile]
    ) -> ManifestFile:
        writer = _Writer(
            self.spec(spec_id),
            self._transaction.table_metadata.schema(),
            self.new_manifest_output(),
            self.snapshot_id,
            self._compression,
        )
        writer.of = content
        with writer:
            for entry in entries:
                writer.add(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED,
                        snapshot_id=self.snapshot_id,
                        sequence_number=None,
                        file_sequence_number=None,
                        data_file=entry,
                    )
                )
        return writer.to_manifest_file()


class _Writer(ManifestWriterV2):
    of: ManifestContent

    def content(self) -> ManifestContent:
        return self.of

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": self.of.name.lower()}


def plain(table: Table) -> list[tuple[Any, ...]]:
    """Return all rows that PyIceberg reads, sorted like the rows of :func:`rows_of`."""
    return _sorted(table.scan().to_arrow())


def rows_of(df: DataFrame) -> list[tuple[Any, ...]]:
    """Return the rows of a DataFrame, sorted."""
    return _sorted(to_arrow(df))


def _sorted(rows: pa.Table) -> list[tuple[Any, ...]]:
    columns = [column.to_pylist() for column in rows.columns]
    found = [tuple(_plain(value) for value in row) for row in zip(*columns, strict=True)]
    return sorted(found, key=repr)


def _plain(value: Any) -> Any:
    """Convert a timestamp to UTC, because the readers return different time zones."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return value
