"""splitlib's own settings in a session's configuration."""

from __future__ import annotations

from pyspark.sql import SparkSession

from splitlib.config import SPARK_PREFIX
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.session_settings import setting_names


def settings_of(spark: SparkSession) -> dict[str, str]:
    """Every ``spark.splitlib.*`` that the session has."""
    if internals_unavailable(spark) is not None:
        return {k: v for k, v in spark.conf.getAll.items() if k.startswith(SPARK_PREFIX)}
    names = [name for name in setting_names(spark) if name.startswith(SPARK_PREFIX)]
    return {name: str(spark.conf.get(name)) for name in names}
