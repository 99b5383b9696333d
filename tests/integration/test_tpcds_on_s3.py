"""Parts of the TPC-DS benchmark on S3 that need no Spark: upload, request counts, output."""

from __future__ import annotations

import json
from dataclasses import replace

import obstore
import pytest

from benchmarks.object_store.proxy import Behaviour, Counts, running_proxy
from benchmarks.object_store.servers import obstore_of, running_server
from benchmarks.tpcds.data import Data, TableData
from benchmarks.tpcds.metering import Cost
from benchmarks.tpcds.modes import SPLITLIB_TUNED, TUNED
from benchmarks.tpcds.on_s3 import S3QueryRuns, S3Run
from benchmarks.tpcds.s3_results import S3Results
from benchmarks.tpcds.s3_tables import upload

FILES = {
    "item/data_0.parquet": b"all of it",
    "store_sales/ss_sold_date_sk=1/data_0.parquet": b"a day",
    "store_sales/ss_sold_date_sk=__HIVE_DEFAULT_PARTITION__/data_0.parquet": b"no day",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    directory = tmp_path_factory.mktemp("server")
    with running_server({}, directory, "moto, not versitygw") as running:
        yield running


@pytest.fixture(scope="module")
def proxy(server):
    with running_proxy(server.address) as running:
        yield running


def test_files_have_their_paths_as_keys(server, tmp_path):
    for path, content in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    (tmp_path / "contents.json").write_text("{}")  # This file does not belong to a table.
    tables = {"item": TableData({}, ()), "store_sales": TableData({}, ("1", None))}
    endpoint = f"http://{server.address}"
    assert upload(Data(tmp_path, tables), endpoint) == len(FILES)
    there = obstore_of(endpoint)
    found = [each["path"] for batch in obstore.list(there) for each in batch]
    assert sorted(found) == sorted(f"tpcds/{path}" for path in FILES)
    for path, content in FILES.items():
        assert bytes(obstore.get(there, f"tpcds/{path}").bytes()) == content


def test_requests_are_counted_by_kind(proxy):
    there = obstore_of(proxy.endpoint)
    proxy.begin(Behaviour())
    obstore.put(there, "kinds/f", b"0123456789")
    obstore.head(there, "kinds/f")
    obstore.get(there, "kinds/f").bytes()
    obstore.get_range(there, "kinds/f", start=2, end=4)
    list(obstore.list(there, "kinds"))
    counts = proxy.counts()
    kinds = (counts.listings, counts.others, counts.reads, counts.heads)
    assert kinds == (1, 4, 2, 1)
    assert counts.bytes_sent > 12


@pytest.mark.parametrize("remembers_objects", [False, True])
def test_objects_are_read_from_the_server_where_only_listings_are_kept(
    server, proxy, remembers_objects
):
    proxy.begin(Behaviour(remembers_objects=remembers_objects))
    key = f"kept-{remembers_objects}/f"
    past, through = obstore_of(f"http://{server.address}"), obstore_of(proxy.endpoint)

    def shown():
        listed = [each["size"] for batch in obstore.list(through, key[:-2]) for each in batch]
        return bytes(obstore.get(through, key).bytes()), listed

    obstore.put(past, key, b"before")
    assert shown() == (b"before", [6])
    obstore.put(past, key, b"afterwards")
    assert shown() == (b"before" if remembers_objects else b"afterwards", [6])


def run(mode, turn, seconds, listings, others):
    cost = Cost(seconds, 0.0, 0, 0, 0)
    return S3Run(mode.name, turn, cost, Counts(listings=listings, others=others, reads=others))


QUERIES = [
    S3QueryRuns(
        "q01",
        5,
        (
            run(TUNED, 0, 10.0, 100, 10),
            run(SPLITLIB_TUNED, 0, 2.0, 1, 10),
            run(SPLITLIB_TUNED, 1, 3.0, 1, 10),
            run(TUNED, 1, 10.0, 100, 10),
        ),
    ),
    S3QueryRuns(
        "q02",
        6,
        (
            run(TUNED, 0, 30.0, 50, 40),
            run(SPLITLIB_TUNED, 0, 8.0, 9, 40),
            run(SPLITLIB_TUNED, 1, 9.0, 9, 40),
            run(TUNED, 1, 30.0, 50, 40),
        ),
    ),
]
RESULTS = S3Results(0.1, 2, 8, 20, "moto", {}, QUERIES)


def test_ratios_are_of_all_queries_by_round():
    seconds, requests = RESULTS.targets
    assert seconds.value == pytest.approx((10 / 40 + 12 / 40) / 2)
    assert requests.value == pytest.approx(60 / 200)
    assert seconds.reached
    assert requests.reached
    slower = replace(QUERIES[0], runs=(*QUERIES[0].runs[:2], run(SPLITLIB_TUNED, 1, 30, 90, 10)))
    slower = replace(slower, runs=(*slower.runs, QUERIES[0].runs[3]))
    seconds, requests = replace(RESULTS, queries=[slower, QUERIES[1]]).targets
    assert not seconds.reached
    assert not requests.reached


def test_what_is_written():
    text = RESULTS.markdown()
    assert "- seconds, by round: 0.275 (0.250-0.300)" in text
    # The row has seconds and numbers of requests, and then their ratios.
    first = "| q01 | 5 | 10.0 / 2.5 | 110 / 11 | 100 / 1 | 0 / 0 | 10 / 10 | 0.0 / 0.0 |"
    assert f"{first} 0.25, 0.10 |" in text
    assert "| all |  | 40.0 / 11.0 | 200 / 60 |" in text
    document = json.loads(json.dumps(RESULTS.to_dict()))
    assert [target["reached"] for target in document["targets"]] == [True, True]
    assert document["queries"][0]["runs"][1]["requests"]["listings"] == 1
