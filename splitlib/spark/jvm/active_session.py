"""Activate a session in a thread, run Spark jobs that Ctrl-C cancels, and convert JVM errors.

Spark's parser, expressions and optimizer read their settings from the *active* session of the JVM
thread. Without an active session they use the default settings. Each Python thread has its own JVM
thread. In the first JVM thread, the session that was created first is active, even if a call uses
another session. Later threads start without an active session.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial, wraps
from itertools import count
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeGuard, TypeVar
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from splitlib.errors import (
    AccessDenied,
    SourceError,
    SourceUnavailable,
    SplitlibError,
    TableNotFound,
)
from splitlib.redaction import get_logger
from splitlib.remote.calls import in_pool
from splitlib.spark.jvm.gateway import JVM_ERRORS, jvm_of, session_of
from splitlib.spark.jvm.java_handles import ForeignObject, JavaObject, Option, Seq
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.scala import Scala, scala_of
from splitlib.spark.jvm.spark_handles import JvmSession, LogicalPlan, SessionState

_BETWEEN: Final = "\x1f"
_log = get_logger(__name__)
T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")
_CANCEL_AGAIN_SECONDS: Final = 0.2
_FUNCTION: Final = "org.apache.spark.sql.catalyst.FunctionIdentifier"
_TABLE: Final = "org.apache.spark.sql.catalyst.TableIdentifier"
# A query with IDENTIFIER(...) or ${...} may use any name. Its names are known only after analysis.
# Spark 3.5 shows a subquery in a Column as listquery(), scalarsubquery() or exists().
_NAMES_ANYTHING: Final = re.compile(
    r"\bidentifier\b|\$\{|\b(?:listquery|scalarsubquery|exists)\(\)", re.IGNORECASE
)
_SHARED: Final = "spark.sql.globalTempDatabase"
# Spark 3.5 lacks this class, because it has no SQL variables.
_DECLARES: Final = "org.apache.spark.sql.catalyst.plans.logical.CreateVariable"
_unknown = count()


def is_stopped(spark: SparkSession) -> bool:
    """Return whether ``spark.stop()`` was called. The JVM of the session keeps running."""
    return getattr(spark.sparkContext, "_jsc", None) is None


def setting_names(spark: SparkSession) -> list[str]:
    """Return the names of all session settings, in one JVM call instead of one per setting."""
    names = scala_of(spark).text(session_of(spark).conf().getAll().keys(), "\n")
    return names.split("\n")


def hadoop_settings(
    spark: SparkSession, names: Iterable[str], prefixes: Iterable[str] = ()
) -> dict[str, str]:
    """Return the session's Hadoop settings with certain names or prefixes, if they are set."""
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
    """Thread-local record of the session that splitlib made active, or None."""

    session: SparkSession | None = None


_here = _Here()


@contextmanager
def active(spark: object) -> Iterator[None]:
    """Make a session active in this thread, and restore the previous one when the context exits.

    Args:
        spark: A session of any class. If it gives no access to Spark's internals, nothing changes:
            splitlib then calls only Spark's public functions, which activate the session.
    """
    outer = _here.session
    if outer is spark or not _has_internals(spark):
        yield
        return
    sessions = _sessions(spark)
    if in_pool():
        # There is nothing to restore: the thread runs only splitlib's calls, and then ends.
        sessions.setActiveSession(session_of(spark))
        _here.session = spark
        yield
        return
    before: Option[JvmSession] = sessions.getActiveSession()
    sessions.setActiveSession(session_of(spark))
    _here.session = spark
    try:
        yield
    finally:
        _here.session = outer
        if before.isEmpty():
            sessions.clearActiveSession()
        else:
            sessions.setActiveSession(before.get())


