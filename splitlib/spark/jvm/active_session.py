"""Set the active session of a thread, and run Spark jobs in threads of a session.

Spark's parser, expressions and optimizer read their settings from the *active* session of the JVM
thread. Without an active session they use the default settings. Each Python thread has its own JVM
thread. In the first JVM thread, the session that was created first is active, even if a call uses
another session. Later threads start without an active session.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeGuard, TypeVar
from uuid import uuid4

from pyspark.sql import SparkSession

from splitlib.redaction import get_logger
from splitlib.spark.jvm.gateway import JVM_ERRORS, jvm_of, session_of
from splitlib.spark.jvm.java_handles import ForeignObject, Option
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.scala import scala_of
from splitlib.spark.jvm.spark_handles import JvmSession

_BETWEEN: Final = "\x1f"
_log = get_logger(__name__)
T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")
_CANCEL_AGAIN_SECONDS: Final = 0.2


def setting_names(spark: SparkSession) -> list[str]:
    """Return the names of all settings, in one JVM call. PySpark makes one call per setting."""
    names = scala_of(spark).text(session_of(spark).conf().getAll().keys(), "\n")
    return names.split("\n")


def hadoop_settings(
    spark: SparkSession, names: Iterable[str], prefixes: Iterable[str] = ()
) -> dict[str, str]:
    """Return Hadoop settings of the session, without the ones that are not set.

    Args:
        spark: The session.
        names: Names of settings.
        prefixes: Prefixes of further settings to return.
    """
    configuration = session_of(spark).sessionState().newHadoopConf()
    found = {name: configuration.get(name) for name in names}
    for prefix in prefixes:
        below = configuration.getPropsWithPrefix(prefix)
        found |= {f"{prefix}{name}": value for name, value in below.items()}
    return {name: str(value) for name, value in found.items() if value is not None}


def all_settings(spark: SparkSession) -> dict[str, str]:
    """Return all settings of the session, in one JVM call."""
    found = scala_of(spark).text(session_of(spark).conf().getAll(), _BETWEEN)
    pairs = (pair.partition(" -> ") for pair in found.split(_BETWEEN))
    return {name: value for name, _, value in pairs}


class _Here(threading.local):
    """Session that splitlib made active in this thread, or None."""

    session: SparkSession | None = None


_here = _Here()


@contextmanager
def active(spark: object) -> Iterator[None]:
    """Make a session active in this thread, and restore the previous one when the context exits.

    Args:
        spark: A session of any class. Without access to Spark's internals, nothing changes, because
            only Spark's public functions are called, and these activate their session themselves.
    """
    if not _has_internals(spark) or _here.session is spark:
        yield
        return
    outer = _here.session
    before = _activate(spark)
    _here.session = spark
    try:
        yield
    finally:
        _here.session = outer
        sessions = _sessions(spark)
        if before.isEmpty():
            sessions.clearActiveSession()
        else:
            sessions.setActiveSession(before.get())


def in_its_session(
    function: Callable[Concatenate[T, P], R],
) -> Callable[Concatenate[T, P], R]:
    """Decorate a function so that the session of its first argument is active while it runs.

    The first argument is a session, a DataFrame, or an object whose attribute ``spark`` is a
    session. With any other argument, no session is activated, and the function has to reject it.
    """

    @wraps(function)
    def run(first: T, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with active(_session_of(first)):
            return function(first, *args, **kwargs)

    return run


class SessionThreads(ThreadPoolExecutor):
    """Thread pool in whose threads a session is active.

    Spark jobs get the local properties of the thread that first calls :meth:`submit`, such as its
    job group. If the wait for the threads is interrupted, for example by Ctrl-C, their Spark jobs
    are cancelled.

    Args:
        spark: The session that is active in the threads.
        most: Maximum number of threads.
        name: Prefix of the threads' names, shown in thread dumps.
    """

    def __init__(self, spark: SparkSession, most: int, name: str) -> None:
        self._spark = spark
        self._submitted: list[Future[Any]] = []
        self._tag = f"splitlib-{uuid4().hex}"
        self._properties: ForeignObject | None = None
        super().__init__(most, name, initializer=self._begin)

    def _begin(self) -> None:
        context = self._spark.sparkContext
        assert self._properties is not None  # set by ``submit``
        context._jsc.sc().setLocalProperties(self._properties.clone())
        context.addJobTag(self._tag)
        # There is nothing to restore: the JVM thread ends with this thread.
        _activate(self._spark)
        _here.session = self._spark

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Run a function in a thread of the pool, as :class:`concurrent.futures.Executor` does."""
        if self._properties is None:
            # Copy the job group, tags, pool and description, since the caller may change them.
            self._properties = self._spark.sparkContext._jsc.sc().getLocalProperties().clone()
        future = super().submit(fn, *args, **kwargs)
        self._submitted.append(future)
        return future

    def __exit__(self, kind: type[BaseException] | None, *details: Any) -> bool | None:
        if kind is not None and not issubclass(kind, Exception):
            self._cancel()
        return super().__exit__(kind, *details)

    def _cancel(self) -> None:
        self.shutdown(wait=False, cancel_futures=True)
        running = set(self._submitted)
        while running:
            try:
                self._spark.sparkContext.cancelJobsWithTag(self._tag)
            except JVM_ERRORS:
                _log.debug("The jobs could not be cancelled.", exc_info=True)
                return
            # Cancel repeatedly: after one job is cancelled, the same call may start another one.
            running = wait(running, _CANCEL_AGAIN_SECONDS).not_done


def interruptibly(spark: SparkSession, work: Callable[[], R]) -> R:
    """Return the result of a function that runs Spark jobs, and cancel the jobs on Ctrl-C.

    Ctrl-C interrupts only Python's main thread. If the main thread waited for the JVM, the call
    that cancels the jobs would have to wait for the same connection. So the function runs in
    another thread.
    """
    if threading.current_thread() is not threading.main_thread() or not _has_internals(spark):
        return work()
    with SessionThreads(spark, 1, "splitlib-job") as threads:
        return threads.submit(work).result()


def _activate(spark: SparkSession) -> Option[JvmSession]:
    """Make a session active, and return the previous active session as a Scala ``Option``."""
    sessions = _sessions(spark)
    before: Option[JvmSession] = sessions.getActiveSession()
    sessions.setActiveSession(session_of(spark))
    return before


def _sessions(spark: SparkSession) -> Any:
    """Return the companion object of the JVM's ``SparkSession``."""
    jvm = jvm_of(spark)
    return jvm.object_(f"{jvm.sql}.SparkSession")


def _has_internals(spark: object) -> TypeGuard[SparkSession]:
    return isinstance(spark, SparkSession) and internals_unavailable(spark) is None


def _session_of(value: object) -> object:
    if isinstance(value, SparkSession):
        return value
    return getattr(value, "sparkSession", None) or getattr(value, "spark", None)
