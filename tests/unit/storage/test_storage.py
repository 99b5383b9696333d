from __future__ import annotations

import os
import sys

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from splitlib import (
    ConfigError,
    ConnectorNotInstalled,
    CorruptMetadata,
    MissingPartition,
    SourceError,
    SourceUnavailable,
)
from splitlib.storage import OptionsByProtocol, Storage, file_batch, local_path
from splitlib.storage.filesystems import level_of


def test_only_data_files_and_only_here(tmp_path):
    for name in ("b", "a", "_SUCCESS", ".a.crc", "_k=1", "x._COPYING_", "trailing."):
        (tmp_path / name).write_bytes(b"12345")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c").write_bytes(b"")
    os.utime(tmp_path / "a", (1_000, 1_000.5))
    files = Storage().level(f"file:{tmp_path}").files
    assert [os.path.basename(f.path) for f in files] == ["_k=1", "a", "b", "trailing."]
    assert files[1].path == str(tmp_path / "a")
    assert (files[1].size, files[1].modified) == (5, 1_000_500)
    assert Storage().level(str(tmp_path), retries=True).directories == ["sub"]


@pytest.mark.parametrize(
    "name", ["a b", "x%20y", "é", "k=a%2Fb", "[q]", "{w}", "#", "a?b", "'", "."]
)
def test_names_are_never_decoded(tmp_path, name):
    directory = tmp_path / f"d{name}"
    directory.mkdir()
    (directory / f"f{name}").write_bytes(b"x")
    assert [f.path for f in Storage().level(f"file://{directory}").files] == [
        str(directory / f"f{name}")
    ]


def test_a_missing_directory(tmp_path):
    with pytest.raises(MissingPartition, match="nowhere"):
        Storage().level(str(tmp_path / "nowhere"))


def test_a_file_is_no_directory(tmp_path):
    """Spark reads the file if it is the location of a table."""
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(SourceError, match="is a file"):
        Storage().level(str(tmp_path / "file"))


def test_listings_are_never_remembered():
    memory = fsspec.filesystem("memory")
    memory.pipe("/table/k=1/a", b"1")
    storage = Storage()
    assert len(storage.level("memory://table/k=1").files) == 1
    memory.pipe("/table/k=1/b", b"1")
    assert [f.path for f in storage.level("memory://table/k=1").files] == [
        "memory://table/k=1/a",
        "memory://table/k=1/b",
    ]


class Mixed(MemoryFileSystem):  # type: ignore[misc]  # fsspec is not typed
    """A filesystem that lists another directory than the requested one."""

    protocol = "mixed"
    instead: str

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix("mixed://"))

    def ls(self, path, **options):
        return super().ls(self.instead, **options)


@pytest.mark.parametrize(
    ("asked", "instead", "noticed"),
    [
        ("k=1", "k=2", True),
        ("k=1", "", True),
        ("k=1", "k=1/a", True),
        ("k=1", "other/k=1", True),
        ("", "k=1", True),
        ("k=1", "k=1", False),
    ],
)
@pytest.mark.parametrize("what", ["files", "directories"])
def test_the_listing_of_another_directory_is_refused(monkeypatch, asked, instead, noticed, what):
    fsspec.register_implementation("mixed", Mixed, clobber=True)
    memory = fsspec.filesystem("memory")
    kept, other = ("file", "below/file") if what == "files" else ("below/file", "file")
    # The listing of the other directory has none of the requested entries.
    memory.pipe("/mixed/table/k=1/" + kept, b"1")
    for directory in ("k=1/a", "k=2", "other/k=1"):
        memory.pipe(f"/mixed/table/{directory}/{other}", b"1")
    monkeypatch.setattr(Mixed, "instead", f"/mixed/table/{instead}".rstrip("/"), raising=False)
    if noticed:
        with pytest.raises(SourceUnavailable, match="instead of"):
            Storage().level(f"mixed:///mixed/table/{asked}".rstrip("/"))
    else:
        assert getattr(Storage().level(f"mixed:///mixed/table/{asked}"), what)


def test_what_stands_before_a_path_may_differ(monkeypatch):
    fsspec.register_implementation("mixed", Mixed, clobber=True)
    fsspec.filesystem("memory").pipe("/long/way/table/k=1/file", b"1")
    monkeypatch.setattr(Mixed, "instead", "/long/way/table/k=1", raising=False)
    (found,) = Storage().level("mixed:///table/k=1").files
    assert found.path == "mixed:///table/k=1/file"


def test_an_unknown_protocol():
    with pytest.raises(ConnectorNotInstalled, match="nosuch"):
        Storage().level("nosuch://bucket/a")


class Strict(MemoryFileSystem):  # type: ignore[misc]  # fsspec is not typed
    """Rejects its options like adlfs, with a ValueError."""

    protocol = "strict"

    def __init__(self, **options: object) -> None:
        raise ValueError("Must provide account_name")


