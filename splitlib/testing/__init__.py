"""Servers for tests, demos and benchmarks that run in a temporary directory."""

from splitlib.testing.hive_metastore import HiveMetastore

__all__ = ["HiveMetastore"]
