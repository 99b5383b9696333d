"""Listings that return the files of adjacent directories in pages, from a store in memory."""

from __future__ import annotations

import fsspec
import hypothesis.strategies as st
import obstore
import obstore.exceptions
import pyarrow as pa
import pytest
from hypothesis import given, settings
from obstore.store import MemoryStore

import splitlib
from splitlib import (
    CorruptMetadata,
    DynamicFileEnumerator,
    DynamicFilteringData,
    MissingPartition,
    SourceUnavailable,
    SplitConfig,
)
from splitlib.errors import UnsupportedTable
from splitlib.hive.partition_files import REF, PartitionFiles
from splitlib.model import ReadFormat
from splitlib.storage import S3Settings, Storage, is_data, pages
from splitlib.storage import storage as storage_module
from splitlib.storage.pages import FILES_PER_PAGE, NotInOrder, PagedListing

PAGE = 4

# Names with characters that sort before and after the slash, and hidden names.
_NAMES = st.sampled_from(
    ["a", "b", "a-1", "a.", "a0", "_x", ".x", "_k=1", "k=1", "k=%2F", "é", "ÿ"]
)
_KEYS = st.lists(_NAMES, min_size=2, max_size=4).map("/".join)


OPTIONS = {"key": "k", "secret": "s"}


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    monkeypatch.setattr(pages, "FILES_PER_PAGE", PAGE)
    # The store in memory has no server that could confirm the end of a listing.
    monkeypatch.setattr(storage_module, "confirm_end", lambda *_: None)


def store(patch: pytest.MonkeyPatch, keys: dict[str, bytes]) -> None:
    """Replace every bucket with a store in memory that contains the given keys."""
    kept = MemoryStore()
    for key, content in keys.items():
        kept.put(key, content)
    patch.setattr("obstore.store.S3Store", lambda *_, **__: kept)


def pages_of(prefixes: list[str]) -> list[pa.RecordBatch]:
    """List directories until all are complete, and return the pages."""
    listing, found = PagedListing("s3", S3Settings.from_fsspec(OPTIONS).stores()), []
    while prefixes:
        pages, complete = listing.first_pages("lake", prefixes, below=False)
        found += pages
        prefixes = prefixes[complete:]
    return found


def wanted(keys: dict[str, bytes], directories: list[str], *, below: bool) -> set[tuple[str, int]]:
    found = set()
    for row, directory in enumerate(directories):
        for key, content in keys.items():
            names = key.removeprefix(f"{directory}/").split("/")
            inside = key.startswith(f"{directory}/") and (below or len(names) == 1)
            if inside and content and all(map(is_data, names)):
                found.add((f"s3a://lake/{key}", row))
    return found


@given(
    keys=st.dictionaries(_KEYS, st.sampled_from([b"x", b"x", b"x", b""]), max_size=40),
    directories=st.lists(
        st.lists(_NAMES, min_size=1, max_size=3).map("/".join), min_size=2, max_size=8
    ),
    below=st.booleans(),
)
@settings(max_examples=3 * settings().max_examples, deadline=None)
def test_every_file_of_every_directory_once(keys, directories, below):
    # In a table, no key is both a file and a directory.
    keys = {k: v for k, v in keys.items() if not any(o.startswith(f"{k}/") for o in keys)}
    with pytest.MonkeyPatch.context() as patch:
        store(patch, keys)
        locations = [f"s3a://lake/{directory}/" for directory in directories]
        files, requests = Storage(OPTIONS).list_files(locations, below=below)
    found = list(zip(files["path"].to_pylist(), files["partition"].to_pylist(), strict=True))
    assert len(found) == len(set(found))
    assert set(found) == wanted(keys, directories, below=below)
    assert requests >= 1


