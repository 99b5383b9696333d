from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from splitlib_conformance import (
    Harness,
    NewPartition,
    SourceCalls,
    TableAddress,
    WrittenFile,
    hive_directory,
)
from tests.conformance.memory_connectors import PlainConnector
from tests.conformance.memory_source import Source

_numbers = itertools.count()


class PlainHarness(Harness):
    """Creates tables in memory. It implements only the required methods."""

    def __init__(self) -> None:
        self.source = Source()
        self._key = str(next(_numbers))
        PlainConnector.sources[self._key] = self.source

    def create_table(self, data_schema: pa.Schema, partition_schema: pa.Schema) -> TableAddress:
        name = f"db.t{len(self.source.tables)}"
        self.source.create(name, data_schema, partition_schema)
        return TableAddress(name, {"source": self._key})

    def add(self, table: TableAddress, partitions: Sequence[NewPartition]) -> list[WrittenFile]:
        return [file for partition in partitions for file in self.source.add(table.name, partition)]

    def drop(self, table: TableAddress, values: Mapping[str, Any]) -> None:
        del self.source.tables[table.name].partitions[hive_directory(values)]

    def missing_table(self) -> TableAddress:
        return TableAddress("db.missing", {"source": self._key})

    def read_file(self, path: str) -> pa.Table:
        rows = self.source.files[path].rows
        assert rows is not None
        return rows


class FullHarness(PlainHarness):
    """Creates tables in memory. It implements every method that the kit can use."""

    @contextmanager
    def watch(self, calls: SourceCalls) -> Iterator[None]:
        self.source.calls = calls
        try:
            yield
        finally:
            self.source.calls = None

    def open_connections(self) -> int:
        return self.source.connections

    def in_pages(self, table: TableAddress, partitions: int) -> TableAddress:
        return TableAddress(table.name, {**table.options, "page": partitions})

    def drop_table(self, table: TableAddress) -> None:
        del self.source.tables[table.name]

    def replace_table(self, table: TableAddress) -> None:
        old = self.source.tables[table.name]
        self.source.create(table.name, old.data_schema, old.partition_schema)

    def delete_file(self, path: str) -> None:
        del self.source.files[path]

    def delete_rows(self, table: TableAddress, path: str, positions: Sequence[int]) -> None:
        self.source.files[path].deleted = list(positions)
