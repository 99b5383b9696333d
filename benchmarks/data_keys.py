"""Measure joins by a data column and by partitions, if the files are clustered by this column.

The fact table has a hundred days of ten files, each with 64 row groups. The items of a day are
sorted. The contenders are Spark, Spark with the keys pasted into the query, splitlib, and DuckDB.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
from pyarrow import parquet as pq
from pyspark.sql import DataFrame, SparkSession

import splitlib
from benchmarks.measure import Contender, Measured, Sample, in_turns
from benchmarks.results import Comparison, Result, Target
from benchmarks.session import spark_session
from benchmarks.sizes import Sizes
from benchmarks.tpcds.metering import Cost, Meter
from splitlib.spark.planner.scan_sites import prunable

SALES: Final = "clustered_sales"
ITEMS: Final = "clustered_items"
WEEKS: Final = "clustered_weeks"
DAYS: Final = 100
_DAYS_JOINED: Final = 7
"""Number of days of the week that the queries with a partition key join."""
_FILES: Final = 10
_GROUPS: Final = 64
CLUSTERS: Final = (1, 3, 30)
_KEYS: Final = 50
"""Number of neighbouring keys in each cluster."""
_SPARK: Final = "Spark"
_BY_HAND: Final = "Spark, the values pasted into the query"
_OURS: Final = "splitlib"
_DUCKDB: Final = "DuckDB"
_TOTALS: Final = f"SELECT count(*), sum(f.amount), sum(f.cost) FROM {SALES} f"


def run(sizes: Sizes, directory: Path) -> Result:
    rows = sizes.clustered
    root = build(directory, rows)
    compared: list[Comparison] = []
    targets: list[Target] = []
    with spark_session(directory, {}) as spark, duckdb.connect() as other:
        other.execute("SET enable_progress_bar = false")
        for table, name in ((SALES, "sales"), (ITEMS, "items"), (WEEKS, "weeks")):
            spark.read.parquet(str(root / name)).createOrReplaceTempView(table)
            files = f"read_parquet('{root}/{name}/**/*.parquet', hive_partitioning = true)"
            other.execute(f"CREATE VIEW {table} AS FROM {files}")
        for by_day in (False, True):
            for clusters in CLUSTERS:
                which = f"a week of {DAYS} days" if by_day else "all days"
                title = f"{rows:,} rows, {clusters} clusters of keys, {which}"
                costs = Costs()
                contenders = contenders_of(spark, rows // DAYS, clusters, by_day, costs)
                query = join_of(rows // DAYS, clusters, by_day)
                contenders.append(Contender(_DUCKDB, partial(_of_duckdb, other, query)))
                in_turns("warming up", contenders, min(1, sizes.warm_up))
                costs.clear()
                found = in_turns(title, contenders, sizes.repeat)
                compared.append(Comparison(title, "seconds", _OURS, found))
                compared += costs.comparisons(title)
                targets += _targets(compared[-3])
    return Result("data_keys", compared, targets)


def _targets(compared: Comparison) -> Iterator[Target]:
    ours = compared[_OURS].counts
    text = "rows that splitlib reads / rows of row groups that have keys"
    yield Target(f"{text}, {compared.title}", ours["rows_read"] / ours["rows_with_keys"], 1.05)
    text = "files that splitlib's tasks open / files that have keys"
    yield Target(f"{text}, {compared.title}", ours["files_read"] / ours["files_with_keys"], 1.0)


class Costs(dict[str, list[Cost]]):
    """The costs of the runs of Spark's contenders, by name."""

    def comparisons(self, title: str) -> list[Comparison]:
        """Return the CPU seconds and the bytes of all runs."""
        units: dict[str, Callable[[Cost], float]] = {
            "CPU seconds of tasks": lambda cost: cost.cpu_seconds,
            "bytes that tasks read": lambda cost: cost.bytes_read,
        }
        return [
            Comparison(
                title,
                unit,
                _OURS,
                [
                    Measured(name, {}, tuple(value(cost) for cost in costs), {}, None)
                    for name, costs in self.items()
                ],
            )
            for unit, value in units.items()
        ]


def join_of(items: int, clusters: int, by_day: bool = False) -> str:
    """Return the query that joins the sales with the brands at the start of each cluster.

    Args:
        items: Number of items, which is the number of rows per day.
        clusters: Number of clusters of neighbouring keys.
        by_day: Whether the query also joins the days of one week, by the partition key.
    """
    brands = ", ".join(map(str, _starts(items, clusters)))
    weeks = f" JOIN {WEEKS} w ON f.day = w.id" if by_day else ""
    one_week = " AND w.week = 3" if by_day else ""
    joined = f"{_TOTALS} JOIN {ITEMS} d ON f.item = d.id{weeks}"
    return f"{joined} WHERE d.brand IN ({brands}){one_week}"


def keys_of(items: int, clusters: int) -> list[int]:
    """Return the items of these brands."""
    return [start + i for start in _starts(items, clusters) for i in range(_KEYS)]


