"""What a session is configured with, where PySpark has no way, or only a slow one, to ask."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from splitlib.spark.jvm.scala import scala_of


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
