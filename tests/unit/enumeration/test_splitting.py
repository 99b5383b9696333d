from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitlib import ReadFormat
from splitlib.enumeration.splitting import byte_ranges, can_split, file_id, split_id

COMPRESSED = (".gz", ".bz2", ".zst", ".snappy", ".lz4", ".deflate", ".xz", ".zip", ".lzo")


@given(st.integers(0, 10**6), st.integers(1, 10**5))
def test_ranges_cover_every_byte_once(size, target):
    end = 0
    for start, length in byte_ranges(size, target):
        assert start == end
        assert 0 < length <= target * 1.1
        end += length
    assert end == size


@pytest.mark.parametrize(
    ("name", "path", "options", "splits"),
    [
        ("parquet", "a.parquet", {}, True),
        ("parquet", "a.gz.parquet", {}, True),
        ("orc", "a", {}, True),
        ("csv", "a.csv", {}, True),
        ("csv", "a.csv.GZ", {}, False),
        ("json", "a.json", {"multiLine": "true"}, False),
        ("csv", "a.csv", {"MULTILINE": "TRUE"}, False),
        ("text", "a", {"wholetext": "true"}, False),
        ("text", "a", {"wholeText": "false"}, True),
        ("hive-text", "000000_0", {}, True),
        ("hive-text", "000000_0.snappy", {}, False),
        ("unheard-of", "a", {}, False),
        *((name, "a", {}, True) for name in ("avro", "hive-csv", "json", "text")),
        *(("text", f"a{suffix}", {}, False) for suffix in COMPRESSED),
    ],
)
def test_what_can_be_split(name, path, options, splits):
    assert can_split(ReadFormat.of(name, options), path) is splits


def test_ids_differ_by_partition_and_range():
    ids = {split_id("p", "k=1", 0, 9), split_id("p", "k=2", 0, 9), split_id("p", "k=1", 9, 9)}
    assert len(ids) == 3
    assert split_id("p", "k=1", 0, 9) in ids


def test_ids_are_those_in_stored_checkpoints():
    """Another id would make a restored coordinator read a file again. Ids ignore logins."""
    for path in ("s3://b/x", "s3://me:pw@b/x"):
        assert file_id(path, "k=1").hex() == "f581fb86b338f3745f6f923ca65339b4"
        assert file_id(path, "k=1", 2).hex() == "684b024c44a877a7e7ca97286803e8f4"
        assert split_id(path, "k=1", 0, 9) == "234850a2e2e7719f7301312902e8467c"
        assert split_id(path, "k=1", 0, 9, 2) == "9a3691fe6ec8d0a6f239219348e816ac"