def _starts(items: int, clusters: int) -> list[int]:
    return [cluster * (items // clusters) // _KEYS * _KEYS for cluster in range(clusters)]


def contenders_of(
    spark: SparkSession,
    items: int,
    clusters: int,
    by_day: bool = False,
    costs: Costs | None = None,
) -> list[Contender]:
    """Return the contenders that run :func:`join_of` in Spark.

    Args:
        spark: The session, in which the tables are known.
        items: Number of items, which is the number of rows per day.
        clusters: Number of clusters of neighbouring keys.
        by_day: Whether the query also joins the days of one week, by the partition key.
        costs: The cost of each run is added here.
    """
    keys, join = keys_of(items, clusters), join_of(items, clusters, by_day)
    pasted = f"{_TOTALS} WHERE f.item IN ({', '.join(map(str, keys))})"
    if by_day:
        week = range(3 * _DAYS_JOINED, 4 * _DAYS_JOINED)
        pasted += f" AND f.day IN ({', '.join(map(str, week))})"
    days = _DAYS_JOINED if by_day else DAYS
    group = items // _FILES // _GROUPS
    expected = {
        "rows_with_keys": days * group * len({key // group for key in keys}),
        "files_with_keys": days * len({key // (items // _FILES) for key in keys}),
    }
    ways: dict[str, tuple[Callable[[SparkSession, str], DataFrame], str]] = {
        _SPARK: (SparkSession.sql, join),
        _BY_HAND: (SparkSession.sql, pasted),
        _OURS: (splitlib.sql, join),
    }
    meter, known = Meter(spark), Costs() if costs is None else costs

    def measured(name: str) -> Sample:
        way, query = ways[name]
        # By default, splitlib leaves the small table of a quick run alone.
        with patch.object(prunable, "LEAST_BYTES", 1):
            cost, df, rows = meter.measure(lambda: way(spark, query))
        known.setdefault(name, []).append(cost)
        read = {f"{what}_read": metric(df, "amount", of) for what, of in _METRICS.items()}
        return Sample(cost.seconds, {"joined": rows[0][0], **read, **expected})

    return [Contender(name, partial(measured, name)) for name in ways]


_METRICS: Final = {"rows": "numOutputRows", "files": "numFiles"}


def _of_duckdb(connection: duckdb.DuckDBPyConnection, query: str) -> Sample:
    started = time.perf_counter()
    row = connection.execute(query).fetchone()
    seconds = time.perf_counter() - started
    assert row is not None
    return Sample(seconds, {"joined": row[0]})


def rows_read(df: DataFrame, column: str) -> int:
    """Return how many rows the scans of a query that has run have read, before any row filter.

    Args:
        df: The query.
        column: A column of the tables whose scans count.
    """
    return metric(df, column, "numOutputRows")


def metric(df: DataFrame, column: str, name: str) -> int:
    """Return the sum of a metric of Spark's over the scans of tables with ``column``."""
    plan: Any = df._jdf.queryExecution().executedPlan()
    plan = plan.executedPlan() if plan.nodeName() == "AdaptiveSparkPlan" else plan
    scans = (scan for scan in _scans_of(plan) if column in str(scan.schema().simpleString()))
    return sum(int(scan.metrics().apply(name).value()) for scan in scans)


def _scans_of(node: Any) -> Iterator[Any]:
    """Yield the leaves of a physical plan, also those of query stages."""
    leaves = node.collectLeaves()
    for leaf in (leaves.apply(i) for i in range(leaves.size())):
        if "QueryStage" in leaf.nodeName():
            yield from _scans_of(leaf.plan())
        else:
            yield leaf


def build(directory: Path, rows: int) -> Path:
    """Write the tables, unless an earlier run has written them. Return the directory of all.

    ``sales`` has one row per day and item. ``items`` has the brand of each item, which is the
    least item of the brand. ``weeks`` has the week of each day.
    """
    root = directory / f"data_keys_{rows}"
    if not root.exists():
        building = root.with_suffix(".building")
        shutil.rmtree(building, ignore_errors=True)
        _write(building, rows // DAYS)
        building.rename(root)
    return root


def _write(root: Path, items: int) -> None:
    drawn = np.random.default_rng(1)
    each = items // _FILES
    for day in range(DAYS):
        (root / f"sales/day={day}").mkdir(parents=True)
        for file in range(_FILES):
            columns = {name: drawn.random(each) for name in ("amount", "cost", "price")}
            table = pa.table({"item": np.arange(file * each, (file + 1) * each), **columns})
            path = root / f"sales/day={day}/{file}.parquet"
            pq.write_table(table, path, row_group_size=each // _GROUPS)
    ids, days = np.arange(items), np.arange(DAYS)
    dimensions = {
        "items": pa.table({"id": ids, "brand": ids - ids % _KEYS}),
        "weeks": pa.table({"id": days, "week": days // _DAYS_JOINED}),
    }
    for name, table in dimensions.items():
        (root / name).mkdir()
        pq.write_table(table, root / f"{name}/{name}.parquet")
