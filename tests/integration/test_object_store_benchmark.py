"""The benchmark of listings on S3 runs at a small size, with the expected request counts."""

from __future__ import annotations

import json

import pytest

from benchmarks.object_store.__main__ import BARE, NO_STATISTICS, STATISTICS, main
from benchmarks.object_store.tables import cases, first_of_pages


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    output = tmp_path_factory.mktemp("object_store")
    main(
        [
            "--partitions=2000",
            "--repeat=1",
            "--delay-milliseconds=1",
            "--versitygw=moto, not versitygw",
            "--no-peers",
            f"--output={output}",
        ]
    )
    assert "of obstore's" in (output / "object_store.md").read_text()
    return json.loads((output / "object_store.json").read_text())


def test_hardly_more_requests_than_s3_permits(document):
    assert len(document["cases"]) == 9
    for case in document["cases"]:
        runs, least = case["runs"], case["least"]
        assert [run["error"] for run in runs.values()] == [None] * 3
        assert runs[BARE]["requests"] == [least]
        # splitlib may need one request more than the minimum. Without statistics, it needs another
        # one, to find out how many files a partition has.
        assert runs[STATISTICS]["requests"][0] <= least + 1
        assert runs[NO_STATISTICS]["requests"][0] <= least + 2
        assert [run["others"] for run in runs.values()] == [[0]] * 3


def test_pages_reach_as_far_as_they_can():
    assert first_of_pages([0, 499, 500, 1200]) == [0, 500, 1200]
    assert first_of_pages(range(1001)) == [0, 500, 1000]


def test_the_cases_have_as_many_partitions_as_their_names_say():
    for case in cases(10_000):
        number = case.name.removeprefix("all ").split()[0].replace(",", "")
        assert len(case.matching) == len(set(case.matching)) == int(number)
        assert list(case.matching) == sorted(case.matching)
