from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from benchmarks.tpcds.settings import changed
from splitlib.testing import HiveMetastore
from tests.integration.planner.ways import Way, settings


@pytest.fixture(params=["session", pytest.param("named", marks=pytest.mark.newest_spark)])
def way(
    request: pytest.FixtureRequest, spark: SparkSession, metastore: HiveMetastore
) -> Iterator[Way]:
    """Run each test with session tables and with named-catalog tables.

    A module's ``NAMED`` lists the tables that also have a named-catalog name.
    """
    is_named = request.param == "named"
    with changed(spark, settings(metastore.uri) if is_named else {}):
        yield Way(spark, request.module.NAMED, is_named)
