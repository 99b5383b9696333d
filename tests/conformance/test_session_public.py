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
    """The same tables, found by a session that uses nothing but its public API."""

    def _address(self, name: str) -> TableAddress:
        options = {"spark": self._spark, "spark_scan": "paths", "listing_threads": 1}
        return TableAddress(f"default.{name}", options)


class TestSessionPublic(ConnectorConformance):
    connector = "session"
    capabilities = frozenset({SupportsIdentityCheck, SupportsPartitionDetails, SupportsTableNames})

    @pytest.fixture(params=["date"])  # one of all: a statement for each partition takes its time
    def key_case(self, request: pytest.FixtureRequest) -> KeyCase:
        (case,) = [case for case in KEY_CASES if case.name == request.param]
        return case

    @pytest.fixture
    def harness(self, metastore: HiveMetastore, spark: SparkSession, tmp_path: Path) -> Harness:
        return PublicSessionHarness(metastore, spark, tmp_path)
