"""The two time zones of a Spark session: the one that it shows times in, and its JVM's own."""

from __future__ import annotations

from pyspark.sql import SparkSession


def session_time_zone(spark: SparkSession) -> str:
    """The zone in which Spark reads and shows timestamps, and the days that they fall on."""
    return str(spark.conf.get("spark.sql.session.timeZone"))


def jvm_time_zone(spark: SparkSession) -> str:
    """The default zone of Spark's JVM, in which its Hive reader reads the text of timestamps.

    The session's zone has no say in it.
    """
    row = spark.range(1).selectExpr("reflect('java.time.ZoneId', 'systemDefault')").first()
    if row is None:
        raise ValueError("Spark does not tell the time zone of its JVM")
    return str(row[0])
