"""Measure the time to the first row of a join with more keys than Spark sends to the metastore.

Above ``spark.sql.hive.metastorePartitionPruningInSetThreshold`` values (1,000), Spark sends only
their minimum and maximum to the metastore. In this benchmark the keys are spread over all
partitions, and most keys do not have a partition.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.measure import Contender, in_turns
from benchmarks.metastore_tables import open_metastore
from benchmarks.queries import BY_HAND, GIVEN_KEYS, JOIN_KEYS, StarQueries
from benchmarks.results import Comparison, Result, within
from benchmarks.session import spark_session
from benchmarks.sizes import Sizes
from benchmarks.star import Star, build_stars


def run(sizes: Sizes, directory: Path) -> Result:
    with open_metastore(directory) as metastore:
        star, small = build_stars(metastore, directory, sizes, sizes.partitions)
        with spark_session(directory, metastore.spark_conf()) as spark:
            in_turns("warming up", _contenders(spark, metastore.uri, small), sizes.warm_up)
            contenders = _contenders(spark, metastore.uri, star)
            # The first calls after a metastore starts take ten times as long.
            in_turns("warming up the metastore", contenders, min(1, sizes.warm_up))
            comparison = Comparison(
                f"first row, {star.partitions:,} partitions, {len(star.many):,} keys of which "
                f"{len(star.few)} have a partition",
                "seconds, cold",
                JOIN_KEYS,
                in_turns("many keys", contenders, sizes.repeat),
            )
    targets = [
        within(f"{name} / {BY_HAND}", comparison[name], comparison[BY_HAND], 1 / 3)
        for name in (JOIN_KEYS, GIVEN_KEYS)
    ]
    return Result("many_keys", [comparison], targets)


def _contenders(spark: SparkSession, uri: str, star: Star) -> list[Contender]:
    queries = StarQueries(spark, uri, star, "many", True, {})
    return [
        # A metastore may reject a filter of this size.
        queries.contender(BY_HAND, queries.by_hand, may_fail=True),
        queries.contender(JOIN_KEYS, queries.join_keys),
        queries.contender(GIVEN_KEYS, queries.given_keys),
    ]
