"""What a session is configured with, where PySpark has no way, or only a slow one, to ask."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from splitlib.spark.jvm.scala import scala_of


def setting_names(spark: SparkSession) -> list[str]:
    """The names of all settings; one question, where PySpark asks one for each."""
    names = scala_of(spark).text(spark._jsparkSession.conf().getAll().keys(), "\n")
    return names.split("\n")


def hadoop_settings(spark: SparkSession, names: Iterable[str]) -> dict[str, str]:
    """Settings of Hadoop's as the session has them, those that are set."""
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    found = {name: configuration.get(name) for name in names}
    return {name: str(value) for name, value in found.items() if value is not None}


def hadoop_settings_below(spark: SparkSession, prefixes: Iterable[str]) -> dict[str, str]:
    """Settings of Hadoop's whose names begin so; by these names."""
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    return {
        f"{prefix}{name}": str(value)
        for prefix in prefixes
        for name, value in configuration.getPropsWithPrefix(prefix).items()
    }
