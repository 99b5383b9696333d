"""Tools for tests, demos and benchmarks: a Hive metastore, and counts of files that Spark reads."""

from splitlib.testing.hive_metastore import HiveMetastore

__all__ = ["HiveMetastore"]
