"""Check whether a session's Spark has the internal classes that splitlib uses.

The version number is not enough, because vendors ship builds with the same number and different
internals. So the check looks up all classes, constructors and methods in the session's JVM. Then it
creates a file index with a dummy file, and checks that Spark lists it. Each step takes only a few
calls, since the JVM does all lookups at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from weakref import WeakKeyDictionary

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from splitlib.model import FILE_SCHEMA
from splitlib.redaction import get_logger
from splitlib.spark.jvm.file_index import pinned_index
from splitlib.spark.jvm.gateway import JVM_ERRORS, has_threads_of_its_own, session_of
from splitlib.spark.jvm.java_handles import ClassLoader, Function, JavaClass, JavaObject, Seq
from splitlib.spark.jvm.known_internals import Member, known_classes, known_members
from splitlib.spark.jvm.scala import Scala, scala_of
from splitlib.spark.jvm.spark_handles import JvmSession

_log = get_logger(__name__)

answers: WeakKeyDictionary[SparkSession, str | None] = WeakKeyDictionary()
"""Results of :func:`internals_unavailable`, by session. No session is checked twice."""
_CLASS: Final = "java.lang.Class"
_METHOD_TYPE: Final = "java.lang.invoke.MethodType"
_ROW: Final = "org.apache.spark.sql.catalyst.InternalRow"


def internals_unavailable(session: object, how: str = "auto") -> str | None:
    """Return a clause that says why Spark's internals are unavailable, or None if available.

    Args:
        session: A session of any class.
        how: ``auto``, ``pinned`` or ``paths``, as for :func:`splitlib.spark.scan.scan_files`. With
            ``paths``, only Spark's public API is used.
    """
    if how == "paths":
        return "files are read by path"
    if not isinstance(session, SparkSession):
        return "Spark Connect gives no access to the JVM"
    if session not in answers:
        answers[session] = _probed(session)
    return answers[session]


def _probed(spark: SparkSession) -> str | None:
    if not has_threads_of_its_own(spark):
        return "Python threads share JVM threads and their settings (PYSPARK_PIN_THREAD=false)"
    try:
        scala = scala_of(spark)
        missing = _missing_internals(scala, spark)
        if missing is None:
            _list_made_up_file(scala, session_of(spark))
    except (*JVM_ERRORS, RuntimeError) as error:
        _log.debug("The check of Spark's internals failed.", exc_info=True)
        message = str(error).partition("\n")[0]
        return f"the internals of this Spark {spark.version} fail: {message}"
    if missing is None:
        return None
    return f"the internals of this Spark {spark.version} differ: {missing}"


def _missing_internals(scala: Scala, spark: SparkSession) -> str | None:
    """Return the first class or member that is missing or differs, or None if there is none."""
    session = session_of(spark)
    functions, loader = scala.functions, session.getClass().getClassLoader()
    load = functions.bound(
        functions.method("java.lang.ClassLoader", "loadClass", "java.lang.String"), 0, loader
    )
    loaded = functions.function(load)
    members = list(known_members(scala.jvm.sql, scala.seq_class))
    by_finder = {
        "findVirtual": [m for m in members if not m.is_static and m.name != "new"],
        "findStatic": [m for m in members if m.is_static],
        "findConstructor": [m for m in members if m.name == "new"],
    }
    try:
        scala.mapped(_column(scala, known_classes(scala.jvm.sql)), loaded)
        for finder, found in by_finder.items():
            if found:
                _find_all(scala, loader, loaded, finder, found)
    except Py4JJavaError as error:
        cause = error.java_exception
        while cause.getMessage() is None:  # Java adds outer exceptions that have no message
            cause = cause.getCause()
        return str(cause.getMessage())
    return None


def _find_all(
    scala: Scala,
    loader: ClassLoader,
    loaded: Function[JavaClass],
    finder: str,
    members: Sequence[Member],
) -> None:
    """Look up members by name and types. The first missing member raises an error.

    Args:
        scala: Access to Scala's library in the session's JVM.
        loader: The class loader of Spark's classes.
        loaded: Scala function that loads a class by its name.
        finder: The method of ``MethodHandles.Lookup`` for this kind of member.
        members: Members of one kind, at least one.
    """
    functions = scala.functions
    has_name = finder != "findConstructor"
    kinds = [_CLASS, "java.lang.String", _METHOD_TYPE] if has_name else [_CLASS, _METHOD_TYPE]
    lookup = scala.jvm.class_("java.lang.invoke.MethodHandles").publicLookup()
    find = functions.method("java.lang.invoke.MethodHandles$Lookup", finder, *kinds)
    classes = scala.mapped(_column(scala, [member.class_ for member in members]), loaded)
    types = _types(scala, loader, members)
    names = [_column(scala, [member.name for member in members])] if has_name else []
    bound = functions.function(functions.bound(find, 0, lookup), len(kinds))
    scala.zipped(bound, classes, *names, types)


def _types(scala: Scala, loader: ClassLoader, members: Sequence[Member]) -> Seq[JavaObject]:
    functions = scala.functions
    parse = functions.method(
        _METHOD_TYPE, "fromMethodDescriptorString", "java.lang.String", "java.lang.ClassLoader"
    )
    parsed = functions.function(functions.bound(parse, 1, loader))
    return scala.mapped(_column(scala, [member.descriptor for member in members]), parsed)


def _column(scala: Scala, texts: Sequence[str]) -> Seq[str]:
    """Send strings to the JVM in one call, and return them as a ``Seq``."""
    lines = scala.jvm.class_("java.util.regex.Pattern").compile("\n").split("\n".join(texts))
    return scala.seq_of_array(lines)


def _list_made_up_file(scala: Scala, session: JvmSession) -> None:
    """Check that Spark lists a dummy file, with the same code that lists real files."""
    files = pa.table([["file:/splitlib/f"], [1], [2], [0]], schema=FILE_SCHEMA)
    keys = session.parseDataType(StructType([StructField("k", IntegerType())]).json())
    row = scala.jvm.object_(_ROW).fromSeq(scala.seq([7]))
    rows = scala.jvm.array_of(_ROW, [row])
    index = pinned_index(scala, session, files, keys, rows, "probe")
    listed = index.listFiles(scala.nil, scala.nil).mkString()
    if "[7]" not in listed or "file:/splitlib/f" not in listed:
        raise RuntimeError(f"Spark listed a made-up file as {listed}")
