"""A catalog and a storage in memory, which clients call through connections.

Partitions have names in Hive's notation, so that connectors with planted bugs can misread them.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from splitlib_conformance import NewPartition, SourceCalls, WrittenFile, hive_directory

T = TypeVar("T")

VECTOR = ".vector"


@dataclass
class StoredFile:
    """A file. Its name is relative to the directory of its partition."""

    path: str
    name: str
    rows: pa.Table
    modified: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    deleted: list[int] | None = None

    @property
    def size(self) -> int:
        return int(self.rows.nbytes) + 100


@dataclass
class StoredTable:
    """A table. Its number is unique, so a new table of the same name has another number."""

    number: int
    data_schema: pa.Schema
    partition_schema: pa.Schema
    partitions: dict[str, list[StoredFile]] = field(default_factory=dict)


class Source:
    """The content of the catalog and the storage, and the number of open connections."""

    def __init__(self) -> None:
        self.tables: dict[str, StoredTable] = {}
        self.files: dict[str, StoredFile] = {}
        self.connections = 0
        self.calls: SourceCalls | None = None
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self.create("other.t", pa.schema([]), pa.schema([]))

    def create(self, name: str, data_schema: pa.Schema, partition_schema: pa.Schema) -> None:
        table = StoredTable(next(self._numbers), data_schema, partition_schema)
        if not partition_schema:
            table.partitions[""] = []
        self.tables[name] = table

    def add(self, name: str, partition: NewPartition) -> list[WrittenFile]:
        table, below = self.tables[name], hive_directory(partition.values)
        directory = f"mem://files/{table.number}/{below}".rstrip("/")
        named = [(f"{next(self._numbers):05}.parquet", rows) for rows in partition.tables]
        new = [StoredFile(f"{directory}/{name}", name, rows) for name, rows in named]
        nothing = pa.table({})
        hidden = [StoredFile(f"{directory}/{name}", name, nothing) for name in partition.hidden]
        table.partitions.setdefault(below, []).extend(hidden + new)
        self.files.update({file.path: file for file in new})
        return [WrittenFile(file.path, file.size, partition.values) for file in new]

    def connect(self) -> Client:
        self.count(+1)
        return Client(self)

    def count(self, connections: int) -> None:
        with self._lock:
            self.connections += connections

    def answer(self, answer: Callable[[], T], kind: Literal["catalog", "storage"]) -> T:
        """Run a call of a client. Every call goes through this method."""
        found: T = answer() if self.calls is None else getattr(self.calls, kind)(answer)
        return found


class Client:
    """A connection to a source.

    Each method is one call. It raises ``KeyError`` if the table, location or file does not exist.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self._closed = False

    def table(self, name: str) -> StoredTable:
        return self._ask(lambda: self.source.tables[name])

    def table_names(self) -> list[str]:
        return self._ask(lambda: list(self.source.tables))

    def partition_names(self, name: str, after: int, most: int) -> list[str]:
        """Return a page of names. Their order is arbitrary but constant."""
        return self._ask(lambda: list(self.source.tables[name].partitions)[after : after + most])

    def partitions(self, name: str, names: Sequence[str]) -> dict[str, str]:
        """Return the locations of the partitions that exist, by name."""

        def answer() -> dict[str, str]:
            there = self.source.tables[name].partitions
            return {each: f"{name}:{each}" for each in names if each in there}

        return self._ask(answer)

    def files(self, location: str) -> list[dict[str, Any]]:
        """Return the files at a location, including hidden ones, with their column statistics."""

        def answer() -> list[dict[str, Any]]:
            name, _, below = location.partition(":")
            return [
                {
                    "path": file.path,
                    "name": file.name,
                    "size": file.size,
                    "modified": file.modified,
                    "statistics": _statistics(file.rows),
                    "deleted": file.deleted is not None,
                }
                for file in self.source.tables[name].partitions[below]
            ]

        return self._ask(answer, "storage")

    def hosts(self, path: str) -> list[str]:
        return self._ask(lambda: [f"host{sum(map(ord, path)) % 7}"])

    def footer(self, path: str) -> list[str]:
        """Return the column names of a file."""
        return self._ask(lambda: list(self.source.files[path].rows.column_names), "storage")

    def read(self, path: str) -> bytes:
        """Return the bytes of a file, or of the deletion vector stored next to it."""

        def answer() -> bytes:
            file = self.source.files[path.removesuffix(VECTOR)]
            return json.dumps(file.deleted).encode() if path.endswith(VECTOR) else b"PAR1"

        return self._ask(answer, "storage")

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.source.count(-1)

    def _ask(self, answer: Callable[[], T], kind: Literal["catalog", "storage"] = "catalog") -> T:
        if self._closed:
            raise RuntimeError("the connection is closed")
        return self.source.answer(answer, kind)


def _statistics(rows: pa.Table) -> dict[str, Mapping[str, Any]]:
    return {name: _known(rows[name].combine_chunks()) for name in rows.column_names}


def _known(column: pa.Array) -> dict[str, Any]:
    plain = column.drop_null()
    if pa.types.is_floating(column.type):
        plain = plain.filter(pc.invert(pc.is_nan(plain)))
    values = plain.to_pylist()
    return {
        "lower": min(values, default=None),
        "upper": max(values, default=None),
        "has_null": column.null_count > 0,
        "has_nan": len(plain) < len(column) - column.null_count,
        "has_value": bool(values),
    }
