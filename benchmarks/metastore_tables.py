"""Create tables in a Hive metastore through Thrift, and add their partitions in bulk."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hmsclient.genthrift.hive_metastore.ThriftHiveMetastore import Client
from hmsclient.genthrift.hive_metastore.ttypes import (
    FieldSchema,
    SerDeInfo,
    StorageDescriptor,
    Table,
)
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from splitlib.testing import HiveMetastore

_PARQUET = "org.apache.hadoop.hive.ql.io.parquet."
DATABASE = "default"


def open_metastore(directory: Path) -> HiveMetastore:
    """Return the metastore of the benchmarks. Tables stay in ``directory`` for later runs."""
    # Spark loads all 100,000 partitions of a table at once, so the default heap is too small.
    return HiveMetastore(directory / "metastore", heap_megabytes=2048)


@contextlib.contextmanager
def raw_client(uri: str) -> Iterator[Any]:
    """Connect Thrift's generated client with its fastest protocol for the ``with`` block."""
    host, _, port = uri.removeprefix("thrift://").partition(":")
    transport = TBufferedTransport(TSocket(host, int(port)), 1 << 16)
    transport.open()
    try:
        yield Client(TBinaryProtocolAccelerated(transport))
    finally:
        transport.close()


def create_table(
    metastore: HiveMetastore,
    name: str,
    location: Path,
    columns: Sequence[tuple[str, str]],
    keys: Sequence[tuple[str, str]] = (),
    partitions: Sequence[str | tuple[str, ...]] = (),
) -> bool:
    """Register an external Parquet table, unless an earlier run has registered it.

    Args:
        metastore: A running metastore.
        name: The table's name. Tables with equal names must have equal content.
        location: The table's directory.
        columns: Names and Hive types of the data columns.
        keys: Names and Hive types of the partition keys.
        partitions: Values of each partition: a string if there is one partition key, or a tuple.

    Returns:
        Whether the table is new.
    """
    with raw_client(metastore.uri) as client:
        if name in client.get_all_tables(DATABASE):
            # An interrupted run leaves a table without its partitions.
            known = client.get_partition_names(DATABASE, name, -1) if keys else []
            if len(known) == len(partitions):
                return False
            client.drop_table(DATABASE, name, False)
        client.create_table(_table(name, location, columns, keys))
    if partitions:
        rows = [(value,) if isinstance(value, str) else value for value in partitions]
        metastore.bulk_add_partitions(DATABASE, name, rows)
    return True


def _table(
    name: str, location: Path, columns: Sequence[tuple[str, str]], keys: Sequence[tuple[str, str]]
) -> Table:
    return Table(
        dbName=DATABASE,
        tableName=name,
        owner="benchmarks",
        createTime=0,
        lastAccessTime=0,
        retention=0,
        sd=StorageDescriptor(
            cols=[FieldSchema(column, kind, "") for column, kind in columns],
            location=location.as_uri(),
            inputFormat=_PARQUET + "MapredParquetInputFormat",
            outputFormat=_PARQUET + "MapredParquetOutputFormat",
            compressed=False,
            numBuckets=-1,
            serdeInfo=SerDeInfo(
                serializationLib=_PARQUET + "serde.ParquetHiveSerDe",
                parameters={"serialization.format": "1"},
            ),
            bucketCols=[],
            sortCols=[],
            parameters={},
        ),
        partitionKeys=[FieldSchema(key, kind, "") for key, kind in keys],
        parameters={"EXTERNAL": "TRUE"},
        tableType="EXTERNAL_TABLE",
    )
