"""Connector for a Hive metastore: partition names, then details of matching partitions, then files.

Modules from the top down: ``connector`` implements the interface; ``table`` derives schema and
format from thrift objects; ``client`` makes the calls, on any of several addresses; ``connection``
is one connection, with a deadline for every response.
"""

from splitlib_hive.connector import HiveConnector

__all__ = ["HiveConnector"]
