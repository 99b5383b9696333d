"""A metastore that runs in the test process, keeps tables in memory, and speaks Thrift."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ssl import SSLContext
from typing import Any

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore as Api
from hmsclient.genthrift.hive_metastore.ttypes import (
    FieldSchema,
    GetTableResult,
    MetaException,
    NoSuchObjectException,
    Partition,
    SerDeInfo,
    StorageDescriptor,
    Table,
)
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TTransportException

PARQUET = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
TEXT = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"


def table_of(location: str, *keys: str, **changes: Any) -> Table:
    """Return the table ``d.t`` with an integer column and string partition keys."""
    given: dict[str, Any] = {
        "dbName": "d",
        "tableName": "t",
        "createTime": 1,
        "tableType": "MANAGED_TABLE",
        "sd": descriptor(location),
        "partitionKeys": [FieldSchema(key, "string") for key in keys],
        "parameters": {},
    }
    return Table(**{**given, **changes})


def descriptor(location: str | None, serde: str = PARQUET) -> StorageDescriptor:
    return StorageDescriptor(
        cols=[FieldSchema("v", "int")],
        location=location,
        inputFormat="org.apache.hadoop.mapred.TextInputFormat",
        serdeInfo=SerDeInfo(serializationLib=serde, parameters={}),
    )


class FakeMetastore:
    """A metastore with tables in memory that records its calls.

    Attributes:
        tables: Tables by database and name.
        partitions: Partitions of each table, by partition name.
        calls: Names and arguments of all calls.
        most_names: Maximum number of partitions per request for details. None means no limit.
        is_old: Whether the metastore does not support ``get_table_req``, like Hive before 2.3.
        broken: Exception that requests for partitions raise. None if they succeed.
    """

    def __init__(self) -> None:
        self.tables: dict[tuple[str, str], Table] = {}
        self.partitions: dict[tuple[str, str], dict[str, Partition]] = {}
        self.calls: list[tuple[Any, ...]] = []
        self.most_names: int | None = None
        self.is_old = False
        self.broken: Exception | None = None

    def get_table_req(self, request: Any) -> GetTableResult:
        if self.is_old:
            raise TApplicationException(TApplicationException.UNKNOWN_METHOD, "what?")
        return GetTableResult(table=self.get_table(request.dbName, request.tblName))

    def get_table(self, database: str, table: str) -> Table:
        self.calls.append(("get_table", database, table))
        if (database, table) not in self.tables:
            raise NoSuchObjectException(f"{database}.{table}")
        return self.tables[database, table]

    def get_all_databases(self) -> list[str]:
        return list({database: None for database, _ in self.tables})

    def get_databases(self, pattern: str) -> list[str]:
        return [pattern]

    def get_all_tables(self, database: str) -> list[str]:
        return [table for of, table in self.tables if of == database]

    def get_partition_names(self, database: str, table: str, most: int) -> list[str]:
        self.calls.append(("get_partition_names", database, table, most))
        if self.broken:
            raise self.broken
        return list(self.partitions[database, table])

    def get_partition_names_ps(
        self, database: str, table: str, values: list[str], most: int
    ) -> list[str]:
        self.calls.append(("get_partition_names_ps", *values))
        leading = [value for value in values if value]
        known = self.partitions[database, table].items()
        return [name for name, each in known if each.values[: len(leading)] == leading]

    def get_partitions_by_names(
        self, database: str, table: str, names: list[str]
    ) -> list[Partition]:
        self.calls.append(("get_partitions_by_names", len(names)))
        if self.most_names is not None and len(names) > self.most_names:
            raise MetaException("More partitions than the limit")
        known = self.partitions[database, table]
        # A metastore may return partitions in another order than the requested names.
        return [known[name] for name in reversed(names) if name in known]


class Server(socketserver.ThreadingTCPServer):
    """A server for a metastore, with TLS if ``tls`` is given.

    ``connections`` counts opened connections, and ``left`` those that have ended.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, metastore: FakeMetastore, tls: SSLContext | None = None) -> None:
        self.processor, self.tls = Api.Processor(metastore), tls
        self.connections, self.left = 0, 0
        super().__init__(("127.0.0.1", 0), _Connection)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.server_address[1]}"


class _Connection(socketserver.BaseRequestHandler):
    server: Server

    def handle(self) -> None:
        self.server.connections += 1
        line = TSocket()
        with suppress(TTransportException, OSError):
            tls = self.server.tls
            line.setHandle(
                self.request if tls is None else tls.wrap_socket(self.request, server_side=True)
            )
            protocol = TBinaryProtocol(line)
            while True:
                self.server.processor.process(protocol, protocol)
        self.server.left += 1


@contextmanager
def served(metastore: FakeMetastore, tls: SSLContext | None = None) -> Iterator[Server]:
    with Server(metastore, tls) as server:
        yield server
        server.shutdown()
