"""Tables of a metastore, made and compared."""

from __future__ import annotations

import pytest

from tests.integration.hive.lake import Lake


@pytest.fixture(scope="module")
def lake(spark, metastore, tmp_path_factory):
    return Lake(spark, metastore, tmp_path_factory.mktemp("lake"))
