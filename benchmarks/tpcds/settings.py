"""Settings of the benchmark's session, and some that hold for a block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

SESSION = {
    # without DPP two gigabytes are too little for the broadcasts of some queries at scale 1
    "spark.driver.memory": "6g",
    # Spark does not count what Parquet reads in this way
    "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
}


@contextmanager
def changed(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set them, and after the block what was set before."""
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
