"""A store that answers 503 "SlowDown" to too many concurrent requests."""

from __future__ import annotations

import pytest

from benchmarks.object_store.listing import Enumeration
from benchmarks.object_store.proxy import Behaviour, running_proxy
from benchmarks.object_store.servers import BUCKET, running_server, storage_options
from benchmarks.object_store.tables import objects_of
from splitlib.storage import Storage

PARTITIONS, AT_ONCE = 60, 4


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    directory = tmp_path_factory.mktemp("store")
    with (
        running_server(objects_of(PARTITIONS), directory, "moto, not versitygw") as server,
        running_proxy(server.address) as running,
    ):
        yield running


def test_fewer_listings_are_in_flight_and_every_file_is_found(proxy):
    # With so many files expected in each partition, no page contains two partitions.
    enumeration = Enumeration(proxy.endpoint, PARTITIONS, range(PARTITIONS), files_each=999)
    # The first listing of a bucket also probes how its pages end.
    Storage(storage_options(proxy.endpoint)).directories(f"s3://{BUCKET}")
    proxy.begin(Behaviour(delay_seconds=0.02, most_at_once=AT_ONCE))
    enumeration.run()  # ``run`` checks the number of files.
    counts = proxy.counts()
    # 32 requests start at once. Without a lower concurrency later, refusals would outnumber
    # answers.
    assert 0 < counts.refused < PARTITIONS
    # Refused requests count too.
    assert enumeration.enumerator.metrics.storage_requests == counts.listings
    notes = enumeration.enumerator.explain().notes
    assert f"{counts.refused} requests to the storage failed and were retried" in notes
