"""The two time zones of a Spark session: its own setting, and the default zone of its JVM."""

from __future__ import annotations

from pyspark.sql import SparkSession


def session_time_zone(spark: SparkSession) -> str:
    """Return the time zone in which Spark reads and shows timestamps, and derives their dates."""
    return str(spark.conf.get("spark.sql.session.timeZone"))


def jvm_time_zone(spark: SparkSession) -> str:
    """Return the default time zone of Spark's JVM.

    Spark's Hive reader parses timestamps in this zone, regardless of the session's time zone.
    """
    row = spark.range(1).selectExpr("reflect('java.time.ZoneId', 'systemDefault')").first()
    if row is None:
        raise ValueError("Spark did not return the time zone of its JVM")
    return str(row[0])
