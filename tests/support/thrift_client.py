"""Calls of a metastore that splitlib never makes: those that change something."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hmsclient.genthrift.hive_metastore.ThriftHiveMetastore import Client
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from splitlib.testing import HiveMetastore
from splitlib_hive.client import parse_uris


@contextmanager
def thrift_client(metastore: HiveMetastore) -> Iterator[Client]:
    """A client of the class that thrift generates."""
    ((host, port),) = parse_uris(metastore.uri)
    transport = TBufferedTransport(TSocket(host, port))
    transport.open()
    try:
        yield Client(TBinaryProtocol(transport))
    finally:
        transport.close()
