from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from splitlib.spi import SupportsIdentityCheck, SupportsPartitionDetails, SupportsTableNames
from splitlib.testing import HiveMetastore
from splitlib_conformance import ConnectorConformance, Harness, TableAddress
from splitlib_conformance.key_cases import KEY_CASES, KeyCase
from tests.conformance.session_harness import SessionHarness

pytestmark = pytest.mark.spark


class PublicSessionHarness(SessionHarness):
    """Metastore tables, found by a session through its public API only."""

    def _address(self, name: str) -> TableAddress:
        options = {"spark": self._spark, "spark_scan": "paths", "listing_threads": 1}
        return TableAddress(f"default.{name}", options)


class TestSessionPublic(ConnectorConformance):
    connector = "session"
    capabilities = frozenset({SupportsIdentityCheck, SupportsPartitionDetails, SupportsTableNames})

    @pytest.fixture(params=["date"])  # only one case, because a statement per partition is slow
    def key_case(self, request: pytest.FixtureRequest) -> KeyCase:
        (case,) = [case for case in KEY_CASES if case.name == request.param]
        return case

    @pytest.fixture
    def harness(self, metastore: HiveMetastore, spark: SparkSession, tmp_path: Path) -> Harness:
        return PublicSessionHarness(metastore, spark, tmp_path)
