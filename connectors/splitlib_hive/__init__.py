"""Tables of a Hive metastore, listed by names first."""

from splitlib_hive.connector import HiveConnector

__all__ = ["HiveConnector"]
