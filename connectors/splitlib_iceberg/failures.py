"""Convert exceptions of PyIceberg and its libraries to splitlib's errors.

These libraries raise exceptions of many classes, so this module catches ``Exception``. The original
exception becomes the cause of the new error, except for a catalog's exceptions: their texts may
contain secrets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError as InvalidModel
from pyiceberg import exceptions
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    ForbiddenError,
    NoSuchIdentifierError,
    NoSuchNamespaceError,
    NoSuchPropertyException,
    NoSuchTableError,
    NotInstalledError,
    OAuthError,
    RESTError,
    ServerError,
    ServiceUnavailableError,
    SignError,
    UnauthorizedError,
    ValidationError,
)

from splitlib.errors import (
    AccessDenied,
    ConfigError,
    ConnectorNotInstalled,
    CorruptMetadata,
    MissingFile,
    SourceError,
    SourceUnavailable,
    SplitlibError,
    TableNotFound,
    UnsupportedTable,
)
from splitlib.redaction import get_logger
from splitlib.storage import refuse_outside

_log = get_logger(__name__)

_SECRET = re.compile(r"secret|token|password|credential|key|connection-string|uri", re.IGNORECASE)
# PyIceberg's storage libraries report object store errors only as text, so match the messages.
_DENIED = re.compile(r"ACCESS_DENIED|Access ?Denied|Forbidden|HTTP status 40[13]", re.IGNORECASE)
_GONE = re.compile(r"NoSuchKey|NoSuchBucket|does not exist|Not Found|HTTP status 404")
_NO_CATALOG = re.compile(r"no such table: iceberg_tables|\"iceberg_tables\" does not exist")
# PyIceberg's message for a Hive table that is not an Iceberg table.
_NOT_ICEBERG = "Property table_type missing"
_DENYING = (UnauthorizedError, ForbiddenError, OAuthError, AuthorizationExpiredError, SignError)
# PyIceberg 0.11 and older has no class for "too many requests".
_TOO_MANY_REQUESTS = getattr(exceptions, "TooManyRequestsError", ServerError)
_OVERLOADED = (ServiceUnavailableError, ServerError, _TOO_MANY_REQUESTS)
# Modules that define transport errors other than OSError. Exceptions are matched by module name,
# because the packages may not be installed.
_TRANSPORTS = ("urllib3.", "thrift.transport", "botocore.", "sqlalchemy.exc")


@contextmanager
def of_catalog(options: Mapping[str, Any]) -> Iterator[None]:
    """Convert exceptions that catalog calls raise in the ``with`` block to splitlib's errors.

    Messages mask the values of secret options. An exception of an unexpected class may be a bug, so
    it is logged with its traceback.
    """
    try:
        yield
    except SplitlibError:
        raise
    except Exception as error:
        raise _catalog_error(error, _Censor(options)) from None


@contextmanager
def reading(what: str, path: str) -> Iterator[None]:
    """Convert exceptions from a ``with`` block that reads a table's file to splitlib's errors.

    Args:
        what: Kind of file for error messages, such as "manifest".
        path: Path of the file.

    Raises:
        LocationNotAllowed: if the file lies outside of ``allowed_locations``.
    """
    refuse_outside([path])
    try:
        yield
    except SplitlibError:
        raise
    except Exception as error:
        text = str(error)
        about = _without_path(text, path)
        if isinstance(error, FileNotFoundError) or _GONE.search(about):
            raise MissingFile(
                f"The {what} {path} no longer exists.",
                hint="its snapshot may have expired; open the table again.",
            ) from error
        if isinstance(error, PermissionError) or _DENIED.search(about):
            raise AccessDenied(f"Access to the {what} {path} is denied.") from error
        if isinstance(error, OSError) or _is_transport(error):
            raise SourceUnavailable(f"The {what} {path} cannot be read: {text}") from error
        raise SourceError(f"The {what} {path} cannot be read: {text}") from error


def _without_path(text: str, path: str) -> str:
    """Remove a path from an error's text, and its bucket and key, which may contain any words."""
    bucket, _, key = path.rpartition("://")[2].partition("/")
    for part in filter(None, (path, key, bucket)):
        text = re.sub(rf"(?<![\w-]){re.escape(part)}(?![\w-])", "", text)
    return text


class _Censor:
    """Formats exceptions as text in which the values of secret options are masked."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._secrets = [
            str(value) for key, value in options.items() if _SECRET.search(key) and value
        ]

    def __call__(self, error: BaseException) -> str:
        text = f"{type(error).__name__}: {error}"
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def _catalog_error(error: Exception, censor: _Censor) -> SplitlibError:
    # PyIceberg's messages may contain options. So mask secrets, and do not chain the exception.
    text = censor(error)
    if _NO_CATALOG.search(text):
        return TableNotFound("There is no catalog in this database.", hint="check its uri.")
    if isinstance(error, NoSuchPropertyException) and _NOT_ICEBERG in text:
        error = NoSuchTableError()
    match error:
        case NoSuchTableError() | NoSuchIdentifierError() | NoSuchNamespaceError():
            return TableNotFound(
                "The catalog has no such Iceberg table.",
                hint="name it as namespace.table; a view is not a table.",
            )
        case NotInstalledError() | ImportError():
            return ConnectorNotInstalled(
                f"The catalog needs a package that is not installed: {text}",
                hint="see the extras of pyiceberg.",
            )
        case InvalidModel() | json.JSONDecodeError() | UnicodeDecodeError() | ValidationError():
            return _bad_metadata(error)
        case NoSuchPropertyException() | ValueError() | TypeError():
            return ConfigError(
                f"The catalog cannot be opened with these options: {text}",
                hint="pass type= and uri=, or catalog= with the name of one in ~/.pyiceberg.yaml.",
            )
    if isinstance(error, (*_DENYING, PermissionError)) or _DENIED.search(text):
        return AccessDenied(f"The catalog denies access: {text}")
    if isinstance(error, FileNotFoundError):
        return MissingFile(f"The table's metadata file does not exist: {text}")
    if isinstance(error, (*_OVERLOADED, OSError)) or _is_transport(error):
        return SourceUnavailable(f"The catalog does not answer: {text}")
    if isinstance(error, RESTError):
        return SourceError(f"The catalog fails: {text}")
    _log.warning("Unexpected error of a catalog, please report it: %s", text, exc_info=error)
    return SourceError(text)


def _bad_metadata(error: BaseException) -> SplitlibError:
    """Return the error for malformed metadata, with a message that omits the metadata itself."""
    cause = error if isinstance(error, InvalidModel) else error.__cause__
    if not isinstance(cause, InvalidModel):
        return CorruptMetadata(f"The table's metadata cannot be decoded: {type(error).__name__}")
    found = cause.errors(include_input=False, include_url=False, include_context=False)[0]
    where, what = ".".join(map(str, found["loc"])), found["msg"]
    if found["type"].startswith("union_tag"):
        return UnsupportedTable(f"The table's format version is not supported: {what}")
    if "Unsupported field type" in what or "Could not parse" in what:
        return UnsupportedTable(f"The table has an unsupported type: {what}")
    return CorruptMetadata(f"The table's metadata is malformed at {where or 'its start'}: {what}")


def _is_transport(error: BaseException) -> bool:
    return any(kind.__module__.startswith(_TRANSPORTS) for kind in type(error).__mro__)
