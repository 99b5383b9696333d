"""Every benchmark runs at a small size, and the compared methods read the expected files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import main
from benchmarks.queries import BY_HAND, FLOOR, GIVEN_KEYS, JOIN_KEYS, SHIPPED, TUNED
from benchmarks.runner import NAMES
from tests.integration.conftest import SHORT_LIVED_JAVA

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

PARTITIONS, FILES, MATCHING = 40, 2, 5
DIMENSION_FILES = 1
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run all benchmarks once, and return their output directory."""
    if shutil.which("javac") is None:
        pytest.fail("javac is not on PATH: the benchmarks need a JDK")
    output = tmp_path_factory.mktemp("benchmarks") / "results"
    sizes = {"partitions": PARTITIONS, "slow-partitions": PARTITIONS, "matching": MATCHING}
    options = [f"--{name}={size}" for name, size in sizes.items()]
    with pytest.MonkeyPatch.context() as environment:
        for name, value in SHORT_LIVED_JAVA.items():
            environment.setenv(name, value)
        main(["--quick", "--delay-milliseconds=1", f"--output={output}", *options])
    return output


@pytest.fixture(scope="module")
def document(written: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((written / "benchmarks.json").read_text())
    return read


def counts_of(document: dict[str, Any], benchmark: str, comparison: int = 0) -> dict[str, Any]:
    found = contenders(document, benchmark, comparison)
    return {name: contender["counts"] for name, contender in found.items()}


def contenders(document: dict[str, Any], benchmark: str, comparison: int = 0) -> dict[str, Any]:
    found = document["benchmarks"][benchmark]["comparisons"][comparison]["contenders"]
    return {contender["name"]: contender for contender in found}


def test_all_benchmarks_are_written_with_every_sample(document):
    assert list(document["benchmarks"]) == list(NAMES)
    assert document["environment"]["pyspark"].startswith("4.")
    repeat = document["sizes"]["repeat"]
    for benchmark in document["benchmarks"].values():
        for comparison in benchmark["comparisons"]:
            assert comparison["reference"] in {c["name"] for c in comparison["contenders"]}
            for contender in comparison["contenders"]:
                assert contender["error"] is None
                assert len(contender["samples"]) == repeat
                assert 0 < contender["min"] <= contender["median"] <= contender["max"]
                assert contender["ratio"] > 0


def test_a_picture_is_drawn(written):
    assert (written / "benchmarks.png").read_bytes().startswith(PNG)


def test_targets_have_a_value_and_a_verdict(document):
    targets = {name: len(b["targets"]) for name, b in document["benchmarks"].items()}
    assert targets == {
        "first_row": 5,
        "many_keys": 2,
        "slow_listing": 0,
        "enumeration": 1,
        "coordinator": 1,
        "matching": 3,
        "memory": 1,
        "many_partitions": 4,
        "pinning": 0,
        "runtime_filter": 1,
        "data_keys": 12,
        "learned": 2,
        "iceberg": 4,
        "datasource": 3,
    }
    for benchmark in document["benchmarks"].values():
        for target in benchmark["targets"]:
            assert target["reached"] == (target["value"] <= target["at_most"])


@pytest.mark.parametrize("comparison", [0, 1], ids=["first row", "count(*)"])
def test_first_row_compares_what_it_says(document, comparison):
    counts = counts_of(document, "first_row", comparison)
    fetched = {name: c["partitions_fetched"] for name, c in counts.items()}
    listed = {name: c["files_discovered"] - DIMENSION_FILES for name, c in counts.items()}
    dynamic = [SHIPPED, *TUNED]
    assert list(counts) == [*dynamic, BY_HAND, GIVEN_KEYS, JOIN_KEYS, FLOOR]
    # Spark's own dynamic pruning reads few files. But with empty caches, Spark first fetches all
    # partitions and lists all files.
    assert {name: fetched[name] for name in dynamic} == dict.fromkeys(dynamic, PARTITIONS)
    assert {name: listed[name] for name in dynamic} == dict.fromkeys(dynamic, PARTITIONS * FILES)
    assert (fetched[BY_HAND], listed[BY_HAND]) == (MATCHING, MATCHING * FILES)
    # splitlib gives Spark the list of files, so Spark does not list any.
    assert (fetched[JOIN_KEYS], listed[JOIN_KEYS]) == (0, 0)
    assert (fetched[GIVEN_KEYS], listed[GIVEN_KEYS]) == (0, 0)
    # This contender gives Spark the matching paths, and Spark lists their files.
    assert (fetched[FLOOR], listed[FLOOR]) == (0, MATCHING * FILES)
    assert {c["files_read"] for c in counts.values()} == {MATCHING * FILES}
    assert len({c["rows"] for c in counts.values()}) == 1


def test_the_first_row_of_a_larger_table_reads_as_much(document):
    counts = counts_of(document, "first_row", 2)
    assert list(counts) == [JOIN_KEYS, FLOOR]
    assert {c["files_read"] for c in counts.values()} == {MATCHING * FILES}
    assert {c["partitions_fetched"] for c in counts.values()} == {0}


def test_a_runtime_filter_is_used_where_it_says_so(document):
    counts = counts_of(document, "runtime_filter")
    filters = [c["filters"] for c in counts.values()]
    assert filters[0] == filters[2] == 0
    assert filters[3] == 1
    assert len({(c["rows"], c["joined"]) for c in counts.values()}) == 1


def test_a_join_by_a_data_column_reads_row_groups_with_keys(document):
    for comparison in range(0, 9, 3):  # the others compare CPU seconds and bytes
        spark, _, ours, *_ = counts_of(document, "data_keys", comparison).values()
        assert ours["joined"] == spark["joined"]
        # Eight ranges cannot leave out the gaps between thirty groups of keys, but footers can.
        assert ours["rows_read"] == ours["rows_with_keys"] < spark["rows_read"]


def test_many_keys_are_a_range_to_the_metastore(document):
    counts = counts_of(document, "many_keys")
    fetched = {name: c["partitions_fetched"] for name, c in counts.items()}
    assert fetched == {BY_HAND: PARTITIONS, JOIN_KEYS: 0, GIVEN_KEYS: 0}
    assert {c["files_read"] for c in counts.values()} == {MATCHING * FILES}


def test_slow_listings_are_those_of_the_contender(document):
    counts = counts_of(document, "slow_listing")
    by_spark = {name: c["listings_by_spark"] for name, c in counts.items()}
    by_splitlib = {name: c["listings_by_splitlib"] for name, c in counts.items()}
    dynamic = [SHIPPED, *TUNED]
    assert by_spark == {
        **dict.fromkeys(dynamic, PARTITIONS),
        BY_HAND: MATCHING,
        JOIN_KEYS: 0,
        GIVEN_KEYS: 0,
    }
    assert by_splitlib == {
        **dict.fromkeys(dynamic, 0),
        BY_HAND: 0,
        JOIN_KEYS: MATCHING,
        GIVEN_KEYS: MATCHING,
    }


def test_the_coordinator_hands_out_every_split_once(document):
    splits = document["sizes"]["handed_out"]
    alone, *coordinated = contenders(document, "coordinator").values()
    assert alone["counts"] == {"splits": splits}
    assert [c["counts"] for c in coordinated] == [{"splits": splits, "different": splits}] * 2


def test_the_data_source_reads_the_rows_of_the_native_scan(document):
    alone, reader, plain, ours, native = counts_of(document, "datasource").values()
    assert alone == reader == {"rows": document["sizes"]["rows"]}
    assert plain == ours == native == {**alone, "digest": native["digest"]}


def test_matching_finds_every_second_partition(document):
    half = document["sizes"]["matched"] // 2
    comparisons = document["benchmarks"]["matching"]["comparisons"]
    assert len(comparisons) == 4
    for comparison in comparisons:
        *matching, preparing = comparison["contenders"]
        assert [c["counts"] for c in matching] == [{"matches": half}] * 3
        assert preparing["counts"] == {}


def test_memory_is_of_all_names(document):
    names = document["sizes"]["listed"]
    counts = [c["counts"] for c in contenders(document, "memory").values()]
    assert counts == [{}, {"names": names}, {"names": names, "matched": MATCHING}]


def test_the_enumeration_is_set_against_the_sum_of_its_parts(document):
    ours, *parts, total = contenders(document, "enumeration").values()
    assert "splitlib" in ours["name"]
    assert total["samples"] == pytest.approx([sum(p["samples"][0] for p in parts)])


def test_iceberg_opens_only_the_manifests_that_it_needs(document):
    files = document["sizes"]["planned"]
    *theirs, few, many, again = [c["counts"] for c in contenders(document, "iceberg").values()]
    assert [c["files"] for c in theirs] == [files, files // 2]
    cold = {"files": files // 2, "manifests": 1, "storage_requests": 2}
    assert few == many == cold
    assert again == {**cold, "storage_requests": 0}
    ours = list(contenders(document, "iceberg", 1).values())[-1]["counts"]
    assert ours == {"files": 6, "manifests": 2, "storage_requests": 3}