def in_its_session(function: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Decorate a function so that the session of its first argument is active while it runs.

    The first argument is a session, a DataFrame, or an object whose attribute ``spark`` is a
    session. With any other argument, no session is activated, and the function itself must raise an
    error.
    """

    @wraps(function)
    def run(first: T, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with active(_session_of(first)):
            return function(first, *args, **kwargs)

    return run


class SessionThreads(ThreadPoolExecutor):
    """Thread pool that makes one session active in all its threads.

    Spark jobs inherit the local properties, such as the job group, of the thread that first calls
    :meth:`submit`. If the wait for the threads is interrupted, for example by Ctrl-C, their
    jobs are cancelled.

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
        assert self._properties is not None  # set by submit() before a thread starts
        context._jsc.sc().setLocalProperties(self._properties.clone())
        context.addJobTag(self._tag)
        # There is nothing to restore: the JVM thread ends with this thread.
        _sessions(self._spark).setActiveSession(session_of(self._spark))
        _here.session = self._spark

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Run a function in a thread of the pool, as :class:`concurrent.futures.Executor` does."""
        if self._properties is None:
            # Copy the job group, tags, pool and description, since the caller may change them.
            self._properties = self._spark.sparkContext._jsc.sc().getLocalProperties().clone()
        # The context is copied so that tracing spans become children of the caller's span.
        context = copy_context()
        future = super().submit(lambda: context.run(fn, *args, **kwargs))
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
            # Cancel repeatedly, because a function may start another job after one is cancelled.
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


def _sessions(spark: SparkSession) -> Any:
    """Return the companion object of Scala's ``SparkSession``, which holds its static methods."""
    jvm = jvm_of(spark)
    return jvm.object_(f"{jvm.sql}.SparkSession")


def _has_internals(spark: object) -> TypeGuard[SparkSession]:
    return isinstance(spark, SparkSession) and internals_unavailable(spark) is None


def _session_of(value: object) -> object:
    if isinstance(value, SparkSession):
        return value
    # Compare with None: a Column returns a Column for every attribute name, and a Column raises an
    # error if it is used as a boolean.
    found = getattr(value, "sparkSession", None)
    return getattr(value, "spark", None) if found is None else found


class _Definition(NamedTuple):
    mark: str
    """Fingerprint of the definition."""
    text: str = ""
    """SQL of the definition, which may contain further temporary names."""


class _Temporary(NamedTuple):
    """A temporary view, function or variable."""

    name: str
    define: Callable[[], _Definition]


def temporary_names(spark: SparkSession, text: str) -> dict[str, str]:
    """Return a fingerprint of each temporary view, function and variable that a query may use.

    This includes names that the definitions of these views and functions use.

    Returns:
        Fingerprints by name, such as ``v``, ``f()`` or ``variable x``. A new definition has a new
        fingerprint.
    """
    known, found, open_ = _all_temporary(spark), {}, [text]
    while open_ and known:
        text = open_.pop()
        for label in [label for label in known if _may_name(text, known[label].name)]:
            definition = known.pop(label).define()
            found[label] = definition.mark
            open_.append(definition.text)
    return found


def _may_name(text: str, name: str) -> bool:
    if _NAMES_ANYTHING.search(text):
        return True
    whole = rf"(?<!\w){re.escape(name)}(?!\w)"
    return re.search(whole, text.replace("``", "`"), re.IGNORECASE) is not None


def _all_temporary(spark: SparkSession) -> dict[str, _Temporary]:
    """Return all temporary views, functions and variables, by name, such as ``v`` or ``f()``."""
    scala, state = scala_of(spark), session_of(spark).sessionState()
    catalog = state.catalog()
    shared, database = catalog.globalTempViewManager(), state.conf().getConfString(_SHARED)
    views = scala.mapped(catalog.listLocalTempViews("*"), scala.functions.calling(_TABLE, "table"))
    found = {}
    for name in scala.texts(views):
        found[name] = _Temporary(name, partial(_view, scala, catalog.getRawTempView, name))
    for name in scala.texts(shared.listViewNames("*")):
        found[f"{database}.{name}"] = _Temporary(name, partial(_view, scala, shared.get, name))
    for name in _function_names(scala, catalog.listTemporaryFunctions()):
        found[f"{name}()"] = _Temporary(name, partial(_function, scala, state, name))
    return found | _variables(scala, state)


def _view(scala: Scala, get: Callable[[str], Option[LogicalPlan]], name: str) -> _Definition:
    view = get(name)
    if view.isEmpty():  # another thread has dropped the view
        return _Definition("")
    text = view.get().tableMeta().viewText()
    return _Definition(_identity(scala, view.get()), "" if text.isEmpty() else text.get())


def _function(scala: Scala, state: SessionState, name: str) -> _Definition:
    marks, texts = [], []
    for registry in (state.functionRegistry(), state.tableFunctionRegistry()):
        # Look up the registry's own identifiers, since some versions of Spark find a function only
        # by its qualified identifier.
        identifiers = registry.listFunction()
        for number, known in enumerate(_function_names(scala, identifiers)):
            if known == name:
                info = registry.lookupFunction(identifiers.apply(number)).get()
                marks.append(_identity(scala, info))
                texts.append(str(info.getUsage()))  # the usage includes a SQL function's body
    return _Definition(" ".join(sorted(marks)), " ".join(texts))


def _function_names(scala: Scala, identifiers: Seq[JavaObject]) -> list[str]:
    return scala.texts(scala.mapped(identifiers, scala.functions.calling(_FUNCTION, "funcName")))


def _identity(scala: Scala, object_: JavaObject) -> str:
    return str(scala.jvm.class_("java.lang.System").identityHashCode(object_))


def _variables(scala: Scala, state: SessionState) -> dict[str, _Temporary]:
    try:
        scala.jvm.reflected(_DECLARES)
    except JVM_ERRORS:
        return {}
    manager = state.catalogManager().tempVariableManager()
    if manager.isEmpty():
        return {}
    try:
        getter = scala.functions.declared(manager.getClass(), "variables")
        variables = getter.invoke(manager, scala.jvm.array_of("java.lang.Object", ()))
        names = scala.texts(variables.keys())
    except JVM_ERRORS:
        # The definitions cannot be read, so return a new fingerprint, as if they had changed.
        return {"variables": _Temporary("", lambda: _Definition(str(next(_unknown))))}

    def define(name: str) -> _Definition:
        value = variables.apply(name).currentValue()
        return _Definition(f"{value.sql()} {value.dataType().sql()}")

    return {f"variable {name}": _Temporary(name, partial(define, name)) for name in names}


def name_path(spark: SparkSession) -> str:
    """Return the SQL path, in which Spark looks up names that are written without a database.

    The result is empty if this version of Spark does not support ``SET PATH``.
    """
    try:
        return str(session_of(spark).sessionState().catalogManager().currentPathString())
    except JVM_ERRORS:
        return ""


_MOST_CHARACTERS: Final = 300
_MOST_CAUSES: Final = 20
# Keys are Java class names without the package, because each storage client defines its own class
# of the same name in its own package.
_KINDS: Final[dict[str, type[SplitlibError]]] = {
    name: kind
    for kind, names in (
        (
            AccessDenied,
            "AccessControlException|AccessDeniedException|AuthorizationException|"
            "HiveAccessControlException|HiveAuthzPluginException|SaslException|SecurityException",
        ),
        (
            SourceUnavailable,
            "AWSServiceThrottledException|AWSStatus500Exception|ConnectException|"
            "ConnectTimeoutException|InterruptedIOException|NoRouteToHostException|"
            "PortUnreachableException|RetriableException|SafeModeException|SocketException|"
            "SocketTimeoutException|StandbyException|TTransportException|TimeoutException|"
            "UnknownHostException",
        ),
        (TableNotFound, "NoSuchDatabaseException|NoSuchNamespaceException|NoSuchTableException"),
    )
    for name in names.split("|")
}


@contextmanager
def errors_of_the_jvm(spark: SparkSession | None = None) -> Iterator[None]:
    """Convert errors from JVM calls to a :class:`SplitlibError`.

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
    """Convert a Java exception to a splitlib error.

    ``_KINDS`` maps class names of Java exceptions to error classes. If several exceptions in the
    chain of causes have an entry, the outermost one is used. If none has an entry, the result is a
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
    """Yield the class names and messages of a Java exception and its causes, outermost first."""
    # PySpark's own error classes keep the Java exception in ``_origin``.
    cause: ForeignObject | None = getattr(error, "java_exception", None) or getattr(
        error, "_origin", None
    )
    for _ in range(_MOST_CAUSES):
        if cause is None:
            return
        yield cause.getClass().getSimpleName(), str(cause.getMessage() or "")
        cause = cause.getCause()
