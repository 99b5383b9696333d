"""A fake metastore in another process, whose table has any number of generated partitions.

It uses the metastore's protocol through Thrift's generated code, but stores nothing.
"""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

from hmsclient.genthrift.hive_metastore.ThriftHiveMetastore import Processor
from hmsclient.genthrift.hive_metastore.ttypes import (
    FieldSchema,
    GetTableResult,
    SerDeInfo,
    StorageDescriptor,
    Table,
)
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAcceleratedFactory
from thrift.server.TServer import TThreadedServer
from thrift.transport.TSocket import TServerSocket
from thrift.transport.TTransport import TBufferedTransportFactory

_PARQUET = "org.apache.hadoop.hive.ql.io.parquet."
STORES = 1_000


def partition_name(number: int) -> str:
    """Return the name of a partition with the keys ``day`` and ``store``."""
    return f"day={2_450_000 + number // STORES}/store=store_{number % STORES:06}"


@contextlib.contextmanager
def names_server(count: int) -> Iterator[str]:
    """Run a server whose tables have ``count`` partitions each, and return its address."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(count, theirs), daemon=True)
    process.start()
    theirs.close()  # If no other process has this end, recv() fails when the server dies.
    try:
        yield f"thrift://127.0.0.1:{ours.recv()}"
    finally:
        process.terminate()
        process.join()


class _Handler:
    """Handler of the two metastore calls that list partition names."""

    def __init__(self, count: int) -> None:
        self._names = [partition_name(i) for i in range(count)]

    def get_table_req(self, request: Any) -> GetTableResult:
        storage = StorageDescriptor(
            cols=[FieldSchema("x", "int", "")],
            location="file:/nowhere",
            inputFormat=_PARQUET + "MapredParquetInputFormat",
            outputFormat=_PARQUET + "MapredParquetOutputFormat",
            serdeInfo=SerDeInfo(serializationLib=_PARQUET + "serde.ParquetHiveSerDe"),
        )
        table = Table(
            tableName=request.tblName,
            dbName=request.dbName,
            sd=storage,
            partitionKeys=[FieldSchema("day", "int", ""), FieldSchema("store", "string", "")],
            parameters={},
            tableType="EXTERNAL_TABLE",
        )
        return GetTableResult(table)

    def get_partition_names(self, database: str, table: str, most: int) -> list[str]:
        del database, table, most
        return self._names


class _Socket(TServerSocket):  # type: ignore[misc]  # thrift has no types
    """A server socket on a free port, which sends the port number once it listens."""

    def __init__(self, port: Connection) -> None:
        super().__init__("127.0.0.1", 0)
        self._port = port

    def listen(self) -> None:
        super().listen()
        self._port.send(self.handle.getsockname()[1])


def _serve(count: int, port: Connection) -> None:
    TThreadedServer(
        Processor(_Handler(count)),
        _Socket(port),
        TBufferedTransportFactory(),
        TBinaryProtocolAcceleratedFactory(),
    ).serve()
