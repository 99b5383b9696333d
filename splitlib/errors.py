"""Every error that splitlib raises.

::

    SplitlibError
    ├── ConfigError            (ValueError)         a setting that is unknown or out of range
    ├── InvalidFilter          (ValueError)         filtering data that cannot be used as given
    ├── InvalidCheckpoint      (ValueError)         a checkpoint damaged, foreign or of another scan
    ├── NonDeterministicDimension (ValueError)      a dimension that may give other rows next time
    ├── ConnectorNotFound      (LookupError)        no connector of that name
    ├── ConnectorNotInstalled  (ImportError)        a connector whose packages are missing
    ├── TableNotFound          (LookupError)        the catalog has no such table
    ├── SnapshotNotFound       (LookupError)        the table has no such snapshot, branch or tag
    ├── UnsupportedTable       (ValueError)         reading it could give wrong rows
    ├── CorruptMetadata        (ValueError)         what the catalog keeps of the table is damaged
    ├── TooManyPartitions      (ValueError)         more than ``max_partitions`` match
    ├── MissingPartition       (FileNotFoundError)  a partition's directory does not exist
    ├── MissingFile            (FileNotFoundError)  a file that the table is made of has gone
    ├── AccessDenied           (PermissionError)    the catalog or storage refuses
    │   └── LocationNotAllowed                      a location outside of ``allowed_locations``
    ├── SourceUnavailable      (OSError)            worth another try later
    └── SourceError            (OSError)            the catalog or storage failed for good
        └── FileChanged                             a file is not what it was when it was listed
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from splitlib.redaction import redact, redact_causes

# What clients of storages raise for a failure that may be over soon, known by its shape: the
# packages they are from need not be installed.
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
        errno.EBUSY,  # what s3fs makes of SlowDown
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETRESET,
        errno.ENETUNREACH,
        errno.ESTALE,
    }
)


class SplitlibError(Exception):
    """Base of all errors of splitlib.

    Args:
        message: One sentence that says what is wrong.
        hint: What to do about it.
        connector: Name of the connector at work.
        table: Name of the table at work.
        partition: Name of the partition at work, as ``k1=v1/k2=v2``.
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
    """A setting that is unknown, malformed or out of range."""


class InvalidFilter(SplitlibError, ValueError):
    """Filtering data that cannot be used: corrupt bytes, wrong fields, values of no Arrow type."""


class InvalidCheckpoint(SplitlibError, ValueError):
    """A checkpoint that was damaged, is of another scan, or cannot be made."""


class NonDeterministicDimension(SplitlibError, ValueError):
    """A dimension that may give other rows when it is computed again for the join."""


class ConnectorNotFound(SplitlibError, LookupError):
    """No connector is registered under that name."""


class ConnectorNotInstalled(SplitlibError, ImportError):
    """The connector is known, the packages it needs are not installed."""


class TableNotFound(SplitlibError, LookupError):
    """The catalog or storage has no such table."""


class SnapshotNotFound(SplitlibError, LookupError):
    """The table has no such snapshot, branch or tag, or has it no longer."""


class UnsupportedTable(SplitlibError, ValueError):
    """A table that could not be read with the right rows; refused when it is opened."""


class CorruptMetadata(SplitlibError, ValueError):
    """What the catalog keeps of the table is damaged, or contradicts itself."""


class TooManyPartitions(SplitlibError, ValueError):
    """More partitions match than ``max_partitions`` allows."""


class MissingPartition(SplitlibError, FileNotFoundError):
    """The catalog knows the partition, its directory or the partition itself has gone."""


class MissingFile(SplitlibError, FileNotFoundError):
    """A file that the table is made of has gone, though the table still names it."""


class AccessDenied(SplitlibError, PermissionError):
    """The catalog or the storage refuses the credentials in use."""


class LocationNotAllowed(AccessDenied):
    """A location outside of ``allowed_locations``; nothing was asked of it."""


class SourceUnavailable(SplitlibError, OSError):
    """The catalog or the storage cannot be reached now; the same call may succeed later.

    Attributes:
        is_throttled: Whether the reason is that it was asked too much at once.
    """

    is_throttled: bool = False


class SourceError(SplitlibError, OSError):
    """The catalog or the storage failed in a way that another try will not mend."""


class FileChanged(SourceError):
    """A file is not what it was when it was listed: it was written again, or replaced."""


@contextmanager
def error_context(
    *, connector: str, table: str | None = None, partition: str | None = None
) -> Iterator[None]:
    """Turn whatever is raised inside into a :class:`SplitlibError` that says where it happened."""
    try:
        yield
    except SplitlibError as error:
        error.connector = error.connector or connector
        error.table = error.table or table
        error.partition = error.partition or partition
        redact_causes(error)
        raise
    except BaseException as error:
        if not (isinstance(error, Exception) or _is_cancellation(error)):
            raise  # whoever interrupts this process is not to be held up
        kind: type[SplitlibError] = SourceError
        if isinstance(error, PermissionError):
            kind = AccessDenied
        elif _is_transient(error):
            kind = SourceUnavailable
        elif _is_refused(error):
            kind = AccessDenied
        message = f"{type(error).__name__}: {error}"
        translated = kind(message, connector=connector, table=table, partition=partition)
        translated.__cause__ = error
        if isinstance(translated, SourceUnavailable):
            translated.is_throttled = _is_throttled(error)
        redact_causes(translated)
        raise translated from translated.__cause__


def _is_cancellation(error: BaseException) -> bool:
    """Whether something was cancelled inside the connector; no caller of it is a coroutine."""
    # looked up and not imported, which would take a tenth of the time that importing splitlib does
    cancelled = getattr(sys.modules.get("asyncio.exceptions"), "CancelledError", ())
    return isinstance(error, cancelled)


def _is_transient(error: BaseException) -> bool:
    """Whether another try may succeed, by the error or by what it was raised from."""
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
    """Whether it, or what it was raised from, says that who asks may not do so."""
    refused = any(code in _REFUSED_STATUS for code in _codes(error) if isinstance(code, int))
    return refused or (error.__cause__ is not None and _is_refused(error.__cause__))


def _is_throttled(error: BaseException) -> bool:
    """Whether it, or what it was raised from, says that there were too many requests."""
    throttled = any(code in _THROTTLED for code in _codes(error) if isinstance(code, int | str))
    return throttled or (error.__cause__ is not None and _is_throttled(error.__cause__))


def _codes(error: BaseException) -> list[object]:
    """What clients of storages give as the status of an answer, or as its code."""
    response = getattr(error, "response", None)
    codes = [getattr(error, name, None) for name in ("status", "status_code", "code")]
    if isinstance(response, Mapping):  # botocore
        codes.append((response.get("ResponseMetadata") or {}).get("HTTPStatusCode"))
        codes.append((response.get("Error") or {}).get("Code"))
    else:
        codes.append(getattr(response, "status_code", None))
    return codes
