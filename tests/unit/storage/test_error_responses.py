"""Errors quote only some fields of a store's response, such as its code and its message."""

from __future__ import annotations

import traceback

import obstore
import obstore.exceptions
import pytest

from splitlib import AccessDenied, SourceError, SourceUnavailable
from splitlib.storage import Storage
from splitlib.storage.pages import OtherRegion, error_of
from tests.support.hostile_s3 import HostileS3, always

TOKEN = "FwoGZXIvYXdzEMj" + "A1b2C3d4" * 200


def document(code: str, field: str = "Token-0") -> str:
    return (
        f"<?xml version='1.0' encoding='UTF-8'?>\n<Error><Code>{code}</Code><Message>It is no "
        f"longer valid.</Message><{field}>{TOKEN}</{field}><Region>eu-west-1</Region></Error>"
    )


@pytest.mark.parametrize(
    ("status", "code", "field", "error"),
    [
        (400, "ExpiredToken", "Token-0", SourceError),
        (403, "SignatureDoesNotMatch", "CanonicalRequest", AccessDenied),
        (403, "AuthenticationFailed", "AuthenticationErrorDetail", AccessDenied),
        (400, "AuthorizationHeaderMalformed", "StringToSign", OtherRegion),
        (500, "InternalError", "HostId", SourceUnavailable),
    ],
)
def test_fields_of_an_error_response(status, code, field, error):
    text = f"Server returned error status code: {status} {document(code, field)}"
    found = error_of(text, "b", "s3://b/t")
    assert type(found) is error
    assert TOKEN[:20] not in str(found)
    assert str(found).endswith(
        f"status code: {status} Code: {code}, Message: It is no longer valid., Region: eu-west-1"
    )


def test_throttling_is_found_in_the_whole_response():
    found = error_of(f"status code: 500 {document('SlowDown')}", "b", "s3://b/t")
    assert isinstance(found, SourceUnavailable)
    assert found.is_throttled


def test_a_response_that_is_cut():
    found = error_of(f"status code: 400 {document('ExpiredToken')[:200]}", "b", "s3://b/t")
    assert TOKEN[:20] not in str(found)


@pytest.mark.parametrize("kind", ["GenericError", "PermissionDeniedError", "UnauthenticatedError"])
def test_errors_of_obstore(monkeypatch, kind):
    def refused(*_, **__):
        text = f"Client error with status code: 400 {document('ExpiredToken')}"
        raise getattr(obstore.exceptions, kind)(text)

    monkeypatch.setattr(obstore, "list_with_delimiter", refused)
    storage = Storage({"key": "k", "secret": "s"})
    with pytest.raises((SourceError, AccessDenied), match="ExpiredToken") as raised:
        storage.level("s3://lake/t")
    assert TOKEN[:20] not in "".join(traceback.format_exception(raised.value))


def test_an_error_with_status_200():
    with HostileS3({"t/a": 1}).running() as server:
        server.answer = always(document("ExpiredToken").encode())
        with pytest.raises(SourceUnavailable, match="ExpiredToken") as raised:
            Storage(server.options).level("s3://b/t")
    assert TOKEN[:20] not in "".join(traceback.format_exception(raised.value))
