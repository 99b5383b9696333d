"""Read the configuration of a session, where PySpark has no method or only a slow one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import SparkSession

from splitlib.spark.jvm.scala import scala_of

_BETWEEN: Final = "\x1f"


def setting_names(spark: SparkSession) -> list[str]:
    """Return the names of all settings, in one call. PySpark makes one call for each setting."""
    names = scala_of(spark).text(spark._jsparkSession.conf().getAll().keys(), "\n")
    return names.split("\n")


def hadoop_settings(
    spark: SparkSession, names: Iterable[str], prefixes: Iterable[str] = ()
) -> dict[str, str]:
    """Return Hadoop settings of the session, without the ones that are not set.

    Args:
        spark: The session.
        names: Names of settings.
        prefixes: Prefixes of further settings. All settings with one of them are returned.
    """
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    found = {name: configuration.get(name) for name in names}
    for prefix in prefixes:
        below = configuration.getPropsWithPrefix(prefix)
        found |= {f"{prefix}{name}": value for name, value in below.items()}
    return {name: str(value) for name, value in found.items() if value is not None}


def all_settings(spark: SparkSession) -> dict[str, str]:
    """Return all settings of the session, in one call."""
    found = scala_of(spark).text(spark._jsparkSession.conf().getAll(), _BETWEEN)
    pairs = (pair.partition(" -> ") for pair in found.split(_BETWEEN))
    return {name: value for name, _, value in pairs}