def test_wrong_options_are_no_missing_package():
    fsspec.register_implementation("strict", Strict, clobber=True)
    with pytest.raises(ConfigError, match=r"options .* are wrong: .*Must provide"):
        Storage({"account_key": "k"}).filesystem("strict://lake/t")


@pytest.mark.parametrize("scheme", ["oss", "oci", "lakefs", "tos", "dbfs", "hdfs", "ofs", "adl"])
def test_other_schemes_are_listed_by_the_session(scheme):
    session = fsspec.filesystem("memory")
    storage = Storage(OptionsByProtocol({}, filesystem=session))
    assert storage.filesystem(f"{scheme}://b/t") == (session, f"{scheme}://b/t")


@pytest.mark.parametrize("location", ["/t", "file:/t", "memory://t", "mixed://t", "s3://b/t"])
def test_some_schemes_are_never_listed_by_the_session(location):
    fsspec.register_implementation("mixed", Mixed, clobber=True)
    session = object()
    storage = Storage(OptionsByProtocol({"s3": {"anon": True}}, filesystem=session))
    assert storage.filesystem(location)[0] is not session


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("file:/a b", "/a b"),
        ("file:///a%20b", "/a%20b"),
        ("FILE:/a", "/a"),
        ("/a", "/a"),
        ("s3a://b/k", "s3a://b/k"),
    ],
)
def test_local_paths(location, path):
    assert local_path(location) == path


def test_an_empty_batch_has_the_columns():
    assert file_batch([]).schema.names == ["path", "size", "modified", "partition"]


def test_links_are_followed_and_those_that_lead_nowhere_left_out(tmp_path):
    (tmp_path / "far" / "k=2").mkdir(parents=True)
    (tmp_path / "far" / "data").write_bytes(b"12345")
    os.utime(tmp_path / "far" / "data", (1_000, 1_000))
    here = tmp_path / "here"
    here.mkdir()
    (here / "linked").symlink_to(tmp_path / "far" / "data")
    (here / "twice").symlink_to(here / "linked")
    (here / "k=2").symlink_to(tmp_path / "far" / "k=2")
    (here / "nowhere").symlink_to(tmp_path / "gone")
    (here / "itself").symlink_to(here / "itself")
    (here / "_hidden").symlink_to(tmp_path / "far" / "data")
    (tmp_path / "link").symlink_to(here)
    for location in (str(here), f"file:{here}", str(tmp_path / "link")):
        files = Storage().level(location).files
        assert [os.path.basename(f.path) for f in files] == ["linked", "twice"]
        assert {(f.size, f.modified) for f in files} == {(5, 1_000_000)}
        assert Storage().level(location, retries=True).directories == ["k=2"]


@pytest.mark.parametrize("target", ["..", "../..", "."])
def test_a_link_that_leads_back_is_an_error(tmp_path, target):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "back").symlink_to(target)
    with pytest.raises(SourceError, match=r"a/b/back.*leads back"):
        Storage().files_below(str(tmp_path))


def test_two_links_that_lead_to_each_other_are_an_error(tmp_path):
    for name, other in (("a", "b"), ("b", "a")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "over").symlink_to(tmp_path / other)
    with pytest.raises(SourceError, match=r"over.*leads back"):
        Storage().files_below(str(tmp_path))


def test_a_directory_that_two_links_lead_to_is_listed_twice(tmp_path):
    """If two links lead to a directory, its files are listed twice. Spark does the same.

    Two such links are not a cycle.
    """
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "data").write_bytes(b"1")
    (tmp_path / "root").mkdir()
    for name in ("a", "b"):
        (tmp_path / "root" / name).symlink_to(tmp_path / "far")
    found, _ = Storage().files_below(str(tmp_path / "root"))
    assert [os.path.relpath(f.path, tmp_path / "root") for f in found] == ["a/data", "b/data"]


def test_directories_deeper_than_pythons_stack(tmp_path, monkeypatch):
    deep = 400
    monkeypatch.chdir(tmp_path)
    for _ in range(deep):  # the whole path is too long for one system call
        os.mkdir("d")
        os.chdir("d")
    with open("data", "wb") as file:
        file.write(b"1")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(300)
    try:
        found, listings = Storage().files_below(str(tmp_path))
    finally:
        sys.setrecursionlimit(limit)
    assert (len(found), listings) == (1, deep + 1)


@pytest.mark.parametrize("location", ["", None, "file:", "file://host", "/a\0b", "s3://b/a\0b"])
def test_no_location_is_not_the_working_directory(location):
    with pytest.raises(CorruptMetadata, match="not a location"):
        Storage().level(location)


def test_a_directory_that_is_told_twice_is_one():
    class Marked:
        def _strip_protocol(self, path):
            return path

        # adlfs lists a directory twice, for its contents and for its marker object.
        def ls(self, path, detail):
            names = ("lake/t/k=1", "lake/t/k=2", "lake/t/k=1")
            return [{"name": name, "type": "directory", "size": None} for name in names]

    assert level_of(Marked(), "lake/t", "abfss://lake/t").directories == ["k=1", "k=2"]
