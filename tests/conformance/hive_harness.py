from __future__ import annotations

import copy
import glob
import itertools
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem
from hmsclient.genthrift.hive_metastore.ThriftHiveMetastore import Client
from hmsclient.genthrift.hive_metastore.ttypes import (
    AddPartitionsRequest,
    FieldSchema,
    MetaException,
    Partition,
    SerDeInfo,
    StorageDescriptor,
    Table,
)
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from splitlib.model import LOGICAL_TYPE
from splitlib.testing import HiveMetastore
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

_PARQUET = "org.apache.hadoop.hive.ql.io.parquet."
_HIVE_TYPES = {
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
# Methods of thrift's client that send the catalog requests of metastore connectors.
_ASKED = ("get_table_req", "get_partition_names", "get_partitions_by_names")


class HiveHarness(Harness):
    """Metastore tables, created with thrift's generated classes as any other client would.

    Partitions are stored outside of their default locations. So a connector that derives locations
    from partition names fails the tests.
    """

    def __init__(self, metastore: HiveMetastore, root: Path) -> None:
        self._uri = metastore.uri
        self._root = root
        self._names = (f"t{uuid.uuid4().hex[:8]}_{i}" for i in itertools.count())
        self._locations: dict[tuple[str, tuple[str, ...]], str] = {}

    def create_table(self, data_schema: pa.Schema, partition_schema: pa.Schema) -> TableAddress:
        name = next(self._names)
        location = self._root / name
        location.mkdir()
        self._locations[name, ()] = str(location)
        table = Table(
            dbName="default",
            tableName=name,
            sd=StorageDescriptor(
                cols=_columns(data_schema),
                location=location.as_uri(),
                inputFormat=_PARQUET + "MapredParquetInputFormat",
                outputFormat=_PARQUET + "MapredParquetOutputFormat",
                serdeInfo=SerDeInfo(serializationLib=_PARQUET + "serde.ParquetHiveSerDe"),
            ),
            partitionKeys=_columns(partition_schema),
            parameters={"EXTERNAL": "TRUE"},
            tableType="EXTERNAL_TABLE",
        )
        with self._client() as client:
            client.create_table(table)
        return self._address(name)

    def add(self, table: TableAddress, partitions: Sequence[NewPartition]) -> list[WrittenFile]:
        _, name = table.name.split(".")
        written, new = [], []
        for partition in partitions:
            texts = tuple(map(hive_text, partition.values.values()))
            if (name, texts) not in self._locations:
                location = self._root / f"{name}_{len(self._locations)}"
                self._locations[name, texts] = str(location)
                new.append((texts, location.as_uri()))
            written += write_files(self._locations[name, texts], partition)
        self._add_partitions(name, new)
        return written

    def drop(self, table: TableAddress, values: Mapping[str, Any]) -> None:
        _, name = table.name.split(".")
        texts = tuple(map(hive_text, values.values()))
        del self._locations[name, texts]
        with self._client() as client:
            client.drop_partition("default", name, list(texts), True)

    def missing_table(self) -> TableAddress:
        return self._address("missing")

    def watch(self, calls: SourceCalls) -> AbstractContextManager[None]:
        asked = [(Client, name) for name in _ASKED]
        return calls.patched(catalog=asked, storage=[(LocalFileSystem, "ls")])

    def failure(self, fault: Literal["unavailable", "refused"]) -> Exception:
        if fault == "unavailable":
            return super().failure(fault)
        return _Refusal("java.security.AccessControlException: Permission denied: user=me")

    def open_connections(self) -> int:
        """Return the number of this process's connections to the metastore's port.

        The harness itself keeps no connection open.
        """
        port = f":{int(self._uri.rpartition(':')[2]):04X}"
        own = {os.readlink(path) for path in glob.glob("/proc/self/fd/*") if os.path.islink(path)}
        found = 0
        for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
            for line in Path(table).read_text().splitlines()[1:]:
                columns = line.split()
                found += columns[2].endswith(port) and f"socket:[{columns[9]}]" in own
        return found

    def drop_table(self, table: TableAddress) -> None:
        _, name = table.name.split(".")
        with self._client() as client:
            client.drop_table("default", name, False)

    def replace_table(self, table: TableAddress) -> None:
        """Replace the table by one at another location.

        If a metastore creates two tables in the same second, only their locations differ.
        """
        _, name = table.name.split(".")
        with self._client() as client:
            other = client.get_table("default", name)
            client.drop_table("default", name, False)
            location = self._root / f"{name}_replaced"
            location.mkdir()
            other.sd.location = location.as_uri()
            client.create_table(other)

    def _address(self, name: str) -> TableAddress:
        return TableAddress(f"default.{name}", {"uri": self._uri})

    def _add_partitions(self, name: str, new: Sequence[tuple[tuple[str, ...], str]]) -> None:
        with self._client() as client:
            of_table = client.get_table("default", name).sd
            parts = [
                Partition(
                    values=list(texts),
                    dbName="default",
                    tableName=name,
                    sd=_moved(of_table, location),
                )
                for texts, location in new
            ]
            request = AddPartitionsRequest("default", name, parts, ifNotExists=False)
            client.add_partitions_req(request)

    @contextmanager
    def _client(self) -> Iterator[Any]:
        host, port = self._uri.removeprefix("thrift://").split(":")
        transport = TBufferedTransport(TSocket(host, int(port)))
        transport.open()
        try:
            yield Client(TBinaryProtocol(transport))
        finally:
            transport.close()


class _Refusal(MetaException, PermissionError):  # type: ignore[misc]  # thrift is not typed
    """A denial that is both the metastore's exception and the filesystem's."""


def _columns(schema: pa.Schema) -> list[FieldSchema]:
    return [FieldSchema(field.name, _type(field), "") for field in schema]


def _type(field: pa.Field) -> str:
    logical: bytes = (field.metadata or {}).get(LOGICAL_TYPE, b"")
    found = logical.decode() or _HIVE_TYPES.get(field.type)
    return found or not_tried(f"make a column of type {field.type}")


def _moved(descriptor: Any, location: str) -> Any:
    moved = copy.copy(descriptor)
    moved.location = location
    return moved
