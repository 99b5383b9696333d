from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from splitlib.spark.session_catalog import SessionConnector
from splitlib.spi import SupportsIdentityCheck, SupportsPartitionDetails, SupportsTableNames
from splitlib.testing import HiveMetastore
from splitlib_conformance import ConnectorConformance, Harness
from splitlib_conformance.base import Subject
from tests.conformance.session_harness import SessionHarness

pytestmark = pytest.mark.spark


class TestSession(ConnectorConformance):
    connector = "session"
    capabilities = frozenset({SupportsIdentityCheck, SupportsPartitionDetails, SupportsTableNames})

    @pytest.fixture
    def harness(self, metastore: HiveMetastore, spark: SparkSession, tmp_path: Path) -> Harness:
        return SessionHarness(metastore, spark, tmp_path)

    def test_table_names_of_a_session(self, simple: Subject, spark: SparkSession) -> None:
        """``table_names`` supports several databases and empty ones, and lists no views."""
        assert issubclass(SessionConnector, SupportsTableNames)
        spark.sql("CREATE OR REPLACE TEMPORARY VIEW passing AS SELECT 1 AS a")
        spark.sql("CREATE DATABASE IF NOT EXISTS empty_one")
        spark.sql("CREATE DATABASE IF NOT EXISTS other")
        spark.sql("CREATE TABLE IF NOT EXISTS other.orders (k INT) USING parquet")
        options = {"spark": spark}
        found = list(SessionConnector.table_names("default", options))
        assert ("default", simple.address.name.split(".")[1]) in found
        assert not any("passing" in names for names in found)
        spark.catalog.dropTempView("passing")
        of_all = list(SessionConnector.table_names(None, options))
        assert [names for names in of_all if names[0] == "default"] == found
        assert ("other", "orders") in of_all
        assert list(SessionConnector.table_names("empty_one", options)) == []
