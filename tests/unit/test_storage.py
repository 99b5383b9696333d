from __future__ import annotations

import os

import fsspec
import pytest

from splitlib import ConnectorNotInstalled, MissingPartition
from splitlib.storage import Storage, file_batch, local_path


def test_only_data_files_and_only_here(tmp_path):
    for name in ("b", "a", "_SUCCESS", ".a.crc", "_k=1", "x._COPYING_", "trailing."):
        (tmp_path / name).write_bytes(b"12345")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c").write_bytes(b"")
    os.utime(tmp_path / "a", (1_000, 1_000.5))
    files = Storage().files(f"file:{tmp_path}")
    assert [os.path.basename(f.path) for f in files] == ["_k=1", "a", "b", "trailing."]
    assert files[1].path == str(tmp_path / "a")
    assert (files[1].size, files[1].modified) == (5, 1_000_500)
    assert Storage().directories(str(tmp_path)) == ["sub"]


@pytest.mark.parametrize(
    "name", ["a b", "x%20y", "é", "k=a%2Fb", "[q]", "{w}", "#", "a?b", "'", "."]
)
def test_names_are_never_decoded(tmp_path, name):
    directory = tmp_path / f"d{name}"
    directory.mkdir()
    (directory / f"f{name}").write_bytes(b"x")
    assert [f.path for f in Storage().files(f"file://{directory}")] == [str(directory / f"f{name}")]


def test_a_missing_directory(tmp_path):
    with pytest.raises(MissingPartition, match="nowhere"):
        Storage().files(str(tmp_path / "nowhere"))


def test_an_unreadable_directory_is_an_error_and_not_empty(tmp_path):
    (tmp_path / "file").write_text("no directory")
    assert Storage().files(str(tmp_path / "file")) == []  # Spark finds nothing there either


def test_listings_are_never_remembered():
    memory = fsspec.filesystem("memory")
    memory.pipe("/table/k=1/a", b"1")
    storage = Storage()
    assert len(storage.files("memory://table/k=1")) == 1
    memory.pipe("/table/k=1/b", b"1")
    assert [f.path for f in storage.files("memory://table/k=1")] == [
        "memory://table/k=1/a",
        "memory://table/k=1/b",
    ]


def test_an_unknown_protocol():
    with pytest.raises(ConnectorNotInstalled, match="nosuch"):
        Storage().files("nosuch://bucket/a")


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
