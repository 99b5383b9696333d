"""Find the temporary views, functions and variables of a session that a query may name."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from splitlib.spark.jvm.gateway import JVM_ERRORS, session_of
from splitlib.spark.jvm.java_handles import Items, JavaObject, Option, Seq
from splitlib.spark.jvm.scala import Scala, scala_of
from splitlib.spark.jvm.spark_handles import LogicalPlan, SessionState

_BETWEEN: Final = "\x1f"
_FUNCTION: Final = "org.apache.spark.sql.catalyst.FunctionIdentifier"
_TABLE: Final = "org.apache.spark.sql.catalyst.TableIdentifier"
# With IDENTIFIER(...) or ${...}, the names in a query are not known before it is analyzed.
_NAMES_ANYTHING: Final = re.compile(r"\bidentifier\b|\$\{", re.IGNORECASE)
_SHARED: Final = "spark.sql.globalTempDatabase"
# Spark 3.5 has no variables.
_DECLARES: Final = "org.apache.spark.sql.catalyst.plans.logical.CreateVariable"
_unknown = count()


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
    """Return a fingerprint of each temporary view, function and variable that a query may name.

    Temporary names in the definitions of these views and functions are included.

    Args:
        spark: The session.
        text: The text of a query or of conditions.

    Returns:
        Fingerprints by name. A new definition has a new fingerprint.
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
    """Return all temporary views, functions and variables, by the names that messages show."""
    scala, state = scala_of(spark), session_of(spark).sessionState()
    catalog = state.catalog()
    shared, database = catalog.globalTempViewManager(), state.conf().getConfString(_SHARED)
    views = scala.mapped(catalog.listLocalTempViews("*"), scala.functions.calling(_TABLE, "table"))
    found = {}
    for name in _texts(scala, views):
        found[name] = _Temporary(name, partial(_view, scala, catalog.getRawTempView, name))
    for name in _texts(scala, shared.listViewNames("*")):
        found[f"{database}.{name}"] = _Temporary(name, partial(_view, scala, shared.get, name))
    for name in _function_names(scala, catalog.listTemporaryFunctions()):
        found[f"{name}()"] = _Temporary(name, partial(_function, scala, state, name))
    return found | _variables(scala, state)


def _view(scala: Scala, get: Callable[[str], Option[LogicalPlan]], name: str) -> _Definition:
    view = get(name)
    if view.isEmpty():  # dropped by another thread
        return _Definition("")
    text = view.get().tableMeta().viewText()
    return _Definition(_identity(scala, view.get()), "" if text.isEmpty() else text.get())


def _function(scala: Scala, state: SessionState, name: str) -> _Definition:
    marks, texts = [], []
    for registry in (state.functionRegistry(), state.tableFunctionRegistry()):
        # Some versions of Spark find a function only by its qualified identifier.
        identifiers = registry.listFunction()
        for number, known in enumerate(_function_names(scala, identifiers)):
            if known == name:
                info = registry.lookupFunction(identifiers.apply(number)).get()
                marks.append(_identity(scala, info))
                texts.append(str(info.getUsage()))  # contains the body of a SQL function
    return _Definition(" ".join(sorted(marks)), " ".join(texts))


def _function_names(scala: Scala, identifiers: Seq[JavaObject]) -> list[str]:
    return _texts(scala, scala.mapped(identifiers, scala.functions.calling(_FUNCTION, "funcName")))


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
        names = _texts(scala, variables.keys())
    except JVM_ERRORS:
        # The definitions cannot be read, so a new fingerprint makes each comparison fail.
        return {"variables": _Temporary("", lambda: _Definition(str(next(_unknown))))}

    def define(name: str) -> _Definition:
        value = variables.apply(name).currentValue()
        return _Definition(f"{value.sql()} {value.dataType().sql()}")

    return {f"variable {name}": _Temporary(name, partial(define, name)) for name in names}


def _texts(scala: Scala, names: Items[str]) -> list[str]:
    return [] if names.isEmpty() else scala.text(names, _BETWEEN).split(_BETWEEN)


def name_path(spark: SparkSession) -> str:
    """Return the path on which Spark looks up names without a database.

    The result is empty if this version of Spark does not support ``SET PATH``.
    """
    try:
        return str(session_of(spark).sessionState().catalogManager().currentPathString())
    except JVM_ERRORS:
        return ""
