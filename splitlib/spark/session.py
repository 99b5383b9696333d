"""Read settings from a session's configuration."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from splitlib.config import SPARK_PREFIX
from splitlib.hive.file_types import SETTINGS
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.session_settings import setting_names

# Settings that affect how Spark infers the schema of directories.
_OF_DIRECTORIES = (
    "spark.sql.orc.mergeSchema",
    "spark.sql.parquet.mergeSchema",
    "spark.sql.sources.partitionColumnTypeInference.enabled",
    "spark.sql.timestampType",
)


def active_session() -> SparkSession | None:
    """Return the active session of this thread, else the default session, else None."""
    try:
        return SparkSession.active()
    except PySparkException:
        return None


def settings_of(spark: SparkSession) -> dict[str, str]:
    """Return all ``spark.splitlib.*`` settings of the session."""
    if internals_unavailable(spark) is not None:
        return {k: v for k, v in spark.conf.getAll.items() if k.startswith(SPARK_PREFIX)}
    names = [name for name in setting_names(spark) if name.startswith(SPARK_PREFIX)]
    return {name: str(spark.conf.get(name)) for name in names}


def settings_of_directories(spark: SparkSession) -> dict[str, str]:
    """Return the session's settings for inferring columns and partition keys of directories."""
    found = {name: spark.conf.get(name, None) for name in (*_OF_DIRECTORIES, *SETTINGS)}
    return {name: str(value) for name, value in found.items() if value is not None}
