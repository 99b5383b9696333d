"""Rows whose key is none of many, left out by Spark's own Bloom filter before they are joined."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from splitlib.spark.jvm.conditions import rows_that_may_match
from splitlib.spark.jvm.dataframes import bloom_filter
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.local_rows import local_rows

# One row in so many that has no key is kept all the same.
_FALSE_POSITIVES = 1 / 32
# A filter of a megabyte; more goes to every task for what a join does as well.
MOST_KEYS = 2**20


def among(
    df: DataFrame, column: str, keys: pa.Array, *, or_null: bool = False, how: str = "auto"
) -> DataFrame:
    """The rows whose ``column`` may be one of ``keys``; without Spark's internals all of them.

    Args:
        df: Rows to test.
        column: Of a type whose equality is that of its hashes: no float, no CHAR, no collation.
        keys: Without nulls, in a type that Spark casts to the column's without loss.
        or_null: Keep rows without a value, too.
        how: Files are read, as for :func:`splitlib.spark.scan.files.scan_files`.
    """
    if internals_unavailable(df.sparkSession, how) is not None:
        return df
    rows = local_rows(df.sparkSession, pa.table({"key": keys}))
    # the hash of a value depends on its type
    typed = F.col("key").cast(df.schema[column].dataType)
    found = filter_of_hashes(rows.select(F.xxhash64(typed)), len(keys))
    return rows_that_may_match(df, column, found, or_null=or_null)


def filter_of_hashes(hashes: DataFrame, count: int) -> bytes:
    """A Bloom filter of one column of hashes that is made for ``count`` different ones."""
    # Spark fails to make one of no rows
    at_least_one = hashes.union(hashes.sparkSession.range(1).select(F.lit(0).cast("bigint")))
    return bloom_filter(at_least_one, count, _FALSE_POSITIVES)


def share_of_bits(found: bytes) -> float:
    """How full a Bloom filter is; half, with as many hashes as it was made for."""
    return int.from_bytes(found).bit_count() / (8 * len(found))
