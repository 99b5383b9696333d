from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from splitlib.spi import SupportsPartitionDetails
from splitlib.testing import HiveMetastore
from splitlib_conformance import ConnectorConformance, Harness
from tests.conformance.session_harness import SessionHarness

pytestmark = pytest.mark.spark


class TestSession(ConnectorConformance):
    connector = "session"
    capabilities = frozenset({SupportsPartitionDetails})

    @pytest.fixture
    def harness(self, metastore: HiveMetastore, spark: SparkSession, tmp_path: Path) -> Harness:
        return SessionHarness(metastore, spark, tmp_path)
