"""Count the rows that a join by a data column reads, if the files are sorted by this column.

The fact table has ten days of 64 row groups each. The contenders are Spark, Spark with the values
of the keys pasted into the query, and splitlib.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from pyarrow import parquet as pq
from pyspark.sql import DataFrame, SparkSession

import splitlib
from benchmarks.measure import Contender, Sample, in_turns
from benchmarks.results import Comparison, Result, Target
from benchmarks.session import spark_session
from benchmarks.sizes import Sizes
from benchmarks.tpcds.metering import Meter
from splitlib.spark.planner.scan_sites import prunable

SALES: Final = "clustered_sales"
ITEMS: Final = "clustered_items"
DAYS: Final = 10
_GROUPS: Final = 64
CLUSTERS: Final = (1, 3, 30)
_KEYS: Final = 50
"""Number of neighbouring keys in each cluster."""
_SPARK: Final = "Spark"
_BY_HAND: Final = "Spark, the values pasted into the query"
_OURS: Final = "splitlib"
_TOTALS: Final = f"SELECT count(*), sum(f.amount), sum(f.cost) FROM {SALES} f"


def run(sizes: Sizes, directory: Path) -> Result:
    rows = sizes.clustered
    root = build(directory, rows)
    compared = []
    with spark_session(directory, {}) as spark:
        spark.read.parquet(str(root / "sales")).createOrReplaceTempView(SALES)
        spark.read.parquet(str(root / "items")).createOrReplaceTempView(ITEMS)
        for clusters in CLUSTERS:
            title = f"{rows:,} rows sorted by item within a day, {clusters} clusters of keys"
            contenders = contenders_of(spark, rows // DAYS, clusters)
            in_turns("warming up", contenders, min(1, sizes.warm_up))
            found = in_turns(title, contenders, sizes.repeat)
            compared.append(Comparison(title, "seconds", _OURS, found))
    return Result("data_keys", compared, [_target(one) for one in compared])


def _target(compared: Comparison) -> Target:
    read = compared[_OURS].counts
    text = "rows that splitlib reads / rows of row groups that have keys"
    return Target(f"{text}, {compared.title}", read["rows_read"] / read["rows_with_keys"], 1.05)


def join_of(items: int, clusters: int) -> str:
    """Return the query that joins the sales with the brands at the start of each cluster."""
    brands = ", ".join(map(str, _starts(items, clusters)))
    return f"{_TOTALS} JOIN {ITEMS} d ON f.item = d.id WHERE d.brand IN ({brands})"


def keys_of(items: int, clusters: int) -> list[int]:
    """Return the items of these brands."""
    return [start + i for start in _starts(items, clusters) for i in range(_KEYS)]


def _starts(items: int, clusters: int) -> list[int]:
    return [cluster * (items // clusters) // _KEYS * _KEYS for cluster in range(clusters)]


def contenders_of(spark: SparkSession, items: int, clusters: int) -> list[Contender]:
    """Return the contenders that join the tables ``SALES`` and ``ITEMS`` in Spark.

    Args:
        spark: The session, in which both tables are known.
        items: Number of items, which is the number of rows per day.
        clusters: Number of clusters of neighbouring keys.
    """
    keys, join = keys_of(items, clusters), join_of(items, clusters)
    pasted = f"{_TOTALS} WHERE f.item IN ({', '.join(map(str, keys))})"
    group = items // _GROUPS
    with_keys = DAYS * group * len({key // group for key in keys})
    ways: dict[str, tuple[Callable[[SparkSession, str], DataFrame], str]] = {
        _SPARK: (SparkSession.sql, join),
        _BY_HAND: (SparkSession.sql, pasted),
        _OURS: (splitlib.sql, join),
    }
    meter = Meter(spark)
    return [
        Contender(name, partial(_measured, spark, meter, way, query, with_keys))
        for name, (way, query) in ways.items()
    ]


def _measured(
    spark: SparkSession,
    meter: Meter,
    way: Callable[[SparkSession, str], DataFrame],
    query: str,
    with_keys: int,
) -> Sample:
    # By default, splitlib leaves the small table of a quick run alone.
    with patch.object(prunable, "LEAST_BYTES", 1):
        cost, df, rows = meter.measure(lambda: way(spark, query))
    counts = {
        "joined": rows[0][0],
        "rows_read": rows_read(df, "amount"),
        "rows_with_keys": with_keys,
    }
    return Sample(cost.seconds, counts)


def rows_read(df: DataFrame, column: str) -> int:
    """Return how many rows the scans of a query that has run have read, before any row filter.

    Args:
        df: The query.
        column: A column of the tables whose scans count.
    """
    plan: Any = df._jdf.queryExecution().executedPlan()
    plan = plan.executedPlan() if plan.nodeName() == "AdaptiveSparkPlan" else plan
    scans = (scan for scan in _scans_of(plan) if column in str(scan.schema().simpleString()))
    return sum(int(scan.metrics().apply("numOutputRows").value()) for scan in scans)


def _scans_of(node: Any) -> Iterator[Any]:
    """Yield the leaves of a physical plan, also those of query stages."""
    leaves = node.collectLeaves()
    for leaf in (leaves.apply(i) for i in range(leaves.size())):
        if "QueryStage" in leaf.nodeName():
            yield from _scans_of(leaf.plan())
        else:
            yield leaf


def build(directory: Path, rows: int) -> Path:
    """Write the tables, unless an earlier run has written them. Return the directory of both.

    ``sales`` has one row per day and item. ``items`` has the brand of each item, which is the
    least item of the brand.
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
    for day in range(DAYS):
        (root / f"sales/day={day}").mkdir(parents=True)
        columns = {name: drawn.random(items) for name in ("amount", "cost", "price")}
        table = pa.table({"item": np.arange(items), **columns})
        path = root / f"sales/day={day}/sales.parquet"
        pq.write_table(table, path, row_group_size=items // _GROUPS)
    ids = np.arange(items)
    brands = pa.table({"id": ids, "brand": ids - ids % _KEYS})
    (root / "items").mkdir()
    pq.write_table(brands, root / "items/items.parquet")
