"""splitlib sends fewer concurrent requests to a store that rejects them with 503 "SlowDown"."""

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
    # With 999 expected files per partition, splitlib lists each partition with its own request.
    enumeration = Enumeration(proxy.endpoint, PARTITIONS, range(PARTITIONS), files_each=999)
    # The first listing makes one more request, to find out where a page of the store may end.
    Storage(storage_options(proxy.endpoint)).level(f"s3://{BUCKET}", retries=True)
    proxy.begin(Behaviour(delay_seconds=0.02, most_at_once=AT_ONCE))
    enumeration.run()  # It also checks the number of files.
    counts = proxy.counts()
    # splitlib starts with 32 concurrent requests. If it did not send fewer later, more requests
    # would be refused than answered.
    assert 0 < counts.refused < PARTITIONS
    # The metrics also count the refused requests.
    assert enumeration.enumerator.metrics.storage_requests == counts.listings
    notes = enumeration.enumerator.explain().notes
    assert f"{counts.refused} requests to the storage failed and were retried" in notes
