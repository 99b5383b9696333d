"""splitlib's own settings in a session's configuration."""

from __future__ import annotations

from pyspark.sql import SparkSession

from splitlib.config import SPARK_PREFIX


def settings_of(spark: SparkSession) -> dict[str, str]:
    """Every ``spark.splitlib.*`` that the session has."""
    session = getattr(spark, "_jsparkSession", None)
    if session is None:
        return {k: v for k, v in spark.conf.getAll.items() if k.startswith(SPARK_PREFIX)}
    # one question to the JVM, instead of one for each setting of Spark's own
    names = session.conf().getAll().keys().mkString("\n").split("\n")
    return {name: str(spark.conf.get(name)) for name in names if name.startswith(SPARK_PREFIX)}
