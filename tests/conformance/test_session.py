from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from splitlib.errors import TableNotFound
from splitlib.spark.session_catalog import SessionConnector
from splitlib.spi import SupportsIdentityCheck, SupportsPartitionDetails, SupportsTableNames
from splitlib.testing import HiveMetastore
from splitlib_conformance import ConnectorConformance, Harness
from splitlib_conformance.base import Subject
from tests.conformance.session_harness import SessionHarness

pytestmark = pytest.mark.spark


class TestSession(ConnectorConformance):
    connector = "session"
    capabilities = frozenset({SupportsPartitionDetails})

    @pytest.fixture
    def harness(self, metastore: HiveMetastore, spark: SparkSession, tmp_path: Path) -> Harness:
        return SessionHarness(metastore, spark, tmp_path)

    def test_a_table_that_was_dropped_is_told(self, simple: Subject, spark: SparkSession) -> None:
        """Though its partitions were asked for before."""
        with self.open(simple.address) as table:
            assert isinstance(table.connector, SupportsIdentityCheck)
            table.check_identity()
            spark.sql(f"DROP TABLE {simple.address.name}")
            with pytest.raises(TableNotFound):
                table.check_identity()

    def test_table_names(self, simple: Subject, spark: SparkSession) -> None:
        """Of a database, or of all; temporary views are in none."""
        assert issubclass(SessionConnector, SupportsTableNames)
        spark.sql("CREATE OR REPLACE TEMPORARY VIEW passing AS SELECT 1 AS a")
        spark.sql("CREATE DATABASE IF NOT EXISTS empty_one")
        options = {"spark": spark}
        found = list(SessionConnector.table_names("default", options))
        assert ("default", simple.address.name.split(".")[1]) in found
        assert found == sorted(found)
        assert not any("passing" in names for names in found)
        assert list(SessionConnector.table_names(None, options)) == found
        assert list(SessionConnector.table_names("empty_one", options)) == []
        with pytest.raises(TableNotFound, match="no database nosuch"):
            list(SessionConnector.table_names("nosuch", options))
