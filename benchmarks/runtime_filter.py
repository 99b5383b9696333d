"""Measure filters that are built from one side of a join and drop rows of the other side's scan.

Sales are joined with their returns in a shuffle join, and the returns are pruned by day. By default
Spark uses its runtime filters only for scans of at least 10 GB. One contender is Spark with runtime
filters for scans of any size. splitlib runs with and without its own row filters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

import splitlib
from benchmarks.measure import Contender, Sample, in_turns
from benchmarks.metastore_tables import open_metastore
from benchmarks.results import Comparison, Result, within
from benchmarks.session import spark_session
from benchmarks.sizes import Sizes
from benchmarks.tpcds.metering import Meter
from benchmarks.tpcds.settings import changed

_DAYS: Final = 64
_QUERY: Final = """
    SELECT s.store, count(*), sum(s.price), sum(r.amount)
    FROM filtered_sales_{rows} s
    JOIN filtered_returns_{rows} r ON s.ticket = r.ticket AND s.item = r.item
    JOIN (SELECT day FROM filtered_days WHERE turn = 1) d ON r.day = d.day
    GROUP BY s.store
"""
_SPARK: Final = "Spark"
_SPARK_TUNED: Final = "Spark, its runtime filters for scans of any size"
_WITHOUT: Final = "splitlib, no filter on rows"
_OURS: Final = "splitlib"
_LISTING: Final = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "4"}
_FILTERS: Final = "spark.sql.optimizer.runtime.bloomFilter."


def run(sizes: Sizes, directory: Path) -> Result:
    query = _QUERY.format(rows=sizes.joined)
    with (
        open_metastore(directory) as metastore,
        spark_session(directory, metastore.spark_conf()) as spark,
    ):
        _build(spark, sizes.joined)
        # The tables of a quick run are too small for a filter by default.
        least = {} if sizes.joined >= 1_000_000 else {"spark.splitlib.runtimeFilterBytes": "0"}
        common = {**_LISTING, "spark.sql.autoBroadcastJoinThreshold": "1024"}
        ways: dict[str, tuple[Callable[[SparkSession, str], DataFrame], Mapping[str, str]]] = {
            _SPARK: (SparkSession.sql, {}),
            _SPARK_TUNED: (
                SparkSession.sql,
                {
                    f"{_FILTERS}applicationSideScanSizeThreshold": "1",
                    f"{_FILTERS}creationSideThreshold": str(2**40),
                },
            ),
            _WITHOUT: (splitlib.sql, {"spark.splitlib.runtimeFilterBytes": str(2**60)}),
            _OURS: (splitlib.sql, least),
        }
        meter = Meter(spark)
        contenders = [
            Contender(
                name, partial(_measured, spark, meter, way, query, {**common, **settings}), settings
            )
            for name, (way, settings) in ways.items()
        ]
        in_turns("warming up", contenders, min(1, sizes.warm_up))
        found = in_turns("a join of two facts", contenders, sizes.repeat)
    compared = Comparison(
        f"{sizes.joined:,} sales joined with the returns of 16 of {_DAYS} days",
        "seconds",
        _OURS,
        found,
    )
    return Result(
        "runtime_filter",
        [compared],
        [within(f"{_OURS} / {_SPARK_TUNED}", compared[_OURS], compared[_SPARK_TUNED], 1.0)],
    )


def _measured(
    spark: SparkSession,
    meter: Meter,
    way: Callable[[SparkSession, str], DataFrame],
    query: str,
    settings: Mapping[str, str],
) -> Sample:
    with changed(spark, dict(settings)):
        cost, df, rows = meter.measure(lambda: way(spark, query))
    plan = df._jdf.queryExecution().optimizedPlan().toString()
    counts = {
        "rows": len(rows),
        "joined": sum(row[1] for row in rows),
        "filters": plan.count("might_contain"),
    }
    return Sample(cost.seconds, counts)


def _build(spark: SparkSession, rows: int) -> None:
    """Build the tables, unless they exist. One of 25 sales has a return."""
    sales, returns = f"filtered_sales_{rows}", f"filtered_returns_{rows}"
    if {sales, returns, "filtered_days"} <= {table.name for table in spark.catalog.listTables()}:
        return
    for table in (sales, returns):
        spark.sql(f"DROP TABLE IF EXISTS {table}")
    spark.sql(
        f"""CREATE TABLE {sales} USING parquet PARTITIONED BY (day) AS
        SELECT id AS ticket, CAST(pmod(hash(id), 20000) AS int) AS item,
               CAST(pmod(hash(id, 1), 100) AS int) AS store, rand(1) AS price, rand(2) AS cost,
               CAST(id * {_DAYS} DIV {rows} AS int) AS day
        FROM range({rows})"""
    )
    spark.sql(
        f"""CREATE TABLE {returns} USING parquet PARTITIONED BY (day) AS
        SELECT ticket, item, price / 2 AS amount, cost AS fee, rand(3) AS tax,
               CAST((day + ticket % 5) % {_DAYS} AS int) AS day
        FROM {sales} WHERE ticket % 25 = 0"""
    )
    spark.sql("DROP TABLE IF EXISTS filtered_days")
    spark.sql(
        f"""CREATE TABLE filtered_days USING parquet AS
        SELECT CAST(id AS int) AS day, id % 4 AS turn FROM range({_DAYS})"""
    )
    # Without statistics the table's size is unknown, and its scan gets no filter.
    spark.sql(f"ANALYZE TABLE {sales} COMPUTE STATISTICS NOSCAN")
