"""The two ways to the tables of a query."""

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
    """Both, one after the other; a module says with ``NAMED`` which tables have two names."""
    is_named = request.param == "named"
    with changed(spark, settings(metastore.uri) if is_named else {}):
        yield Way(spark, request.module.NAMED, is_named)