@given(
    keys=st.dictionaries(_KEYS, st.sampled_from([b"x", b"x", b""]), max_size=40),
    directories=st.lists(
        st.lists(_NAMES, min_size=1, max_size=3).map("/".join), min_size=1, max_size=8
    ),
    below=st.booleans(),
)
@settings(max_examples=3 * settings().max_examples, deadline=None)
def test_request_by_request_the_same_files(keys, directories, below):
    keys = {k: v for k, v in keys.items() if not any(o.startswith(f"{k}/") for o in keys)}
    locations = [f"s3a://lake/{directory}/" for directory in directories]
    found: list[tuple[str, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        store(patch, keys)
        storage, first = Storage(OPTIONS), 0
        while first < len(locations):
            files, _, listed = storage.list_first(locations[first:], below=below)
            rows = files["partition"].to_pylist()
            assert all(row < listed for row in rows)
            found += zip(files["path"].to_pylist(), (first + row for row in rows), strict=True)
            first += listed
    assert len(found) == len(set(found))
    assert set(found) == wanted(keys, directories, below=below)


@given(
    files=st.lists(st.integers(0, 9), min_size=1, max_size=40),
    which=st.sets(st.integers(0, 39)),
    page=st.integers(1, 12),
    threads=st.integers(1, 3),
)
@settings(max_examples=2 * settings().max_examples, deadline=None)
def test_enumerations_have_every_file_of_what_matches(files, which, page, threads):
    keys = {
        f"t/k={k:02}/{n}{'' if n % 4 else '/below'}": b"x"
        for k, m in enumerate(files)
        for n in range(m)
    }
    keys |= {f"t/k={k:02}/_marker": b"x" for k in range(len(files))}
    with pytest.MonkeyPatch.context() as patch:
        store(patch, keys)
        for module in (pages, storage_module):
            patch.setattr(module, "FILES_PER_PAGE", page)
        enumerator = DynamicFileEnumerator(
            splitlib.load_table(
                "s3://lake/t",
                "files",
                partition_schema="k string",
                schema="a int",
                storage_options=OPTIONS,
            ),
            SplitConfig(listing_threads=threads),
        )
        wanted = [f"{k:02}" for k in which]
        keyed = pa.table({"k": pa.array(wanted, pa.string())})
        enumerator.set_dynamic_filtering_data(DynamicFilteringData.from_arrow(keyed))
        found = [
            p for one in enumerator.select_files() for p in one.files.files["path"].to_pylist()
        ]
    files_there = [f"s3://lake/{key}" for key in sorted(keys) if "_" not in key]
    assert sorted(found) == [path for path in files_there if path.split("=")[1][:2] in wanted]


def test_how_far_the_first_request_reaches(monkeypatch):
    keys = {f"t/k={k}/{name}": b"x" for k in range(5) for name in "ab"}
    store(monkeypatch, keys)
    directories = [f"s3://lake/t/k={k}" for k in range(5)]

    def first(which):
        files, requests, listed = Storage(OPTIONS).list_first([directories[k] for k in which])
        return files.num_rows, requests, listed

    # If a page ends with a file of a directory, the directory may have more files.
    assert first([0, 1, 2, 3, 4]) == (2, 1, 1)
    assert first([0, 2, 4]) == (2, 1, 1)
    assert first([3, 4]) == (2, 1, 1)
    assert first([4]) == (2, 1, 1)
    monkeypatch.setattr(pages, "FILES_PER_PAGE", 7)
    assert first([0, 1, 2, 3, 4]) == (6, 1, 3)
    assert first([0, 1, 2]) == (6, 1, 3)
    assert first([0, 4]) == (2, 1, 1)
    # Directories are listed in the requested order, even if their keys sort differently.
    assert first([1, 2, 0, 3, 4]) == (4, 1, 2)
    assert first([4, 0, 1]) == (2, 1, 1)
    # The first directory needs three pages, so there are three requests.
    monkeypatch.setattr(pages, "FILES_PER_PAGE", 1)
    assert first([0, 1]) == (2, 3, 1)


@pytest.mark.parametrize("other", ["s3://lake", "s3://lake/", "s3://lake//t", "/t", "file:/t/k=1"])
def test_what_is_no_directory_in_a_bucket_is_listed_alone(monkeypatch, tmp_path, other):
    store(monkeypatch, {"t/k=0/a": b"x", "t/k=1/a": b"x", "root": b"x"})
    files, requests, listed = Storage(OPTIONS).list_first(["s3://lake/t/k=0", other])
    assert (files["path"].to_pylist(), requests, listed) == (["s3://lake/t/k=0/a"], 1, 1)
    if other.startswith("s3://lake") and "//t" not in other:
        assert Storage(OPTIONS).list_first([other, "s3://lake/t/k=0"])[2] == 1


@pytest.mark.parametrize("other", ["", " ", "t"])
def test_no_location_at_all_among_others(monkeypatch, other):
    store(monkeypatch, {"t/k=0/a": b"x"})
    with pytest.raises((CorruptMetadata, MissingPartition)):
        Storage(OPTIONS).list_files(["s3://lake/t/k=0", other])


def test_no_more_pages_than_the_files_fill(monkeypatch):
    keys = {f"t/k={k:03d}/{name}": b"x" for k in range(40) for name in "ab"}
    store(monkeypatch, keys)
    # Every second directory is listed, so half of each page is not needed.
    assert len(pages_of([f"t/k={k:03d}/" for k in range(0, 40, 2)])) == 80 // PAGE
    # If directories are far apart, a page covers only one of them.
    assert len(pages_of([f"t/k={k:03d}/" for k in (3, 17, 30)])) == 3


@pytest.mark.parametrize(
    ("form", "below", "names"),
    [
        (ReadFormat.of("parquet"), False, ["k=0/a", "k=1/b"]),
        (ReadFormat.of("parquet"), True, ["k=0/a", "k=0/s/b", "k=1/b"]),
        (
            ReadFormat.of("parquet", {"recursiveFileLookup": "true"}),
            False,
            ["k=0/a", "k=0/s/b", "k=1/b"],
        ),
    ],
)
def test_files_below_partitions_of_a_hive_table(monkeypatch, form, below, names):
    store(monkeypatch, {f"t/{name}": b"x" for name in ("k=0/a", "k=0/s/b", "k=1/b")})
    partitions = PartitionFiles(Storage(OPTIONS), "s3://lake/t", is_partitioned=True, below=below)
    refs = [partitions.ref(f"s3://lake/t/k={k}", form) for k in range(2)]
    (batch,) = partitions.list_files(pa.array(refs, REF))
    assert (batch.partitions_listed, batch.requests.storage) == (2, 1)
    assert batch.files["path"].to_pylist() == [f"s3://lake/t/{name}" for name in names]


def files_in(monkeypatch, names, form, *, is_partitioned):
    store(monkeypatch, {f"t/{name}": b"x" for name in names})
    files = PartitionFiles(Storage(OPTIONS), "s3://lake/t", is_partitioned=is_partitioned)
    refs = pa.array([files.ref("s3://lake/t", ReadFormat.of(form))], REF)
    (batch,) = files.list_files(refs)
    return batch.files["path"].to_pylist()


@pytest.mark.parametrize("form", ["parquet", "orc", "json"])
def test_directories_that_may_be_partitions(monkeypatch, form):
    """Spark adds partition columns to a table without any if a directory is named like one."""
    with pytest.raises(UnsupportedTable, match=r"'s3://lake/t/x/k=1/b' lies in a subdirectory"):
        files_in(monkeypatch, ["a", "x/k=1/b"], form, is_partitioned=False)
    assert files_in(monkeypatch, ["a", "x/k/b=1"], form, is_partitioned=False) == ["s3://lake/t/a"]
    assert files_in(monkeypatch, ["a", "x/k=1/b"], form, is_partitioned=True) == ["s3://lake/t/a"]


@pytest.mark.parametrize("is_partitioned", [False, True])
def test_files_that_hive_hides(monkeypatch, is_partitioned):
    names = ["_a=b", "_c", ".d", "e_=f"]
    found = files_in(monkeypatch, names, "hive-text", is_partitioned=is_partitioned)
    assert found == ["s3://lake/t/e_=f"]
    found = files_in(monkeypatch, names, "text", is_partitioned=is_partitioned)
    assert found == ["s3://lake/t/_a=b", "s3://lake/t/e_=f"]
    with pytest.raises(UnsupportedTable, match="lies in a directory below its partition"):
        files_in(monkeypatch, ["x/y"], "hive-csv", is_partitioned=is_partitioned)


def test_what_lies_in_a_directory_of_a_directory_is_passed_over(monkeypatch):
    keys = {f"t/k=1/_temporary/{n:03d}": b"x" for n in range(50)}
    keys |= {"t/k=1/z": b"x", "t/k=1/_temporary0": b"x", "t/k=2/z": b"x"}
    store(monkeypatch, keys)
    pages = pages_of(["t/k=1/", "t/k=2/"])
    assert len(pages) == 2
    assert sum(map(len, pages)) == PAGE + 3


def test_keys_out_of_order_are_listed_one_directory_at_a_time(monkeypatch):
    keys = {f"t/k={k}/{name}": b"x" for k in range(3) for name in "abc"}
    store(monkeypatch, keys)
    told = obstore.list

    def backwards(*arguments, **options):
        (page,) = (pa.record_batch(batch) for batch in told(*arguments, **options))
        return iter([page.take(list(range(len(page)))[::-1])])

    monkeypatch.setattr(obstore, "list", backwards)
    monkeypatch.setattr(pages, "FILES_PER_PAGE", 9)
    with pytest.raises(NotInOrder):
        pages_of(["t/k=0/", "t/k=2/"])
    storage = Storage(OPTIONS)
    files, requests = storage.list_files(["s3://lake/t/k=0", "s3://lake/t/k=2"])
    assert (files.num_rows, requests) == (6, 2)
    assert storage.files_per_page("s3://lake/t") == 0


def test_a_bucket_in_another_region_is_left_to_s3fs(monkeypatch):
    store(monkeypatch, {"t/k=1/a": b"x"})
    asked = []

    def redirected(*_, **__):
        asked.append(1)
        raise obstore.exceptions.GenericError("Received redirect without LOCATION")

    monkeypatch.setattr(obstore, "list_with_delimiter", redirected)
    fsspec.filesystem("memory").pipe("/t/k=1/a", b"x")
    monkeypatch.setattr(Storage, "filesystem", lambda *_: (fsspec.filesystem("memory"), "/t/k=1"))
    storage = Storage(OPTIONS)
    for _ in range(2):
        assert [file.path for file in storage.level("s3://lake/t/k=1").files] == [
            "s3://lake/t/k=1/a"
        ]
    assert len(asked) == 1
    assert storage.files_per_page("s3://lake/t") == 0


@pytest.mark.parametrize("together", [False, True])
def test_the_listing_of_another_directory_is_refused(monkeypatch, together):
    store(monkeypatch, {"t/k=1/a": b"x", "t/k=2/a": b"x", "u/k=1/a": b"x", "u/k=2/a": b"x"})
    name = "list" if together else "list_with_delimiter"
    told = getattr(obstore, name)
    monkeypatch.setattr(
        obstore,
        name,
        lambda of, prefix, **more: told(
            of, f"u{prefix[1:]}", **more | {"offset": ""} if together else more
        ),
    )
    with pytest.raises(SourceUnavailable, match="instead of 't"):
        Storage(OPTIONS).list_files([f"s3://lake/t/k={k}" for k in range(1, 2 + together)])


@pytest.mark.parametrize(
    "options",
    [
        {"key": "k", "secret": "s", "endpoint_url": "http://h:1"},
        {"anon": True, "client_kwargs": {"endpoint_url": "http://h:1", "region_name": "r"}},
        {"config_kwargs": {"max_pool_connections": 64, "connect_timeout": 3, "read_timeout": 4}},
        {"config_kwargs": {"s3": {"addressing_style": "virtual"}}, "requester_pays": True},
        {"use_listings_cache": True, "default_block_size": 5},
    ],
)
def test_options_that_both_follow(options):
    assert Storage(options if "anon" in options else OPTIONS | options).files_per_page(
        "s3://lake/t"
    )


@pytest.mark.parametrize(
    "options",
    [
        {"profile": "p"},
        {"session": object()},
        {"client_kwargs": {"verify": False}},
        {"config_kwargs": {"proxies": {"http": "p"}}},
        {"config_kwargs": {"s3": {"use_accelerate_endpoint": True}}},
        {"use_ssl": False},
        {"key": "k"},
        {"s3_additional_kwargs": {"RequestPayer": "requester"}},
    ],
)
def test_an_option_that_obstore_cannot_follow_is_left_to_s3fs(options):
    assert Storage(options).files_per_page("s3://lake/t") == 0


def test_a_store_that_obstore_cannot_create_is_left_to_fsspec(monkeypatch, tmp_path):
    (tmp_path / "account.json").write_text('{"type": "external_account"}')
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
    fsspec.filesystem("memory").pipe("/t/k=1/a", b"x")
    monkeypatch.setattr(Storage, "filesystem", lambda *_: (fsspec.filesystem("memory"), "/t/k=1"))
    level = Storage({"token": "anon"}).level("gs://lake/t/k=1")
    assert [file.path for file in level.files] == ["gs://lake/t/k=1/a"]


def test_where_there_are_no_pages():
    storage = Storage()
    assert storage.files_per_page("s3://lake--use1-az4--x-s3/t") == 0  # directory buckets: unsorted
    assert storage.files_per_page("/lake/t") == 0
    assert storage.files_per_page("gs://lake/t") == 0


def test_without_credentials_s3fs_says_so(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    assert Storage().files_per_page("s3://lake/t") == 0
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    assert Storage().files_per_page("s3://lake/t") > 0


@pytest.mark.parametrize(
    ("version", "page"), [("0.9.3", 0), ("0.9.4", FILES_PER_PAGE), ("1.0", FILES_PER_PAGE)]
)
def test_a_version_that_misses_files_is_not_used(monkeypatch, version, page):
    monkeypatch.setattr(obstore, "__version__", version)
    assert Storage({"anon": True}).files_per_page("s3://lake/t") == page
