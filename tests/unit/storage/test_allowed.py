from __future__ import annotations

import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitlib import LocationNotAllowed
from splitlib.remote.calls import Workers
from splitlib.storage import (
    AllowedLocations,
    Storage,
    is_restricted,
    only_within,
    refuse_outside,
)

NAMES = st.text("ab%2=.é ", min_size=1, max_size=4).filter(lambda name: name not in (".", ".."))
PATHS = st.lists(NAMES, min_size=1, max_size=3)
ROOTS = st.sampled_from(["s3://bucket", "gs://bucket", "hdfs://name:9000", "memory://", "/nowhere"])


def is_allowed(location: str, *prefixes: str) -> bool:
    try:
        AllowedLocations(prefixes).refuse_outside([location])
    except LocationNotAllowed:
        return False
    return True


def spelled(root: str, names: list[str]) -> str:
    return "/".join([root, *names])


@given(ROOTS, PATHS, PATHS)
def test_what_is_below_is_inside(root, above, below):
    prefix = spelled(root, above)
    assert is_allowed(spelled(prefix, below), prefix)
    assert is_allowed(prefix, f"{prefix}/")
    assert is_allowed(f"{prefix}/", prefix)


@given(ROOTS, PATHS, PATHS)
def test_what_is_not_below_is_outside(root, one, other):
    inside = other[: len(one)] == one
    assert is_allowed(spelled(root, other), spelled(root, one)) is inside


@given(ROOTS, PATHS, NAMES)
def test_names_are_compared_whole(root, path, more):
    prefix = spelled(root, path)
    assert not is_allowed(prefix + more, prefix)


@given(ROOTS, PATHS, PATHS, st.integers(1, 6))
def test_nothing_climbs_out(root, above, below, ups):
    location = spelled(root, [*above, *below, *[".."] * ups, "x"])
    left = max(0, len(above) + len(below) - ups)
    climbed = [*[*above, *below][:left], "x"]
    assert is_allowed(location, spelled(root, above)) is (climbed[: len(above)] == above)


@given(ROOTS, ROOTS, PATHS)
def test_another_root_is_outside(one, other, path):
    assert is_allowed(spelled(one, path), spelled(other, path)) is (one == other)


@given(ROOTS, st.lists(PATHS, max_size=8), PATHS)
def test_many_files_as_each_by_itself(root, files, prefix):
    paths = [spelled(root, names) for names in files]
    allowed = [spelled(root, prefix)]
    outside = [path for path in paths if not is_allowed(path, *allowed)]
    if not outside:
        AllowedLocations(allowed).refuse_outside(paths)
        return
    with pytest.raises(LocationNotAllowed) as caught:
        AllowedLocations(allowed).refuse_outside(paths)
    assert repr(outside[0]) in str(caught.value)


@pytest.mark.parametrize(
    ("location", "prefix"),
    [
        ("s3a://b/warehouse/t", "s3://b/warehouse"),
        ("s3n://b/warehouse", "s3a://b/warehouse/"),
        ("S3://b/warehouse", "s3://b/warehouse"),
        ("s3://b/anything", "s3://b"),
        ("s3://b", "s3://b/"),
        ("gcs://b/t", "gs://b"),
        ("abfss://c@account.dfs.core.windows.net/t", "wasb://c@Account.blob.core.windows.net/"),
        ("hdfs://NameNode:8020/t", "hdfs://namenode/t"),
        ("hdfs:/t/x", "hdfs:///t"),
        ("file:/data/t", "/data"),
        ("file:///data/t", "file:/data/"),
        ("file:s3://b/data/x", "s3://b/data"),
        ("/data//t", "file:///data"),
        ("/data/./t", "/data"),
        ("/other/../data/t", "/data"),
        ("local:///data/t", "/data"),
        ("s3://b/warehouse/a/../t", "s3://b/warehouse"),
        ("ftp://me:flamingo9@host/t", "ftp://host/t"),
    ],
)
def test_spellings_of_one_place(location, prefix):
    assert is_allowed(location, prefix)


