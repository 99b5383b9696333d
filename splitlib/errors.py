"""All errors that splitlib raises.

::

    SplitlibError
    ├── ConfigError            (ValueError)         an unknown setting, or a value out of range
    ├── InvalidFilter          (ValueError)         corrupt or unsupported filtering data
    ├── InvalidCheckpoint      (ValueError)         a damaged checkpoint, or one from another scan
    ├── NonDeterministicDimension (ValueError)      a dimension whose rows may change
    ├── ConnectorNotFound      (LookupError)        no connector has that name
    ├── ConnectorNotInstalled  (ImportError)        a connector whose packages are missing
    ├── TableNotFound          (LookupError)        the catalog has no such table
    ├── SnapshotNotFound       (LookupError)        the table has no such snapshot, branch or tag
    ├── UnsupportedTable       (ValueError)         reading the table could return wrong rows
    ├── CorruptMetadata        (ValueError)         the catalog's metadata of the table is damaged
    ├── TooManyPartitions      (ValueError)         more than ``max_partitions`` match
    ├── MissingPartition       (FileNotFoundError)  a partition's directory does not exist
    ├── MissingFile            (FileNotFoundError)  a file of the table no longer exists
    ├── AccessDenied           (PermissionError)    the catalog or storage denies access
    │   └── LocationNotAllowed                      a location outside of ``allowed_locations``
    ├── SourceUnavailable      (OSError)            a temporary failure; retry later
    └── SourceError            (OSError)            a permanent failure of catalog or storage
        └── FileChanged                             a file changed after it was listed
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from splitlib.redaction import redact, redact_causes

__all__ = [
    "AccessDenied",
    "ConfigError",
    "ConnectorNotFound",
    "ConnectorNotInstalled",
    "CorruptMetadata",
    "FileChanged",
    "InvalidCheckpoint",
    "InvalidFilter",
    "LocationNotAllowed",
    "MissingFile",
    "MissingPartition",
    "NonDeterministicDimension",
    "SnapshotNotFound",
    "SourceError",
    "SourceUnavailable",
    "SplitlibError",
    "TableNotFound",
    "TooManyPartitions",
    "UnsupportedTable",
]
# Status codes, error codes and classes that classify the errors of storage clients. Classes are
# matched by name, because the packages that define them may not be installed.
_REFUSED_STATUS = frozenset({401, 403})
_TRANSIENT_STATUS = frozenset({408, 429, 500, 502, 503, 504})
_THROTTLED = frozenset(
    {429, 503, "RequestLimitExceeded", "SlowDown", "Throttling", "ThrottlingException"}
)
_TRANSIENT_CODES = frozenset(
    {
        "InternalError",
        "RequestLimitExceeded",
        "RequestTimeout",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequests",
        "TooManyRequestsException",
    }
)
_TRANSIENT_CLASSES = frozenset(
    {
        "ClientConnectionError",  # aiohttp
        "ClientPayloadError",
        "ConnectTimeoutError",  # botocore
        "EndpointConnectionError",
        "HTTPClientError",
        "IncompleteRead",  # http.client
        "ServiceRequestError",  # azure.core
        "ServiceResponseError",
    }
)
_TRANSIENT_ERRNO = frozenset(
    {
        errno.EBUSY,  # s3fs raises this for SlowDown
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETRESET,
        errno.ENETUNREACH,
        errno.ESTALE,
    }
)


def nearest(name: str, known: Iterable[str], *, similarity: float = 0.6) -> str | None:
    """Return the known name most similar to ``name``, ignoring case, or None if none is similar.

    Args:
        name: The name as the user wrote it.
        known: The names that exist.
        similarity: Minimum similarity of the two names, from 0 to 1.
    """
    # Imported here to keep ``import splitlib`` fast, because only error messages use it.
    from difflib import get_close_matches

    by_lower_case = {other.lower(): other for other in known}
    close = get_close_matches(name.lower(), by_lower_case, n=1, cutoff=similarity)
    return by_lower_case[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str], *, otherwise: str = "available:") -> str:
    """Return a hint for an unknown name: the most similar known name, or all known names."""
    known = list(known)
    close = nearest(name, known)
    return f"did you mean {close!r}?" if close else f"{otherwise} {', '.join(known)}."


class SplitlibError(Exception):
    """Base class of all splitlib errors.

    Args:
        message: One sentence that describes the problem.
        hint: What the user can do about it.
        connector: Name of the connector that was used.
        table: Name of the table that was used.
        partition: Name of the partition that was used, as ``k1=v1/k2=v2``.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        connector: str | None = None,
        table: str | None = None,
        partition: str | None = None,
    ) -> None:
        self.message = message
        self.hint = hint
        self.connector = connector
        self.table = table
        self.partition = partition
        super().__init__(self.message)

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, redact(value) if isinstance(value, str) else value)

    def __str__(self) -> str:
        context = {"connector": self.connector, "table": self.table, "partition": self.partition}
        where = ", ".join(f"{key}={value}" for key, value in context.items() if value)
        parts = [
            self.message,
            f"[{where}]" if where else "",
            f"Hint: {self.hint}" if self.hint else "",
        ]
        return " ".join(part for part in parts if part)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, dict(self.__dict__))


def _rebuild(cls: type[SplitlibError], message: str, state: dict[str, object]) -> SplitlibError:
    error = cls(message)
    error.__dict__.update(state)
    return error


class ConfigError(SplitlibError, ValueError):
    """A setting's name is unknown, or its value is malformed or out of range."""


class InvalidFilter(SplitlibError, ValueError):
    """Filtering data is unusable: corrupt bytes, wrong fields or unsupported values."""


class InvalidCheckpoint(SplitlibError, ValueError):
    """A checkpoint is damaged, belongs to another scan, or cannot be created."""


