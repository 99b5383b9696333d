"""Count the partitions that Spark and splitlib read for different kinds of joins.

Spark's dynamic pruning does not support most of these kinds.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

import splitlib
from benchmarks.tpcds.answers import difference
from benchmarks.tpcds.explained import reasons_not_to_prune
from benchmarks.tpcds.modes import TUNED
from benchmarks.tpcds.settings import changed
from splitlib.testing.spark_counts import measure

_DAYS = "SELECT * FROM date_dim WHERE d_year = 2000 AND d_moy = 1"
_FACT = "store_sales"
_ON = "ss_sold_date_sk = d_date_sk"
_WHAT = "count(*), sum(ss_quantity)"
_CACHED = "cached_days"
# This query must differ from _DAYS. Otherwise Spark would use the cached rows in other joins too.
_CACHED_DAYS = f"{_DAYS} AND d_qoy = 1"


@dataclass(frozen=True, slots=True)
class Join:
    """One kind of join between store_sales and days."""

    title: str
    query: str
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JoinCounts:
    """Numbers of partitions of store_sales that one join reads. Each partition has one file."""

    title: str
    rows: int
    """Number of joined rows."""
    partitions: int
    """Number of partitions of the table."""
    read_by_spark: int
    """Number of partitions that Spark reads with dynamic pruning."""
    read_by_splitlib: int
    metastore_requests: int
    """Number of requests that splitlib makes to the metastore."""
    listings: int
    """Number of directories that splitlib lists."""
    reasons: tuple[str, ...]
    """Why splitlib does not prune. Empty if it does."""


JOINS: Sequence[Join] = (
    Join(
        "inner, broadcast (pruned by Spark)",
        f"SELECT /*+ BROADCAST(d) */ {_WHAT} FROM {_FACT} JOIN ({_DAYS}) d ON {_ON}",
    ),
    Join("left outer, days preserved", f"SELECT {_WHAT} FROM ({_DAYS}) LEFT JOIN {_FACT} ON {_ON}"),
    Join(
        "right outer, days preserved", f"SELECT {_WHAT} FROM {_FACT} RIGHT JOIN ({_DAYS}) ON {_ON}"
    ),
    Join(
        "sort-merge, by a hint",
        f"SELECT /*+ MERGE(d) */ {_WHAT} FROM {_FACT} JOIN ({_DAYS}) d ON {_ON}",
    ),
    Join(
        "shuffle hash, by a hint",
        f"SELECT /*+ SHUFFLE_HASH(d) */ {_WHAT} FROM {_FACT} JOIN ({_DAYS}) d ON {_ON}",
    ),
    Join(
        "a dimension over the broadcast limit",
        f"SELECT {_WHAT} FROM {_FACT} JOIN ({_DAYS}) ON {_ON}",
        {
            "spark.sql.autoBroadcastJoinThreshold": "1000",
            "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
        },
    ),
    Join("a cached dimension", f"SELECT {_WHAT} FROM {_FACT} JOIN {_CACHED} ON {_ON}"),
    Join(
        "a local dimension (pruned by Spark 4)",
        f"SELECT {_WHAT} FROM {_FACT}"
        f" JOIN VALUES (2451545), (2451546), (2451547) AS d(d_date_sk) ON {_ON}",
    ),
    Join(
        "a range",
        f"SELECT {_WHAT} FROM {_FACT} JOIN"
        f" (SELECT min(d_date_sk) AS first, max(d_date_sk) AS last FROM ({_DAYS}))"
        " ON ss_sold_date_sk BETWEEN first AND last",
    ),
    Join(
        "two intervals with half a year between them",
        f"SELECT {_WHAT} FROM {_FACT} JOIN (SELECT min(d_date_sk) AS first, max(d_date_sk) AS last"
        " FROM date_dim WHERE d_year = 2000 AND d_moy IN (1, 7) GROUP BY d_moy)"
        " ON ss_sold_date_sk BETWEEN first AND last",
    ),
    Join(
        "the latest day (one more is looked at for the plan)",
        f"SELECT {_WHAT} FROM {_FACT}"
        f" WHERE ss_sold_date_sk = (SELECT max(ss_sold_date_sk) FROM {_FACT})",
    ),
    Join(
        "whether there was a sale on a day (existence)",
        "SELECT count(*), sum(CAST(d_dom > 40 OR EXISTS"
        f" (SELECT 1 FROM {_FACT} WHERE {_ON}) AS INT)) FROM ({_DAYS})",
    ),
    Join(
        "days without a sale (anti)",
        f"SELECT count(*), sum(d_dom) FROM ({_DAYS})"
        f" WHERE NOT EXISTS (SELECT 1 FROM {_FACT} WHERE {_ON})",
    ),
    Join(
        "null-safe",
        f"SELECT {_WHAT} FROM {_FACT} JOIN ({_DAYS}) ON {_ON.replace('=', '<=>')}",
    ),
    Join(
        "a flat snowflake",
        f"SELECT {_WHAT} FROM {_FACT} JOIN date_dim AS d ON {_ON}"
        " JOIN date_dim AS one ON d.d_month_seq = one.d_month_seq"
        " WHERE one.d_date = DATE '2000-01-05'",
    ),
)


def count_left_alone(spark: SparkSession, partitions: int) -> list[JoinCounts]:
    """Count the partitions that each kind of join reads, on tables of the current database.

    Args:
        spark: A classic session with default settings.
        partitions: Number of partitions of the fact table.

    Raises:
        RuntimeError: splitlib returns other rows than Spark.
    """
    spark.sql(f"CACHE TABLE {_CACHED} AS {_CACHED_DAYS}")
    try:
        return [_count(spark, join, partitions) for join in JOINS]
    finally:
        spark.catalog.dropTempView(_CACHED)


def _count(spark: SparkSession, join: Join, partitions: int) -> JoinCounts:
    with changed(spark, {**TUNED.settings, **join.settings}):
        theirs = measure(spark, lambda: spark.sql(join.query))
        optimized = splitlib.sql(spark, join.query)
        ours = measure(spark, lambda: optimized)
    if wrong := difference(ours.result, theirs.result):
        raise RuntimeError(f"{join.title}: {wrong}")
    [(rows, _)] = ours.result
    report = splitlib.explain(optimized)
    counts = JoinCounts(
        title=join.title,
        rows=rows,
        partitions=partitions,
        read_by_spark=theirs.files_read,
        read_by_splitlib=ours.files_read,
        metastore_requests=report.catalog_requests,
        listings=report.storage_requests,
        reasons=reasons_not_to_prune(report),
    )
    print(counts, file=sys.stderr)
    return counts
