"""Connector for a Hive metastore.

The connector lists partition names, then loads the details of the matching partitions, and then
lists their files. ``connector`` implements the connector interface. ``client`` makes calls to a
metastore at one of several addresses. ``connection`` is one connection with a deadline for every
response. ``security`` adds TLS, Kerberos and HTTP to a connection. ``string_lists`` decodes
partition names.
"""

from splitlib_hive.connector import HiveConnector

__all__ = ["HiveConnector"]
