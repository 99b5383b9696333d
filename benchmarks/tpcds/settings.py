"""Settings of the benchmark's session, and a context manager that changes settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

SESSION = {
    # Without DPP, two gigabytes are not enough for the broadcasts of some queries at scale 1.
    "spark.driver.memory": "6g",
    # Spark does not count bytes that Parquet reads by vectored IO.
    "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
}


@contextmanager
def changed(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings for the ``with`` block, and restore the old values after it."""
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, known in before.items():
            if known is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, known)
