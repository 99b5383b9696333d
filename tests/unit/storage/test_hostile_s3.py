"""Wrong listings from an S3 store raise an error. No rows are lost or repeated silently."""

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
# Only s3fs supports ``version_aware``, so with this option splitlib lists with s3fs.
LISTERS = pytest.mark.parametrize("more", [{}, {"version_aware": False}], ids=["pages", "s3fs"])


@pytest.fixture(autouse=True)
def once(monkeypatch):
    """Disable retries, because the server would send the same response again."""
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


def run(script, argument):
    """Run a Python script with an argument in a new process."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), repr(argument)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=dict(os.environ),
    )


@LISTERS
def test_an_honest_store(server, more):
    assert files_of(server, more) == list(KEYS)


@LISTERS
@pytest.mark.parametrize("body", [ERROR, HTML, EMPTY_RESULT], ids=["error", "html", "empty"])
def test_what_is_no_listing_is_not_an_empty_one(server, more, body):
    storage = Storage(server.options | more)
    assert storage.level("s3://b/t/k=00").files
    server.answer = hostile_s3.always(body)
    # A store has no real directories. So an empty listing must not count as a missing partition.
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
    with pytest.raises(splitlib.SourceError, match="without a new token"):
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
def test_the_root_of_the_bucket_is_not_listed(server, more):
    Storage(server.options | more).list_files(["s3://b/t/k=99"])
    assert "" not in {asked["prefix"] for asked in server.asked}


@LISTERS
@pytest.mark.parametrize("body", [HTML, EMPTY_RESULT], ids=["html", "empty"])
def test_a_later_page_of_many_directories(more, body):
    with HostileS3({f"t/k={k:04}/a": 1 for k in range(1500)}).running() as server:
        server.answer = hostile_s3.later(body)
        with pytest.raises(SourceUnavailable, match=r"left out|is not a listing"):
            Storage(server.options | more).level("s3://b/t")


def test_pages_that_repeat_endlessly(server):
    server.page, server.answer = 2, hostile_s3.again
    storage = Storage(server.options)
    with pytest.raises(splitlib.SourceError, match="endless pages"):
        storage.level("s3://b/t", retries=True)
    with pytest.raises(splitlib.SourceError, match="endless pages"):
        storage.list_files([f"s3://b/t/k={k:02}" for k in range(12)])


BEGINNING = b"<ListBucketResult><Name>b</Name><IsTruncated>false</IsTruncated>"
OBJECT = (
    b"<Contents><Key>t/k=01/a</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>"
    b"<Size>1</Size></Contents>"
)
ENDLESS = {
    "objects": (BEGINNING, OBJECT * 500),
    "a key": (BEGINNING + b"<Contents><Key>", b"a" * 65536),
    "depth": (BEGINNING, b"<a>" * 20000),
    "blanks": (b" ", b" " * 65536),
}
RECEIVED = """
    import resource, sys
    import aiobotocore.session, obstore, s3fs
    from splitlib import SourceUnavailable
    from splitlib.storage import Storage

    def megabytes():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

    # Without a limit this fails, instead of using up the memory of the machine.
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    options, names = eval(sys.argv[1])
    storage, before = Storage(options), megabytes()
    for name in names:
        at = [f"s3://b/{name}/k={k}" for k in range(2)]
        for listed in (lambda: storage.level(at[0]).files, lambda: storage.list_files(at)):
            try:
                listed()
            except SourceUnavailable:
                continue
            raise AssertionError(f"{name} was accepted as a listing.")
    print(megabytes() - before)
"""


@LISTERS
def test_endless_responses_take_little_memory(server, more):
    server.answer = lambda server, asked: hostile_s3.endless(
        *ENDLESS[asked["prefix"].partition("/")[0]]
    )(server, asked)
    done = run(RECEIVED, (server.options | more, list(ENDLESS)))
    assert done.returncode == 0, done.stderr
    # The limit in MB allows for two copies of a response of 64 MB, and some overhead.
    assert int(done.stdout) < 300


FORK = """
    import os, sys
    from splitlib.storage import Storage

    storage = Storage(eval(sys.argv[1]))
    assert len(storage.level("s3://b/t", retries=True).directories) == 12
    if (child := os.fork()) == 0:
        os._exit(0 if len(storage.level("s3://b/t", retries=True).directories) == 12 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(storage.level("s3://b/t", retries=True).directories) == 12
    print("done")
"""


@LISTERS
def test_a_forked_process_lists_anew(server, more):
    done = run(FORK, server.options | more)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
