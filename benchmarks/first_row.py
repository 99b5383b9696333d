"""Measure the time to the first row and to the last row of a join that needs few partitions.

Before each run, Spark's cached tables and listings are dropped.

The contenders are:

- Spark's dynamic partition pruning, with default settings and with tuned listing
- Spark with the partition values written into the query by hand
- splitlib with given keys, and splitlib with keys that it collects from the dimension
- only the steps that the query cannot do without

On a larger table only the last two contenders are measured, since Spark would list it for minutes.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.measure import Contender, in_turns
from benchmarks.metastore_tables import open_metastore
from benchmarks.queries import BY_HAND, FLOOR, GIVEN_KEYS, JOIN_KEYS, SHIPPED, TUNED, StarQueries
from benchmarks.results import Comparison, Result, Target, within
from benchmarks.session import spark_session
from benchmarks.sizes import Sizes
from benchmarks.star import Star, build_stars


def run(sizes: Sizes, directory: Path) -> Result:
    with open_metastore(directory) as metastore:
        star, small = build_stars(metastore, directory, sizes, sizes.partitions)
        larger, _ = build_stars(metastore, directory, sizes, sizes.more_partitions)
        with spark_session(directory, metastore.spark_conf()) as spark:
            in_turns("warming up", _contenders(spark, metastore.uri, small, True), sizes.warm_up)
            # The first calls after a metastore starts take ten times as long. The first contender
            # is left out, because it is the slowest and sends the same calls as the tuned ones.
            asking = _contenders(spark, metastore.uri, star, True)[1:]
            in_turns("warming up the metastore", asking, min(1, sizes.warm_up))
            comparisons = [
                Comparison(
                    f"{what}, {star.partitions:,} partitions of {star.files} files, "
                    f"{len(star.few)} needed",
                    "seconds, cold",
                    JOIN_KEYS,
                    in_turns(
                        what, _contenders(spark, metastore.uri, star, first_row), sizes.repeat
                    ),
                )
                for what, first_row in (("first row", True), ("count(*)", False))
            ]
            comparisons.append(
                Comparison(
                    f"first row, {larger.partitions:,} partitions of {larger.files} files, "
                    f"{len(larger.few)} needed",
                    "seconds, cold",
                    JOIN_KEYS,
                    in_turns(
                        f"first row of {larger.partitions:,}",
                        _contenders(spark, metastore.uri, larger, True)[-2:],
                        sizes.repeat,
                    ),
                )
            )
    return Result("first_row", comparisons, _targets(comparisons[0], comparisons[-1]))


def _contenders(spark: SparkSession, uri: str, star: Star, first_row: bool) -> list[Contender]:
    queries = StarQueries(spark, uri, star, "few", first_row, {})
    return [
        queries.contender(SHIPPED, queries.shipped),
        *(queries.contender(name, queries.shipped, conf) for name, conf in TUNED.items()),
        queries.contender(BY_HAND, queries.by_hand),
        queries.contender(GIVEN_KEYS, queries.given_keys),
        queries.contender(JOIN_KEYS, queries.join_keys),
        # With this setting, Spark lists the few paths on the driver and not in a job.
        queries.contender(FLOOR, queries.least, TUNED["Spark DPP, listing on the driver"]),
    ]


def _targets(first_row: Comparison, larger: Comparison) -> list[Target]:
    ours = first_row[JOIN_KEYS]
    tuned = min((first_row[name] for name in TUNED), key=lambda measured: measured.median)
    return [
        within(f"{ours.name} / {SHIPPED}", ours, first_row[SHIPPED], 1 / 20),
        within(f"{ours.name} / {tuned.name} (the best tuned)", ours, tuned, 1 / 5),
        within(f"{GIVEN_KEYS} / {BY_HAND}", first_row[GIVEN_KEYS], first_row[BY_HAND], 1.0),
        Target(f"seconds above {FLOOR}", ours.median - first_row[FLOOR].median, 0.1),
        Target(
            "seconds that the first row of the larger table takes longer",
            larger[JOIN_KEYS].median - ours.median,
            0.3,
        ),
    ]
