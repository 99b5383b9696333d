"""Fixtures of the file scan tests."""

import pytest


@pytest.fixture(scope="module")
def spark(spark):
    """The shared session in a time zone with daylight saving time, with Spark's dynamic pruning."""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    spark.conf.set("spark.sql.optimizer.dynamicPartitionPruning.enabled", "true")
    yield spark
    spark.conf.set("spark.sql.optimizer.dynamicPartitionPruning.enabled", "false")
    spark.conf.unset("spark.sql.session.timeZone")


@pytest.fixture(params=["pinned", "paths"])
def how(request):
    return request.param
