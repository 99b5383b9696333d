"""Measure the star join on storage where every directory listing is slow.

Spark reads through a Hadoop file system that sleeps before each listing. splitlib uses an fsspec
filesystem that does the same. Both filesystems count their listings.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pyspark
from fsspec.implementations.local import LocalFileSystem
from pyspark.sql import SparkSession

from benchmarks.measure import Contender, Sample, in_turns
from benchmarks.metastore_tables import open_metastore
from benchmarks.queries import BY_HAND, GIVEN_KEYS, JOIN_KEYS, SHIPPED, TUNED, StarQueries
from benchmarks.results import Comparison, Result
from benchmarks.session import spark_session
from benchmarks.sizes import Sizes
from benchmarks.star import Star, build_stars

_SOURCE = Path(__file__).parent / "java" / "DelayedLocalFileSystem.java"


class DelayedFileSystem(LocalFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A local filesystem that delays each directory listing by ``delay_seconds``."""

    listed: ClassVar[list[str]] = []
    """Paths of all directories listed so far."""

    def __init__(self, delay_seconds: float = 0.0, **options: Any) -> None:
        super().__init__(**options)
        self._delay_seconds = delay_seconds

    def ls(self, path: str, detail: bool = False, **options: Any) -> Any:
        """List a directory after the delay."""
        self.listed.append(path)
        time.sleep(self._delay_seconds)
        return super().ls(path, detail, **options)


def run(sizes: Sizes, directory: Path) -> Result:
    fsspec.register_implementation("file", DelayedFileSystem, clobber=True)
    with open_metastore(directory) as metastore:
        star, small = build_stars(metastore, directory, sizes, sizes.slow_partitions)
        settings = {
            **metastore.spark_conf(),
            "spark.driver.extraClassPath": str(_compile(directory / "classes")),
            "spark.hadoop.fs.file.impl": "DelayedLocalFileSystem",
            "spark.hadoop.splitlib.listing.delay.milliseconds": str(sizes.delay_milliseconds),
        }
        delay = sizes.delay_milliseconds / 1000
        with spark_session(directory, settings) as spark:
            warm_up = _contenders(spark, metastore.uri, small, delay)
            in_turns("warming up", warm_up, sizes.warm_up)
            contenders = _contenders(spark, metastore.uri, star, delay)
            # The first calls after a metastore starts take ten times as long.
            in_turns("warming up the metastore", contenders[1:], min(1, sizes.warm_up))
            comparison = Comparison(
                f"first row, {sizes.delay_milliseconds} ms a listing, {star.partitions:,} "
                f"partitions, {len(star.few)} needed",
                "seconds, cold",
                JOIN_KEYS,
                in_turns(
                    "slow listing",
                    contenders,
                    sizes.repeat,
                ),
            )
    return Result("slow_listing", [comparison])


def _contenders(spark: SparkSession, uri: str, star: Star, delay: float) -> list[Contender]:
    options = {"storage_options": {"delay_seconds": delay}}
    queries = StarQueries(spark, uri, star, "few", True, options)
    contenders = [
        queries.contender(SHIPPED, queries.shipped),
        *(queries.contender(name, queries.shipped, conf) for name, conf in TUNED.items()),
        queries.contender(BY_HAND, queries.by_hand),
        queries.contender(JOIN_KEYS, queries.join_keys),
        queries.contender(GIVEN_KEYS, queries.given_keys),
    ]
    return [_counting_listings(spark, star.sales, contender) for contender in contenders]


def _counting_listings(spark: SparkSession, table: str, contender: Contender) -> Contender:
    """Return the same contender, with counts of the listings by Spark and by splitlib."""
    jvm: Any = spark._jvm

    def listings() -> dict[str, int]:
        return {
            "listings_by_spark": jvm.DelayedLocalFileSystem.listingsBelow(table),
            "listings_by_splitlib": sum(f"/{table}/" in path for path in DelayedFileSystem.listed),
        }

    def run() -> Sample:
        before = listings()
        sample = contender.run()
        counts = {name: count - before[name] for name, count in listings().items()}
        return sample._replace(counts={**sample.counts, **counts})

    return replace(contender, run=run)


def _compile(classes: Path) -> Path:
    javac = shutil.which("javac")
    if javac is None:
        raise RuntimeError("there is no javac on PATH: this benchmark needs a JDK, not only a JRE")
    jars = Path(pyspark.__file__).parent / "jars"
    subprocess.run([javac, "-classpath", f"{jars}/*", "-d", classes, _SOURCE], check=True)
    return classes
