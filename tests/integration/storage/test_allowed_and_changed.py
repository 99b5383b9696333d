"""``allowed_locations`` and ``verify_files`` with tables on S3. The test server counts requests."""

from __future__ import annotations

import dataclasses
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import splitlib
from splitlib import DynamicFileEnumerator, FileChanged, LocationNotAllowed, MissingFile
from splitlib.reading.reader import read_split
from splitlib.storage import Storage, only_within
from tests.support.s3_server import S3Server

SCHEMA = pa.schema([("v", pa.int64())])


def parquet(value: int) -> bytes:
    written = io.BytesIO()
    pq.write_table(pa.table({"v": [value]}, SCHEMA), written)
    return written.getvalue()


@pytest.fixture(scope="module")
def bucket(s3: S3Server) -> S3Server:
    objects = {f"{table}/k={k}/f.parquet": parquet(k) for table in ("t", "t2") for k in range(3)}
    s3.fill("walled", objects)
    return s3


def opened(bucket: S3Server, location: str, *allowed: str) -> splitlib.Table:
    config = splitlib.SplitConfig(allowed_locations=allowed or None)
    return splitlib.load_table(location, "files", config=config, storage_options=bucket.options)


def test_nothing_is_asked_of_a_place_outside(bucket: S3Server) -> None:
    with opened(bucket, "s3a://walled/t", "s3://walled/t") as table:
        assert len(splitlib.paths(table)) == 3
    bucket.forget()
    for location in ("s3a://walled/t2", "s3://walled/t/../t2", "s3://walled"):
        with pytest.raises(LocationNotAllowed):
            opened(bucket, location, "s3://walled/t")
    assert (len(bucket.listings), bucket.others) == (0, 0)


def test_what_lies_between_is_not_told(bucket: S3Server) -> None:
    """One request may list two directories only if all locations between them are allowed."""
    places = [f"s3://walled/t/k={k}" for k in (0, 2)]
    storage = Storage(bucket.options)
    for allowed, listings in ((["s3://walled/t"], 1), (places, 2)):
        bucket.forget()
        with only_within(allowed):
            files, _ = storage.list_files(places)
        assert (len(files), len(bucket.listings)) == (2, listings)


@pytest.mark.parametrize("other", ["s3://walled/t2/k=1", "s3://walled/t/k=1/../../t2/k=1"])
def test_a_directory_outside_is_not_listed_with_others(bucket: S3Server, other: str) -> None:
    storage = Storage(bucket.options)
    bucket.forget()
    with only_within(["s3://walled/t"]), pytest.raises(LocationNotAllowed):
        storage.list_files(["s3://walled/t/k=0", other])
    assert all(listing["prefix"].startswith("t/k=0") for listing in bucket.listings)


def test_files_written_again_and_gone(bucket: S3Server) -> None:
    with opened(bucket, "s3://walled/t") as table:
        first, *_ = DynamicFileEnumerator(table).enumerate_splits()
    storage = Storage(bucket.options)
    assert [b.to_pydict() for b in read_split(first, SCHEMA, storage, verify=True)] == [{"v": [0]}]
    earlier = dataclasses.replace(first, modified=first.modified - 60_000)
    assert len(list(read_split(earlier, SCHEMA, storage))) == 1
    with pytest.raises(FileChanged, match="modification time"):
        list(read_split(earlier, SCHEMA, storage, verify=True))
    shorter = dataclasses.replace(first, file_size=first.file_size - 1)
    with pytest.raises(FileChanged, match="size was"):
        list(read_split(shorter, SCHEMA, storage))
    gone = dataclasses.replace(first, path=f"{first.path}.gone")
    for verify in (False, True):
        with pytest.raises(MissingFile, match="was deleted after"):
            list(read_split(gone, SCHEMA, storage, verify=verify))
