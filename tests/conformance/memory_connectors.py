"""Connectors of a source in memory, with no optional protocol of the SPI and with all of them.

They are correct and small, so that a planted bug replaces just one method.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import pyarrow as pa

from splitlib.errors import CorruptMetadata, MissingFile, MissingPartition, TableNotFound
from splitlib.hive.partition_values import split_names
from splitlib.model import (
    FIELD_ID,
    FILE_SCHEMA,
    ColumnStatistics,
    DeleteFile,
    FileBatch,
    PartitionBatch,
    ReadFormat,
    Requests,
    TableMetadata,
)
from splitlib.spi import Connector, Predicate, check_options
from splitlib.storage import is_data
from tests.conformance.memory_source import Client, Source, StoredTable

_KNOWN = ("lower", "upper", "has_null", "has_nan", "has_value")


class PlainConnector(Connector):
    """A connector without optional protocols.

    Options:
        source: Key of a source in :attr:`sources`.
        page: Number of partitions that one call lists.
    """

    sources: ClassVar[dict[str, Source]] = {}
    form = ReadFormat.of("parquet")

    def __init__(self, client: Client, name: str, table: StoredTable, page: int) -> None:
        self.client, self.name, self.page = client, name, page
        self.number = table.number
        self.metadata = self.metadata_of(table)

    @classmethod
    def open(cls, name: str, options: Mapping[str, Any]) -> Self:
        check_options(options, ("source", "page"))
        client = cls.sources[options["source"]].connect()
        try:
            table = client.table(name)
            return cls(client, name, table, int(options.get("page", 1000)))
        except KeyError as error:
            client.close()
            raise TableNotFound(f"There is no table {name!r}.") from error
        except BaseException:
            client.close()
            raise

    def metadata_of(self, table: StoredTable) -> TableMetadata:
        schema = pa.schema([*table.data_schema, *table.partition_schema])
        return TableMetadata(schema, tuple(table.partition_schema.names), self.form)

    def describe(self) -> TableMetadata:
        return self.metadata

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        after = 0
        while len(names := self.names(after)):
            yield self.batch_of(names)
            after += len(names)
            if len(names) < self.page:
                return

    def names(self, after: int) -> list[str]:
        """Return a page of partition names."""
        try:
            return self.client.partition_names(self.name, after, self.page)
        except KeyError as error:
            raise TableNotFound(f"The table {self.name!r} has gone.") from error

    def batch_of(self, names: Sequence[str]) -> PartitionBatch:
        refs = pa.array(names, pa.string())
        if not self.metadata.partition_keys:
            nothing = pa.RecordBatch.from_arrays([], names=[])
            return PartitionBatch(nothing, refs, Requests(catalog=1))
        values = split_names(refs, self.metadata.partition_keys)
        return PartitionBatch(values, refs, Requests(catalog=1))

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        for row, ref in enumerate(partitions.refs.to_pylist()):
            try:
                found = self.client.files(self.location_of(ref))
            except KeyError as error:
                raise MissingPartition("There is no such partition.") from error
            yield self.files_of(row, [file for file in found if self.is_data(file["name"])])

    def location_of(self, ref: str) -> str:
        return f"{self.name}:{ref}"

    def is_data(self, below: str) -> bool:
        return all(map(is_data, below.split("/")))

    def files_of(self, row: int, found: Sequence[Mapping[str, Any]]) -> FileBatch:
        rows = [(file["path"], file["size"], file["modified"], row) for file in found]
        columns = zip(*rows, strict=True) if rows else ((),) * len(FILE_SCHEMA)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, FILE_SCHEMA, strict=True)]
        files = pa.RecordBatch.from_arrays(arrays, schema=FILE_SCHEMA)
        return FileBatch(files, self.form, Requests(storage=1))

    def close(self) -> None:
        self.client.close()


class PinnedConnector(PlainConnector):
    """A connector of a table with a snapshot, which ``open`` loads completely."""

    def __init__(self, client: Client, name: str, table: StoredTable, page: int) -> None:
        super().__init__(client, name, table, page)
        everything = Predicate(self.metadata.partition_schema)
        self.partitions = list(super().list_partitions(everything))
        self.files: dict[str, FileBatch] = {}
        for each in self.partitions:
            of_each = super().list_files(each, everything)
            self.files |= zip(each.refs.to_pylist(), of_each, strict=True)
        pages = -(-max(1, len(self.files)) // page)
        requests = Requests(catalog=1 + pages, storage=len(self.files))
        self.metadata = replace(self.metadata, snapshot_id="1", requests=requests)

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        for batch in self.partitions:
            yield replace(batch, requests=Requests())

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        for row, ref in enumerate(partitions.refs.to_pylist()):
            loaded = self.files[ref]
            column = pa.repeat(pa.scalar(row, pa.int64()), len(loaded))
            moved = loaded.files.set_column(3, FILE_SCHEMA.field(3), column)
            yield replace(loaded, files=moved, requests=Requests())


class AbleConnector(PlainConnector):
    """A connector with all optional protocols, and with statistics of every column.

    It matches columns by field id.
    """

    form = ReadFormat.of("parquet", columns="id")
    partitions_per_details = 6

    def metadata_of(self, table: StoredTable) -> TableMetadata:
        fields = [
            field.with_metadata({**(field.metadata or {}), FIELD_ID: str(number).encode()})
            for number, field in enumerate([*table.data_schema, *table.partition_schema], start=1)
        ]
        schema = pa.schema(fields)
        keys = tuple(table.partition_schema.names)
        return TableMetadata(schema, keys, self.form, filter_schema=schema)

    def load_details(self, partitions: PartitionBatch) -> PartitionBatch:
        names = partitions.refs.to_pylist()
        found = self.client.partitions(self.name, names)
        rows = pa.array([i for i, name in enumerate(names) if name in found], pa.int64())
        refs = pa.array([found[name] for name in names if name in found], pa.string())
        return PartitionBatch(partitions.take(rows).values, refs, Requests(catalog=1))

    def location_of(self, ref: str) -> str:
        return ref

    def files_of(self, row: int, found: Sequence[Mapping[str, Any]]) -> FileBatch:
        batch = super().files_of(row, found)
        sets = tuple((self.vector_of(file["path"]),) for file in found if file["deleted"])
        numbers = iter(range(len(sets)))
        deletes = pa.array([next(numbers) if f["deleted"] else None for f in found], pa.int64())
        statistics = self.statistics_of([file["statistics"] for file in found])
        return FileBatch(batch.files, self.form, batch.requests, statistics, deletes, sets)

    def vector_of(self, path: str) -> DeleteFile:
        return DeleteFile("vector", f"{path}.vector", 10, "json")

    def statistics_of(self, found: Sequence[Mapping[str, Any]]) -> dict[str, ColumnStatistics]:
        """Return the statistics of each data column, with a row per file."""
        statistics = {}
        for column in self.metadata.data_schema:
            known = [of_file[column.name] for of_file in found]
            arrays = {
                what: pa.array(
                    [each[what] for each in known],
                    pa.bool_() if what.startswith("has_") else column.type,
                )
                for what in _KNOWN
            }
            statistics[column.name] = ColumnStatistics(**arrays)
        return statistics

    def check_identity(self) -> None:
        try:
            same = self.client.table(self.name).number == self.number
        except KeyError as error:
            raise TableNotFound(f"The table {self.name!r} was dropped.") from error
        if not same:
            raise TableNotFound(f"There is another table {self.name!r} by now.")

    @classmethod
    def table_names(
        cls, database: str | None, options: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        client = cls.sources[options["source"]].connect()
        try:
            names = [name.split(".") for name in client.table_names()]
        finally:
            client.close()
        if database not in (None, *(name[0] for name in names)):
            raise TableNotFound(f"There is no database {database!r}.")
        for found, table in sorted(names):
            if database in (None, found):
                yield found, table

    def storage_options(self, protocol: str) -> Mapping[str, Any]:
        return {"key": "zq-of-the-source"} if protocol == "s3" else {}

    def hosts(self, paths: Sequence[str]) -> Sequence[Sequence[str]]:
        return [self.client.hosts(path) for path in paths]

    def with_physical_names(self, files: FileBatch) -> Iterator[FileBatch]:
        ids = {field.name: int(field.metadata[FIELD_ID]) for field in self.metadata.schema}
        for row, path in enumerate(files.files["path"].to_pylist()):
            names = {ids[name]: name for name in self.footer(path)}
            one = files.take(pa.array([row]))
            yield FileBatch(one.files, ReadFormat.of("parquet", columns=names))

    def footer(self, path: str) -> list[str]:
        try:
            return self.client.footer(path)
        except KeyError as error:
            raise MissingFile(f"There is no file {path!r}.") from error

    def read_vector(self, delete: DeleteFile) -> pa.Int64Array:
        try:
            read = self.client.read(delete.path)
        except KeyError as error:
            raise MissingFile(f"There is no file {delete.path!r}.") from error
        try:
            return pa.array(json.loads(read), pa.int64())
        except ValueError as error:
            raise CorruptMetadata(f"{delete.path!r} is no vector.") from error


class InlineConnector(AbleConnector):
    """A connector whose catalog has the deletion vectors, and the names of columns in files."""

    def files_of(self, row: int, found: Sequence[Mapping[str, Any]]) -> FileBatch:
        names = [*self.metadata.data_schema.names]
        form = ReadFormat.of("parquet", columns=dict(enumerate(names, start=1)))
        return replace(super().files_of(row, found), read_format=form)

    def vector_of(self, path: str) -> DeleteFile:
        vector = self.client.read(f"{path}.vector").decode()
        return DeleteFile("vector", path, 0, "json", inline=vector)

    def read_vector(self, delete: DeleteFile) -> pa.Int64Array:
        try:
            return pa.array(json.loads(delete.inline), pa.int64())
        except ValueError as error:
            raise CorruptMetadata(f"{delete.path!r} has no vector.") from error
