from __future__ import annotations

import errno
import pickle
from asyncio import CancelledError

import pytest
from fsspec.exceptions import FSTimeoutError

import splitlib
from splitlib.errors import InvalidCheckpoint, error_context
from splitlib.redaction import redact

BUILT_IN = {
    splitlib.ConfigError: ValueError,
    splitlib.InvalidFilter: ValueError,
    InvalidCheckpoint: ValueError,
    splitlib.NonDeterministicDimension: ValueError,
    splitlib.UnsupportedTable: ValueError,
    splitlib.TooManyPartitions: ValueError,
    splitlib.ConnectorNotFound: LookupError,
    splitlib.TableNotFound: LookupError,
    splitlib.ConnectorNotInstalled: ImportError,
    splitlib.AccessDenied: PermissionError,
    splitlib.MissingPartition: FileNotFoundError,
    splitlib.MissingFile: FileNotFoundError,
    splitlib.SnapshotNotFound: LookupError,
    splitlib.CorruptMetadata: ValueError,
    splitlib.SourceUnavailable: OSError,
    splitlib.SourceError: OSError,
    splitlib.LocationNotAllowed: splitlib.AccessDenied,
    splitlib.FileChanged: splitlib.SourceError,
}


@pytest.mark.parametrize(("error", "built_in"), BUILT_IN.items())
def test_each_is_also_a_built_in_and_pickles(error, built_in):
    raised = error("What is wrong.", hint="do this.", connector="hive", table="a.b")
    assert isinstance(raised, splitlib.SplitlibError)
    assert isinstance(raised, built_in)
    assert str(raised) == "What is wrong. [connector=hive, table=a.b] Hint: do this."
    again = pickle.loads(pickle.dumps(raised))
    assert type(again) is error
    assert str(again) == str(raised)


def test_all_are_listed_here():
    found = set(splitlib.SplitlibError.__subclasses__())
    found |= {narrower for error in found for narrower in error.__subclasses__()}
    of_users = {error for error in found if not error.__module__.startswith("splitlib_")}
    assert set(BUILT_IN) == of_users  # connectors have errors that they handle themselves


class Shaped(Exception):
    """An error with the same attributes as an error of a client library."""

    def __init__(self, **attributes: object) -> None:
        super().__init__("no")
        self.__dict__.update(attributes)


class ClientConnectionError(Shaped):
    pass


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def botocore(code: str, status: int) -> Shaped:
    metadata = {"HTTPStatusCode": status}
    return Shaped(response={"Error": {"Code": code}, "ResponseMetadata": metadata})


@pytest.mark.parametrize(
    ("raised", "becomes"),
    [
        (FSTimeoutError("no"), splitlib.SourceUnavailable),
        (CancelledError("no"), splitlib.SourceError),
        (OSError(errno.EBUSY, "no"), splitlib.SourceUnavailable),
        (OSError(errno.ENETUNREACH, "no"), splitlib.SourceUnavailable),
        (OSError(errno.EIO, "no"), splitlib.SourceError),
        (botocore("SlowDown", 503), splitlib.SourceUnavailable),
        (botocore("Throttling", 400), splitlib.SourceUnavailable),
        (botocore("NoSuchBucket", 404), splitlib.SourceError),
        (Shaped(status=429), splitlib.SourceUnavailable),
        (Shaped(status_code=503), splitlib.SourceUnavailable),
        (Shaped(code=404), splitlib.SourceError),
        (Shaped(code=lambda: 503), splitlib.SourceError),
        (Shaped(response=Shaped(status_code=429)), splitlib.SourceUnavailable),
        (Shaped(status_code=403), splitlib.AccessDenied),
        (Shaped(response=Shaped(status_code=401)), splitlib.AccessDenied),
        (botocore("AccessDenied", 403), splitlib.AccessDenied),
        (caused(OSError("no"), Shaped(code=403)), splitlib.AccessDenied),
        (botocore("SlowDown", 403), splitlib.SourceUnavailable),
        (ClientConnectionError(), splitlib.SourceUnavailable),
        (caused(OSError("no"), botocore("SlowDown", 503)), splitlib.SourceUnavailable),
        (RecursionError("no"), splitlib.SourceError),
        (PermissionError("no"), splitlib.AccessDenied),
        (ConnectionRefusedError("no"), splitlib.SourceUnavailable),
        (TimeoutError("no"), splitlib.SourceUnavailable),
        (KeyError("no"), splitlib.SourceError),
    ],
)
def test_foreign_errors_are_translated_once(raised, becomes):
    with (
        pytest.raises(becomes, match=r"no.*connector=c, table=t") as caught,
        error_context(connector="c", table="t"),
    ):
        raise raised
    assert caught.value.__cause__ is raised


def test_context_is_added_not_replaced():
    with (
        pytest.raises(splitlib.MissingPartition, match="table=a, partition=k=1"),
        error_context(connector="c", table="b"),
    ):
        raise splitlib.MissingPartition("Gone.", table="a", partition="k=1")


def test_no_password_in_a_message():
    assert redact("thrift://me:secret@host:1, s3://key@b") == "thrift://***@host:1, s3://***@b"
    assert "secret" not in str(splitlib.SourceUnavailable("thrift://me:secret@host is down"))


@pytest.mark.parametrize(
    ("error", "throttled"),
    [
        (botocore("SlowDown", 503), True),
        (botocore("Throttling", 400), True),
        (Shaped(status=429), True),
        (Shaped(response=Shaped(status_code=429)), True),
        (Shaped(status_code=500), False),
        (ConnectionResetError("no"), False),
    ],
)
def test_too_many_requests_are_told_from_other_failures(error, throttled):
    with (
        pytest.raises(splitlib.SourceUnavailable) as caught,
        splitlib.errors.error_context(connector="c"),
    ):
        raise error
    assert caught.value.is_throttled is throttled
