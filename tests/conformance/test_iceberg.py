from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog

from splitlib.spi import SupportsDeletionVectors, SupportsPhysicalNames, SupportsTableNames
from splitlib_conformance import ConnectorConformance, Harness
from splitlib_conformance.base import Subject
from tests.conformance.iceberg_harness import IcebergHarness
from tests.support.iceberg_tables import make_catalog

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    made = make_catalog(tmp_path_factory.mktemp("iceberg"))
    yield made
    made.close()


class TestIceberg(ConnectorConformance):
    connector = "iceberg"
    capabilities = frozenset({SupportsPhysicalNames, SupportsDeletionVectors, SupportsTableNames})

    @pytest.fixture
    def harness(self, catalog: Catalog, tmp_path: Path) -> Harness:
        return IcebergHarness(catalog, tmp_path)

    @pytest.fixture
    def simple(self, harness: Harness, request: pytest.FixtureRequest) -> Subject:
        made = self.create_numbered(harness, 4, files=2)
        if request.function.__name__ != "test_unknown_option":
            return made
        # PyIceberg accepts any property. Only beside a catalog object are there no properties.
        options = {"catalog": request.getfixturevalue("catalog")}
        return replace(made, address=replace(made.address, options=options))
