"""Both ways to scan files, in a session with a time zone that has summer time."""

import pytest


@pytest.fixture(scope="module")
def spark(spark):
    """The session of all tests, in a time zone with summer time, with Spark's own pruning."""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    spark.conf.set("spark.sql.optimizer.dynamicPartitionPruning.enabled", "true")
    yield spark
    spark.conf.set("spark.sql.optimizer.dynamicPartitionPruning.enabled", "false")
    spark.conf.unset("spark.sql.session.timeZone")


@pytest.fixture(params=["pinned", "paths"])
def how(request):
    return request.param
