"""Real servers in a temporary directory, for tests, demos and benchmarks."""

from splitlib.testing.hive_metastore import HiveMetastore

__all__ = ["HiveMetastore"]
