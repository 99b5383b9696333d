from __future__ import annotations

from pathlib import Path

import pytest

from splitlib.spi import SupportsDeletionVectors, SupportsPhysicalNames, SupportsStorageOptions
from splitlib_conformance import ConnectorConformance, Harness
from tests.conformance.delta_harness import DeltaHarness

pytestmark = pytest.mark.long


class TestDelta(ConnectorConformance):
    connector = "delta"
    capabilities = frozenset({SupportsDeletionVectors, SupportsStorageOptions})

    @pytest.fixture
    def harness(self, tmp_path: Path) -> Harness:
        return DeltaHarness(tmp_path)


class TestDeltaByFieldId(ConnectorConformance):
    connector = "delta"
    capabilities = frozenset({SupportsDeletionVectors, SupportsPhysicalNames})

    @pytest.fixture
    def harness(self, tmp_path: Path) -> Harness:
        return DeltaHarness(tmp_path, by_id=True)
