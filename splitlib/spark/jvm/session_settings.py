"""What a session is configured with, where PySpark has no way, or only a slow one, to ask."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import SparkSession

from splitlib.spark.jvm.gateway import jvm_of
from splitlib.spark.jvm.scala import each, scala_of

_BETWEEN: Final = "\x1f"


def setting_names(spark: SparkSession) -> list[str]:
    """The names of all settings; one question, where PySpark asks one for each."""
    names = scala_of(spark).text(spark._jsparkSession.conf().getAll().keys(), "\n")
    return names.split("\n")


def hadoop_settings(
    spark: SparkSession, names: Iterable[str], prefixes: Iterable[str] = ()
) -> dict[str, str]:
    """Settings of Hadoop's as the session has them, those that are set.

    Args:
        spark: The session.
        names: Of settings.
        prefixes: Beginnings of the names of others.
    """
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    found = {name: configuration.get(name) for name in names}
    for prefix in prefixes:
        below = configuration.getPropsWithPrefix(prefix)
        found |= {f"{prefix}{name}": value for name, value in below.items()}
    return {name: str(value) for name, value in found.items() if value is not None}


def all_settings(spark: SparkSession) -> dict[str, str]:
    """All settings that are set, in one piece."""
    found = scala_of(spark).text(spark._jsparkSession.conf().getAll(), _BETWEEN)
    pairs = (pair.partition(" -> ") for pair in found.split(_BETWEEN))
    return {name: value for name, _, value in pairs}


def temporary_views(spark: SparkSession, text: str) -> dict[str, int]:
    """A number for each temporary view whose name occurs in a text; another view has another."""
    catalog = spark._jsparkSession.sessionState().catalog()
    identity = jvm_of(spark).class_("java.lang.System").identityHashCode
    lower = text.lower()
    names = (str(view.table()) for view in each(catalog.listLocalTempViews("*")))
    found = {name: catalog.getRawTempView(name) for name in names if name.lower() in lower}
    return {name: int(identity(view.get())) for name, view in found.items() if view.isDefined()}
