"""Translate a session's Hadoop settings for storage into options of fsspec filesystems."""

from __future__ import annotations

from pyspark.sql import SparkSession

from splitlib.spark.compat import all_settings
from splitlib.spark.jvm.active_session import hadoop_settings
from splitlib.spark.jvm.hadoop import HadoopFileSystem
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.storage import CLOUDS, OptionsByProtocol


def storage_options_of(spark: SparkSession) -> OptionsByProtocol:
    """Return the fsspec options that correspond to the session's Hadoop settings.

    The options for S3 come from ``fs.s3a.*``, for Azure from ``fs.azure.*``, and for Google from
    ``fs.gs.*``. Options that are not set are omitted, so that the client applies its defaults. S3
    buckets and Azure accounts with their own settings get their own options.

    For schemes that fsspec does not support, such as HDFS without Hadoop's libraries, a classic
    session provides its Hadoop filesystems.
    """
    clouds = tuple(dict.fromkeys(CLOUDS.values()))
    names = [name for cloud in clouds for name in cloud.hadoop_names]
    prefixes = tuple(prefix for cloud in clouds for prefix in cloud.hadoop_prefixes)
    if internals_unavailable(spark) is None:
        settings = hadoop_settings(spark, names, prefixes)
        filesystem = HadoopFileSystem(spark)
    else:
        given = _set_in_spark(spark).items()
        settings = {k: v for k, v in given if k in names or k.startswith(prefixes)}
        filesystem = None
    found = {
        store: own.to_fsspec()
        for cloud in clouds
        for store, own in cloud.from_hadoop(settings).items()
    }
    # Options of a bucket or account replace the general ones, even if they are empty.
    found = {store: options for store, options in found.items() if options or "://" in store}
    return OptionsByProtocol(found, filesystem=filesystem)


def _set_in_spark(spark: SparkSession) -> dict[str, str]:
    """Return the settings of a session. Names with "spark.hadoop." are also present without it."""
    known = all_settings(spark)
    prefix = "spark.hadoop."
    return {k.removeprefix(prefix): v for k, v in known.items() if k.startswith(prefix)} | known
