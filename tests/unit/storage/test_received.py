"""Limits for responses to gcsfs. It is not installed here, so the tests use its library aiohttp."""

from __future__ import annotations

import asyncio
import json
from typing import ClassVar

import aiohttp
import pytest

from splitlib import SourceError, SourceUnavailable
from splitlib.storage import received
from splitlib.storage.received import confirm_end, within_limits
from tests.support.hostile_s3 import ERROR, HTML, HostileS3, always, endless

LISTING = {"kind": "storage#objects", "items": [{"name": "t/a"}]}


class GoogleFileSystem:
    __module__ = "gcsfs.core"


@pytest.fixture
def server():
    with HostileS3({}).running() as running:
        yield running


def read(server, path="/storage/v1/b/lake/o", **asked):
    """Return the body of a response, read in the same way as gcsfs reads it."""

    async def answered():
        options = within_limits(GoogleFileSystem, {"token": "anon"})
        async with (
            aiohttp.ClientSession(**options["session_kwargs"]) as session,
            session.get(server.options["endpoint_url"] + path, params=asked) as response,
        ):
            return await response.read()

    return asyncio.run(answered())


def test_a_listing(server):
    for more in ({}, {"nextPageToken": "m"}):
        body = json.dumps(LISTING | more).encode()
        server.answer = always(body)
        assert read(server) == body
    server.answer = always(b"rows")
    assert read(server, "/download/storage/v1/b/lake/o/t%2Fo", alt="media") == b"rows"
    assert read(server, "/storage/v1/b/lake/o/t", alt="media") == b"rows"


@pytest.mark.parametrize("body", [HTML, ERROR, b"", b"{}", b"[]", b'{"kind": "x"}', b"[" * 100_000])
def test_response_is_not_a_listing(server, body):
    server.answer = always(body)
    with pytest.raises(SourceUnavailable, match="is not a listing"):
        read(server)


def test_next_token_equals_the_requested_one(server):
    server.answer = always(json.dumps(LISTING | {"nextPageToken": "m"}).encode())
    with pytest.raises(SourceError, match="without a new token"):
        read(server, pageToken="m")


def test_endless_response(server, monkeypatch):
    monkeypatch.setattr(received, "MOST_BYTES", 4 << 20)
    server.answer = endless(b"{", b" " * 65536)
    with pytest.raises(SourceUnavailable, match="more than 4194304 bytes"):
        read(server)


def test_the_end_of_a_listing_is_requested_by_a_requester_who_pays():
    requests = []

    class Filesystem:
        req_kw: ClassVar = {"RequestPayer": "requester"}

        def call_s3(self, method, **parameters):
            requests.append(parameters)
            return {"IsTruncated": False}

    confirm_end(Filesystem(), "lake", "t")
    assert requests == [
        {
            "Bucket": "lake",
            "Prefix": "t/",
            "StartAfter": "t/",
            "MaxKeys": 1,
            "RequestPayer": "requester",
        }
    ]


def test_options_of_the_user_take_precedence():
    mine = object()
    options = within_limits(GoogleFileSystem, {"session_kwargs": {"response_class": mine}})
    assert options == {"session_kwargs": {"response_class": mine}}
