"""Tools for tests, demos and benchmarks: a Hive metastore, and read counts of Spark queries."""

from splitlib.testing.hive_metastore import HiveMetastore

__all__ = ["HiveMetastore"]