class NonDeterministicDimension(SplitlibError, ValueError):
    """A dimension (small side of a join) may return different rows when it is computed again."""


class ConnectorNotFound(SplitlibError, LookupError):
    """No connector is registered under that name."""


class ConnectorNotInstalled(SplitlibError, ImportError):
    """The connector exists, but packages that it requires are not installed."""


class TableNotFound(SplitlibError, LookupError):
    """The catalog or storage has no such table."""


class SnapshotNotFound(SplitlibError, LookupError):
    """The table does not have this snapshot, branch or tag, or no longer has it."""


class UnsupportedTable(SplitlibError, ValueError):
    """Reading the table could return wrong rows. Raised when it is opened, listed or read."""


class CorruptMetadata(SplitlibError, ValueError):
    """The catalog's metadata of the table is damaged or contradicts itself."""


class TooManyPartitions(SplitlibError, ValueError):
    """More partitions match than ``max_partitions`` allows."""


class MissingPartition(SplitlibError, FileNotFoundError):
    """The partition is in the catalog, but it was dropped or its directory does not exist."""


class MissingFile(SplitlibError, FileNotFoundError):
    """A file that the table refers to no longer exists."""


class AccessDenied(SplitlibError, PermissionError):
    """The catalog or the storage denies access with the current credentials."""


class LocationNotAllowed(AccessDenied):
    """A location is outside of ``allowed_locations``. No request was sent to it."""


class SourceUnavailable(SplitlibError, OSError):
    """The catalog or the storage is not reachable now; the same call may succeed later.

    Attributes:
        is_throttled: Whether the source rejected the call because it received too many requests.
    """

    is_throttled: bool = False


class SourceError(SplitlibError, OSError):
    """The catalog or the storage failed in a way that a retry does not fix."""


class FileChanged(SourceError):
    """A file was rewritten or replaced after it was listed."""


@contextmanager
def decoding(what: str) -> Iterator[None]:
    """Turn exceptions from a block that decodes ``what`` into :class:`CorruptMetadata`.

    Errors of splitlib and :class:`OSError` are raised unchanged.
    """
    try:
        yield
    except (SplitlibError, OSError):
        raise
    except Exception as error:
        text = f"{what} cannot be decoded: {type(error).__name__}: {error}"
        raise CorruptMetadata(text) from error


@contextmanager
def error_context(*, connector: str, table: str | None = None) -> Iterator[None]:
    """Turn exceptions from the block into a :class:`SplitlibError` that names the connector."""
    try:
        yield
    except BaseException as error:
        found = in_context(error, connector, table)
        if found is error:
            raise
        raise found from found.__cause__


def in_context(error: BaseException, connector: str, table: str | None = None) -> BaseException:
    """Return ``error`` as a :class:`SplitlibError` that names the connector and table.

    KeyboardInterrupt and SystemExit are returned unchanged.
    """
    if isinstance(error, SplitlibError):
        error.connector = error.connector or connector
        error.table = error.table or table
        redact_causes(error)
        return error
    if not (isinstance(error, Exception) or _is_cancellation(error)):
        return error
    kind: type[SplitlibError] = SourceError
    if isinstance(error, PermissionError):
        kind = AccessDenied
    elif _is_transient(error):
        kind = SourceUnavailable
    elif _is_refused(error):
        kind = AccessDenied
    message = f"{type(error).__name__}: {error}"
    translated = kind(message, connector=connector, table=table)
    translated.__cause__ = error
    if isinstance(translated, SourceUnavailable):
        translated.is_throttled = _is_throttled(error)
    redact_causes(translated)
    return translated


def _is_cancellation(error: BaseException) -> bool:
    """Return whether the error is asyncio's ``CancelledError``, which is not an ``Exception``."""
    # The class is looked up in sys.modules, because importing asyncio is slow.
    cancelled = getattr(sys.modules.get("asyncio.exceptions"), "CancelledError", ())
    return isinstance(error, cancelled)


def _is_transient(error: BaseException) -> bool:
    """Return whether the error or its cause is temporary, so that a retry may succeed."""
    codes = _codes(error)
    return (
        isinstance(error, ConnectionError | TimeoutError)
        or (isinstance(error, OSError) and error.errno in _TRANSIENT_ERRNO)
        or any(code in _TRANSIENT_STATUS for code in codes if isinstance(code, int))
        or any(code in _TRANSIENT_CODES for code in codes if isinstance(code, str))
        or not _TRANSIENT_CLASSES.isdisjoint(kind.__name__ for kind in type(error).__mro__)
        or (error.__cause__ is not None and _is_transient(error.__cause__))
    )


def _is_refused(error: BaseException) -> bool:
    """Return whether the error or its cause reports missing permission."""
    refused = any(code in _REFUSED_STATUS for code in _codes(error) if isinstance(code, int))
    return refused or (error.__cause__ is not None and _is_refused(error.__cause__))


def _is_throttled(error: BaseException) -> bool:
    """Return whether the error or its cause reports too many requests."""
    throttled = any(code in _THROTTLED for code in _codes(error) if isinstance(code, int | str))
    return throttled or (error.__cause__ is not None and _is_throttled(error.__cause__))


def _codes(error: BaseException) -> list[object]:
    """Return the status and error codes that a storage client attached to an error."""
    response = getattr(error, "response", None)
    codes = [getattr(error, name, None) for name in ("status", "status_code", "code")]
    if isinstance(response, Mapping):  # botocore
        codes.append((response.get("ResponseMetadata") or {}).get("HTTPStatusCode"))
        codes.append((response.get("Error") or {}).get("Code"))
    else:
        codes.append(getattr(response, "status_code", None))
    return codes
