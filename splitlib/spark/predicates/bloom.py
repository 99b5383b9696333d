"""Rows whose key is none of many, left out by Spark's own Bloom filter before they are joined."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from splitlib.spark.jvm.catalyst import Catalyst, each
from splitlib.spark.local_rows import local_rows

# One row in so many that has no key is kept all the same.
_FALSE_POSITIVES = 1 / 32
# A filter of a megabyte; more goes to every task for what a join does as well.
MOST_KEYS = 2**20


def among(df: DataFrame, column: str, keys: pa.Array, *, or_null: bool = False) -> DataFrame:
    """The rows whose ``column`` may be one of ``keys``; on Spark Connect all of them.

    Args:
        df: Rows to test.
        column: Of a type whose equality is that of its hashes: no float, no CHAR, no collation.
        keys: Without nulls, in a type that Spark casts to the column's without loss.
        or_null: Keep rows without a value, too.
    """
    if getattr(df.sparkSession, "_jsparkSession", None) is None:
        return df
    catalyst = Catalyst(df.sparkSession)
    plan: Any = df._jdf.queryExecution().analyzed()
    (attribute,) = (a for a in each(plan.output()) if a.name() == column)
    condition = catalyst.might_contain(_filter_of(df, column, keys), attribute)
    return catalyst.dataframe(catalyst.filtered(plan, condition, attribute if or_null else None))


def _filter_of(df: DataFrame, column: str, keys: pa.Array) -> bytes:
    """Spark's serialized filter of the keys' hashes, which depend on their type."""
    rows = local_rows(df.sparkSession, pa.table({"key": keys}))
    typed = F.col("key").cast(df.schema[column].dataType)
    hashes: Any = rows.select(F.xxhash64(typed).alias("hash"))._jdf
    made = hashes.stat().bloomFilter("hash", len(keys), _FALSE_POSITIVES)
    jvm: Any = df.sparkSession._jvm
    stream = jvm.java.io.ByteArrayOutputStream()
    made.writeTo(stream)
    return bytes(stream.toByteArray())
