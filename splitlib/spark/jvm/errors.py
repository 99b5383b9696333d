"""Errors of the JVM as splitlib's own, with one line of what the innermost of them says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from splitlib.errors import (
    AccessDenied,
    SourceError,
    SourceUnavailable,
    SplitlibError,
    TableNotFound,
)
from splitlib.spark.jvm.active_session import active
from splitlib.spark.jvm.gateway import JVM_ERRORS

_MOST_CHARACTERS: Final = 300
_MOST_CAUSES: Final = 20
# By the simple name of a Java class, since a storage brings classes of its own.
_KINDS: Final[dict[str, type[SplitlibError]]] = {
    **dict.fromkeys(
        (
            "AccessControlException",
            "AccessDeniedException",
            "AuthorizationException",
            "HiveAccessControlException",
            "HiveAuthzPluginException",
            "SaslException",
            "SecurityException",
        ),
        AccessDenied,
    ),
    **dict.fromkeys(
        (
            "AWSServiceThrottledException",
            "AWSStatus500Exception",
            "ConnectException",
            "ConnectTimeoutException",
            "InterruptedIOException",
            "NoRouteToHostException",
            "PortUnreachableException",
            "RetriableException",
            "SafeModeException",
            "SocketException",
            "SocketTimeoutException",
            "StandbyException",
            "TTransportException",
            "TimeoutException",
            "UnknownHostException",
        ),
        SourceUnavailable,
    ),
    "NoSuchDatabaseException": TableNotFound,
    "NoSuchNamespaceException": TableNotFound,
    "NoSuchTableException": TableNotFound,
}


@contextmanager
def errors_of_the_jvm(spark: SparkSession | None = None) -> Iterator[None]:
    """Turn what a call of the JVM raises into a :class:`SplitlibError`.

    Args:
        spark: The session whose settings count for the call; None = it depends on none.
    """
    try:
        with active(spark):
            yield
    except JVM_ERRORS as error:
        raise _translated(error) from error


def readable(error: Exception) -> Exception:
    """The same error, unless its message would end before that of the Java exception begins."""
    return _translated(error) if isinstance(error, Py4JJavaError) else error


def classes_of(error: Exception) -> list[str]:
    """The simple names of the classes of a Java exception and its causes, the outermost first."""
    return [name for name, _ in _causes(error)]


def _translated(error: Exception) -> SplitlibError:
    """The error that says the same: of the outermost class that is known."""
    causes = list(_causes(error))
    kinds = (_KINDS[name] for name, _ in causes if name in _KINDS)
    said = [(name, text) for name, text in causes if text] or [(type(error).__name__, str(error))]
    name, text = said[-1]
    first = text.strip().partition("\n")[0]
    return next(kinds, SourceError)(f"{name}: {first[:_MOST_CHARACTERS]}")


def _causes(error: Exception) -> Iterator[tuple[str, str]]:
    """Class and message of a Java exception and of its causes, the outermost first."""
    # of what PySpark has a class for it keeps the exception under another name
    cause: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _ in range(_MOST_CAUSES):
        if cause is None:
            return
        yield str(cause.getClass().getSimpleName()), str(cause.getMessage() or "")
        cause = cause.getCause()
