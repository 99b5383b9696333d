"""A metastore client for calls that change the metastore. splitlib never makes such calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hmsclient.genthrift.hive_metastore.ThriftHiveMetastore import Client
from hmsclient.genthrift.hive_metastore.ttypes import (
    FieldSchema,
    SerDeInfo,
    StorageDescriptor,
    Table,
)
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from splitlib.testing import HiveMetastore
from splitlib_hive.client import parse_uris


@contextmanager
def thrift_client(metastore: HiveMetastore) -> Iterator[Client]:
    """Open a connection, and yield a client of the class that Thrift generated."""
    (address,) = parse_uris(metastore.uri)
    transport = TBufferedTransport(TSocket(address.host, address.port))
    transport.open()
    try:
        yield Client(TBinaryProtocol(transport))
    finally:
        transport.close()


def parquet_table(name: str, column: FieldSchema, keys: list[FieldSchema]) -> Table:
    """Return the Thrift definition of a table in ``default`` with one data column."""
    parquet = "org.apache.hadoop.hive.ql.io.parquet."
    descriptor = StorageDescriptor(
        cols=[column],
        inputFormat=parquet + "MapredParquetInputFormat",
        outputFormat=parquet + "MapredParquetOutputFormat",
        compressed=False,
        numBuckets=-1,
        serdeInfo=SerDeInfo(serializationLib=parquet + "serde.ParquetHiveSerDe", parameters={}),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )
    return Table(
        dbName="default",
        tableName=name,
        owner="me",
        createTime=0,
        lastAccessTime=0,
        retention=0,
        sd=descriptor,
        partitionKeys=keys,
        parameters={},
        tableType="MANAGED_TABLE",
    )
