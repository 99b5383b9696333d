from __future__ import annotations

import pytest

from tests.integration.hive.filtered_tables import FilteredTables


@pytest.fixture(scope="module")
def tables(spark, metastore):
    return FilteredTables(spark, metastore)
