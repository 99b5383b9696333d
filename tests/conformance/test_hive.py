from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from splitlib.spi import SupportsIdentityCheck, SupportsPartitionDetails, SupportsTableNames
from splitlib.testing import HiveMetastore
from splitlib_conformance import ConnectorConformance, Harness
from splitlib_conformance.base import partition
from tests.conformance.hive_harness import HiveHarness

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def metastore() -> Iterator[HiveMetastore]:
    with HiveMetastore() as metastore:
        yield metastore


class TestHive(ConnectorConformance):
    connector = "hive"
    capabilities = frozenset({SupportsIdentityCheck, SupportsPartitionDetails, SupportsTableNames})

    @pytest.fixture
    def harness(self, metastore: HiveMetastore, tmp_path: Path) -> Harness:
        return HiveHarness(metastore, tmp_path)

    def test_empty_text_is_the_null_partition(self, harness: Harness) -> None:
        """An empty partition value is read as null.

        A metastore stores the empty value, but gives the partition the name of the null partition.
        """
        keys = pa.schema([("k", pa.string()), ("l", pa.string())])
        subject = self.create(harness, keys, [partition({"k": "", "l": "x"})])
        assert [split.partition_values for split in self.splits(subject)] == [{"k": None, "l": "x"}]
