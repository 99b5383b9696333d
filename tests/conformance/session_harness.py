from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from splitlib.testing import HiveMetastore
from splitlib_conformance import TableAddress
from tests.conformance.hive_harness import HiveHarness


class SessionHarness(HiveHarness):
    """The same tables, made behind the back of the session that finds them by their names."""

    def __init__(self, metastore: HiveMetastore, spark: SparkSession, root: Path) -> None:
        super().__init__(metastore, root)
        self._spark = spark

    def _address(self, name: str) -> TableAddress:
        # a call lists some directories for each of its threads, and the kit's tables are small
        return TableAddress(f"default.{name}", {"spark": self._spark, "listing_threads": 1})
