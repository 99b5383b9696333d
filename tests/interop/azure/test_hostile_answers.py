"""Listings with adlfs from a server that responds like some proxies and broken stores."""

from __future__ import annotations

import itertools
from xml.sax.saxutils import escape

import pytest

from splitlib import SourceError, SourceUnavailable, SplitlibError
from splitlib.storage import Storage, received
from tests.support.hostile_s3 import ERROR, HTML, HostileS3, always, endless

BLOB = (
    "<Blob><Name>{}</Name><Properties><Last-Modified>Mon, 01 Jan 2024 00:00:00 GMT</Last-Modified>"
    "<Etag>0x1</Etag><Content-Length>{}</Content-Length><Content-Type>a/b</Content-Type>"
    "<BlobType>BlockBlob</BlobType></Properties></Blob>"
)
PREFIX = "<BlobPrefix><Name>{}</Name></BlobPrefix>"
LISTING = (
    '<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="http://h/" '
    'ContainerName="lake"><Blobs>{}</Blobs>{}</EnumerationResults>'
)
FILES = {f"t/{name}": 10 for name in "abcde"}


def listing(server, asked, *, marker=None, times=1):
    """Return the correct listing as XML, or one with repeated names or with a page marker."""
    prefix = asked.get("prefix", "")
    names = {}
    for key, size in server.sizes.items():
        rest = key.removeprefix(prefix)
        if key.startswith(prefix):
            folder = f"{prefix}{rest.partition('/')[0]}/"
            inside = "/" in rest and asked.get("delimiter")
            names[folder if inside else key] = (
                PREFIX.format(folder) if inside else BLOB.format(escape(key), size)
            )
    more = "<NextMarker />" if marker is None else f"<NextMarker>{marker}</NextMarker>"
    entries = "".join(itertools.chain.from_iterable([entry] * times for entry in names.values()))
    return LISTING.format(entries, more).encode()


@pytest.fixture
def server():
    with HostileS3(FILES).running() as running:
        running.answer = listing
        yield running


@pytest.fixture
def storage(server):
    connection = (
        "DefaultEndpointsProtocol=http;AccountName=acct;AccountKey=a2V5;"
        f"BlobEndpoint={server.options['endpoint_url']}/acct;"
    )
    # obstore does not support ``location_mode``, so splitlib lists with adlfs.
    return Storage({"connection_string": connection, "location_mode": "primary"})


def names(storage):
    return [file.path.rpartition("/")[2] for file in storage.level("az://lake/t").files]


def test_an_honest_store(storage):
    assert names(storage) == list("abcde")


@pytest.mark.parametrize(
    "body",
    [HTML, ERROR, b"", b"<EnumerationResults/>", LISTING.format("", "").encode()],
    ids=["html", "error", "nothing", "empty", "no marker"],
)
def test_response_is_not_a_listing(storage, server, body):
    server.answer = always(body)
    with pytest.raises((SplitlibError, OSError)) as caught:
        names(storage)
    assert not isinstance(caught.value, FileNotFoundError)


def test_repeated_names_count_once(storage, server):
    server.answer = lambda server, asked: listing(server, asked, times=2)
    assert names(storage) == list("abcde")


def test_next_marker_equals_the_requested_one(storage, server):
    server.answer = lambda server, asked: listing(server, asked, marker="m")
    with pytest.raises(SourceError, match="without a new token"):
        names(storage)


def test_endless_response(storage, server, monkeypatch):
    monkeypatch.setattr(received, "MOST_BYTES", 4 << 20)
    server.answer = endless(b"<EnumerationResults><Blobs>", b"<Blob>" * 10_000)
    with pytest.raises(SourceUnavailable, match="more than 4194304 bytes"):
        names(storage)
