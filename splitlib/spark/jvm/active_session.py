"""The session whose settings count in a thread, and threads that run jobs for one.

Spark's parser, its expressions and its optimizer ask the *active* session of a JVM thread for its
settings, and where there is none they take the defaults. Each thread of Python has a thread of the
JVM to itself, in which no session is active at first; and in the first thread it is the first
session, whichever is used.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeGuard, TypeVar
from uuid import uuid4

from pyspark.sql import SparkSession

from splitlib.redaction import get_logger
from splitlib.spark.jvm.gateway import JVM_ERRORS, jvm_of
from splitlib.spark.jvm.probe import internals_unavailable

_log = get_logger(__name__)

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")

_SESSIONS: Final = "org.apache.spark.sql.classic.SparkSession"
_CANCEL_AGAIN_SECONDS: Final = 0.2


class _Here(threading.local):
    """The session that splitlib has made active in this thread."""

    session: SparkSession | None = None


_here = _Here()


@contextmanager
def active(spark: object) -> Iterator[None]:
    """Make a session the active one of this thread, and then that which was active before.

    Args:
        spark: A session of any class. Where its internals are out of reach nothing is done: Spark's
            public functions make their session active themselves.
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
        sessions = jvm_of(spark).object_(_SESSIONS)
        if before.isEmpty():
            sessions.clearActiveSession()
        else:
            sessions.setActiveSession(before.get())


def in_its_session(
    function: Callable[Concatenate[T, P], R],
) -> Callable[Concatenate[T, P], R]:
    """The function with the session of its first argument active in this thread.

    That is a session, a DataFrame or what has a session as ``spark``; anything else is for the
    function to refuse.
    """

    @wraps(function)
    def run(first: T, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with active(_session_of(first)):
            return function(first, *args, **kwargs)

    return run


class SessionThreads(ThreadPoolExecutor):
    """Threads that work for one session, and what is set for jobs of the thread that makes them.

    Where the wait for them is interrupted, as by Ctrl-C, their jobs are cancelled.

    Args:
        spark: The session.
        most: How many threads.
        name: What they are called in a thread dump.
    """

    def __init__(self, spark: SparkSession, most: int, name: str) -> None:
        self._spark = spark
        self._submitted: list[Future[Any]] = []
        self._tag = f"splitlib-{uuid4().hex}"
        self._properties: Any = None
        super().__init__(most, name, initializer=self._begin)

    def _begin(self) -> None:
        context: Any = self._spark.sparkContext
        context._jsc.sc().setLocalProperties(self._properties.clone())
        context.addJobTag(self._tag)
        # for as long as the thread lives, as its thread in the JVM does
        _activate(self._spark)
        _here.session = self._spark

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """See :class:`concurrent.futures.Executor`."""
        if self._properties is None:
            context: Any = self._spark.sparkContext
            # job groups, tags, pools and descriptions, which may change meanwhile
            self._properties = context._jsc.sc().getLocalProperties().clone()
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
                _log.debug("The jobs cannot be cancelled.", exc_info=True)
                return
            # what runs several jobs may just begin another one
            running = wait(running, _CANCEL_AGAIN_SECONDS).not_done


def interruptibly(spark: SparkSession, work: Callable[[], R]) -> R:
    """The result of what runs jobs of Spark's; Ctrl-C cancels them.

    It is Python's main thread that Ctrl-C interrupts. If that waits for the JVM itself then the
    call that would cancel the job has to wait behind it, on the same connection.
    """
    if threading.current_thread() is not threading.main_thread() or not _has_internals(spark):
        return work()
    with SessionThreads(spark, 1, "splitlib-job") as threads:
        return threads.submit(work).result()


def _activate(spark: SparkSession) -> Any:
    """Make a session the active one; what was it before, an ``Option``."""
    sessions = jvm_of(spark).object_(_SESSIONS)
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    return before


def _has_internals(spark: object) -> TypeGuard[SparkSession]:
    return isinstance(spark, SparkSession) and internals_unavailable(spark) is None


def _session_of(value: object) -> object:
    if isinstance(value, SparkSession):
        return value
    return getattr(value, "sparkSession", None) or getattr(value, "spark", None)
