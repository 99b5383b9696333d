"""Fuzz target: responses of a metastore with a table, its partition names and their details.

The input is cut where a response begins. Each request on a connection gets the next piece, even if
the piece answers another request. Calls on a connection are numbered from 1.
"""

from __future__ import annotations

import re
import socket
import threading
from contextlib import closing
from functools import cache
from typing import Any

import pyarrow as pa
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore as Api
from hmsclient.genthrift.hive_metastore import ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from splitlib import SplitlibError
from splitlib.filtering.predicate import Predicate
from splitlib_hive import HiveConnector

_PARQUET = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
_SPARK = "spark.sql.sources."
_BEGINNING = re.compile(rb"(?<=.)(?=\x80\x01\x00\x02)", re.DOTALL)
"""Position where a response begins, with the protocol version and the message type "reply".

The first response is excluded.
"""
TOKENS = (
    b"get_table_req",
    b"get_partition_names",
    b"get_partitions_by_names",
    b"spark.sql.sources.schema.numParts",
    b"spark.sql.sources.schema.part.0",
    b"spark.sql.sources.schema.numPartCols",
    b"spark.sql.sources.schema.partCol.0",
    b"spark.sql.sources.provider",
)


def seeds() -> list[bytes]:
    in_parts = {
        f"{_SPARK}provider": "parquet",
        f"{_SPARK}schema.numParts": "1",
        f"{_SPARK}schema.part.0": _JSON,
        f"{_SPARK}schema.numPartCols": "1",
        f"{_SPARK}schema.partCol.0": "k",
        "spark.sql.partitionProvider": "catalog",
    }
    return [_answers({}), _answers(in_parts), _answers({f"{_SPARK}schema": _JSON})]


_JSON = (
    '{"type":"struct","fields":[{"name":"v","type":"integer","nullable":true,"metadata":{}},'
    '{"name":"k","type":"string","nullable":true,"metadata":{}}]}'
)


def _answers(parameters: dict[str, str]) -> bytes:
    """Return the responses to all calls about one table with some parameters, in call order."""
    serde = ttypes.SerDeInfo(serializationLib=_PARQUET, parameters={})
    descriptor = ttypes.StorageDescriptor(
        cols=[ttypes.FieldSchema("v", "int")],
        location="file:/t",
        inputFormat="x",
        serdeInfo=serde,
        parameters={},
    )
    table = ttypes.Table(
        dbName="d",
        tableName="t",
        sd=descriptor,
        partitionKeys=[ttypes.FieldSchema("k", "string")],
        parameters=parameters,
        tableType="MANAGED_TABLE",
        createTime=1,
    )
    partitions = [
        ttypes.Partition(values=[value], sd=descriptor, parameters={}) for value in ("1", "é")
    ]
    return b"".join(
        [
            _answer("get_table_req", 1, ttypes.GetTableResult(table=table)),
            _answer("get_partition_names", 2, ["k=1", "k=é"]),
            _answer("get_partitions_by_names", 3, partitions),
        ]
    )


def _answer(name: str, number: int, success: Any) -> bytes:
    protocol = TBinaryProtocol(buffer := TMemoryBuffer())
    protocol.writeMessageBegin(name, TMessageType.REPLY, number)
    getattr(Api, f"{name}_result")(success=success).write(protocol)
    written: bytes = buffer.getvalue()
    return written


class Server:
    """A metastore that sends the same responses on every connection."""

    def __init__(self) -> None:
        self.answer = b""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.uri = f"thrift://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            line, _ = self._listening.accept()
            with line:
                try:
                    for part in _BEGINNING.split(self.answer):
                        line.recv(1 << 16)
                        line.sendall(part)
                    line.shutdown(socket.SHUT_WR)
                    while line.recv(1 << 16):  # read and discard the remaining requests
                        pass
                except OSError:
                    pass  # the client has closed the connection


@cache
def server() -> Server:
    """Return the server that all inputs share."""
    return Server()


def run(data: bytes) -> bool:
    server().answer = data
    try:
        options = {"uri": server().uri, "timeout_seconds": 0.05}
        with closing(HiveConnector.open("d.t", options)) as connector:
            metadata = connector.describe()
            assert set(metadata.partition_keys) <= set(metadata.schema.names)
            for partitions in connector.list_partitions(Predicate(pa.schema([]), [])):
                details = connector.load_details(partitions)
                assert len(details) <= len(partitions)
    except SplitlibError:
        return False
    return True
