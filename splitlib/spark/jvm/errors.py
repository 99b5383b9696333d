"""Convert Java exceptions to splitlib errors.

The message of the error is the first line of the message of the innermost Java exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

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
from splitlib.spark.jvm.java_handles import ForeignObject

_MOST_CHARACTERS: Final = 300
_MOST_CAUSES: Final = 20
# Keyed by the simple name of the Java class, since each storage client has its own packages.
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
    """Convert errors raised by calls to the JVM to a :class:`SplitlibError`.

    Args:
        spark: Session to make active during the calls; None if they do not depend on a session.
    """
    try:
        with active(spark):
            yield
    except JVM_ERRORS as error:
        raise _translated(error) from error


def readable(error: Exception) -> Exception:
    """Convert py4j's error to a splitlib error, and return any other error unchanged.

    The splitlib error has the message of the Java exception, which is missing in the first line of
    py4j's own message.
    """
    return _translated(error) if isinstance(error, Py4JJavaError) else error


def classes_of(error: Exception) -> list[str]:
    """Return the simple class names of a Java exception and its causes, the outermost first."""
    return [name for name, _ in _causes(error)]


def _translated(error: Exception) -> SplitlibError:
    """Convert a Java exception to the error that ``_KINDS`` has for its class.

    If several causes have an error, the outermost one applies. If none has one, the result is a
    :class:`SourceError`.
    """
    causes = list(_causes(error))
    kinds = (_KINDS[name] for name, _ in causes if name in _KINDS)
    messages = [(name, text) for name, text in causes if text] or [
        (type(error).__name__, str(error))
    ]
    name, text = messages[-1]
    first = text.strip().partition("\n")[0]
    return next(kinds, SourceError)(f"{name}: {first[:_MOST_CHARACTERS]}")


def _causes(error: Exception) -> Iterator[tuple[str, str]]:
    """Yield class name and message of a Java exception and its causes, the outermost first."""
    # PySpark's own error classes keep the Java exception in ``_origin``.
    cause: ForeignObject | None = getattr(error, "java_exception", None) or getattr(
        error, "_origin", None
    )
    for _ in range(_MOST_CAUSES):
        if cause is None:
            return
        yield cause.getClass().getSimpleName(), str(cause.getMessage() or "")
        cause = cause.getCause()
