from __future__ import annotations

import glob
import itertools
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from splitlib.model import LOGICAL_TYPE
from splitlib_conformance import (
    Harness,
    NewPartition,
    SourceCalls,
    TableAddress,
    WrittenFile,
    hive_text,
    not_tried,
    write_files,
)
from splitlib_glue.client import GlueClient
from tests.support.glue_server import GlueServer, stored

_TYPES = {
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.string(): "string",
    pa.date32(): "date",
    pa.bool_(): "boolean",
    pa.decimal128(10, 2): "decimal(10,2)",
    pa.binary(): "binary",
    pa.float64(): "double",
    pa.timestamp("us", "UTC"): "timestamp",
}


class GlueHarness(Harness):
    """Tables of a server of Glue. Partitions are stored outside of their default locations."""

    def __init__(self, server: GlueServer, root: Path) -> None:
        self._server = server
        self._root = root
        self._numbers = itertools.count()

    def create_table(self, data_schema: pa.Schema, partition_schema: pa.Schema) -> TableAddress:
        name = f"{self._root.name.lower()}_{next(self._numbers)}"
        location = self._root / name
        location.mkdir()
        self._server.add_table(
            "default",
            name,
            StorageDescriptor=stored(location.as_uri(), _columns(data_schema)),
            PartitionKeys=_columns(partition_schema),
            TableType="EXTERNAL_TABLE",
            Parameters={"EXTERNAL": "TRUE"},
        )
        return TableAddress(f"default.{name}", self._server.options)

    def add(self, table: TableAddress, partitions: Sequence[NewPartition]) -> list[WrittenFile]:
        name, known = table.name.partition(".")[2], self._known(table)
        written = []
        for partition in partitions:
            texts = tuple(map(hive_text, partition.values.values()))
            location = f"{self._root}/{name}"
            if texts:
                if texts not in known:
                    place = self._root / f"{name}_{next(self._numbers)}"
                    known[texts] = {
                        "Values": list(texts),
                        "StorageDescriptor": stored(place.as_uri()),
                        "Parameters": {},
                    }
                location = known[texts]["StorageDescriptor"]["Location"].removeprefix("file://")
            written += write_files(location, partition)
        return written

    def drop(self, table: TableAddress, values: Mapping[str, Any]) -> None:
        del self._known(table)[tuple(map(hive_text, values.values()))]

    def missing_table(self) -> TableAddress:
        return TableAddress("default.missing", self._server.options)

    def watch(self, calls: SourceCalls) -> AbstractContextManager[None]:
        return calls.patched(catalog=[(GlueClient, "call")], storage=[(LocalFileSystem, "ls")])

    def in_pages(self, table: TableAddress, partitions: int) -> TableAddress:
        return replace(table, options={**table.options, "partitions_per_request": partitions})

    def open_connections(self) -> int:
        port = f":{int(self._server.options['endpoint_url'].rpartition(':')[2]):04X}"
        own = {os.readlink(path) for path in glob.glob("/proc/self/fd/*") if os.path.islink(path)}
        found = 0
        for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]:
            columns = line.split()
            found += columns[2].endswith(port) and f"socket:[{columns[9]}]" in own
        return found

    def drop_table(self, table: TableAddress) -> None:
        self._server.drop_table(*table.name.split("."))

    def replace_table(self, table: TableAddress) -> None:
        database, name = table.name.split(".")
        described = self._server.tables[self._server.catalog, database, name]
        self._server.drop_table(database, name)
        self._server.add_table(database, name, **{**described, "CreateTime": time.time() + 1})

    def _known(self, table: TableAddress) -> dict[tuple[str, ...], dict[str, Any]]:
        return self._server.partitions(*table.name.split("."))


def _columns(schema: pa.Schema) -> list[dict[str, str]]:
    return [{"Name": field.name, "Type": _type(field)} for field in schema]


def _type(field: pa.Field) -> str:
    logical: bytes = (field.metadata or {}).get(LOGICAL_TYPE, b"")
    found = logical.decode() or _TYPES.get(field.type)
    return found or not_tried(f"make a column of type {field.type}")
