"""Exceptions of PyIceberg and of storage clients are converted to splitlib's errors."""

from __future__ import annotations

import json

import pytest
import requests
import urllib3
from botocore.exceptions import EndpointConnectionError
from pyiceberg import exceptions as theirs
from sqlalchemy.exc import OperationalError
from thrift.transport.TTransport import TTransportException

import splitlib
from splitlib.errors import decoding
from splitlib_iceberg.failures import of_catalog, reading

OPTIONS = {"uri": "http://user:hunter2@host", "s3.secret-access-key": "hunter3", "warehouse": "wh"}


def raised_in(context, error):
    with pytest.raises(splitlib.SplitlibError) as caught, context:
        raise error
    return caught.value


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (FileNotFoundError("x"), splitlib.MissingFile, "The manifest /m no longer exists"),
        (OSError("An error NoSuchKey occurred"), splitlib.MissingFile, "no longer exists"),
        (PermissionError("x"), splitlib.AccessDenied, "Access to the manifest /m is denied"),
        (OSError("AWS Error ACCESS_DENIED"), splitlib.AccessDenied, "is denied"),
        (OSError("HTTP status 403"), splitlib.AccessDenied, "is denied"),
        (OSError("slow"), splitlib.SourceUnavailable, "The manifest /m cannot be read: slow"),
        (requests.Timeout("slow"), splitlib.SourceUnavailable, "cannot be read: slow"),
        (urllib3.exceptions.ProtocolError("x"), splitlib.SourceUnavailable, "cannot be read: x"),
        (RuntimeError("odd"), splitlib.SourceError, "The manifest /m cannot be read: odd"),
    ],
    ids=repr,
)
def test_reading(error, kind, says):
    found = raised_in(reading("manifest", "/m"), error)
    assert type(found) is kind
    assert says in str(found)
    assert found.__cause__ is error


@pytest.mark.parametrize(
    "says",
    [
        "timeout of s3://forbidden-fruit/Forbidden/Not Found/m",
        "timeout of key 'Forbidden/Not Found/m' in bucket 'forbidden-fruit'",
    ],
)
def test_words_in_a_path_are_not_the_error(says):
    path = "s3://forbidden-fruit/Forbidden/Not Found/m"
    found = raised_in(reading("manifest", path), OSError(says))
    assert type(found) is splitlib.SourceUnavailable


@pytest.mark.parametrize("path", ["s3://b/m", "s3://access/denied/m", "/d", "s3://forbid/m"])
@pytest.mark.parametrize("says", ["Access Denied", "Forbidden", "AWS Error ACCESS_DENIED"])
def test_a_short_path_does_not_hide_the_error(path, says):
    found = raised_in(reading("manifest", path), OSError(f"{says}: {path}"))
    assert type(found) is splitlib.AccessDenied


def test_decoding():
    found = raised_in(decoding("The manifest /m"), KeyError("x"))
    assert type(found) is splitlib.CorruptMetadata
    assert "The manifest /m cannot be decoded: KeyError: 'x'" in str(found)
    # An error of the storage is not an error in the file's content, so it is not converted.
    with pytest.raises(TimeoutError), decoding("The manifest /m"):
        raise TimeoutError


@pytest.mark.parametrize(
    "context", [reading("manifest", "/m"), decoding("The manifest /m"), of_catalog(OPTIONS)]
)
def test_errors_of_splitlib_stay_what_they_are(context):
    error = splitlib.UnsupportedTable("It is encrypted.")
    assert raised_in(context, error) is error


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (theirs.NoSuchTableError("x"), splitlib.TableNotFound, "no such Iceberg table"),
        (theirs.NoSuchNamespaceError("x"), splitlib.TableNotFound, "no such Iceberg table"),
        (theirs.NoSuchIdentifierError("x"), splitlib.TableNotFound, "no such Iceberg table"),
        (
            theirs.NoSuchPropertyException("Property table_type missing"),
            splitlib.TableNotFound,
            "no such Iceberg table",
        ),
        (theirs.NoSuchPropertyException("type"), splitlib.ConfigError, "these options"),
        (OSError("no such table: iceberg_tables"), splitlib.TableNotFound, "no catalog in"),
        (theirs.NotInstalledError("boto3"), splitlib.ConnectorNotInstalled, "boto3"),
        (ImportError("boto3"), splitlib.ConnectorNotInstalled, "boto3"),
        (ValueError("odd"), splitlib.ConfigError, "odd"),
        (json.JSONDecodeError("odd", "", 0), splitlib.CorruptMetadata, "JSONDecodeError"),
        (theirs.ValidationError("odd"), splitlib.CorruptMetadata, "ValidationError"),
        (theirs.ForbiddenError("no"), splitlib.AccessDenied, "The catalog denies access"),
        (theirs.UnauthorizedError("no"), splitlib.AccessDenied, "The catalog denies access"),
        (theirs.OAuthError("no"), splitlib.AccessDenied, "The catalog denies access"),
        (PermissionError("no"), splitlib.AccessDenied, "The catalog denies access"),
        (OSError("Access Denied"), splitlib.AccessDenied, "The catalog denies access"),
        (FileNotFoundError("m.json"), splitlib.MissingFile, "m.json"),
        (theirs.ServerError("busy"), splitlib.SourceUnavailable, "does not answer"),
        (theirs.ServiceUnavailableError("busy"), splitlib.SourceUnavailable, "does not answer"),
        (requests.ConnectionError("x"), splitlib.SourceUnavailable, "does not answer"),
        (ConnectionResetError("x"), splitlib.SourceUnavailable, "does not answer"),
        (urllib3.exceptions.ProtocolError("x"), splitlib.SourceUnavailable, "does not answer"),
        (TTransportException(message="x"), splitlib.SourceUnavailable, "does not answer"),
        (
            EndpointConnectionError(endpoint_url="x"),
            splitlib.SourceUnavailable,
            "does not answer",
        ),
        (
            OperationalError("x", None, Exception("x")),
            splitlib.SourceUnavailable,
            "does not answer",
        ),
        (theirs.RESTError("odd"), splitlib.SourceError, "The catalog fails"),
        (RuntimeError("odd"), splitlib.SourceError, "odd"),
    ],
    ids=repr,
)
def test_of_a_catalog(error, kind, says):
    found = raised_in(of_catalog(OPTIONS), error)
    assert type(found) is kind
    assert says in str(found)
    # The original exception is not attached, because its text may contain secrets.
    assert found.__cause__ is None


def test_what_nobody_expects_is_logged(caplog):
    raised_in(of_catalog(OPTIONS), RuntimeError("odd"))
    assert "please report it: RuntimeError: odd" in caplog.text
    caplog.clear()
    raised_in(of_catalog(OPTIONS), theirs.RESTError("odd"))
    assert caplog.text == ""


def test_secrets_are_taken_out():
    error = ValueError(f"{OPTIONS['uri']} with hunter3 in wh")
    found = str(raised_in(of_catalog(OPTIONS), error))
    assert "hunter" not in found
    assert "*** with *** in wh" in found
