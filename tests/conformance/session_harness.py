from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from pyspark.sql import SparkSession

from splitlib.testing import HiveMetastore
from splitlib_conformance import SourceCalls, TableAddress, not_tried
from tests.conformance.hive_harness import HiveHarness


class SessionHarness(HiveHarness):
    """Metastore tables that another client creates, and that a session finds by name."""

    def __init__(self, metastore: HiveMetastore, spark: SparkSession, root: Path) -> None:
        super().__init__(metastore, root)
        self._spark = spark

    def watch(self, calls: SourceCalls) -> AbstractContextManager[None]:
        not_tried("come between a session and its catalog (watch)")

    def open_connections(self) -> int:
        not_tried("count the connections of a JVM (open_connections)")

    def _address(self, name: str) -> TableAddress:
        # Each thread lists several directories per call. With more threads, one call would list a
        # whole table of the kit.
        return TableAddress(f"default.{name}", {"spark": self._spark, "listing_threads": 1})
