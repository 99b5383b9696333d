"""Stores with wrong listings: no rows are lost or doubled without an error."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

import splitlib
from splitlib import DynamicFileEnumerator, SourceUnavailable, SplitConfig
from splitlib.storage import Storage
from tests.support import hostile_s3
from tests.support.hostile_s3 import EMPTY_RESULT, ERROR, HTML, HostileS3

KEYS = {f"t/k={k:02}/{n}": 10 for k in range(12) for n in "abc"}
# obstore has no such option, so that s3fs lists
LISTERS = pytest.mark.parametrize("more", [{}, {"version_aware": False}], ids=["obstore", "s3fs"])


@pytest.fixture(autouse=True)
def once(monkeypatch):
    """Disable retries, because the response is the same each time."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr("s3fs.S3FileSystem.retries", 1)


@pytest.fixture
def server():
    with HostileS3(KEYS).running() as running:
        yield running


def files_of(server, more):
    table = splitlib.load_table(
        "s3://b/t",
        "files",
        partition_schema="k string",
        schema="a int",
        storage_options=server.options | more,
    )
    enumerator = DynamicFileEnumerator(table, SplitConfig(retry_attempts=1))
    with table:
        return [split.path.removeprefix("s3://b/") for split in enumerator.enumerate_splits()]


@LISTERS
def test_an_honest_store(server, more):
    assert files_of(server, more) == list(KEYS)


@LISTERS
@pytest.mark.parametrize("body", [ERROR, HTML, EMPTY_RESULT], ids=["error", "html", "empty"])
def test_what_is_no_listing_is_not_an_empty_one(server, more, body):
    storage = Storage(server.options | more)
    assert storage.files("s3://b/t/k=00")
    server.answer = hostile_s3.always(body)
    # without directories, an empty listing does not mean that the partition is missing
    with pytest.raises((SourceUnavailable, OSError)):
        storage.list_files(["s3://b/t/k=01", "s3://b/t/k=02"])
    with pytest.raises((SourceUnavailable, OSError)):
        storage.list_files(["s3://b/t/k=03"])


@pytest.mark.parametrize("body", [ERROR, HTML, EMPTY_RESULT], ids=["error", "html", "empty"])
def test_a_page_that_is_no_listing(server, body):
    server.answer = hostile_s3.in_pages(body)
    with pytest.raises(SourceUnavailable):
        files_of(server, {})


@LISTERS
def test_a_listing_that_goes_on_without_saying_where(server, more):
    server.page, server.answer = 5, hostile_s3.without_token
    with pytest.raises(splitlib.SourceError, match="without a token"):
        files_of(server, more)


@LISTERS
def test_names_that_are_listed_twice_count_once(server, more):
    server.answer = hostile_s3.twice
    assert files_of(server, more) == list(KEYS)


@LISTERS
def test_pages_that_are_shorter_than_those_of_s3(server, more):
    server.page = 5
    assert files_of(server, more) == list(KEYS)
    server.answer = hostile_s3.later(ERROR)
    with pytest.raises(SourceUnavailable):
        files_of(server, more)


@LISTERS
def test_markers_of_directories_that_hold_something(more):
    with HostileS3(KEYS | {"t/": 5, "t/k=00/": 7, "t/k=03/": 7}).running() as server:
        assert files_of(server, more) == list(KEYS)


@LISTERS
def test_a_directory_without_anything_is_empty(server, more):
    files, _ = Storage(server.options | more).list_files(["s3://b/t/k=99"])
    assert files.num_rows == 0


@LISTERS
@pytest.mark.parametrize("body", [HTML, EMPTY_RESULT], ids=["html", "empty"])
def test_a_later_page_of_many_directories(more, body):
    with HostileS3({f"t/k={k:04}/a": 1 for k in range(1500)}).running() as server:
        server.answer = hostile_s3.later(body)
        with pytest.raises(SourceUnavailable, match="left out"):
            Storage(server.options | more).level("s3://b/t")


FORK = """
    import os, sys
    from splitlib.storage import Storage

    storage = Storage(eval(sys.argv[1]))
    assert len(storage.directories("s3://b/t")) == 12
    if (child := os.fork()) == 0:
        os._exit(0 if len(storage.directories("s3://b/t")) == 12 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(storage.directories("s3://b/t")) == 12
    print("done")
"""


@LISTERS
def test_a_forked_process_lists_anew(server, more):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(FORK), repr(server.options | more)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=dict(os.environ),
    )
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
