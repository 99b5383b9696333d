"""Filter rows by many keys with Spark's own Bloom filter, before they are joined."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from splitlib.spark.jvm.conditions import rows_that_may_match
from splitlib.spark.jvm.dataframes import bloom_filter
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.local_rows import local_rows

# Share of rows without a matching key that the filter keeps.
_FALSE_POSITIVES = 1 / 32
# A filter for this many keys has about a megabyte. Larger ones cost each task more than they save.
MOST_KEYS = 2**20


def among(
    df: DataFrame, column: str, keys: pa.Array, *, or_null: bool = False, how: str = "auto"
) -> DataFrame:
    """Keep the rows whose ``column`` may be one of ``keys``; all rows without Spark's internals.

    Args:
        df: Rows to test.
        column: Column to test. Equal values must have equal hashes: no float, CHAR or collation.
        keys: Keys without nulls. Spark must be able to cast them to the column's type losslessly.
        or_null: Whether to keep rows with a null, too.
        how: Access to Spark's internals, see :func:`splitlib.spark.scan.files.scan_files`.
    """
    if internals_unavailable(df.sparkSession, how) is not None:
        return df
    rows = local_rows(df.sparkSession, pa.table({"key": keys}))
    # The hash of a value depends on its type.
    typed = F.col("key").cast(df.schema[column].dataType)
    found = filter_of_hashes(rows.select(F.xxhash64(typed)), len(keys))
    return rows_that_may_match(df, column, found, or_null=or_null)


def filter_of_hashes(hashes: DataFrame, count: int) -> bytes:
    """Build a Bloom filter from a column of hashes, sized for ``count`` distinct hashes."""
    # Spark cannot build a filter from zero rows.
    at_least_one = hashes.union(hashes.sparkSession.range(1).select(F.lit(0).cast("bigint")))
    return bloom_filter(at_least_one, count, _FALSE_POSITIVES)


def share_of_bits(found: bytes) -> float:
    """Return the share of bits set in a Bloom filter: about half when it is full."""
    return int.from_bytes(found).bit_count() / (8 * len(found))