@pytest.mark.parametrize(
    ("location", "prefix"),
    [
        ("s3://b/warehouse2", "s3://b/warehouse"),
        ("s3://b/warehouse/../x", "s3://b/warehouse"),
        ("s3://b/x/../warehouse/t", "s3://b/warehouse"),  # S3 does not resolve `..` in keys
        ("s3://b//warehouse/t", "s3://b/warehouse"),  # the key begins with a slash
        ("s3://B/warehouse", "s3://b/warehouse"),  # bucket names are case-sensitive
        ("s3://b2/warehouse", "s3://b/warehouse"),
        ("s3://b/ware%68ouse", "s3://b/warehouse"),
        ("s3://b/warehouse%2F..%2Fx", "s3://b/warehouse%2F"),
        ("s3://b/", "s3://b/warehouse"),
        ("gs://b/t", "s3://b"),
        ("hdfs://other/t", "hdfs://namenode/t"),
        ("hdfs:///t", "hdfs://namenode/t"),  # splitlib does not know HDFS's default host
        ("abfss://d@account.dfs.core.windows.net/t", "abfss://c@account.dfs.core.windows.net/"),
        ("memory://A/t", "memory://a"),
        ("simplecache::file:///data", "/data"),
        ("/data/../etc/passwd", "/data"),
        ("file:///data/../etc", "/data"),
        ("/Data/t", "/data"),
        ("/database", "/data"),
        ("s3://b/data", "/"),
        # URI parsers drop control characters and leading blanks.
        ("file:///data/.\n./etc/passwd", "/data"),
        ("file:///data/.\t./etc", "/data"),
        ("/data/x\r", "/data"),
        ("s3://b/warehouse/.\n./x", "s3://b/warehouse"),
        (" s3://b/warehouse/x", "s3://b/warehouse"),
        ("/data/a\x00b", "/data"),
        ("/data/a\x7fb", "/data"),
        # Some parsers drop the part after ? or #.
        ("file:///etc/passwd?/../../data/x", "/data"),
        ("file:///etc/passwd#/../../data/x", "/data"),
        ("s3://b/x?/../warehouse/t", "s3://b/warehouse"),
        # Some clients use the host of a file URI as a directory.
        ("file://../../etc/../data/x", "/data"),
    ],
)
def test_other_places(location, prefix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a relative path depends on the current directory
    assert not is_allowed(location, prefix)


def test_blanks_within_are_names(tmp_path):
    """Blanks within a path are allowed, because Hive keeps trailing blanks in directory names."""
    assert is_allowed("s3://b/warehouse/p=a /f", "s3://b/warehouse")
    assert is_allowed("file:/data/p=a /b c", "/data")
    assert is_allowed("/data/p=a?b#c;d/f", "/data")
    assert is_allowed("/data?x/f", "/data?x")


@pytest.mark.parametrize("name", [".\n./f", "..\t", "f\n", "f?x"])
def test_names_of_files_are_looked_at(name):
    """Each file name is checked, even after other files in the same directory were allowed."""
    allowed = AllowedLocations(["s3://b/x"])
    allowed.refuse_outside(["s3://b/x/d/one", "s3://b/x/d/f?x"])
    if name != "f?x":
        with pytest.raises(LocationNotAllowed):
            allowed.refuse_outside(["s3://b/x/d/one", f"s3://b/x/d/{name}"])


@pytest.mark.parametrize("root", ["/", "file:/", "file:///"])
def test_the_root_is_no_relative_path(root, tmp_path, monkeypatch):
    """Two locations in the root do not have the current directory in common."""
    monkeypatch.chdir(tmp_path)
    allowed = AllowedLocations([str(tmp_path), "/one"])
    allowed.refuse_outside([f"{root}one"])
    with pytest.raises(LocationNotAllowed, match="two"):
        allowed.refuse_outside([f"{root}one", f"{root}two"])


def test_links_are_followed(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for directory in (inside, outside):
        directory.mkdir()
        (directory / "f").touch()
    (inside / "away").symlink_to(outside)
    (inside / "file").symlink_to(outside / "f")
    (outside / "back").symlink_to(inside)
    (tmp_path / "name").symlink_to(inside)
    assert not is_allowed(f"{inside}/away", str(inside))
    assert not is_allowed(f"file:{inside}/away/f", str(inside))
    assert is_allowed(f"{outside}/back/f", str(inside))
    # For `..` after a link, the OS uses the parent of the link's target, and Hadoop the parent of
    # the link.
    assert not is_allowed(f"{outside}/back/../inside/f", str(inside))
    assert is_allowed(f"{inside}/f", str(tmp_path / "name"))
    with pytest.raises(LocationNotAllowed, match="file'"):
        AllowedLocations([str(inside)]).refuse_outside([f"{inside}/f", f"{inside}/file"])


@pytest.mark.parametrize("start", ["", "file:", "file://", "FILE:", "local://", "file://host", "~"])
def test_linked_files_are_followed_however_they_are_spelled(start, tmp_path, monkeypatch):
    """A file is checked by itself if it is a link, though its directory is allowed."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inside").mkdir()
    (tmp_path / "outside").touch()
    (tmp_path / "inside" / "link").symlink_to(tmp_path / "outside")
    prefixes = [str(tmp_path / "inside"), f"host{tmp_path}"]
    directory = f"{start}/inside" if start == "~" else f"{start}{tmp_path}/inside"
    AllowedLocations(prefixes).refuse_outside([f"{directory}/f", f"{directory}/g"])
    with pytest.raises(LocationNotAllowed, match="link' is outside"):
        AllowedLocations(prefixes).refuse_outside([f"{directory}/f", f"{directory}/link"])


def test_the_error_says_what_is_allowed():
    with pytest.raises(LocationNotAllowed) as caught:
        AllowedLocations(["s3://b/x", "/data"]).refuse_outside(["s3://b/x/1", "s3://b/y"])
    assert "'s3://b/y' is outside of allowed_locations. Hint: allowed: s3://b/x, /data." in str(
        caught.value
    )
    assert isinstance(caught.value, PermissionError)
    with pytest.raises(LocationNotAllowed, match="allowed: none"):
        AllowedLocations([]).refuse_outside(["/data"])


def test_what_is_in_force_only_gets_narrower():
    refuse_outside(["/anywhere"])
    with only_within(None):
        assert not is_restricted()
    with only_within(["/data"]), only_within(["/data/a", "/other"]), only_within(None):
        assert is_restricted()
        refuse_outside(["/data/a/t"])
        for outside in ("/data/b", "/other"):
            with pytest.raises(LocationNotAllowed):
                refuse_outside([outside])
            with pytest.raises(LocationNotAllowed):
                refuse_outside([f"{outside}/f"])
    assert not is_restricted()


def test_threads_of_workers_take_it_over():
    with only_within(["/data"]), Workers(2, "test") as pool:
        assert list(pool.map(lambda _: is_restricted(), range(4))) == [True] * 4
        seen = []
        other = threading.Thread(target=lambda: seen.append(is_restricted()))
        other.start()
        other.join()
        assert seen == [False]
    with Workers(1, "test") as pool:
        assert list(pool.map(lambda _: is_restricted(), range(1))) == [False]


def test_a_storage_asks_nothing_outside(tmp_path, monkeypatch):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for directory in (inside, outside):
        directory.mkdir()
        (directory / "f").write_text("x")
    (inside / "away").symlink_to(outside)
    storage = Storage()
    listed = []
    scandir = os.scandir

    def noting(path):
        listed.append(str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", noting)
    with only_within([str(inside)]):
        assert [f.path for f in storage.level(str(inside)).files] == [f"{inside}/f"]
        for ask in (
            lambda: storage.level(str(outside)).files,
            lambda: storage.level(f"{inside}/away", retries=True).directories,
            lambda: storage.files_below(str(inside)),
            lambda: storage.list_files([str(inside), str(outside)]),
            lambda: storage.filesystem(f"{outside}/f"),
        ):
            with pytest.raises(LocationNotAllowed):
                ask()
    assert set(listed) == {str(inside)}
