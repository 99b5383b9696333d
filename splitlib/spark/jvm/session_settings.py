"""What a session is configured with, where PySpark has no way, or only a slow one, to ask."""

from __future__ import annotations

from pyspark.sql import SparkSession

from splitlib.spark.jvm.scala import scala_of


def setting_names(spark: SparkSession) -> list[str]:
    """The names of all settings; one question, where PySpark asks one for each."""
    names = scala_of(spark).text(spark._jsparkSession.conf().getAll().keys(), "\n")
    return names.split("\n")


def hadoop_setting(spark: SparkSession, name: str) -> str | None:
    """A setting of Hadoop's as the session has it."""
    value: str | None = spark._jsparkSession.sessionState().newHadoopConf().get(name)
    return value
