"""Fixtures for the tests of scans over explicit files."""

import pytest


@pytest.fixture(scope="module")
def spark(spark):
    """Return the shared session, with Spark's dynamic pruning and New York's time zone."""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    spark.conf.set("spark.sql.optimizer.dynamicPartitionPruning.enabled", "true")
    yield spark
    spark.conf.set("spark.sql.optimizer.dynamicPartitionPruning.enabled", "false")
    spark.conf.unset("spark.sql.session.timeZone")


@pytest.fixture(params=["pinned", "paths"])
def how(request):
    return request.param
