from __future__ import annotations

from pathlib import Path

import pytest

from splitlib.spi import SupportsIdentityCheck
from splitlib_conformance import ConnectorConformance, Harness
from tests.conformance.files_harness import FilesHarness


class TestFiles(ConnectorConformance):
    connector = "files"
    capabilities = frozenset({SupportsIdentityCheck})

    @pytest.fixture
    def harness(self, tmp_path: Path) -> Harness:
        return FilesHarness(tmp_path)
