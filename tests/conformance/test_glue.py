from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from splitlib.spi import SupportsIdentityCheck, SupportsStorageOptions, SupportsTableNames
from splitlib_conformance import ConnectorConformance, Harness
from tests.conformance.glue_harness import GlueHarness
from tests.support.glue_server import GlueServer


@pytest.fixture(scope="module")
def server() -> Iterator[GlueServer]:
    with GlueServer().running() as server:
        yield server


class TestGlue(ConnectorConformance):
    connector = "glue"
    capabilities = frozenset({SupportsIdentityCheck, SupportsStorageOptions, SupportsTableNames})

    @pytest.fixture
    def harness(self, server: GlueServer, tmp_path: Path) -> Harness:
        return GlueHarness(server, tmp_path)
