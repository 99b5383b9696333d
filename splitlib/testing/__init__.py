"""Tools for tests, demos and benchmarks: a Hive metastore, and counters of Spark's work."""

from splitlib.testing.hive_metastore import HiveMetastore

__all__ = ["HiveMetastore"]
