"""The smallest numbers that the options of the Hive connector accept."""

from __future__ import annotations

from contextlib import closing

import pytest

import splitlib
from splitlib_hive import HiveConnector
from tests.unit.connectors.hive.fake_metastore import FakeMetastore, served, table_of


@pytest.fixture
def uri():
    metastore = FakeMetastore()
    metastore.tables["d", "t"] = table_of("/nowhere", "k")
    with served(metastore) as running:
        yield running.uri


@pytest.mark.parametrize(("given", "number"), [(1, 1), ("1.5", 1), (2, 2)])
def test_partitions_may_be_loaded_one_by_one(uri, given, number):
    options = {"uri": uri, "partitions_per_request": given}
    with closing(HiveConnector.open("d.t", options)) as connector:
        assert connector.partitions_per_details == number


def test_less_than_one_partition_cannot_be_loaded(uri):
    with pytest.raises(splitlib.ConfigError, match=r"must be a positive number, not 0\.5"):
        HiveConnector.open("d.t", {"uri": uri, "partitions_per_request": 0.5})


@pytest.mark.parametrize("option", ["connect_timeout_seconds", "timeout_seconds"])
def test_timeouts_may_be_less_than_a_second(uri, option):
    with closing(HiveConnector.open("d.t", {"uri": uri, option: 0.9})) as connector:
        assert connector.describe().partition_keys == ("k",)
