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
    """Run each test twice: with tables of the session's catalog and of a named catalog.

    In the second run, the tables in the module's ``NAMED`` are read from the named catalog.
    """
    is_named = request.param == "named"
    with changed(spark, settings(metastore.uri) if is_named else {}):
        yield Way(spark, request.module.NAMED, is_named)
