"""Run the demo's query in three ways, without cached listings, and count what each one reads."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from splitlib.demo.data import CONDITION, DIMENSION, DIMENSION_KEY, FACT, KEY, DemoData
from splitlib.testing import HiveMetastore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from splitlib.testing.spark_counts import QueryCounts


_DATABASE = "tpcds"
_WARM_UP = "warm_up"
_WARM_UP_PARTITIONS = 64  # above 32, Spark lists files in a job
_WARM_UP_CONDITION = "d_year = 1998 AND d_following_holiday = 'Y'"
_DPP = "spark.sql.optimizer.dynamicPartitionPruning.enabled"
_CONF = {
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class Steps:
    """Announces each step on stderr and records its duration in seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Print ``text``, and the duration after the block."""
        print(f"{text} … ", end="", file=sys.stderr, flush=True)
        started = time.perf_counter()
        try:
            yield
        except BaseException:  # end the line after Ctrl-C too, before other output follows
            print(file=sys.stderr)
            raise
        self.seconds[text] = spent = time.perf_counter() - started
        print(f"{spent:.1f} s", file=sys.stderr)


@contextmanager
def output_to(path: Path) -> Iterator[None]:
    """Redirect stdout and stderr to ``path`` within the block.

    Processes that are started in the block, such as Spark's JVM, write there until they end.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [(fd, os.dup(fd)) for fd in (1, 2)]
    with path.open("ab") as log:
        for fd, _ in kept:
            os.dup2(log.fileno(), fd)
    try:
        yield
    finally:
        for fd, copy in kept:
            os.dup2(copy, fd)
            os.close(copy)


@dataclass(frozen=True, slots=True)
class Run:
    """Measurements of one way to run the query."""

    name: str
    count: int
    """Result of the query."""
    partitions_fetched: int
    """Number of partitions whose details were fetched from the metastore."""
    directories_listed: int
    """Number of directories listed, of both tables. Spark counts the files that it finds instead;
    in the demo, each directory has one file."""
    files_read: int
    """Number of files read from the fact table, according to the executed plan."""
    bytes_read: int
    """Total size of the files read, in bytes."""
    seconds: float
    partitions: tuple[str, ...] | None = None
    """Values of the selected partitions; None if Spark selected them itself."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query that counts the rows of the join of a fact table with the selected days."""

    spark: SparkSession
    uri: str
    """URI of the metastore."""
    fact: str
    condition: str

    def dates(self) -> DataFrame:
        """Return the selected rows of the dimension."""
        return self.spark.table(DIMENSION).where(self.condition)

    def joined(self, sales: DataFrame, dates: DataFrame) -> DataFrame:
        """Return a DataFrame with the number of rows of the join."""
        from pyspark.sql import functions as F

        return sales.join(dates, sales[KEY] == dates[DIMENSION_KEY]).agg(F.count("*"))

    def measured(self, query: Callable[[], DataFrame], *, dpp: bool) -> QueryCounts:
        """Run a query without cached listings of the tables, and return its counts.

        Args:
            query: Function that builds the DataFrame.
            dpp: Whether Spark's own dynamic partition pruning is on.
        """
        from splitlib.testing.spark_counts import measure

        self.spark.conf.set(_DPP, str(dpp).lower())
        for table in (self.fact, DIMENSION):
            self.spark.catalog.refreshTable(table)
        return measure(self.spark, query)


@contextmanager
def session(
    metastore: HiveMetastore, data: DemoData, directory: Path, steps: Steps
) -> Iterator[SparkSession]:
    """Start Spark, and register the generated tables and a small table for the warm-up."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").appName("splitlib demo")
    with steps.step("starting Spark"), output_to(directory / "spark.log"):
        spark = builder.config(map={**_CONF, **metastore.spark_conf()}).getOrCreate()
    try:
        with steps.step(f"registering {len(data.keys):,} partitions"):
            _register(spark, metastore, data, directory)
        yield spark
    finally:
        spark.stop()


def run_all(spark: SparkSession, uri: str, steps: Steps) -> list[Run]:
    """Run the query with Spark, without and with its own pruning, and then with splitlib.

    Before the measurement, each way runs once on a small table. Otherwise, the first measured run
    would include the time to load Spark's classes.
    """
    ways = {
        "Spark without DPP": _without_dpp,
        "Spark with DPP": _with_dpp,
        "splitlib": _with_splitlib,
    }
    with steps.step("warming up"):
        for name, way in ways.items():
            way(name, Query(spark, uri, _WARM_UP, _WARM_UP_CONDITION))
    runs = []
    for name, way in ways.items():
        with steps.step(f"running {name}"):
            runs.append(way(name, Query(spark, uri, FACT, CONDITION)))
    return runs


def _without_dpp(name: str, query: Query) -> Run:
    return _by_spark_alone(name, query, dpp=False)


def _with_dpp(name: str, query: Query) -> Run:
    return _by_spark_alone(name, query, dpp=True)


def _by_spark_alone(name: str, query: Query, *, dpp: bool) -> Run:
    counts = query.measured(
        lambda: query.joined(query.spark.table(query.fact), query.dates()), dpp=dpp
    )
    return _run(name, counts)


def _with_splitlib(name: str, query: Query) -> Run:
    import splitlib

    loaded = []

    def join() -> DataFrame:
        dates = query.dates()
        sales = (
            splitlib.read(query.spark)
            .table(f"{_DATABASE}.{query.fact}", connector="hive", uri=query.uri)
            .filtered_by(dates, on={KEY: DIMENSION_KEY})
            .load()
        )
        loaded.append(sales)
        return query.joined(sales, dates)

    counts = query.measured(join, dpp=True)
    [sales] = loaded
    metrics = splitlib.explain(sales).metrics
    days = [re.search(rf"/{KEY}=([^/]+)/", path) for path in sales.inputFiles()]
    # Spark's own counts do not include the requests of splitlib, so add these.
    return _run(
        name,
        counts,
        more_partitions=metrics.partitions_matched,
        more_directories=metrics.storage_requests,
        partitions=tuple(sorted(day[1] for day in days if day)),
    )


def _run(
    name: str,
    counts: QueryCounts,
    *,
    more_partitions: int = 0,
    more_directories: int = 0,
    partitions: tuple[str, ...] | None = None,
) -> Run:
    [[count]] = counts.result
    return Run(
        name=name,
        count=count,
        partitions_fetched=counts.partitions_fetched + more_partitions,
        directories_listed=counts.files_discovered + more_directories,
        files_read=counts.files_read,
        bytes_read=counts.bytes_read,
        seconds=counts.seconds,
        partitions=partitions,
    )


def _register(
    spark: SparkSession, metastore: HiveMetastore, data: DemoData, directory: Path
) -> None:
    spark.sql(f"CREATE DATABASE {_DATABASE}")
    spark.catalog.setCurrentDatabase(_DATABASE)
    _create(spark, DIMENSION, data.columns[DIMENSION], directory / DIMENSION)
    values = [(key,) for key in data.keys]
    for table, some in ((FACT, values), (_WARM_UP, values[:_WARM_UP_PARTITIONS])):
        _create(spark, table, data.columns[FACT], directory / FACT, f"{KEY} BIGINT")
        metastore.bulk_add_partitions(_DATABASE, table, some)


def _create(
    spark: SparkSession, table: str, columns: str, location: Path, key: str | None = None
) -> None:
    partitioned = f"PARTITIONED BY ({key})" if key else ""
    spark.sql(
        f"CREATE EXTERNAL TABLE {table} ({columns}) {partitioned} STORED AS PARQUET"
        f" LOCATION '{location.as_uri()}'"
    )
